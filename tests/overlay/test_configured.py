"""Configured links: they come about, are tried again, and never form a cycle for long."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.overlay.configured import Configured
from shoal.simulation import parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Chance


class World:
    """Nodes that are told to be linked to some that started before them."""

    def __init__(
        self, nodes: int, seed: int = 0, overlay: dict[str, Any] | None = None, **topology: Any
    ) -> None:
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": nodes,
                    "seed": seed,
                    "duration": 1000.0,
                    "topology": {"name": "full-mesh", "notice": 0.5, **topology},
                    "overlay": {"name": "links", **(overlay or {})},
                    "routing": {"name": "flooding"},
                    "link": {"delay": 0.01},
                }
            )
        )
        self.simulation.network.acyclic = False  # cycles are cut, but not at every instant
        self.topology = self.simulation.topology
        self.topology.start()

    def run(self, until: float) -> None:
        self.simulation.kernel.run(to_ns(until))

    def links(self) -> dict[int, Configured]:
        found = {}
        for number, node in enumerate(self.simulation.network.nodes):
            if node is not None:
                assert isinstance(node.overlay, Configured)
                found[number] = node.overlay
        return found

    def edges(self) -> set[tuple[int, int]]:
        """The links; both ends must agree."""
        found = self.links()
        for number, links in found.items():
            for other in links.neighbours:
                assert number in found[other].neighbours, (number, other)
        return {(a, b) for a, links in found.items() for b in links.neighbours if a < b}

    def parts(self) -> int:
        """Into how many parts the network falls."""
        return components({n: set(links.neighbours) for n, links in self.links().items()})

    def wanted(self) -> int:
        """Into how many it would fall if all links were there that nodes were told to have."""
        told: dict[int, set[int]] = {node: set() for node in self.links()}
        for node, links in self.links().items():
            for wanted in links.wanted:
                told[node].add(wanted.contact.node)
                told[wanted.contact.node].add(node)
        return components(told)


def components(links: dict[int, set[int]]) -> int:
    reached: set[int] = set()
    parts = 0
    for start in links:
        parts += start not in reached
        frontier = [start]
        while frontier:
            node = frontier.pop()
            if node not in reached:
                reached.add(node)
                frontier += links[node]
    return parts


@pytest.mark.parametrize("seed", range(5))
def test_links_that_close_cycles_are_left_out_and_the_rest_is_a_tree(seed: int) -> None:
    """Each node is told of three others: many times more links than a tree has."""
    world = World(40, seed, contacts=3)
    world.run(30.0)
    assert world.parts() == 1
    assert len(world.edges()) == 39
    assert len({links.spanning.root for links in world.links().values()}) == 1


def test_where_no_tree_is_needed_all_links_are_made() -> None:
    world = World(20, overlay={"tree": False}, contacts=3)
    world.run(20.0)
    for number, links in world.links().items():
        told = {wanted.contact.node for wanted in links.wanted}
        assert told <= set(links.neighbours), number
        assert links.describe()["missing"] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_neighbour_that_crashes_is_linked_again_when_it_is_back(seed: int) -> None:
    world = World(20, seed, contacts=1, back_after=3.0)
    world.run(10.0)
    assert world.parts() == 1
    chance = Chance(seed, "victims")
    for k in range(6):
        world.run(10.0 + 2.0 * k)
        victim = chance.below(20, k)
        if victim in world.links():
            world.topology.crash(victim)
    world.run(60.0)
    assert len(world.links()) == 20
    assert world.parts() == world.wanted()  # who comes back is told of another node
    assert len(world.edges()) == 20 - world.parts()


def test_a_neighbour_that_leaves_and_does_not_return_is_given_up() -> None:
    world = World(10, overlay={"absence": 5.0}, contacts=1)
    world.run(10.0)
    leaver = world.simulation.network.nodes[4]
    assert leaver is not None
    neighbours = list(world.links()[4].neighbours)
    leaver.stop()
    world.run(11.0)
    found = world.links()
    assert not found[4].neighbours
    for node in neighbours:
        assert 4 in found[node].neighbours, "its table stays"
        assert found[node].describe()["absent"] == [4]
    world.topology.crash(4)
    world.run(17.0)
    assert all(4 not in links.neighbours for links in world.links().values())
