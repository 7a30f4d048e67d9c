"""Filters and who wants them, in columns: forty bytes a filter where objects took two hundred."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from shoal.content.tables import Source
from shoal.live.numbers import Numbers
from shoal.stack import LOCAL

if TYPE_CHECKING:
    from shoal.content import Event, Filter

HERE: Final = (LOCAL,)
"""The sources of a filter that only this node wants: one object, since most are."""
LOAD: Final = 16
"""Filters in a bucket, on average at most."""


class Subscriber:
    """A receiver of deliveries at the edge."""

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """An event for the subscriptions of these numbers, and its encoding."""

    def missed(self, numbers: Sequence[int], count: int, reason: str, publisher: int = -1) -> None:
        """Report lost events (0: an unknown number) of these subscriptions (none: all)."""


class Several(dict[Subscriber, Numbers]):
    """Clients that want the same filter, and under which numbers."""


Who: TypeAlias = Subscriber | Several | None
"""One client is kept without any container: there may be a million filters, and most have one."""


class Entries:
    """Filters at places: small numbers, each given again once its filter is gone.

    A filter's place is found by linear hashing: whenever the filters have become more by a bucket's
    worth, one bucket is split in two, so that no insertion has to wait until all are moved.
    """

    def __init__(self) -> None:
        self.filters: list[Filter | None] = []
        self.sources: list[tuple[Source, ...]] = []
        """Which neighbours want the filter at a place, and whether this node's clients do."""
        self.who: list[Who] = []
        """Which of this node's clients."""
        self.numbers = array("I")
        """Number of the subscription, if it is one client."""
        self.handles = array("i")
        """Handle of each filter in the index."""
        self._alone: dict[Source, tuple[Source, ...]] = {LOCAL: HERE}
        self._free = array("i")
        self._buckets = [array("i")]
        self._half = 1
        """The largest power of two that is not above the number of buckets."""

    def __len__(self) -> int:
        return len(self.filters) - len(self._free)

    def __iter__(self) -> Iterator[int]:
        """The places of all filters."""
        return (place for place, filter in enumerate(self.filters) if filter is not None)

    def filter(self, place: int) -> Filter:
        """The filter at a place that is not free."""
        filter = self.filters[place]
        assert filter is not None
        return filter

    def find(self, filter: Filter) -> int:
        """The place of a filter, or -1."""
        filters = self.filters
        for place in self._bucket(filter):
            if filters[place] == filter:
                return place
        return -1

    def add(self, filter: Filter) -> int:
        """Give a place to a filter that has none; nobody wants it yet."""
        if self._free:
            place = self._free.pop()
            self.filters[place] = filter
        else:
            place = len(self.filters)
            self.filters.append(filter)
            self.sources.append(())
            self.who.append(None)
            self.numbers.append(0)
            self.handles.append(-1)
        self._bucket(filter).append(place)
        if len(self) > LOAD * len(self._buckets):
            self._split()
        return place

    def drop(self, place: int) -> None:
        """Forget the filter at a place."""
        self._bucket(self.filter(place)).remove(place)
        self.filters[place] = self.who[place] = None
        self.sources[place] = ()
        self.handles[place] = -1
        self._free.append(place)

    def _bucket(self, filter: Filter) -> array[int]:
        hashed = hash(filter)
        at = hashed & (2 * self._half - 1)
        return self._buckets[at if at < len(self._buckets) else at - self._half]

    def _split(self) -> None:
        """Add a bucket, and move to it the places that belong there, all from one bucket."""
        at = len(self._buckets) - self._half
        stay, move = array("i"), array("i")
        for place in self._buckets[at]:
            (move if hash(self.filters[place]) & self._half else stay).append(place)
        self._buckets[at] = stay
        self._buckets.append(move)
        if len(self._buckets) == 2 * self._half:
            self._half *= 2

    # Who wants it

    def add_source(self, place: int, source: Source) -> None:
        """One more source of the filter at a place."""
        sources = self.sources[place]
        if sources:
            self.sources[place] = (*sources, source)
        else:
            self.sources[place] = self._alone.setdefault(source, (source,))

    def remove_source(self, place: int, source: Source) -> None:
        """One fewer."""
        left = tuple([other for other in self.sources[place] if other != source])
        self.sources[place] = self._alone.get(left[0], left) if len(left) == 1 else left

    def forget_source(self, source: Source) -> None:
        """A source wants nothing any more."""
        if source != LOCAL:
            self._alone.pop(source, None)

    def add_client(self, place: int, client: Subscriber, number: int) -> None:
        """One more client that wants the filter at a place."""
        who = self.who[place]
        if who is None:
            self.who[place], self.numbers[place] = client, number
            return
        if not isinstance(who, Several):
            who = self.who[place] = Several({who: Numbers((self.numbers[place],))})
        who.setdefault(client, Numbers()).add(number)

    def remove_client(self, place: int, client: Subscriber, number: int) -> None:
        """One fewer."""
        who = self.who[place]
        if isinstance(who, Several):
            numbers = who.get(client)
            if numbers is not None and numbers.remove(number) and not len(numbers):
                del who[client]
                if not who:
                    self.who[place] = None
        elif who is client and self.numbers[place] == number:
            self.who[place] = None

    def move_clients(self, place: int, to: Entries, there: int) -> None:
        """Move the clients of a filter to its place in another table."""
        to.who[there], to.numbers[there] = self.who[place], self.numbers[place]
        self.who[place] = None
