"""A broker's routing table: the filters of its neighbours and of its clients together.

So an event is matched once. When the routing asks which sources want it, the table remembers which
of the clients' filters matched, and the delivery that follows uses that.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from shoal.content import AttributeFilter, Content, Filter
from shoal.content.tables import Matched, ReadableTable, Source
from shoal.live.entries import HERE, Entries
from shoal.stack import LOCAL

if TYPE_CHECKING:
    from shoal.content.index import MatchIndex
    from shoal.content.normal import NormalForm

ScanOf: TypeAlias = "Callable[[Filter, NormalForm | None], int]"
FEW: Final = 48
"""Filters that a table evaluates one after the other; if there are more, it uses the index."""
MOVED: Final = 1000
"""Characters of filters that are moved into the index at a time, once it is loaded."""
CHUNK: Final = 8
"""Places by handle lie in arrays of 2 ** CHUNK entries."""
LOW: Final = (1 << CHUNK) - 1
NOBODY: Final = array("i", [-1]) * (1 << CHUNK)
"""Such an array when none of its handles is in use."""


class IndexLoader:
    """Loads the matching index in a thread.

    Loading takes a tenth of a second. Without the C extensions it takes a second, and the first
    time a minute, while numba compiles.
    """

    def __init__(self) -> None:
        self.make: type[MatchIndex] | None = None
        self._thread: threading.Thread | None = None

    def wanted(self) -> type[MatchIndex] | None:
        """The index's class; None while it is being loaded, which this begins."""
        if self.make is None and self._thread is None:
            self._thread = threading.Thread(target=self._load, name="shoal-index", daemon=True)
            self._thread.start()
        return self.make

    def load(self) -> None:
        """Load the index, and wait for it."""
        self.wanted()
        if self._thread is not None:
            self._thread.join()

    def _load(self) -> None:
        from shoal.content.index import MatchIndex, warm_up

        warm_up(batches=False)
        self.make = MatchIndex


INDEX: Final = IndexLoader()


class Asked:
    """The latest answer of :meth:`EdgeTable.matched`, for :meth:`EdgeTable.match` to use again."""

    __slots__ = ("answer", "content", "matched", "places")

    def __init__(self, state: int) -> None:
        self.content: Content | None = None
        self.matched = Matched(state, [])
        self.places: list[int] = []
        """Places of the filters that match."""
        self.answer: tuple[list[Source], list[int]] | None = None
        """Sources of these filters, and places of the clients' filters; None until asked for."""


