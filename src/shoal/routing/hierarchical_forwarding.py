"""Hierarchical forwarding (Frey, section 2.4.1): subscriptions and events climb to the root.

On a rooted tree a dispatcher tells its subscriptions only to its parent. An event always climbs to
the root, and every dispatcher on its way sends a copy down each branch that wants it. Tables hold
only what lies below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from shoal.routing.messages import Forward
from shoal.routing.parameters import SubscriptionForwardingParameters
from shoal.routing.subscription_forwarding import SubscriptionForwarding
from shoal.stack.host import LOCAL, NodeId
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event, Filter


@mypyc_attr(allow_interpreted_subclasses=True)
class HierarchicalForwarding(SubscriptionForwarding):
    """Subscriptions climb to the root; events climb too, and fork where they are wanted."""

    parent: NodeId = LOCAL

    def parent_changed(self, parent: NodeId) -> None:
        """Tell the new parent what is wanted here and below, then let the old one forget it."""
        old = self.parent
        if parent == old:
            return
        self.parent = parent
        if parent in self.neighbours:
            self.announce_table(parent)
        for filter in list(self.announced.get(old, {})):
            self.retract(old, filter)
        if self.table.watcher is not None:
            self.table.watcher.tuned()

    def allows(self, neighbour: NodeId, filter: Filter) -> bool:
        """Subscriptions travel upwards only."""
        return neighbour == self.parent

    def forward(self, sender: NodeId, event: Event, hops: int) -> None:
        """Up to the parent in any case, down where it is wanted."""
        if not self.first_arrival(sender, event):
            return
        onward = Forward(event, hops + 1)
        parent = self.parent
        if parent != sender and parent in self.neighbours:
            self.host.send(parent, onward)
        for source in self.table.match(event.content):
            if source == LOCAL:
                self.deliver(event, hops)
            elif source not in (sender, parent):
                self.host.send(source, onward)

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """Upwards in any case, and down where it was subscribed to."""
        below = [n for n in super().next_hops(filter) if n != self.parent]
        return [self.parent, *below] if self.parent in self.neighbours else below


register(
    "routing",
    "hierarchical-forwarding",
    HierarchicalForwarding,
    SubscriptionForwardingParameters,
    needs={"tree", "root", "reconfiguration"},
    provides={"tables"},
    summary="Subscriptions and events climb towards the root of a tree.",
)
