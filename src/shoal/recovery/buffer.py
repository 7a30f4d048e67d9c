"""``EventBuffer``: the events that a node keeps so that others can have them again.

Bounded by count, by bytes and by age. *First in first out*: the oldest event leaves first. *Least
spread first*: of the events that most other nodes are known to have (they named them, or were given
them), the oldest leaves first.

Events lie in a ring in the order of arrival. Most are never asked for, so the index of their places
is built only when somebody asks for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from shoal.content import Attributes, Event, Patterns
from shoal.stack.host import NEVER, remember

if TYPE_CHECKING:
    from shoal.content import EventId, Filter

_EVENT: Final = msgspec.msgpack.Decoder(Event)
_FORWARD: Final = msgspec.msgpack.Decoder(tuple[str, Event, int])
FORWARD = 0x93
"""First byte of an encoded Forward, an array of three; an encoded event is an array of five."""

MOST_SPREAD = 15
"""Nodes with a copy that are counted; more make no difference."""
OVERHEAD: Final = 50
"""Bytes that an event is assumed to need beside its content and body."""
FEWEST_SLOTS = 16
MOST_LEFT = 1000
"""Publishers of which it is remembered that events were dropped."""


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
    """An event in a buffer."""

    __slots__ = ("packed", "publisher", "sequence", "size", "time")

    def __init__(
        self, packed: Event | bytes, publisher: int, sequence: int, time: float, size: int
    ) -> None:
        self.packed = packed
        """The event, as its host packs it (:meth:`~shoal.stack.host.Host.pack`)."""
        self.publisher = publisher
        self.sequence = sequence
        self.time = time
        """When it was published, as far as this node can tell."""
        self.size = size

    @property
    def event(self) -> Event:
        """The event itself."""
        packed = self.packed
        if not isinstance(packed, bytes):
            return packed
        return _FORWARD.decode(packed)[1] if packed[0] == FORWARD else _EVENT.decode(packed)


class Shelf:
    """Index of the events of one publisher."""

    __slots__ = ("latest", "places")

    def __init__(self) -> None:
        self.latest = -1
        """Largest sequence number ever kept of this publisher."""
        self.places: dict[int, int] = {}
        """Place per sequence number, as far as the ring is indexed."""


class EventBuffer:
    """Events in the order in which they came; by publisher and sequence number on demand.

    A place counts arrivals since the ring was last laid out. The slot of an event in the ring is
    its place modulo the number of slots.
    """

    def __init__(
        self, count: int, size: int, age: float, keeps_least_spread: bool = False, own: int = -1
    ) -> None:
        self.most = count
        self.most_bytes = size
        self.age = age
        self.keeps_least_spread = keeps_least_spread
        """Whether the most spread event leaves a full buffer; otherwise the oldest does."""
        self.own = own
        """This node, as a publisher."""
        self.dropped = -1
        """Sequence number of the latest event of this node that has left the buffer."""
        self.left: dict[int, float] = {}
        """Per publisher, when the latest of its events that are kept no longer was published."""
        self.bytes = 0
        self._count = 0
        self._ring: list[Kept | None] = [None] * FEWEST_SLOTS
        """Events by slot; None where an event has left before older ones, or none came yet."""
        self._mask = FEWEST_SLOTS - 1
        self._first = self._end = 0
        """Place of the oldest event, and of the next to come."""
        self._shelved = 0
        """Place before which all events are indexed."""
        self._shelves: dict[int, Shelf] = {}
        """Index per publisher."""
        self._named: dict[int, int] = {}
        """Per place, how often digests named the event, this node's or others'; absent if never."""
        self._spread: dict[int, int] = {}
        """Per place, how many other nodes are known to have the event; absent if none."""
        self._ranks: list[dict[int, None]] = [{} for _ in range(MOST_SPREAD + 1)]
        """Places by that number, in order of arrival; filled if what is least spread is kept."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: EventId) -> bool:
        return self._find(key[0], key[1]) >= 0

    def get(self, key: EventId) -> Kept | None:
        """An event, if it is kept."""
        place = self._find(key[0], key[1])
        return None if place < 0 else self._at(place)

    def events(self) -> list[Kept]:
        """All events in order of arrival."""
        return [self._at(place) for place in self._places()]

    def oldest(self, otherwise: float) -> float:
        """Time of the first event, or another time if there is none."""
        return self._at(self._first).time if self._count else otherwise

    def add(self, event: Event, time: float, packed: Event | bytes | None = None) -> bool:
        """Keep an event; False if it is kept already, or larger than the whole buffer."""
        bare: Any = event
        named: Any = bare.publisher  # stays a Python object: compiled, an int would be boxed again
        shelf = self._shelves.get(named)
        publisher: int = named
        sequence: int = bare.sequence
        if shelf is None:
            shelf = Shelf()
            self._shelves[publisher] = shelf
        elif sequence <= shelf.latest and self._find(publisher, sequence) >= 0:
            return False
        if packed is None:
            packed = event
        size = len(packed) if isinstance(packed, bytes) else size_of(event)
        if size > self.most_bytes:
            self._leaves(publisher, sequence, time)
            return False
        if self._count >= self.most or self.bytes + size > self.most_bytes:
            self._make_room(size)
        if self._end - self._first > self._mask:
            self._lay_out()
            self._shelves[publisher] = shelf
        place = self._end
        self._ring[place & self._mask] = Kept(packed, publisher, sequence, time, size)
        self._end = place + 1
        self._count += 1
        self.bytes += size
        if sequence > shelf.latest:
            shelf.latest = sequence
        if self.keeps_least_spread:
            self._ranks[0][place] = None
        return True

    def elsewhere(self, key: EventId) -> None:
        """Another node is known to have this event."""
        self.named(key)
        place = self._find(key[0], key[1]) if self.keeps_least_spread else -1
        if place >= 0:
            spread = self._spread.get(place, 0)
            if spread < MOST_SPREAD:
                del self._ranks[spread][place]
                self._ranks[spread + 1][place] = None
                self._spread[place] = spread + 1

    def named(self, key: EventId) -> None:
        """A digest named this event."""
        place = self._find(key[0], key[1])
        if place >= 0:
            self._named[place] = self._named.get(place, 0) + 1

    def unnamed(self, key: EventId) -> None:
        """A node lacked this event, so others may: it counts as not named yet."""
        place = self._find(key[0], key[1])
        self._named.pop(place, None)

    def untold(self, times: int) -> list[Kept]:
        """The events that were named fewer times than ``times``."""
        named = self._named
        return [self._at(place) for place in self._places() if named.get(place, 0) < times]

    def forget_old(self, now: float) -> None:
        """Drop what is older than the buffer's age."""
        while self._count and self.oldest(now) + self.age <= now:
            self._drop(self._first)  # what came later may be older, and goes a little later
        if len(self._shelves) > 2 * self._count + FEWEST_SLOTS:
            self._lay_out()

    def between(self, publisher: int, after: int, before: int) -> list[Kept]:
        """The events of a publisher with a sequence number between these two, in their order."""
        shelf = self._shelf(publisher)
        if shelf is None:
            return []
        places = shelf.places
        if before - after <= len(places):
            within = [number for number in range(after + 1, before) if number in places]
        else:
            within = sorted([number for number in places if after < number < before])
        return [self._at(places[number]) for number in within]

    def matching(self, filter: Filter) -> list[Kept]:
        """The events that match a filter."""
        return [kept for kept in self.events() if filter.matches(kept.event.content)]

    # Where events lie

    def _at(self, place: int) -> Kept:
        """The event at a place."""
        kept = self._ring[place & self._mask]
        assert kept is not None
        return kept

    def _places(self) -> list[int]:
        """The places of all events."""
        ring, mask = self._ring, self._mask
        return [place for place in range(self._first, self._end) if ring[place & mask] is not None]

    def _find(self, publisher: int, sequence: int) -> int:
        """The place of an event; -1 if it is not kept."""
        shelf = self._shelf(publisher)
        return -1 if shelf is None else shelf.places.get(sequence, -1)

    def _shelf(self, publisher: int) -> Shelf | None:
        """A publisher's index, brought up to date."""
        for place in range(max(self._shelved, self._first), self._end):
            kept = self._ring[place & self._mask]
            if kept is not None:
                self._shelves[kept.publisher].places[kept.sequence] = place
        self._shelved = self._end
        return self._shelves.get(publisher)

    def _lay_out(self) -> None:
        """Move events to the front of the ring, without gaps; enlarge a ring more than 3/4 full."""
        kept = self.events()
        moved = {place: new for new, place in enumerate(self._places())}
        slots = self._mask + 1
        while 4 * len(kept) > 3 * slots:
            slots *= 2
        self._ring = [*kept, *([None] * (slots - len(kept)))]
        self._mask = slots - 1
        self._first = self._shelved = 0
        self._end = len(kept)
        shelves, self._shelves = self._shelves, {}
        for one in kept:
            shelf = shelves[one.publisher]
            shelf.places = {}
            self._shelves[one.publisher] = shelf
        self._named = {moved[place]: times for place, times in self._named.items()}
        self._spread = {moved[place]: times for place, times in self._spread.items()}
        self._ranks = [{moved[place]: None for place in rank} for rank in self._ranks]

    # What leaves

    def _make_room(self, size: int) -> None:
        while self._count >= self.most or self.bytes + size > self.most_bytes:
            self._drop(self._next())

    def _next(self) -> int:
        """Place of the event that leaves next."""
        if self.keeps_least_spread:
            for some in reversed(self._ranks):
                if some:
                    return next(iter(some))
        return self._first

    def _drop(self, place: int) -> None:
        kept = self._at(place)
        if place < self._shelved:
            del self._shelves[kept.publisher].places[kept.sequence]
        self._ring[place & self._mask] = None
        self._count -= 1
        self.bytes -= kept.size
        self._leaves(kept.publisher, kept.sequence, kept.time)
        if self._named:
            self._named.pop(place, None)
        if self.keeps_least_spread:
            del self._ranks[self._spread.pop(place, 0)][place]
        while self._first < self._end and self._ring[self._first & self._mask] is None:
            self._first += 1

    def _leaves(self, publisher: int, sequence: int, time: float) -> None:
        """Note that an event is kept no longer, or never was."""
        if publisher == self.own and sequence > self.dropped:
            self.dropped = sequence
        if time > self.left.get(publisher, NEVER):
            remember(self.left, publisher, time, MOST_LEFT)
