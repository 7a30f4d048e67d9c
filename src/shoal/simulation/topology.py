"""Graphs to start from: balanced and random trees, random regular graphs. Nodes count from 0."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from shoal.simulation.draws import below_array, bits_array
from shoal.simulation.exchanges import COMPILED_FROM, compiled, exchange
from shoal.stack import Chance

Edge: TypeAlias = tuple[int, int]
_THREE = np.arange(3, dtype=np.uint64)


def balanced_tree(nodes: int, max_degree: int) -> list[Edge]:
    """Filled level by level: the root has ``max_degree`` children, every other node one fewer."""
    edges: list[Edge] = []
    parents = deque([0])
    room = {0: max_degree}
    for node in range(1, nodes):
        parent = parents[0]
        edges.append((parent, node))
        room[parent] -= 1
        if not room[parent]:
            parents.popleft()
        room[node] = max_degree - 1
        if room[node]:
            parents.append(node)
    return edges


def random_tree(nodes: int, max_degree: int, chance: Chance) -> list[Edge]:
    """Each node joins a node drawn among those that have room, so depths differ from run to run."""
    edges: list[Edge] = []
    open_nodes = [0]
    degree = [0] * nodes
    for node in range(1, nodes):
        at = chance.below(len(open_nodes), node)
        parent = open_nodes[at]
        edges.append((parent, node))
        degree[parent] += 1
        degree[node] += 1
        if degree[parent] == max_degree:
            open_nodes[at] = open_nodes[-1]
            open_nodes.pop()
        if degree[node] < max_degree:
            open_nodes.append(node)
    return edges


def random_regular_graph(nodes: int, degree: int, chance: Chance) -> list[Edge]:
    """A connected graph in which every node has ``degree`` links.

    Starts from a ring lattice and exchanges the ends of random pairs of links (which keeps all
    degrees), ten times per link, until the graph is connected.
    """
    if degree >= nodes:
        raise ValueError(f"degree {degree} needs more than {nodes} nodes")
    if nodes * degree % 2:
        raise ValueError(f"{nodes} nodes of odd degree {degree} cannot all be linked; add one node")
    if degree < 2 and nodes > 2:
        raise ValueError(f"{nodes} nodes of degree {degree} cannot be connected")
    if degree == 2:  # the only connected one is a ring, and exchanges would seldom end in it
        ring = chance.sample(range(nodes), nodes)
        return list(zip(ring, ring[1:] + ring[:1], strict=True))
    ends: Any = np.array(_ring_lattice(nodes, degree), np.int64).reshape(-1, 2).T.copy()
    links = ends.shape[1]
    near: Any = np.concatenate(ends[::-1])[np.argsort(np.concatenate(ends), kind="stable")]
    act: Callable[..., Any] = exchange
    large = 10 * links >= COMPILED_FROM
    if large:
        act = compiled()
    else:
        ends, near = ends.tolist(), near.tolist()
    question = 0
    while True:
        asked = np.arange(question + 1, question + 1 + 10 * links, dtype=np.uint64)[:, None]
        question += len(asked)
        bits = bits_array(chance.seed, chance.purpose, asked, _THREE)
        pairs = below_array(bits[:, :2], links).astype(np.int64).ravel()
        swapped = below_array(bits[:, 2], 2).astype(np.int64)
        drawn: Any = (pairs, swapped) if large else (pairs.tolist(), swapped.tolist())
        act(ends[0], ends[1], near, degree, *drawn)
        if _in_one_piece(np.asarray(near).reshape(nodes, degree)):
            firsts, seconds = ends.tolist() if large else ends
            return list(zip(firsts, seconds, strict=True))


def _in_one_piece(near: Any) -> bool:
    """Whether every node reaches every other; the neighbours of each are its row."""
    seen = np.zeros(len(near), np.bool_)
    reached = np.zeros(1, np.int64)
    while len(reached):
        seen[reached] = True
        reached = np.unique(near[reached])
        reached = reached[~seen[reached]]
    return bool(seen.all())


def _ring_lattice(nodes: int, degree: int) -> list[Edge]:
    edges = [
        (node, (node + step) % nodes) for step in range(1, degree // 2 + 1) for node in range(nodes)
    ]
    if degree % 2:
        edges += [(node, node + nodes // 2) for node in range(nodes // 2)]
    return edges


def adjacency(nodes: int, edges: Iterable[Edge]) -> list[dict[int, None]]:
    """Neighbours of each node, in the order of the edges."""
    neighbours: list[dict[int, None]] = [{} for _ in range(nodes)]
    for a, b in edges:
        neighbours[a][b] = None
        neighbours[b][a] = None
    return neighbours


def distances(
    neighbours: list[dict[int, None]] | Mapping[int, dict[int, None]], start: int
) -> dict[int, int]:
    """Hops from a node to every node that can be reached."""
    found = {start: 0}
    queue = [start]
    for node in queue:
        hops = found[node] + 1
        for neighbour in neighbours[node]:
            if neighbour not in found:
                found[neighbour] = hops
                queue.append(neighbour)
    return found


def connected(nodes: int, edges: Iterable[Edge]) -> bool:
    """Whether every node reaches every other."""
    return len(distances(adjacency(nodes, edges), 0)) == nodes


def tree_diameter(nodes: int, edges: Iterable[Edge]) -> int:
    """The longest path of a tree, or of the trees of a forest (two sweeps each)."""
    neighbours = adjacency(nodes, edges)
    longest = 0
    seen: set[int] = set()
    for node in range(nodes):
        if node not in seen:
            part = distances(neighbours, node)
            seen |= part.keys()
            far = max(part, key=part.__getitem__)
            longest = max(longest, *distances(neighbours, far).values())
    return longest


def ways_to(
    neighbours: list[dict[int, None]] | Mapping[int, dict[int, None]], start: int
) -> dict[int, int]:
    """For every node from which a node can be reached, the next one on the shortest way there."""
    onward = {start: start}
    queue = [start]
    for node in queue:
        for neighbour in neighbours[node]:
            if neighbour not in onward:
                onward[neighbour] = node
                queue.append(neighbour)
    return onward


def follow(onward: Mapping[int, int], node: int) -> list[int]:
    """The way that :func:`ways_to` found from a node, both ends included."""
    way = [node]
    while onward[node] != node:
        node = onward[node]
        way.append(node)
    return way


def tree_path(
    neighbours: list[dict[int, None]] | Mapping[int, dict[int, None]], a: int, b: int
) -> list[int]:
    """The nodes from a to b along a tree."""
    return follow(ways_to(neighbours, b), a)
