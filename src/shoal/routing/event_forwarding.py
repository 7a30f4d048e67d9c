"""Event forwarding (Frey, section 2.4.1): subscriptions stay at home, events visit every node.

On a tree each event crosses each link exactly once. There are no tables beyond the local one, so
nothing needs repair when a link is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from shoal.routing.messages import Forward
from shoal.routing.seen import Seen
from shoal.routing.table import SubscriptionTable
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing
from shoal.stack.registry import NoParameters, register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class EventForwarding(Routing):
    """Every event over every tree link; subscriptions are never communicated."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host)
        self.table = SubscriptionTable(host)
        self._all: tuple[NodeId, ...] = ()
        self.seen = Seen()
        """Events that have been here; kept where one may come twice."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {Forward: self.receive}

    def publish(self, event: Event) -> None:
        self.receive(LOCAL, Forward(event, 0))

    def subscribe(self, filter: Filter) -> None:
        self.table.add(LOCAL, filter)

    def unsubscribe(self, filter: Filter) -> None:
        self.table.remove(LOCAL, filter)

    def receive(self, sender: NodeId, message: Forward) -> None:
        """Deliver if wanted here, and pass on to all neighbours but the sender."""
        event: Any = message.event
        if not self.moving or self.seen.first(event.id):
            if self.recovery is not None:
                self.recovery.seen(event, sender)
            if self.table.match(event.content):
                self.deliver(event, message.hops)
        self.host.send_all(self._all, Forward(event, message.hops + 1), sender)

    def filters(self) -> list[Filter]:
        return self.table.filters_of(LOCAL)

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """All neighbours: somebody beyond each of them may want it."""
        return list(self.neighbours)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        if neighbour not in self.neighbours:
            self.neighbours[neighbour] = None
            self._all += (neighbour,)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.neighbours.pop(neighbour, None)
        self._all = tuple(self.neighbours)


register(
    "routing",
    "event-forwarding",
    EventForwarding,
    needs={"tree"},
    summary="Every event over every tree link; subscriptions are never communicated.",
)
