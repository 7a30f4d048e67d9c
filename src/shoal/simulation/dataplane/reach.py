"""Which nodes are connected by links, and which nodes lie beyond each channel. Compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.kernels import bit_of, kernel


@kernel
def work_out_components(live, ends, component):
    """Write each node's component, named after its smallest node; return how many there are."""
    nodes = len(component)
    for node in range(nodes):
        component[node] = node
    for i in range(len(live)):
        a = ends[live[i], s.FROM]
        b = ends[live[i], s.TO]
        while component[a] != a:
            component[a] = component[component[a]]
            a = component[a]
        while component[b] != b:
            component[b] = component[component[b]]
            b = component[b]
        if a < b:
            component[b] = a
        else:
            component[a] = b
    count = 0
    for node in range(nodes):  # a node's number is never above its own, so one pass settles all
        component[node] = component[component[node]]
        if component[node] == node:
            count += 1
    return count


@kernel
def work_out_beyond(live, ends, beyond, nodes):
    """For a forest: the set of nodes beyond each channel."""
    first = np.full(nodes, -1, np.int32)
    follow = np.zeros(len(live), np.int32)
    for i in range(len(live)):
        node = ends[live[i], s.FROM]
        follow[i] = first[node]
        first[node] = i
    up = np.full(nodes, -1, np.int32)  # the channel back to where the walk came from
    down = np.full(nodes, -1, np.int32)  # the channel it came by
    order = np.empty(nodes, np.int32)
    visited = np.zeros(nodes, np.uint8)
    below = np.zeros((nodes, beyond.shape[1]), np.uint64)
    filled = 0
    for root in range(nodes):
        if visited[root]:
            continue
        begin = filled
        visited[root] = 1
        order[filled] = root
        filled += 1
        here = begin
        while here < filled:
            node = order[here]
            here += 1
            i = first[node]
            while i >= 0:
                channel = live[i]
                far = ends[channel, s.TO]
                if not visited[far]:
                    visited[far] = 1
                    down[far] = channel
                    order[filled] = far
                    filled += 1
                elif down[node] >= 0 and ends[down[node], s.FROM] == far:
                    up[node] = channel
                i = follow[i]
        for p in range(filled - 1, begin - 1, -1):
            node = order[p]
            below[node, node >> 6] |= bit_of(node)
            if down[node] >= 0:
                for w in range(beyond.shape[1]):
                    below[ends[down[node], s.FROM], w] |= below[node, w]
        for p in range(begin + 1, filled):
            node = order[p]
            for w in range(beyond.shape[1]):
                beyond[down[node], w] = below[node, w]
                beyond[up[node], w] = below[root, w] & ~below[node, w]
