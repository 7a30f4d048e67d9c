"""Flooding on any graph: every event over every link, duplicates dropped where they arrive.

The structure-less baseline of Frey (section 16.1) and of Costa and Picco (section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from shoal.routing.event_forwarding import EventForwarding
from shoal.routing.messages import Forward
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.registry import NoParameters, register

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.stack.message import Message


class Flooding(EventForwarding):
    """Every event over every link of a graph, once per node."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host, parameters)
        self.seen: set[tuple[int, int]] = set()

    def publish(self, event: Event) -> None:
        """Send to all neighbours."""
        self.seen.add((event.publisher, event.sequence))
        self._forward(LOCAL, event, 0)

    def on_event(self, sender: NodeId, message: Message) -> None:
        """On first receipt, deliver if wanted and pass on to all neighbours but the sender."""
        forward = cast("Forward", message)
        event = forward.event
        key = (event.publisher, event.sequence)
        if key not in self.seen:
            self.seen.add(key)
            self._forward(sender, event, forward.hops)


register("routing", "flooding", Flooding, needs={"links"})
