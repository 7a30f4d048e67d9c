"""Event forwarding (Frey, section 2.4.1): subscriptions stay at home, events visit every node.

On a tree each event crosses each link exactly once. There are no tables beyond the local one, so
nothing needs repair when a link is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from shoal.routing.messages import Forward
from shoal.routing.table import SubscriptionTable
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing
from shoal.stack.registry import NoParameters, register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message


class EventForwarding(Routing):
    """Every event over every tree link; subscriptions are never communicated."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host)
        self.table = SubscriptionTable()
        self.neighbours: dict[NodeId, None] = {}

    def handlers(self) -> dict[type[Message], Handler]:
        """Events only."""
        return {Forward: self.on_event}

    def publish(self, event: Event) -> None:
        """Send to all neighbours."""
        self._forward(LOCAL, event, 0)

    def subscribe(self, filter: Filter) -> None:
        """Remember it here."""
        self.table.add(LOCAL, filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Forget it here."""
        self.table.remove(LOCAL, filter)

    def on_event(self, sender: NodeId, message: Message) -> None:
        """Deliver if wanted here, and pass on to all neighbours but the sender."""
        forward = cast("Forward", message)
        self._forward(sender, forward.event, forward.hops)

    def _forward(self, sender: NodeId, event: Event, hops: int) -> None:
        if self.table.match(event.content):
            self.host.deliver(event, hops)
        onward = Forward(event, hops + 1)
        for neighbour in self.neighbours:
            if neighbour != sender:
                self.host.send(neighbour, onward)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One more neighbour."""
        self.neighbours[neighbour] = None

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One neighbour fewer."""
        self.neighbours.pop(neighbour, None)


register("routing", "event-forwarding", EventForwarding, needs={"tree"})
