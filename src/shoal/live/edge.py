"""Where routing ends: which of a broker's own clients want an event.

Routing and clients share one table per kind of entry, so an event is matched once: the table that
routing asks remembers which local filters matched, and the delivery that follows takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from shoal.content import AttributeFilter, Content, Event, Filter
from shoal.content.tables import FilterTable, Source
from shoal.live.numbers import Numbers
from shoal.live.wire import content_of
from shoal.stack import LOCAL

if TYPE_CHECKING:
    from shoal.content.index import MatchIndex

FEW: Final = 48
"""Filters that are simply asked one after the other; the index is loaded when there are more."""
CHUNK: Final = 8
"""Handles of the index are kept in lists of two to the power of this many."""
LOW: Final = (1 << CHUNK) - 1
HERE: Final = (LOCAL,)
"""The sources of a filter that only this node wants: one object, since most are."""


class Subscriber(Protocol):
    """Whoever takes deliveries at the edge."""

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """An event for the subscriptions of these numbers, and its encoding."""


class Entry:
    """A filter in a table: who wants it among neighbours, and who among this node's clients.

    There may be a million of these, so one client is kept without any container.
    """

    __slots__ = ("filter", "handle", "number", "others", "sources", "who")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.handle = -1
        """In the index."""
        self.sources: tuple[Source, ...] = ()
        self.who: Subscriber | None = None
        self.number = 0
        """The only client that wants it, and under which number."""
        self.others: dict[Subscriber, Numbers] | None = None
        """All of them if there are several."""

    def add(self, subscriber: Subscriber, number: int) -> None:
        """One more client."""
        if self.others is None:
            if self.who is None:
                self.who, self.number = subscriber, number
                return
            self.others = {self.who: Numbers((self.number,))}
            self.who = None
        self.others.setdefault(subscriber, Numbers()).add(number)

    def remove(self, subscriber: Subscriber, number: int) -> None:
        """One fewer."""
        if self.others is not None:
            numbers = self.others.get(subscriber)
            if numbers is not None and numbers.remove(number) and not len(numbers):
                del self.others[subscriber]
                self.others = self.others or None
        elif self.who is subscriber and self.number == number:
            self.who = None

    @property
    def wanted(self) -> bool:
        """Whether any client wants it."""
        return self.who is not None or self.others is not None


class IndexLoader:
    """Loads the matching index beside the event loop: it takes a second, or minutes at first."""

    def __init__(self) -> None:
        self.make: type[MatchIndex] | None = None
        self._thread: threading.Thread | None = None

    def wanted(self) -> type[MatchIndex] | None:
        """The index's class if it is there; if not it will be."""
        if self.make is None and self._thread is None:
            self._thread = threading.Thread(target=self._load, name="shoal-index", daemon=True)
            self._thread.start()
        return self.make

    def load(self) -> None:
        """Wait until it is there."""
        self.wanted()
        if self._thread is not None:
            self._thread.join()

    def _load(self) -> None:
        from shoal.content.index import MatchIndex, warm_up

        warm_up()
        self.make = MatchIndex


INDEX: Final = IndexLoader()


