"""The routing table for filters over attributes: small ones simple, large ones indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.tables import FilterTable, NaiveTable, Source

if TYPE_CHECKING:
    from shoal.content.model import Content, Filter

SMALL = 4
"""Up to so many filters are asked one after the other."""
SMALL_UNCOMPILED = 32
"""Filters of a small table where no C extension is built: an index would have to load numba."""


class AttributeTable(FilterTable):
    """Filters by source: the reference table, until the filters are many enough for the index.

    Its answers are the same before and after. Where the C extensions are not built, the index needs
    code that is loaded or even compiled then: a program that must not stop for that calls
    :func:`shoal.content.index.warm_up` first, in a thread if it likes.
    """

    def __init__(self) -> None:
        self._entries: dict[Source, dict[Filter, None]] | None = {}
        """Filters per source, sources in order of arrival; None once there is an index."""
        self._table: FilterTable = NaiveTable()

    def insert(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        self._table.insert(source, filter)
        if self._entries is not None:
            self._entries.setdefault(source, {})[filter] = None
            if sum(map(len, self._entries.values())) > SMALL:
                self._grow(self._entries)

    def remove(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        self._table.remove(source, filter)
        if self._entries is not None and source in self._entries:
            self._entries[source].pop(filter, None)
            if not self._entries[source]:
                del self._entries[source]

    def match(self, content: Content) -> list[Source]:
        """See :class:`~shoal.content.tables.FilterTable`."""
        return self._table.match(content)

    def _grow(self, entries: dict[Source, dict[Filter, None]]) -> None:
        """Move to the index, if it is time."""
        from shoal.content.index import IndexTable, single

        count = sum(map(len, entries.values()))
        if single.match is None and count <= SMALL_UNCOMPILED:
            return
        self._entries = None
        self._table = IndexTable()
        for source, filters in entries.items():
            for filter in filters:
                self._table.insert(source, filter)
