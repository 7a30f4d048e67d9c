"""Where routing ends: which of a broker's own clients want an event.

Routing and clients share one table per kind of entry, so an event is matched once: the table that
routing asks remembers which local filters matched, and the delivery that follows takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from shoal.content import AttributeFilter, Content, Event, Filter
from shoal.content.tables import FilterTable, Source
from shoal.live.wire import content_of
from shoal.stack import LOCAL

if TYPE_CHECKING:
    from shoal.content.index import MatchIndex

SOME: Final = 64
"""Subscribers of one filter that are simply listed."""
FEW: Final = 48
"""Filters that are simply asked one after the other; the index is loaded when there are more."""


class Subscriber(Protocol):
    """Whoever takes deliveries at the edge."""

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """An event for the subscriptions of these numbers, and its encoding."""


Member: TypeAlias = tuple[Subscriber, int]
"""Somebody at the edge, and under which number he wants a filter."""


class Wanted:
    """Who at the edge wants one filter: a list while they are few, which takes least memory."""

    __slots__ = ("filter", "members")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.members: list[Member] | dict[Member, None] = []

    def add(self, member: Member) -> None:
        """One more."""
        if isinstance(self.members, list):
            if len(self.members) < SOME:
                self.members.append(member)
                return
            self.members = dict.fromkeys(self.members)
        self.members[member] = None

    def remove(self, member: Member) -> None:
        """One fewer."""
        if isinstance(self.members, dict):
            self.members.pop(member, None)
        elif member in self.members:
            self.members.remove(member)


class Entry:
    """A filter of one source in a table."""

    __slots__ = ("filter", "handle", "source", "wanted")

    def __init__(self, source: Source, filter: Filter, wanted: Wanted | None) -> None:
        self.source = source
        self.filter = filter
        self.handle = -1
        self.wanted = wanted
        """For this node's own filters."""


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

    def __init__(self, wanted: dict[Filter, Wanted] | None = None) -> None:
        self._wanted = {} if wanted is None else wanted
        self._entries: dict[tuple[Source, Filter], Entry] = {}
        self._plain: dict[int, Entry] = {}
        """Entries that are asked one by one, by the identity of the entry."""
        self._by_handle: dict[int, Entry] = {}
        self._index: MatchIndex | None = None
        self._arrival: dict[Source, list[int]] = {}
        """Per source its rank and number of entries."""
        self._arrivals = 0
        self._last: Content | None = None
        self._local: list[Wanted] = []

    def __len__(self) -> int:
        return len(self._entries)

    def insert(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        key = (source, filter)
        if key in self._entries:
            return
        local = None
        if source == LOCAL:
            local = self._wanted.get(filter) or Wanted(filter)
        entry = self._entries[key] = Entry(source, filter, local)
        self._last = None
        arrived = self._arrival.get(source)
        if arrived is None:
            self._arrivals += 1
            arrived = self._arrival[source] = [self._arrivals, 0]
        arrived[1] += 1
        self._plain[id(entry)] = entry
        if len(self._plain) > FEW or self._index is not None:
            self._to_index()

    def remove(self, source: Source, filter: Filter) -> None:
        """See :class:`~shoal.content.tables.FilterTable`."""
        entry = self._entries.pop((source, filter), None)
        if entry is None:
            return
        self._last = None
        if entry.handle < 0:
            self._plain.pop(id(entry), None)
        elif self._index is not None:
            self._index.remove(entry.handle)
            del self._by_handle[entry.handle]
        arrived = self._arrival[source]
        arrived[1] -= 1
        if not arrived[1]:
            del self._arrival[source]
        if not self._entries:
            self._index = None  # an index that was large stays so; start afresh

    def _to_index(self) -> None:
        """Bring what is asked one by one into the index, once that is there."""
        if self._index is None:
            make = INDEX.wanted()
            if make is None:
                return
            self._index = make()
        for key, entry in list(self._plain.items()):
            if isinstance(entry.filter, AttributeFilter):
                try:
                    entry.handle = self._index.insert(entry.filter.normal)
                except OverflowError:  # after a thousand million insertions
                    self._rebuild()
                    return
                self._by_handle[entry.handle] = entry
                del self._plain[key]
                entry.filter.__dict__.clear()  # what was parsed for this; it can be parsed again

    def _rebuild(self) -> None:
        self._index = None
        self._plain = {id(entry): entry for entry in self._entries.values()}
        self._by_handle.clear()
        self._to_index()

    def match(self, content: Content) -> list[Source]:
        """See :class:`~shoal.content.tables.FilterTable`."""
        found: dict[Source, None] = {}
        local: list[Wanted] = []
        if self._by_handle:
            values = getattr(content, "values", None)
            if values is not None and self._index is not None:
                by_handle = self._by_handle
                for handle in self._index.match(values):
                    entry = by_handle[handle]
                    wanted = entry.wanted
                    if wanted is not None:
                        local.append(wanted)
                    else:
                        found[entry.source] = None
        if self._plain:
            for entry in self._plain.values():
                wanted = entry.wanted
                if wanted is not None:
                    if entry.filter.matches(content):
                        local.append(wanted)
                elif entry.source not in found and entry.filter.matches(content):
                    found[entry.source] = None
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

    def local(self, content: Content) -> list[Wanted]:
        """Who at this node wants it; mostly known from the question just asked."""
        if LOCAL not in self._arrival:
            return []
        if content is not self._last:
            self.match(content)
        return self._local


class Edge:
    """The subscriptions of a broker's clients."""

    def __init__(self) -> None:
        self.tables: list[EdgeTable] = []
        self._wanted: dict[Filter, Wanted] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def table(self) -> EdgeTable:
        """One more table for routing."""
        table = EdgeTable(self._wanted)
        self.tables.append(table)
        return table

    def add(self, subscriber: Subscriber, number: int, filter: Filter) -> tuple[Filter, bool]:
        """A client wants this: the one copy of the filter, and whether nobody here did so far."""
        wanted = self._wanted.get(filter)
        new = wanted is None
        if wanted is None:
            wanted = self._wanted[filter] = Wanted(filter)
        wanted.add((subscriber, number))
        return wanted.filter, new

    def remove(self, subscriber: Subscriber, number: int, filter: Filter) -> bool:
        """It no longer does; True if nobody here does any more."""
        wanted = self._wanted.get(filter)
        if wanted is None:
            return False
        wanted.remove((subscriber, number))
        if wanted.members:
            return False
        del self._wanted[filter]
        return True

    def filters(self) -> list[Filter]:
        """What clients here want, each filter once."""
        return list(self._wanted)

    def deliver(self, event: Event) -> int:
        """Hand an event to all subscribers here; how many there were."""
        found: dict[Subscriber, list[int]] = {}
        content = event.content
        for table in self.tables:
            for wanted in table.local(content):
                for subscriber, number in wanted.members:
                    if subscriber in found:
                        found[subscriber].append(number)
                    else:
                        found[subscriber] = [number]
        if found:
            raw = content_of(event)
            for subscriber, numbers in found.items():
                subscriber.deliver(numbers, event, raw)
        return len(found)


class Listener:
    """A callback in the broker's own process."""

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self._callback = callback

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """See :class:`~shoal.live.edge.Subscriber`."""
        self._callback(event)