class EdgeTable(ReadableTable):
    """A routing table of a broker: a small one evaluates each filter, a large one the index."""

    def __init__(self, coming: Entries | None = None, scan_of: ScanOf | None = None) -> None:
        self._coming = Entries() if coming is None else coming
        """Filters of clients that the routing has not inserted yet; all tables share them."""
        self._scan_of = scan_of
        self._scans: dict[int, int] = {}
        """Steps per place of the filters that the index cannot evaluate together: few, if any."""
        self.scanning = 0
        """Sum of these steps."""
        self.entries = Entries()
        self._plain: dict[int, Filter] = {}
        """Filters that are evaluated one by one, per place."""
        self._moving: list[int] = []
        """Places of the filters in ``_plain`` that are to be moved into the index."""
        self._by_handle: dict[int, array[int]] = {}
        """Places of the filters in the index, by handle: an array per upper part of handles."""
        self._index: MatchIndex | None = None
        self._arrival: dict[Source, list[int]] = {}
        """Rank by arrival, and number of filters, per source."""
        self._arrivals = 0
        self._only: Source | None = None
        """The source if there is just one: then it is enough to know whether any filter matches."""
        self._last: Content | None = None
        self._local: list[int] = []
        self._asked = Asked(0)

    def __len__(self) -> int:
        return sum(count for _, count in self._arrival.values())

    def __contains__(self, filter: Filter) -> bool:
        return self.entries.find(filter) >= 0

    @property
    def here(self) -> int:
        """Number of filters that this broker's clients want."""
        return self._arrival.get(LOCAL, (0, 0))[1]

    def scan(self, filter: Filter) -> int:
        """Steps of a filter that the index cannot evaluate with others; else 0."""
        return self._scans.get(self.entries.find(filter), 0) if self._scans else 0

    def sources(self, filter: Filter) -> tuple[Source, ...]:
        place = self.entries.find(filter)
        return () if place < 0 else self.entries.sources[place]

    def filters(self) -> list[Filter]:
        return [self.entries.filter(place) for place in self.entries]

    def filters_here(self) -> list[Filter]:
        """Filters that this broker's clients want."""
        entries = self.entries
        return [entries.filter(place) for place in entries if LOCAL in entries.sources[place]]

    def insert(self, source: Source, filter: Filter) -> None:
        entries = self.entries
        place = entries.find(filter)
        if place < 0:
            place = entries.add(filter)
            normal = None
            if self._index is not None and isinstance(filter, AttributeFilter):
                normal = filter.normalised()
            steps = 0 if self._scan_of is None else self._scan_of(filter, normal)
            if steps:
                self._scans[place] = steps
                self.scanning += steps
            if self._index is None or not self._indexed(place, normal):
                self._plain[place] = filter
                if self._index is None and len(self._plain) > FEW:
                    self._to_index()
            elif source != LOCAL:
                vars(filter).clear()  # its caches from decoding
        elif source in entries.sources[place]:
            return
        entries.add_source(place, source)
        if source == LOCAL:
            coming = self._coming.find(filter)
            if coming >= 0:
                self._coming.move_clients(coming, entries, place)
                self._coming.drop(coming)
        if self._moving:
            self._move()
        self._changed()
        arrived = self._arrival.get(source)
        if arrived is None:
            self._arrivals += 1
            arrived = self._arrival[source] = [self._arrivals, 0]
            self._only = source if len(self._arrival) == 1 else None
        arrived[1] += 1

    def remove(self, source: Source, filter: Filter) -> None:
        entries = self.entries
        place = entries.find(filter)
        if place < 0 or source not in entries.sources[place]:
            return
        self._changed()
        entries.remove_source(place, source)
        if source == LOCAL and entries.who[place] is not None:
            # Clients still want it: they are noted elsewhere until routing inserts it again.
            entries.move_clients(place, self._coming, self._coming.add(entries.filter(place)))
        if not entries.sources[place]:
            self._unindexed(place)
            entries.drop(place)
            self.scanning -= self._scans.pop(place, 0)
        arrived = self._arrival[source]
        arrived[1] -= 1
        if not arrived[1]:
            del self._arrival[source]
            self._only = next(iter(self._arrival)) if len(self._arrival) == 1 else None
            entries.forget_source(source)
        if not len(entries):
            # Lists and arrays do not shrink: start with new ones.
            self.entries, self._index = Entries(), None
            self._moving.clear()
            self._by_handle.clear()

    def _indexed(self, place: int, normal: NormalForm | None = None) -> bool:
        """Put a filter into the index; False if there is no index, or it is for other filters."""
        filter = self.entries.filter(place)
        if self._index is None or not isinstance(filter, AttributeFilter):
            return False
        try:
            form = filter.normalised() if normal is None else normal
            handle = self.entries.handles[place] = self._index.insert(form)
        except OverflowError:  # after a thousand million insertions
            self._index = None
            self._by_handle.clear()
            self._plain = {place: self.entries.filter(place) for place in self.entries}
            self._to_index()
            while self._moving:
                self._move()
            return True
        chunk = self._by_handle.get(handle >> CHUNK)
        if chunk is None:
            chunk = self._by_handle[handle >> CHUNK] = NOBODY[:]
        chunk[handle & LOW] = place
        return True

    def _unindexed(self, place: int) -> None:
        if self._plain.pop(place, None) is not None or self._index is None:
            return
        handle = self.entries.handles[place]
        self._index.remove(handle)
        chunk = self._by_handle[handle >> CHUNK]
        chunk[handle & LOW] = -1
        if handle >> CHUNK != self._index.next_handle >> CHUNK and chunk == NOBODY:
            del self._by_handle[handle >> CHUNK]

    def _to_index(self) -> None:
        """Begin to move filters into the index if it is loaded; else load it."""
        make = INDEX.wanted()
        if make is not None:
            self._index = make()
            self._moving = list(self._plain)

    def _move(self) -> None:
        """Move some more filters into the index, fewer if they are intricate."""
        moved = 0
        while self._moving and moved < MOVED:
            place = self._moving.pop()
            filter = self._plain.pop(place, None)
            if filter is None:
                continue  # nobody wants it any more
            if not self._indexed(place):
                self._plain[place] = filter
            elif place not in self._plain:  # else all begin anew with another index
                vars(filter).clear()  # its caches for matching
            moved += len(filter.text) if isinstance(filter, AttributeFilter) else 1

    def _changed(self) -> None:
        """The table has changed: forget what it found before."""
        self._last = None
        self._asked = Asked(self._asked.matched.state + 1)

    def matched(self, content: Content) -> Matched | None:
        """The filters that match, if the table is small; :meth:`match` uses the answer again."""
        plain = self._plain
        if self._index is not None or len(plain) > FEW:
            return None
        asked = self._asked
        asked.content = content
        places: list[int] = []
        for place, filter in plain.items():  # faster than a comprehension
            if filter.matches(content):
                places.append(place)
        if places != asked.places:
            asked.matched = Matched(asked.matched.state, [plain[place] for place in places])
            asked.places, asked.answer = places, None
        return asked.matched

    def match(self, content: Content) -> list[Source]:
        asked = self._asked
        if content is asked.content and asked.answer is not None:
            self._last, (sources, self._local) = content, asked.answer
            return sources
        if self._only is not None and self._index is not None and not self._plain:
            return self._match_only(self._only, self._index, content)
        found: dict[Source, None] = {}
        local: list[int] = []
        if self._by_handle:
            values = getattr(content, "values", None)
            if values is not None and self._index is not None:
                by_handle, all_sources = self._by_handle, self.entries.sources
                for handle in self._index.match(values):
                    place = by_handle[handle >> CHUNK][handle & LOW]
                    sources = all_sources[place]
                    if sources is HERE:
                        local.append(place)
                    elif len(sources) == 1:
                        found[sources[0]] = None
                    else:
                        self._found(place, found, local)
        if content is asked.content:
            for place in asked.places:
                self._found(place, found, local)
        elif self._plain:
            for place, filter in self._plain.items():
                if filter.matches(content):
                    self._found(place, found, local)
            if self._moving:
                self._move()
            elif self._index is None and len(self._plain) > FEW:
                self._to_index()
        if local:
            found[LOCAL] = None
        self._last = content
        self._local = local
        sources = list(found)
        if len(sources) > 1:
            rank = self._arrival
            sources.sort(key=lambda source: rank[source][0])
        if content is asked.content:
            asked.answer = sources, local
        return sources

    def _match_only(self, source: Source, index: MatchIndex, content: Content) -> list[Source]:
        """The match where all filters are of one source and in the index."""
        values = getattr(content, "values", None)
        if source != LOCAL:
            return [source] if values is not None and index.matches(values) else []
        by_handle = self._by_handle
        handles = [] if values is None else index.match(values)
        self._local = [by_handle[handle >> CHUNK][handle & LOW] for handle in handles]
        self._last = content
        return [LOCAL] if handles else []

    def _found(self, place: int, found: dict[Source, None], local: list[int]) -> None:
        for source in self.entries.sources[place]:
            if source == LOCAL:
                local.append(place)
            else:
                found[source] = None

    def local(self, content: Content) -> list[int]:
        """Places of the clients' filters that match, mostly as found by the last :meth:`match`."""
        if LOCAL not in self._arrival:
            return []
        if content is not self._last:
            self.match(content)
        return self._local
