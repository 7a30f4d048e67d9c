"""Forwarding by tables on arrays: over the links in whose direction a pattern was subscribed to."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of kernels; annotations would say less than the names do.

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.routing import AdvertisementForwarding, HierarchicalForwarding, SubscriptionForwarding
from shoal.simulation.dataplane import changes
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.forwarding import Forwarding, forwards
from shoal.simulation.dataplane.kernels import direction_matches, kernel
from shoal.simulation.dataplane.mirror import Mirror

PARENT = s.PARENT


@kernel(inline="always")
def choose(
    picks, slots, setup, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # what it sees, then what it is asked
    """The parent always, if there is one; and the slots with a pattern of the event."""
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


def hang(mirror: Mirror, routing: HierarchicalForwarding) -> None:
    """Note a node's parent, while that is a neighbour."""
    node = routing.host.node
    parent = routing.parent if routing.parent in routing.neighbours else -1
    channel = mirror.channels.get((node, parent), -1)
    mirror.change(changes.HANG, node, parent, channel)


BY_TABLES = Forwarding("tables", choose, links_are_slots=False)
forwards(SubscriptionForwarding, BY_TABLES)
forwards(AdvertisementForwarding, BY_TABLES)
forwards(HierarchicalForwarding, replace(BY_TABLES, tune=hang))
