"""The index as a routing table: filters by source."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from shoal.content.index.fields import ID_MASK
from shoal.content.index.index import MatchIndex
from shoal.content.tables import FilterTable, Source

if TYPE_CHECKING:
    from shoal.content.attributes import AttributeFilter
    from shoal.content.model import Content, Filter


class IndexTable(FilterTable):
    """A table of many filters over attributes; it answers as the reference table does."""

    def __init__(self) -> None:
        self._index = MatchIndex()
        self._handles: dict[tuple[Source, Filter], int] = {}
        self._sources: dict[int, Source] = {}
        self._arrival: dict[Source, int] = {}
        self._filters: dict[Source, int] = {}
        self._arrivals = 0

    def insert(self, source: Source, filter: Filter) -> None:
        key = (source, filter)
        if key in self._handles:
            return
        if self._index.next_handle >= ID_MASK:
            self._renew()
        handle = self._index.insert(cast("AttributeFilter", filter).normal)
        self._handles[key] = handle
        self._sources[handle] = source
        if source not in self._arrival:
            self._arrival[source] = self._arrivals
            self._arrivals += 1
        self._filters[source] = self._filters.get(source, 0) + 1

    def remove(self, source: Source, filter: Filter) -> None:
        handle = self._handles.pop((source, filter), None)
        if handle is None:
            return
        self._index.remove(handle)
        del self._sources[handle]
        self._filters[source] -= 1
        if not self._filters[source]:
            del self._filters[source], self._arrival[source]

    def match(self, content: Content) -> list[Source]:
        handles = self._index.match(content)
        if not handles:
            return []
        sources = self._sources
        if len(handles) == 1:
            return [sources[handles[0]]]
        found = set(map(sources.__getitem__, handles))
        return sorted(found, key=self._arrival.__getitem__)

    def _renew(self) -> None:
        """Start over with a new index: an old one has only so many handles to give."""
        self._index = MatchIndex()
        given = self._index.insert_many(
            cast("AttributeFilter", filter).normal for _, filter in self._handles
        )
        self._handles = dict(zip(self._handles, given, strict=True))
        self._sources = {handle: source for (source, _), handle in self._handles.items()}
