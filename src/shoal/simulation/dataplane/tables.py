"""Forwarding by tables on arrays: over the links in whose direction a pattern was subscribed to."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of kernels; annotations would say less than the names do.

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.routing import AdvertisementForwarding, HierarchicalForwarding, SubscriptionForwarding
from shoal.routing.table import TableWatcher
from shoal.simulation.dataplane import changes
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.forwarding import Forwarding, forwards
from shoal.simulation.dataplane.mirror import Mirror, Tap, pattern_number
from shoal.simulation.dataplane.rules import direction_matches, kernel
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Filter

PARENT = s.PARENT


@kernel(inline="always")
def choose(
    picks, slots, rule, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # what it sees, then what it is asked
    """The slots with a pattern of the event, but the sender's."""
    chosen = 0
    for k in range(slots):
        near = link[node, k, s.NEIGHBOUR]
        if near != sender and direction_matches(mask, node, k, 0, bits, event):
            picks[chosen] = k
            chosen += 1
    return chosen, 0


@kernel(inline="always")
def choose_upwards(
    picks, slots, rule, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # what it sees, then what it is asked
    """The parent in any case; downwards the slots with a pattern of the event."""
    chosen = 0
    above = np.int64(parent[node, 0])
    if above >= 0 and above != sender:
        picks[chosen] = PARENT
        chosen += 1
    for k in range(slots):
        near = link[node, k, s.NEIGHBOUR]
        if near not in (sender, above) and direction_matches(mask, node, k, 0, bits, event):
            picks[chosen] = k
            chosen += 1
    return chosen, 0


class TableMirror(TableWatcher):
    """For subscription forwarding: slots are the sources that hold a pattern, as they came."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        self.mirror = mirror
        self.node = node
        self.held: dict[NodeId, int] = {}
        """How many patterns each source holds."""

    def added(self, source: NodeId, filter: Filter) -> None:
        if source != LOCAL:
            held = self.held.get(source, 0)
            self.held[source] = held + 1
            if not held:
                self.mirror.add_slot(self.node, source)
            self.mirror.change(changes.PUT, self.node, source, 0, pattern_number(filter))

    def removed(self, source: NodeId, filter: Filter) -> None:
        if source != LOCAL:
            self.held[source] -= 1
            if self.held[source]:
                self.mirror.change(changes.CLEAR, self.node, source, 0, pattern_number(filter))
            else:
                self.mirror.drop_slot(self.node, source)


class HierarchyMirror(TableMirror):
    """For hierarchical forwarding: a node's parent as well, while it is a neighbour."""

    def __init__(self, mirror: Mirror, routing: HierarchicalForwarding) -> None:
        super().__init__(mirror, routing.host.node)
        self.routing = routing

    def neighbours_changed(self) -> None:
        parent = self.routing.parent
        if parent not in self.routing.neighbours:
            parent = -1
        channel = self.mirror.channels.get((self.node, parent), -1)
        self.mirror.change(changes.HANG, self.node, parent, channel)


def table_tap(mirror: Mirror, routing: SubscriptionForwarding) -> Tap:
    """For routings by tables alone."""
    routing.table.watcher = TableMirror(mirror, routing.host.node)
    return Tap(mirror, routing)


class HierarchyTap(Tap):
    """For hierarchical forwarding."""

    def __init__(self, mirror: Mirror, routing: HierarchicalForwarding) -> None:
        super().__init__(mirror, routing)
        self.watcher = HierarchyMirror(mirror, routing)
        routing.table.watcher = self.watcher

    def parent_changed(self, parent: NodeId) -> None:
        """Turn towards another parent."""
        super().parent_changed(parent)
        self.watcher.neighbours_changed()


forwards(SubscriptionForwarding, Forwarding("tables", choose, table_tap))
forwards(AdvertisementForwarding, Forwarding("tables", choose, table_tap))
forwards(HierarchicalForwarding, Forwarding("hierarchy", choose_upwards, HierarchyTap))
