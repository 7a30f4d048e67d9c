"""Semi-probabilistic routing by radio: one transmission reaches all neighbours.

Costa and Picco (section 6) hint at this variant for mobile ad hoc networks: where a broadcast costs
one message, a node decides not over which links to send an event on, but whether to send it on at
all. The rules, after theirs for links:

* A subscription is told to all neighbours at once, with the distance of the nearest subscriber; it
  travels ``horizon`` (phi) hops. What neighbours tell is kept per neighbour, and forgotten with it.
* A publisher transmits its event. Whoever hears an event for the first time transmits it again if a
  neighbour other than the one it came from has a matching subscriber within the horizon; and
  otherwise with probability ``threshold`` (tau), as in gossiping (their reference 11).

``threshold = 1`` is flooding by broadcast: one message per node and event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mypy_extensions import mypyc_attr

from shoal.routing.horizon import HorizonTable
from shoal.routing.parameters import BroadcastParameters
from shoal.routing.seen import Seen
from shoal.routing.semiprobabilistic_messages import Gone, Near, Spread
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Broadcast(Routing):
    """Every node that hears an event decides whether to transmit it again."""

    def __init__(self, host: Host, parameters: BroadcastParameters) -> None:
        super().__init__(host)
        self.horizon = parameters.horizon
        self.threshold = parameters.threshold
        self.table = HorizonTable()
        self.neighbours: dict[NodeId, None] = {}
        self.told: dict[Filter, int] = {}
        """What was last transmitted about each filter."""
        self.seen = Seen()
        self.chance = host.chance("rebroadcast")
        self.jitter = parameters.jitter
        self.jitter_chance = host.chance("rebroadcast jitter")

    def handlers(self) -> dict[type[Message], Handler]:
        """Events and (un)subscriptions."""
        return {
            Spread: self.on_event,
            Near: self.on_subscription,
            Gone: self.on_unsubscription,
        }

    # Events

    def publish(self, event: Event) -> None:
        """Transmit."""
        self.seen.add(event.publisher, event.sequence)
        if self.recovery is not None:
            self.recovery.seen(event)
        if self.table.match(event.content, 0):
            self.deliver(event, 0)
        self._transmit(Spread(event, 1, 0))

    def on_event(self, sender: NodeId, message: Message) -> None:
        """On hearing an event for the first time: deliver if wanted, and perhaps transmit it."""
        spread = cast("Spread", message)
        event = spread.event
        if not self.seen.add(event.publisher, event.sequence):
            self.host.stopped(event, "duplicate", spread.hops, spread.deterministic)
            return
        if self.recovery is not None:
            self.recovery.seen(event, sender)
        if self.table.match(event.content, 0):
            self.deliver(event, spread.hops)
        known = self._wanted_beyond(sender, event)
        if known or self._by_chance(event):
            self._transmit_later(spread.onward(known))
        else:
            self.host.stopped(event, "end", spread.hops, spread.deterministic)

    def _wanted_beyond(self, sender: NodeId, event: Event) -> bool:
        """Whether a neighbour that did not send the event leads to a subscriber."""
        for distance in range(1, self.horizon + 1):
            for source in self.table.match(event.content, distance):
                if source != sender:
                    return True
        return False

    def _by_chance(self, event: Event) -> bool:
        draw = self.chance.uniform(event.publisher, event.sequence, self.host.node)
        return draw < self.threshold

    def _transmit_later(self, spread: Spread) -> None:
        if not self.jitter:
            self._transmit(spread)
            return
        event = spread.event
        wait = self.jitter_chance.uniform(event.publisher, event.sequence, self.host.node)
        self.host.after(wait * self.jitter, lambda: self._transmit(spread))

    def _transmit(self, message: Message) -> None:
        self.host.broadcast(message)

    # Subscriptions

    def subscribe(self, filter: Filter) -> None:
        """The application wants this: a subscriber at distance 0."""
        if self.table.put(LOCAL, filter, 0):
            self._tell(filter)

    def unsubscribe(self, filter: Filter) -> None:
        """The application no longer wants this."""
        if self.table.remove(LOCAL, filter):
            self._tell(filter)

    def on_subscription(self, sender: NodeId, message: Message) -> None:
        """A subscriber at a distance by way of a neighbour."""
        near = cast("Near", message)
        if sender in self.neighbours and self.table.put(sender, near.filter, near.distance):
            self._tell(near.filter)

    def on_unsubscription(self, sender: NodeId, message: Message) -> None:
        """None by way of this neighbour any more."""
        filter = cast("Gone", message).filter
        if self.table.remove(sender, filter):
            self._tell(filter)

    def _tell(self, filter: Filter) -> None:
        """Transmit how far the nearest subscriber is, if that is news.

        Neighbours hear their own subscriptions back, two hops farther. When a subscriber leaves,
        such echoes grow with every exchange until they pass the horizon, and are gone.
        """
        near = self.table.nearest(filter, self.horizon)[1]
        if near >= 0:
            if self.told.get(filter) != near + 1:
                self.told[filter] = near + 1
                self._transmit(Near(filter, near + 1))  # type: ignore[arg-type]  # wire union
        elif filter in self.told:
            del self.told[filter]
            self._transmit(Gone(filter))  # type: ignore[arg-type]  # wire union

    def filters(self) -> list[Filter]:
        """See :class:`~shoal.stack.layer.Routing`."""
        return self.table.filters_of(LOCAL)

    def known_filters(self) -> list[Filter]:
        """All filters of the table."""
        return self.table.filters()

    def linked(self) -> list[NodeId]:
        """See :class:`~shoal.stack.layer.Routing`."""
        return list(self.neighbours)

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """The neighbours towards the nearest subscribers; all of them if none is known."""
        near = [n for n in self.table.sources(filter) if n != LOCAL]
        return near or list(self.neighbours)

    def certain(self) -> bool:
        """If all nodes transmit all events."""
        return self.threshold >= 1.0

    # Links

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Tell the new neighbour alone what the others have heard."""
        self.neighbours[neighbour] = None
        for filter, distance in self.told.items():
            self.host.send(neighbour, Near(filter, distance))  # type: ignore[arg-type]  # wire union

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """As if the lost neighbour had unsubscribed from everything it told."""
        self.neighbours.pop(neighbour, None)
        for filter in self.table.filters_of(neighbour):
            self.table.remove(neighbour, filter)
            self._tell(filter)


register(
    "routing",
    "broadcast",
    Broadcast,
    BroadcastParameters,
    needs={"links"},
    summary="By radio: whoever hears an event decides whether to transmit it again.",
)
