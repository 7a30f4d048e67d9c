"""Event forwarding and flooding on arrays: over all links but the one that an event came by."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of kernels; annotations would say less than the names do.

from __future__ import annotations

from shoal.routing import EventForwarding, Flooding
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.forwarding import Forwarding, forwards
from shoal.simulation.dataplane.mirror import NeighbourTap
from shoal.simulation.dataplane.rules import kernel


@kernel(inline="always")
def choose(
    picks, slots, rule, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # what it sees, then what it is asked
    """All slots but the sender's."""
    chosen = 0
    for k in range(slots):
        if link[node, k, s.NEIGHBOUR] != sender:
            picks[chosen] = k
            chosen += 1
    return chosen, 0


forwards(EventForwarding, Forwarding("event_forwarding", choose, NeighbourTap, tables=False))
forwards(
    Flooding,
    Forwarding("flooding", choose, NeighbourTap, remembers=True, floods=True, tables=False),
)
