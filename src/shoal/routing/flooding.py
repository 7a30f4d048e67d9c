"""Flooding on any graph: every event over every link, duplicates dropped where they arrive.

The structure-less baseline of Frey (section 16.1) and of Costa and Picco (section 4).
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

from shoal.routing.event_forwarding import EventForwarding
from shoal.routing.messages import Forward
from shoal.stack.host import Host, NodeId
from shoal.stack.registry import NoParameters, register


@mypyc_attr(allow_interpreted_subclasses=True)
class Flooding(EventForwarding):
    """Every event over every link of a graph, once per node."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host, parameters)
        self._last: Any = None
        """The latest event: most copies are of it, and looking its id up waits for memory."""

    def receive(self, sender: NodeId, message: Forward) -> None:
        """On first receipt, deliver if wanted and pass on to all neighbours but the sender."""
        event: Any = message.event
        if event is self._last or not self.seen.first(event.id):
            return
        self._last = event
        if self.recovery is not None:
            self.recovery.seen(event, sender)
        if self.table.match(event.content):
            self.deliver(event, message.hops)
        self.host.send_all(self._all, Forward(event, message.hops + 1), sender)


register(
    "routing",
    "flooding",
    Flooding,
    needs={"links"},
    summary="Every event over every link of a graph, once per node.",
)
