"""Flooding on any graph: every event over every link, duplicates dropped where they arrive.

The structure-less baseline of Frey (section 16.1) and of Costa and Picco (section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from shoal.routing.event_forwarding import EventForwarding
from shoal.routing.messages import Forward
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.registry import NoParameters, register

if TYPE_CHECKING:
    from shoal.content import Event


@mypyc_attr(allow_interpreted_subclasses=True)
class Flooding(EventForwarding):
    """Every event over every link of a graph, once per node."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host, parameters)
        self._last: Any = None
        """The latest event: most copies are of it, and looking its id up waits for memory."""

    def publish(self, event: Event) -> None:
        self.seen.first(event.id)
        self._forward(LOCAL, event, 0)

    def receive(self, sender: NodeId, message: Forward) -> None:
        """On first receipt, deliver if wanted and pass on to all neighbours but the sender."""
        event: Any = message.event
        if event is self._last or not self.seen.first(event.id):
            return
        self._last = event
        self._forward(sender, event, message.hops)


register(
    "routing",
    "flooding",
    Flooding,
    needs={"links"},
    summary="Every event over every link of a graph, once per node.",
)
