"""The edge of the network: which of a broker's own clients want an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from shoal.content import AttributeFilter, Event, Filter
from shoal.live.edge_table import EdgeTable, ScanOf
from shoal.live.entries import Entries, Several, Subscriber
from shoal.live.wire import content_of
from shoal.stack import LOCAL


class Edge:
    """The subscriptions of a broker's clients.

    Clients are noted in the entries of the routing's tables, so that a filter is held once.
    """

    def __init__(self, scan_of: ScanOf | None = None) -> None:
        self._scan_of = scan_of
        self.characters = 0
        """Characters of all clients' filters."""
        self.tables: list[EdgeTable] = []
        self._coming = Entries()
        """Filters of clients that the routing has not inserted into a table yet."""

    def __len__(self) -> int:
        return len(self._coming) + sum(table.here for table in self.tables)

    def table(self) -> EdgeTable:
        """A new table for the routing."""
        table = EdgeTable(self._coming, self._scan_of)
        self.tables.append(table)
        return table

    @property
    def scanning(self) -> int:
        """Steps of all filters that no index evaluates, those of other brokers included."""
        return sum(table.scanning for table in self.tables)

    def scan(self, filter: Filter) -> int:
        """Steps that one filter adds to :attr:`scanning`; 0 if it is not here."""
        return max((table.scan(filter) for table in self.tables), default=0)

    def __contains__(self, filter: Filter) -> bool:
        return any(True for _ in self._places(filter))

    def add(self, client: Subscriber, number: int, filter: Filter) -> tuple[Filter, bool]:
        """Add a client's filter; return the one copy of it, and whether no client here had it."""
        held = None
        for entries, place in self._places(filter):
            held = entries.filter(place)
            if entries is self._coming or LOCAL in entries.sources[place]:
                entries.add_client(place, client, number)
                return held, False
        if held is not None:
            filter = held
        elif isinstance(filter, AttributeFilter):
            filter = filter.slim()
        self._coming.add_client(self._coming.add(filter), client, number)
        return filter, True

    def remove(self, client: Subscriber, number: int, filter: Filter) -> bool:
        """Remove a client's filter; True if no client here wants it any more."""
        for entries, place in self._places(filter):
            if entries is self._coming or LOCAL in entries.sources[place]:
                entries.remove_client(place, client, number)
                if entries.who[place] is not None:
                    return False
                if entries is self._coming:
                    entries.drop(place)
                return True
        return False

    def _places(self, filter: Filter) -> Iterator[tuple[Entries, int]]:
        """The entries that hold a filter, and its place there."""
        for entries in (*(table.entries for table in self.tables), self._coming):
            place = entries.find(filter)
            if place >= 0:
                yield entries, place

    def filters(self) -> list[Filter]:
        """Filters of the clients here, each once."""
        coming = [self._coming.filter(place) for place in self._coming]
        return [*coming, *(f for table in self.tables for f in table.filters_here())]

    def wanting(self, filter: Filter) -> dict[Subscriber, list[int]]:
        """Clients that want exactly this filter, with their numbers for it."""
        found: dict[Subscriber, list[int]] = {}
        for entries, place in self._places(filter):
            who = entries.who[place]
            if isinstance(who, Several):
                for one, numbers in who.items():
                    found.setdefault(one, []).extend(numbers)
            elif who is not None:
                found.setdefault(who, []).append(entries.numbers[place])
        return found

    def deliver(self, event: Event, raw: bytes = b"", again: bool = False) -> int:
        """Deliver an event to all subscribers here; return how many there were.

        ``raw`` is its encoding, if known. What is delivered again is for clients only, as they
        ignore what they had.
        """
        found: dict[Subscriber, list[int]] = {}
        content = event.content
        for table in self.tables:
            entries = table.entries
            for place in table.local(content):
                who = entries.who[place]
                if isinstance(who, Several):
                    for one, numbers in who.items():
                        found.setdefault(one, []).extend(numbers)
                elif who is not None:
                    if who in found:
                        found[who].append(entries.numbers[place])
                    else:
                        found[who] = [entries.numbers[place]]
        if found:
            raw = raw or content_of(event)
            for subscriber, mine in found.items():
                if not (again and isinstance(subscriber, Listener)):
                    subscriber.deliver(mine, event, raw)
        return len(found)


class Listener(Subscriber):
    """A callback in the broker's own process."""

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self._callback = callback

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        self._callback(event)
