"""The graph overlay: it is connected, stays within its degrees, and heals after any failure."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.overlay.graph import Graph
from shoal.simulation import parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Chance

HEALED = 60.0
"""Simulated seconds within which a graph of the default periods is whole again: beats are missed
for four seconds, lost nodes are tried every ten."""


class World:
    """A network of graph overlays, looked at from outside."""

    def __init__(self, nodes: int, seed: int = 0, degree: int = 5, **topology: Any) -> None:
        self.degree = degree
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": nodes,
                    "seed": seed,
                    "duration": 1000.0,
                    "topology": {"name": "full-mesh", **topology},
                    "overlay": {"name": "graph", "degree": degree},
                    "routing": {"name": "flooding"},
                    "link": {"delay": 0.01},
                }
            )
        )
        self.topology = self.simulation.topology
        self.topology.start()

    def run(self, until: float) -> None:
        self.simulation.kernel.run(to_ns(until))

    def rest(self) -> None:
        """Let repairs end."""
        kernel = self.simulation.kernel
        assert kernel.run_to_rest(kernel.now + to_ns(HEALED))

    def running(self) -> list[int]:
        return [n for n, node in enumerate(self.simulation.network.nodes) if node is not None]

    def graph(self, node: int) -> Graph:
        found = self.simulation.network.nodes[node]
        assert found is not None
        assert isinstance(found.overlay, Graph)
        return found.overlay

    def parts(self) -> int:
        forest = self.simulation.oracle.forest
        return len({forest.component_of(node) for node in self.running()})

    def check(self) -> None:
        """Connected; degrees within one of the nominal; both ends of every link agree."""
        running = self.running()
        assert self.parts() == 1
        least = min(self.degree - 1, len(running) - 1)
        for node in running:
            neighbours = self.graph(node).neighbours
            assert least <= len(neighbours) <= self.degree + 1, (node, list(neighbours))
            for other in neighbours:
                assert node in self.graph(other).neighbours, (node, other)
            assert set(self.simulation.network.neighbours(node)) == set(neighbours)


@pytest.mark.parametrize("nodes", [1, 2, 3, 6, 7, 120])
def test_nodes_that_know_one_another_become_a_connected_graph(nodes: int) -> None:
    world = World(nodes, contacts=1)
    world.run(5.0)
    world.rest()
    world.check()


def test_a_graph_that_is_whole_stays_as_it_is() -> None:
    world = World(40)
    world.run(10.0)
    world.rest()
    before = [list(world.graph(n).neighbours) for n in range(40)]
    world.run(200.0)
    assert [list(world.graph(n).neighbours) for n in range(40)] == before


def test_crashes_are_noticed_by_missing_beats_and_repaired() -> None:
    world = World(100)
    world.run(5.0)
    for node in range(0, 100, 4):
        world.topology.crash(node)
    kernel = world.simulation.kernel
    assert kernel.unnoticed > 0
    world.run(8.0)
    assert kernel.unnoticed > 0  # nobody is told: four beats must be missed first
    world.rest()
    world.check()


def test_a_node_that_starts_again_is_a_neighbour_again() -> None:
    world = World(30, back_after=1.0)
    world.run(5.0)
    world.topology.crash(7)
    world.run(20.0)
    world.rest()
    world.check()
    assert world.simulation.network.hosts[7].epoch == 1


def test_the_parts_of_a_cut_network_grow_together_again() -> None:
    world = World(40, partitions=[{"start": 10.0, "end": 400.0}])
    world.run(100.0)
    assert world.parts() == 2
    world.run(400.0 + HEALED)
    world.rest()
    world.check()


def test_a_node_that_leaves_is_missed_by_nobody() -> None:
    world = World(40)
    world.run(5.0)
    leaving = world.simulation.network.nodes[3]
    assert leaving is not None
    neighbours = list(world.graph(3).neighbours)
    leaving.stop()
    world.run(5.1)
    for node in neighbours:
        graph = world.graph(node)
        assert 3 not in graph.neighbours
        assert 3 not in graph.lost
        assert 3 not in graph.view.entries


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_it_heals(seed: int) -> None:
    world = World(24, seed, degree=4, back_after=3.0)
    connections, chance = world.topology.connections, Chance(seed, "troubles")
    for k in range(15):
        world.run(2.0 * k + chance.uniform(k))
        what = chance.below(5, k, 1)
        if what == 0 and connections.side is None:
            connections.cut([chance.below(2, k, node) for node in range(24)])
        elif what == 1:
            connections.heal()
        else:
            world.topology.crash(chance.below(24, k, 2))
    connections.heal()
    world.run(30.0 + HEALED)
    world.rest()
    world.check()
