"""The routing table for filters over attributes: small ones simple, large ones indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.tables import FilterTable, NaiveTable, Source

if TYPE_CHECKING:
    from shoal.content.model import Content, Filter

SMALL = 4
"""Filters up to which they are evaluated one after the other."""
SMALL_UNCOMPILED = 32
"""The same where no C extension is built, as an index would have to load numba."""


class AttributeTable(FilterTable):
    """Filters by source: the reference table, until the filters are many enough for the index.

    Its answers are the same before and after. Where the C extensions are not built, the first index
    has to load its kernels, or compile them. A program that cannot wait for that calls
    :func:`shoal.content.index.warm_up` beforehand, perhaps in a thread.
    """

    def __init__(self) -> None:
        self._small: NaiveTable | None = NaiveTable()
        """The table while it is small; None once there is an index."""
        self._table: FilterTable = self._small

    def insert(self, source: Source, filter: Filter) -> None:
        self._table.insert(source, filter)
        if self._small is not None:
            count = sum(map(len, self._small.entries.values()))
            if count > SMALL:
                self._grow(self._small, count)

    def remove(self, source: Source, filter: Filter) -> None:
        self._table.remove(source, filter)

    def match(self, content: Content) -> list[Source]:
        return self._table.match(content)

    def _grow(self, small: NaiveTable, count: int) -> None:
        """Move the filters to the index, if they are enough."""
        from shoal.content.index import IndexTable, single

        if single.match is None and count <= SMALL_UNCOMPILED:
            return
        self._small = None
        self._table = IndexTable()
        for source, filters in small.entries.items():
            for filter in filters:
                self._table.insert(source, filter)
