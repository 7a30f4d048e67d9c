"""``EventBuffer``: the events that a node keeps so that others can have them again.

Bounded by count, by bytes and by age. *First in first out*: the oldest goes first. *Least spread
first* keeps what fewest other nodes are known to have: of the events that were most often named by
other nodes, or given to them, the oldest goes first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.content import Attributes, Patterns

if TYPE_CHECKING:
    from shoal.content import Event, EventId, Filter

MOST_SPREAD = 15
"""Copies elsewhere that are counted; more make no difference."""
OVERHEAD = 50
"""Bytes that an event is taken to need beside its content and body."""


def size_of(event: Event) -> int:
    """About how many bytes an event is on a wire; worked out once."""
    known: int | None = event.__dict__.get("size")
    if known is None:
        known = event.__dict__["size"] = _size(event)
    return known


def _size(event: Event) -> int:
    size = OVERHEAD + len(event.body)
    content = event.content
    if isinstance(content, Patterns):
        return size + 4 * len(content.numbers)
    if isinstance(content, Attributes):
        for name, value in content.values.items():
            size += len(name) + (len(value) if isinstance(value, str) else 8)
    return size


class Kept:
    """An event in a buffer."""

    __slots__ = ("event", "spread", "time")

    def __init__(self, event: Event, time: float) -> None:
        self.event = event
        self.time = time
        """When it was published, as far as this node can tell."""
        self.spread = 0
        """Other nodes known to have it."""


class EventBuffer:
    """Events by id, the oldest first."""

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
        self._kept: dict[EventId, Kept] = {}
        self._order: deque[EventId] = deque()
        """Ids as they came, and some that are gone: the front of a dict is slow to find."""
        self._spread: list[dict[EventId, None]] = [{} for _ in range(MOST_SPREAD + 1)]
        """Ids by how spread they are; only used for least spread first."""
        self._sequences: dict[int, list[int]] = {}
        """Per publisher, the sequence numbers that are kept, ascending."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: EventId) -> bool:
        return key in self._kept

    def get(self, key: EventId) -> Kept | None:
        """An event, if it is kept."""
        return self._kept.get(key)

    def events(self) -> Iterator[Kept]:
        """All of them, the first that came first."""
        return iter(self._kept.values())

    def add(self, event: Event, time: float) -> bool:
        """Keep an event; False if it is kept already, or larger than the whole buffer."""
        key = event.id
        size = size_of(event)
        if key in self._kept or size > self.most_bytes:
            return False
        while len(self._kept) >= self.most or self.bytes + size > self.most_bytes:
            self._drop(self._next())
            self.evicted += 1
        self._kept[key] = Kept(event, time)
        self._order.append(key)
        self.bytes += size
        if self.least_spread_first:
            self._spread[0][key] = None
        sequences = self._sequences.get(event.publisher)
        if sequences is None:
            self._sequences[event.publisher] = [event.sequence]
        elif event.sequence > sequences[-1]:
            sequences.append(event.sequence)
        else:
            insort(sequences, event.sequence)
        return True

    def elsewhere(self, key: EventId) -> None:
        """One more node has this event."""
        kept = self._kept.get(key)
        if kept is None or kept.spread >= MOST_SPREAD:
            return
        if self.least_spread_first:
            del self._spread[kept.spread][key]
            self._spread[kept.spread + 1][key] = None
        kept.spread += 1

    def forget_old(self, now: float) -> None:
        """Let go of what is older than the buffer keeps."""
        while self._kept:
            key = self._oldest()
            if self._kept[key].time + self.age > now:
                return  # what came later may be older, and goes a little later
            self._drop(key)

    def between(self, publisher: int, after: int, before: int) -> list[Kept]:
        """The events of a publisher with a sequence number between these two."""
        sequences = self._sequences.get(publisher, [])
        first, last = bisect_right(sequences, after), bisect_left(sequences, before)
        return [self._kept[publisher, number] for number in sequences[first:last]]

    def matching(self, filter: Filter) -> list[Kept]:
        """The events that match a filter."""
        return [kept for kept in self._kept.values() if filter.matches(kept.event.content)]

    def _next(self) -> EventId:
        """The event to go next."""
        if self.least_spread_first:
            for ids in reversed(self._spread):
                if ids:
                    return next(iter(ids))
        return self._oldest()

    def _oldest(self) -> EventId:
        order = self._order
        while order[0] not in self._kept:
            order.popleft()
        return order[0]

    def _drop(self, key: EventId) -> None:
        kept = self._kept.pop(key)
        if len(self._order) > 2 * len(self._kept) + 64:
            self._order = deque(self._kept)
        self.bytes -= size_of(kept.event)
        if self.least_spread_first:
            del self._spread[kept.spread][key]
        publisher, sequence = key
        if publisher == self.own and sequence > self.dropped[0]:
            self.dropped = (sequence, kept.time)
        sequences = self._sequences[publisher]
        if len(sequences) == 1:
            del self._sequences[publisher]
        else:
            del sequences[bisect_left(sequences, sequence)]