class EdgeTable(FilterTable):
    """A routing table of a live broker. Small ones ask every filter, large ones the index."""

    def __init__(self, coming: dict[Filter, Entry] | None = None) -> None:
        self._coming = {} if coming is None else coming
        self._entries: dict[Filter, Entry] = {}
        self._plain: dict[Filter, Entry] = {}
        """Entries that are asked one by one."""
        self._by_handle: dict[int, list[Entry | None]] = {}
        """Entries in the index, by the upper part of their handle: handles only ever ascend."""
        self._index: MatchIndex | None = None
        self._arrival: dict[Source, list[int]] = {}
        """Per source its rank and number of entries."""
        self._arrivals = 0
        self._last: Content | None = None
        self._local: list[Entry] = []

    def __len__(self) -> int:
        return sum(count for _, count in self._arrival.values())

    @property
    def here(self) -> int:
        """How many filters this node's clients want."""
        return self._arrival.get(LOCAL, (0, 0))[1]

    def find(self, filter: Filter) -> Entry | None:
        """The entry of a filter."""
        return self._entries.get(filter)

    def filters_here(self) -> list[Filter]:
        """The filters that this node's clients want."""
        return [entry.filter for entry in self._entries.values() if LOCAL in entry.sources]

    def insert(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        entry = self._entries.get(filter)
        if entry is not None and source in entry.sources:
            return
        coming = self._coming.pop(filter, None) if source == LOCAL else None
        if entry is None:
            entry = coming or Entry(filter)
            entry.sources = HERE if source == LOCAL else (source,)
            self._entries[filter] = entry
            if self._index is None:
                self._plain[filter] = entry
                if len(self._plain) > FEW:
                    self._to_index()
            elif not self._indexed(entry):
                self._plain[filter] = entry
        else:
            entry.sources = (*entry.sources, source)
            if coming is not None:
                entry.who, entry.number, entry.others = coming.who, coming.number, coming.others
        self._last = None
        arrived = self._arrival.get(source)
        if arrived is None:
            self._arrivals += 1
            arrived = self._arrival[source] = [self._arrivals, 0]
        arrived[1] += 1

    def remove(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        entry = self._entries.get(filter)
        if entry is None or source not in entry.sources:
            return
        self._last = None
        entry.sources = tuple([other for other in entry.sources if other != source])
        if source == LOCAL and entry.wanted:  # by clients, whatever routing thinks: keep them
            kept = self._coming[filter] = Entry(entry.filter)
            kept.who, kept.number, kept.others = entry.who, entry.number, entry.others
            entry.who = entry.others = None
        if not entry.sources:
            del self._entries[filter]
            self._unindexed(entry)
        arrived = self._arrival[source]
        arrived[1] -= 1
        if not arrived[1]:
            del self._arrival[source]
        if not self._entries:
            self._index = None  # an index that was large stays so; start afresh

    def _indexed(self, entry: Entry) -> bool:
        """Bring an entry into the index, if it is for such filters."""
        if self._index is None or not isinstance(entry.filter, AttributeFilter):
            return False
        try:
            handle = entry.handle = self._index.insert(entry.filter.normalised())
        except OverflowError:  # after a thousand million insertions
            self._index = None
            self._by_handle.clear()
            self._plain = dict(self._entries)
            self._to_index()
            return True
        chunk = self._by_handle.get(handle >> CHUNK)
        if chunk is None:
            chunk = self._by_handle[handle >> CHUNK] = [None] * (1 << CHUNK)
        chunk[handle & LOW] = entry
        return True

    def _unindexed(self, entry: Entry) -> None:
        if self._plain.pop(entry.filter, None) is not None or self._index is None:
            return
        handle = entry.handle
        self._index.remove(handle)
        chunk = self._by_handle[handle >> CHUNK]
        chunk[handle & LOW] = None
        if handle >> CHUNK != self._index.next_handle >> CHUNK and not any(chunk):
            del self._by_handle[handle >> CHUNK]

    def _to_index(self) -> None:
        """Bring what is asked one by one into the index, once that is there."""
        if self._index is None:
            make = INDEX.wanted()
            if make is None:
                return
            self._index = make()
        plain, self._plain = self._plain, {}
        for filter, entry in plain.items():
            if self._indexed(entry):
                if filter in self._plain:
                    return  # all of them were brought into a new one
                vars(filter).clear()  # what was worked out for asking it
            else:
                self._plain[filter] = entry

    def match(self, content: Content) -> list[Source]:
        """See :class:`~shoal.content.tables.FilterTable`."""
        found: dict[Source, None] = {}
        local: list[Entry] = []
        if self._by_handle:
            values = getattr(content, "values", None)
            if values is not None and self._index is not None:
                by_handle = self._by_handle
                for handle in self._index.match(values):
                    entry: Entry = by_handle[handle >> CHUNK][handle & LOW]  # type: ignore[assignment]  # the index has it
                    sources = entry.sources
                    if sources is HERE:
                        local.append(entry)
                    elif len(sources) == 1:
                        found[sources[0]] = None
                    else:
                        self._found(entry, found, local)
        if self._plain:
            for entry in self._plain.values():
                if entry.filter.matches(content):
                    self._found(entry, found, local)
            if len(self._plain) > FEW:
                self._to_index()
        if local:
            found[LOCAL] = None
        self._last = content
        self._local = local
        if len(found) < 2:
            return list(found)
        rank = self._arrival
        return sorted(found, key=lambda source: rank[source][0])

    @staticmethod
    def _found(entry: Entry, found: dict[Source, None], local: list[Entry]) -> None:
        for source in entry.sources:
            if source == LOCAL:
                local.append(entry)
            else:
                found[source] = None

    def local(self, content: Content) -> list[Entry]:
        """Which entries of this node's clients match; mostly known from the question just asked."""
        if LOCAL not in self._arrival:
            return []
        if content is not self._last:
            self.match(content)
        return self._local


class Edge:
    """The subscriptions of a broker's clients.

    They are kept in the entries of routing's tables, so that a filter is held once.
    """

    def __init__(self) -> None:
        self.tables: list[EdgeTable] = []
        self._coming: dict[Filter, Entry] = {}
        """What clients want and routing has not put into a table yet."""

    def __len__(self) -> int:
        return len(self._coming) + sum(table.here for table in self.tables)

    def table(self) -> EdgeTable:
        """One more table for routing."""
        table = EdgeTable(self._coming)
        self.tables.append(table)
        return table

    def _wanted(self, filter: Filter) -> Entry | None:
        """The entry of a filter that some client wants."""
        for table in self.tables:
            entry = table.find(filter)
            if entry is not None and LOCAL in entry.sources:
                return entry
        return self._coming.get(filter)

    def add(self, subscriber: Subscriber, number: int, filter: Filter) -> tuple[Filter, bool]:
        """A client wants this: the one copy of the filter, and whether nobody here did so far."""
        entry = self._wanted(filter)
        new = entry is None
        if entry is None:
            held = next((e for t in self.tables if (e := t.find(filter)) is not None), None)
            if held is not None:
                filter = held.filter
            elif isinstance(filter, AttributeFilter):
                filter = filter.slim()
            entry = self._coming[filter] = Entry(filter)
        entry.add(subscriber, number)
        return entry.filter, new

    def remove(self, subscriber: Subscriber, number: int, filter: Filter) -> bool:
        """It no longer does; True if nobody here does any more."""
        entry = self._wanted(filter)
        if entry is None:
            return False
        entry.remove(subscriber, number)
        if entry.wanted:
            return False
        self._coming.pop(filter, None)
        return True

    def filters(self) -> list[Filter]:
        """What clients here want, each filter once."""
        return [*self._coming, *(f for table in self.tables for f in table.filters_here())]

    def deliver(self, event: Event) -> int:
        """Hand an event to all subscribers here; how many there were."""
        found: dict[Subscriber, list[int]] = {}
        content = event.content
        for table in self.tables:
            for entry in table.local(content):
                who = entry.who
                if who is not None:
                    if who in found:
                        found[who].append(entry.number)
                    else:
                        found[who] = [entry.number]
                elif entry.others is not None:
                    for who, numbers in entry.others.items():
                        found.setdefault(who, []).extend(numbers)
        if found:
            raw = content_of(event)
            for subscriber, mine in found.items():
                subscriber.deliver(mine, event, raw)
        return len(found)


class Listener:
    """A callback in the broker's own process."""

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self._callback = callback

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """See :class:`~shoal.live.edge.Subscriber`."""
        self._callback(event)
