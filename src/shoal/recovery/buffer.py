"""``EventBuffer``: the events that a node keeps so that others can have them again.

Bounded by count, by bytes and by age. *First in first out*: the oldest goes first. *Least spread
first* keeps what fewest other nodes are known to have: of the events that were most often named by
other nodes, or given to them, the oldest goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.content import Attributes, Patterns

if TYPE_CHECKING:
    from shoal.content import Event, EventId, Filter

MOST_SPREAD = 15
"""Copies elsewhere that are counted; more make no difference."""
OVERHEAD = 50
"""Bytes that an event is taken to need beside its content and body."""


def size_of(event: Event) -> int:
    """About how many bytes an event is on a wire."""
    size = OVERHEAD + len(event.body)
    content = event.content
    if isinstance(content, Attributes):
        for name, value in content.values.items():
            size += len(name) + (len(value) if isinstance(value, str) else 8)
    elif isinstance(content, Patterns):
        size += 4 * len(content.numbers)
    return size


class Kept:
    """An event in a buffer, between the one that came before it and the one that came after."""

    __slots__ = ("event", "newer", "older", "size", "spread", "time")

    def __init__(self, event: Event, time: float, size: int) -> None:
        self.event = event
        self.time = time
        """When it was published, as far as this node can tell."""
        self.size = size
        self.spread = 0
        """Other nodes known to have it."""
        self.older: Kept | None = None
        self.newer: Kept | None = None


class EventBuffer:
    """Events by publisher and sequence number, and in the order in which they came."""

    def __init__(
        self, count: int, size: int, age: float, least_spread_first: bool = False, own: int = -1
    ) -> None:
        self.most = count
        self.most_bytes = size
        self.age = age
        self.least_spread_first = least_spread_first
        self.own = own
        """The publisher at this node."""
        self.dropped = (-1, float("-inf"))
        """The last of its events that is no longer kept: sequence number and time."""
        self.bytes = 0
        self.evicted = 0
        """Events that left for want of room."""
        self._count = 0
        self._kept: dict[int, dict[int, Kept]] = {}
        """Per publisher and sequence number."""
        self._oldest: Kept | None = None
        self._newest: Kept | None = None
        self._spread: list[dict[Kept, None]] = [{} for _ in range(MOST_SPREAD + 1)]
        """Events by how spread they are; only used for least spread first."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: EventId) -> bool:
        return self.get(key) is not None

    def get(self, key: EventId) -> Kept | None:
        """An event, if it is kept."""
        of_publisher = self._kept.get(key[0])
        return None if of_publisher is None else of_publisher.get(key[1])

    def events(self) -> list[Kept]:
        """All of them, the first that came first."""
        found: list[Kept] = []
        kept = self._oldest
        while kept is not None:
            found.append(kept)
            kept = kept.newer
        return found

    def oldest(self, otherwise: float) -> float:
        """The time of the event that came first."""
        return otherwise if self._oldest is None else self._oldest.time

    def add(self, event: Event, time: float) -> bool:
        """Keep an event; False if it is kept already, or larger than the whole buffer."""
        publisher = event.publisher
        sequence: Any = event.sequence  # as an int, compiled code would keep a second one as key
        of_publisher = self._kept.get(publisher)
        if of_publisher is not None and sequence in of_publisher:
            return False
        size = size_of(event)
        if size > self.most_bytes:
            return False
        if self._count >= self.most or self.bytes + size > self.most_bytes:
            self._make_room(size)
            of_publisher = self._kept.get(publisher)
        if of_publisher is None:
            of_publisher = {}
            self._kept[publisher] = of_publisher
        kept = Kept(event, time, size)
        of_publisher[sequence] = kept
        self._count += 1
        self.bytes += size
        newest = self._newest
        if newest is None:
            self._oldest = kept
        else:
            newest.newer = kept
            kept.older = newest
        self._newest = kept
        if self.least_spread_first:
            self._spread[0][kept] = None
        return True

    def elsewhere(self, key: EventId) -> None:
        """One more node has this event."""
        kept = self.get(key)
        if kept is None or kept.spread >= MOST_SPREAD:
            return
        if self.least_spread_first:
            del self._spread[kept.spread][kept]
            self._spread[kept.spread + 1][kept] = None
        kept.spread += 1

    def forget_old(self, now: float) -> None:
        """Let go of what is older than the buffer keeps."""
        kept = self._oldest
        while kept is not None and kept.time + self.age <= now:
            self._drop(kept)  # what came later may be older, and goes a little later
            kept = self._oldest

    def between(self, publisher: int, after: int, before: int) -> list[Kept]:
        """The events of a publisher with a sequence number between these two, in their order."""
        of_publisher = self._kept.get(publisher)
        if of_publisher is None:
            return []
        if before - after <= len(of_publisher):
            within = [number for number in range(after + 1, before) if number in of_publisher]
        else:
            within = sorted([number for number in of_publisher if after < number < before])
        return [of_publisher[number] for number in within]

    def matching(self, filter: Filter) -> list[Kept]:
        """The events that match a filter."""
        return [kept for kept in self.events() if filter.matches(kept.event.content)]

    def _make_room(self, size: int) -> None:
        while self._count >= self.most or self.bytes + size > self.most_bytes:
            self._drop(self._next())
            self.evicted += 1

    def _next(self) -> Kept:
        """The event to go next."""
        if self.least_spread_first:
            for some in reversed(self._spread):
                if some:
                    return next(iter(some))
        assert self._oldest is not None
        return self._oldest

    def _drop(self, kept: Kept) -> None:
        event = kept.event
        publisher, sequence = event.publisher, event.sequence
        of_publisher = self._kept[publisher]
        del of_publisher[sequence]
        if not of_publisher:
            del self._kept[publisher]
        self._count -= 1
        self.bytes -= kept.size
        older, newer = kept.older, kept.newer
        if older is None:
            self._oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self._newest = older
        else:
            newer.older = older
        kept.older = kept.newer = None
        if self.least_spread_first:
            del self._spread[kept.spread][kept]
        if publisher == self.own and sequence > self.dropped[0]:
            self.dropped = (sequence, kept.time)
