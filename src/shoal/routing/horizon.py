"""Subscriptions that travel a few hops: the table of those around a node, and what all do with it.

The table holds what is wanted, in which direction, and how far away the nearest subscriber is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy_extensions import mypyc_attr

from shoal.content.tables import FilterTable, Source
from shoal.routing.allowance import Allowance
from shoal.routing.seen import Seen
from shoal.routing.semiprobabilistic_messages import Gone, Near, Spread
from shoal.routing.table import TableWatcher
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing

if TYPE_CHECKING:
    from shoal.content import Content, Event, Filter
    from shoal.stack.message import Message


class HorizonTable:
    """Per source and filter the distance of the nearest subscriber; 0 is this node itself.

    Iteration follows insertion order everywhere, so that a run does not depend on hashing.
    """

    def __init__(self, host: Host | None = None, allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self._host = host
        """Makes the tables that match; without it, the filters do."""
        self._distances: dict[Filter, dict[Source, int]] = {}
        self._alone: dict[tuple[Source, int], dict[Source, int]] = {}
        """Most filters have one source: those alike share one of these, which is never changed."""
        self._filters: dict[Source, dict[Filter, None]] = {}
        self._matching: dict[int, FilterTable] = {}
        self._leaves: dict[Source, tuple[Filter, ...]] = {}
        self.watcher: TableWatcher | None = None
        self.changes = 0
        """How often the table has changed."""

    def __len__(self) -> int:
        return sum([len(filters) for filters in self._filters.values()])

    def put(self, source: Source, filter: Filter, distance: int) -> bool:
        """Add an entry or change its distance; False if it was there just so."""
        distances = self._distances.get(filter)
        before = -1 if distances is None else distances.get(source, -1)
        if before == distance:
            return False
        self.changes += 1
        if distances is None or (before >= 0 and len(distances) == 1):
            self._distances[filter] = self._only(source, distance)
        else:
            if len(distances) == 1:
                distances = distances.copy()
                self._distances[filter] = distances
            distances[source] = distance
        if before >= 0:
            self._matching[before].remove(source, filter)
        else:
            filters = self._filters.get(source)
            if filters is None:
                filters = {}
                self._filters[source] = filters
            filters[filter] = None
            if self._allowance is not None:
                self._allowance.added(source, filter)
        matching = self._matching.get(distance)
        if matching is None:
            matching = filter.table() if self._host is None else self._host.table(filter)
            self._matching[distance] = matching
        matching.insert(source, filter)
        if self.watcher is not None:
            self.watcher.entry(source, filter, before, distance)
        return True

    def remove(self, source: Source, filter: Filter) -> bool:
        """Remove an entry; False if it was not there."""
        distances = self._distances.get(filter)
        if distances is None or source not in distances:
            return False
        self.changes += 1
        before = distances[source]
        if len(distances) == 1:
            del self._distances[filter]
        else:
            del distances[source]
        filters = self._filters[source]
        del filters[filter]
        if not filters:
            del self._filters[source]
        self._matching[before].remove(source, filter)
        if self._allowance is not None:
            self._allowance.removed(source, filter)
        if self.watcher is not None:
            self.watcher.entry(source, filter, before, -1)
        return True

    def _only(self, source: Source, distance: int) -> dict[Source, int]:
        """The distances of a filter that only one source wants."""
        alone = self._alone.get((source, distance))
        if alone is None:
            alone = {source: distance}
            if len(self._alone) >= 1024:  # of sources that are gone, mostly
                self._alone.clear()
            self._alone[source, distance] = alone
        return alone

    def nearest(self, filter: Filter, horizon: int) -> tuple[Source, int, int]:
        """The nearest source within the horizon, its distance, and that of the nearest other one.

        -1 stands for none.
        """
        first, near, next_near = -2, -1, -1
        distances = self._distances.get(filter)
        if distances is not None:
            for source, distance in distances.items():
                if distance >= horizon:
                    continue
                if near < 0 or distance < near:
                    first, near, next_near = source, distance, near
                elif next_near < 0 or distance < next_near:
                    next_near = distance
        return first, near, next_near

    def layers(self, farthest: int) -> list[tuple[int, int]]:
        """Per distance of the nearest subscriber: how many filters, over how many links in all."""
        filters = [0] * (farthest + 1)
        links = [0] * (farthest + 1)
        for distances in self._distances.values():
            near = farthest + 1
            count = 0
            for distance in distances.values():
                if distance < near:
                    near = distance
                    count = 1
                elif distance == near:
                    count += 1
            if near <= farthest:
                filters[near] += 1
                links[near] += count
        return list(zip(filters, links, strict=True))

    def filters(self) -> list[Filter]:
        """Every distinct filter, in the order they came."""
        return list(self._distances)

    def filters_of(self, source: Source) -> list[Filter]:
        """What lies in one direction, in the order it came."""
        filters = self._filters.get(source)
        return [] if filters is None else list(filters)

    def has(self, source: Source, filter: Filter) -> bool:
        """Whether there is an entry."""
        distances = self._distances.get(filter)
        return distances is not None and source in distances

    def sources(self, filter: Filter) -> list[Source]:
        """Where subscribers of this very filter are, in the order they came."""
        distances = self._distances.get(filter)
        return [] if distances is None else list(distances)

    def match(self, content: Content, distance: int) -> list[Source]:
        """The sources with a matching subscription at exactly this distance."""
        matching = self._matching.get(distance)
        return [] if matching is None else matching.match(content)

    def put_leaf(self, neighbour: Source, filters: tuple[Filter, ...] | None) -> None:
        """Remember that a neighbour has no other link, and what it wants; None: that it has."""
        if filters is not None:
            self._leaves[neighbour] = filters
        elif self._leaves.pop(neighbour, None) is None:
            return
        if self.watcher is not None:
            self.watcher.leaf(neighbour, filters)

    def may_want(self, neighbour: Source, content: Content) -> bool:
        """False if the neighbour leads nowhere and does not want the event itself."""
        filters = self._leaves.get(neighbour)
        if filters is None:
            return True
        for filter in filters:  # noqa: SIM110  # a generator would not be compiled
            if filter.matches(content):
                return True
        return False

    def entries(self) -> dict[tuple[Source, Filter], int]:
        """The whole table, for comparison with another."""
        return {
            (source, filter): distance
            for filter, distances in self._distances.items()
            for source, distance in distances.items()
        }


@mypyc_attr(allow_interpreted_subclasses=True)
class HorizonRouting(Routing):
    """Handles each event once, and has a table of the subscribers around.

    A routing adds how an event goes on (``pass_on``) and how neighbours are told of subscribers
    (``announce_change``).
    """

    def __init__(self, host: Host, horizon: int) -> None:
        super().__init__(host)
        self.horizon = horizon
        self.allowance = Allowance(host)
        self.table = HorizonTable(host, self.allowance if self.allowance.bounded else None)
        self.doubted: dict[NodeId, dict[Filter, None]] = {}
        """Filters that a neighbour announced before it was away, and not since it is back."""
        self.seen = Seen()

    def handlers(self) -> dict[type[Message], Handler]:
        return {Spread: self.on_event, Near: self.on_subscription, Gone: self.on_unsubscription}

    # Events

    def publish(self, event: Event) -> None:
        self.seen.first(event.id)
        self.on_first_arrival(LOCAL, Spread(event, 0, 0))

    def on_event(self, sender: NodeId, message: Message) -> None:
        """On first arrival, deliver if wanted and pass on; drop any later copy."""
        spread = cast("Spread", message)
        event = spread.event
        if self.seen.first(event.id):
            self.on_first_arrival(sender, spread)
        else:
            self.host.stopped(event, "duplicate", spread.hops, spread.deterministic)

    def on_first_arrival(self, sender: NodeId, spread: Spread) -> None:
        """An event is here for the first time."""
        event = spread.event
        if self.recovery is not None:
            self.recovery.seen(event, sender)
        if self.table.match(event.content, 0):
            self.deliver(event, spread.hops)
        self.pass_on(sender, spread)

    def pass_on(self, sender: NodeId, spread: Spread) -> None:
        """Send an event on, or say that it goes no further."""
        raise NotImplementedError

    # Subscriptions

    def subscribe(self, filter: Filter) -> None:
        if self.table.put(LOCAL, filter, 0):
            self.changed_here(filter)

    def unsubscribe(self, filter: Filter) -> None:
        if self.table.remove(LOCAL, filter):
            self.changed_here(filter)

    def changed_here(self, filter: Filter) -> None:
        """The application has begun or ceased to want this."""
        self.announce_change(filter)

    def on_subscription(self, sender: NodeId, message: Message) -> None:
        """A subscriber at a distance beyond a link."""
        near = cast("Near", message)
        if sender not in self.neighbours:
            return
        filter: Filter = near.filter
        distance = near.distance
        if self.allowance.bounded:
            kept = self.table.has(sender, filter)
            filter = self.allowance.admit(sender, filter, kept, near.again)
            if filter == filter.everything() and sender in self.allowance.excess:
                distance = 1
        if sender in self.doubted:
            self.doubted[sender].pop(filter, None)
        if self.table.put(sender, filter, distance):
            self.announce_change(filter)

    def on_unsubscription(self, sender: NodeId, message: Message) -> None:
        """None beyond this link any more."""
        filter = cast("Gone", message).filter
        gone: Filter | None = filter
        if self.allowance.bounded:
            gone = self.allowance.retract(sender, filter, self.table.has(sender, filter))
        if gone is not None and self.table.remove(sender, gone):
            self.announce_change(gone)

    def announce_change(self, filter: Filter) -> None:
        """Bring what the neighbours were told about a filter up to date."""
        raise NotImplementedError

    def filters(self) -> list[Filter]:
        return self.table.filters_of(LOCAL)

    def known_filters(self) -> list[Filter]:
        return self.table.filters()

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """The neighbours towards the nearest subscribers; all of them if none is known."""
        near = [n for n in self.table.sources(filter) if n != LOCAL]
        near += [n for n in self.allowance.excess if n not in near]
        return near or list(self.neighbours)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """A neighbour is new, or is back if it was there already."""
        if neighbour in self.neighbours:
            self.doubted[neighbour] = dict.fromkeys(self.table.filters_of(neighbour))
            self.allowance.forget(neighbour)
        self.neighbours[neighbour] = None

    def link_renewed(self, neighbour: NodeId) -> None:
        """As if the neighbour had unsubscribed from what it did not announce again."""
        self.remove_entries(neighbour, list(self.doubted.pop(neighbour, {})))

    def remove_entries(self, neighbour: NodeId, filters: list[Filter]) -> None:
        """Remove filters of a neighbour, and tell the others what follows from that."""
        for filter in filters:
            self.table.remove(neighbour, filter)
            self.announce_change(filter)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """As if the lost neighbour had unsubscribed from everything it brought."""
        self.neighbours.pop(neighbour, None)
        self.allowance.forget(neighbour)
        self.doubted.pop(neighbour, None)
        self.remove_entries(neighbour, self.table.filters_of(neighbour))
