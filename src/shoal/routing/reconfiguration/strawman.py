"""Strawman (Frey, section 5.1): a broken link unsubscribes, a new link subscribes, both at once.

Nothing beyond ordinary SUB and UNSUB. Right after every change, and wasteful: most of what the
break tears down, the new link restores.
"""

from __future__ import annotations

from shoal.routing.subscription_forwarding import ReconfigurationProtocol, SubscriptionForwarding
from shoal.stack import NodeId, Reconfiguration, register
from shoal.stack.registry import NoParameters


class Strawman(ReconfigurationProtocol):
    """Unsubscribe at once what a broken link brought, announce the table over a new one."""

    def __init__(self, routing: SubscriptionForwarding, parameters: NoParameters) -> None:
        super().__init__(routing)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.remove_entries(neighbour)
        self.routing.drop_neighbour(neighbour)


register(
    "reconfiguration", "strawman", Strawman, needs={"links", "tables"}, provides={"reconfiguration"}
)
