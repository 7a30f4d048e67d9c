"""Small networks with interests, drawn from a seed: what trees are tried on."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.overlay.shopparent_costs import Axis, Density, Space, Work
from shoal.simulation.shopping import Tree
from shoal.simulation.topology import connected
from shoal.stack import Chance


class Instance:
    """A connected graph, interests, and what work costs."""

    def __init__(self, nodes: int, seed: int, hull: bool = False, share: float = 0.5) -> None:
        chance = Chance(seed, f"instance {nodes}")
        attempt = 0
        while True:
            edges = [
                (a, b)
                for a in range(nodes)
                for b in range(a + 1, nodes)
                if chance.uniform(attempt, a, b) < share
            ]
            if connected(nodes, edges):
                break
            attempt += 1
        self.edges = edges
        self.near: list[list[int]] = [[] for _ in range(nodes)]
        for a, b in edges:
            self.near[a].append(b)
            self.near[b].append(a)
        # Whole numbers, so that intervals share ends; some nodes want nothing.
        starts = [chance.below(20, node, 1) for node in range(nodes)]
        lengths = [chance.below(8, node, 2) for node in range(nodes)]
        self.intervals = [
            (float(start), float(start + length))
            for start, length in zip(starts, lengths, strict=True)
        ]
        bounds = [end for interval in self.intervals for end in interval]
        axis = Axis(bounds, hull, Density())
        self.space: Space = axis
        self.own = [axis.interest((interval,)) for interval in self.intervals]
        self.work = Work(chance.uniform(-1) * 2, chance.uniform(-2) + 0.1)
        self.chance = chance

    def tree(self, parents: list[int] | None = None) -> Tree:
        """An empty tree, or this one."""
        tree = Tree(self.near, list(self.own), self.space, self.work)
        if parents is not None:
            tree.hang(parents)
        return tree

    def spanning_trees(self) -> Iterator[list[int]]:
        """Every spanning tree, as parents."""
        nodes = len(self.own)

        def grow(parents: list[int], node: int) -> Iterator[list[int]]:
            if node == nodes:
                if all(_reaches_root(parents, n) for n in range(nodes)):
                    yield list(parents)
                return
            for parent in self.near[node]:
                parents[node] = parent
                yield from grow(parents, node + 1)

        yield from grow([-1] * nodes, 1)


def _reaches_root(parents: list[int], node: int) -> bool:
    steps = 0
    while node and steps <= len(parents):
        node = parents[node]
        steps += 1
    return node == 0
