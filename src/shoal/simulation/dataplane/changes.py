"""Changes of the tables, carried out on the arrays many at a time. Compiled, cached on disk.

A change is a row (what, node, source, a, b). Of a slot: ADD_SLOT (a: its channel), DROP_SLOT,
POINT (a: another channel, -1 for none), PUT and CLEAR (a: level, b: pattern), IS_LEAF (a: whether),
LEAF_WISH (a: pattern). Of a node: WISH (source: the pattern, a: whether it is wanted), LIMITS
(source: horizon, a: links to use, b: links a publisher uses), HANG (source: parent, a: channel),
CRASH.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.kernels import ZERO, bit_of, kernel
from shoal.simulation.dataplane.state import State

ADD_SLOT, DROP_SLOT, POINT, PUT, CLEAR, IS_LEAF, LEAF_WISH, WISH, LIMITS, HANG, CRASH = range(11)


@kernel
def carry_out(changes, state: State):
    """Bring the arrays up to date. Changes of a slot that has been dropped are ignored."""
    limits, parent = state.nodes.limits, state.nodes.parent
    link, leaf = state.nodes.link, state.nodes.leaf
    mask, leaf_mask, local = state.nodes.mask, state.nodes.leaf_mask, state.nodes.local
    subscribers, now = state.subscribers, state.now
    for i in range(len(changes)):
        what, node, source = changes[i, 0], changes[i, 1], changes[i, 2]
        a, b = changes[i, 3], changes[i, 4]
        if what == LIMITS:
            limits[node, s.HORIZON] = source
            limits[node, s.FANOUT] = a
            limits[node, s.PUBLISHER_FANOUT] = b
            continue
        if what == HANG:
            parent[node, 0] = source
            parent[node, 1] = a
            continue
        if what == CRASH:
            state.nodes.crashed[node] = 1
            for w in range(local.shape[1]):
                local[node, w] = ZERO
            for pattern in range(subscribers.shape[0]):
                subscribers[pattern, node >> 6] &= ~bit_of(node)
            now[s.VERSION] += 1
            continue
        if what == WISH:
            if a:
                local[node, source >> 6] |= bit_of(source)
                subscribers[source, node >> 6] |= bit_of(node)
            else:
                local[node, source >> 6] &= ~bit_of(source)
                subscribers[source, node >> 6] &= ~bit_of(node)
            now[s.VERSION] += 1
            continue
        count = limits[node, s.SLOTS]
        if what == ADD_SLOT:
            link[node, count, s.NEIGHBOUR] = source
            link[node, count, s.CHANNEL] = a
            leaf[node, count] = 0
            for level in range(mask.shape[2]):
                for w in range(mask.shape[3]):
                    mask[node, count, level, w] = ZERO
            limits[node, s.SLOTS] = count + 1
            continue
        k = 0
        while k < count and link[node, k, s.NEIGHBOUR] != source:
            k += 1
        if k == count:
            continue
        if what == PUT:
            mask[node, k, a, b >> 6] |= bit_of(b)
        elif what == CLEAR:
            mask[node, k, a, b >> 6] &= ~bit_of(b)
        elif what == POINT:
            link[node, k, s.CHANNEL] = a
        elif what == IS_LEAF:
            leaf[node, k] = a
            for w in range(leaf_mask.shape[2]):
                leaf_mask[node, k, w] = ZERO
        elif what == LEAF_WISH:
            leaf_mask[node, k, a >> 6] |= bit_of(a)
        else:
            for j in range(k, count - 1):
                link[node, j] = link[node, j + 1]
                leaf[node, j] = leaf[node, j + 1]
                mask[node, j] = mask[node, j + 1]
                leaf_mask[node, j] = leaf_mask[node, j + 1]
            limits[node, s.SLOTS] = count - 1
