"""DHTree: the tree that the nodes' keys give, whatever happened before; never a cycle."""

from __future__ import annotations

import pytest
from dhtree_world import DHTreeWorld

from shoal.content import Event, Pattern, Patterns
from shoal.overlay.dhtree_messages import Attach, NeighbourChange
from shoal.simulation.columns import to_tables
from shoal.stack import LOCAL, Chance

EXAMPLE = {"levels": 4}
"""Figure 11.1(a)."""


def example(*positions: int, **more: object) -> DHTreeWorld:
    """Section 11.2.4: hosts by their positions."""
    return DHTreeWorld(len(positions), positions=positions, overlay=EXAMPLE, more=more or None)


def links(world: DHTreeWorld) -> set[str]:
    at = {node: world.overlay(node).ring.position for node in world.running()}
    return {f"h{at[parent]}-h{at[child]}" for parent, child in world.links()}


@pytest.mark.parametrize("fan_out", [2, 4])
@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 60])
def test_nodes_become_the_tree_of_their_keys(nodes: int, fan_out: int) -> None:
    world = DHTreeWorld(nodes, overlay={"fan_out": fan_out}, contacts=1)
    world.run(5.0)
    world.rest()
    assert world.wrong() is None
    if fan_out == 2:
        assert max(len(world.overlay(node).neighbours) for node in range(nodes)) <= 3


def test_the_example_of_the_thesis() -> None:
    world = DHTreeWorld(6, positions=(5, 9, 11, 13, 15, 4), overlay=EXAMPLE, joining=50.0)
    world.run(45.0)
    assert links(world) == {"h9-h5", "h9-h13", "h13-h11", "h13-h15"}
    before = [world.overlay(node).searches for node in range(5)]
    world.run(55.0)  # h4 joins
    world.rest()
    assert links(world) == {"h9-h4", "h4-h5", "h9-h13", "h13-h11", "h13-h15"}
    assert world.overlay(0).place.key == 5
    after = [world.overlay(node).searches for node in range(5)]
    # h15 is h4's predecessor on the ring; the tree concerns neither it nor h11 nor h13.
    assert after[2:5] == before[2:5]
    world.topology.crash(3)  # h13 fails
    world.run(75.0)
    world.rest()
    assert links(world) == {"h9-h4", "h4-h5", "h9-h15", "h15-h11"}
    assert world.overlay(4).place.key == 12
    assert world.wrong() is None


def test_nobody_speaks_of_neighbours_where_nothing_changes() -> None:
    world = DHTreeWorld(40, more={"record": ["messages"]})
    world.run(10.0)
    world.rest()
    spoken = len(told(world))
    world.run(90.0)
    assert len(told(world)) == spoken
    world.overlay(5).on_change(5, NeighbourChange(False))  # a search that finds all as before
    world.run(105.0)
    assert len(told(world)) == spoken


def told(world: DHTreeWorld) -> list[str]:
    table = to_tables(world.simulation.recorder, "run", ["messages"])["messages"]
    kinds = ("neighbourchange", "attach", "attached", "refused", "detach")
    return [row["kind"] for row in table.to_pylist() if row["kind"] in kinds]


def test_a_node_that_leaves_takes_its_links_along() -> None:
    world = DHTreeWorld(30)
    world.run(10.0)
    world.rest()
    leaving = world.simulation.network.nodes[3]
    assert leaving is not None
    leaving.stop()
    world.topology.crash(3)
    world.rest()
    assert world.wrong() is None


@pytest.mark.parametrize("notice", [None, 0.05])
def test_a_quarter_crashes_at_once(notice: float | None) -> None:
    world = DHTreeWorld(60, notice=notice)
    world.run(10.0)
    for node in range(0, 60, 4):
        world.topology.crash(node)
    world.run(30.0)
    world.rest()
    assert world.wrong() is None


def test_the_root_is_who_owns_the_root_key() -> None:
    world = DHTreeWorld(30)
    world.run(10.0)
    world.rest()
    roots = [node for node in range(30) if world.overlay(node).parent == LOCAL]
    assert len(roots) == 1
    assert world.overlay(roots[0]).ring.owns(world.overlay(0).tree.root.key)
    world.topology.crash(roots[0])
    world.run(30.0)
    world.rest()
    assert world.wrong() is None


def test_the_parts_of_a_cut_network_become_one_tree_again() -> None:
    world = DHTreeWorld(40, partitions=[{"start": 10.0, "end": 100.0}])
    world.run(90.0)
    roots = [node for node in range(40) if world.overlay(node).parent == LOCAL]
    assert len(roots) == 2
    world.run(160.0)
    world.rest()
    assert world.wrong() is None


def test_connections_that_nobody_needs_are_closed() -> None:
    """A node to begin with is not kept, nor a former successor on the ring."""
    world = DHTreeWorld(60, contacts=1, joining=10.0)
    world.run(60.0)
    world.rest()
    for node in range(60):
        overlay = world.overlay(node)
        used = {*overlay.neighbours, overlay.ring.successors[0].contact.node}
        used.add(overlay.ring.predecessors[0].contact.node)
        assert set(overlay.heard) <= used
        assert set(world.simulation.network.hosts[node].channels) == set(overlay.heard)


def test_a_false_child_is_refused() -> None:
    world = DHTreeWorld(8)
    world.run(10.0)
    world.rest()
    root = next(node for node in range(8) if world.overlay(node).parent == LOCAL)
    overlay = world.overlay(root)
    stranger = next(n for n in overlay.heard if n in overlay.neighbours)
    for key in (overlay.place.key, 1, 2**62):
        overlay.on_attach(stranger, Attach(key, 999))
    world.run(20.0)
    world.rest()
    assert world.wrong() is None


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_it_becomes_the_tree_of_its_keys(seed: int) -> None:
    """While it happens, every run checks that no link closes a cycle."""
    nodes = 20
    world = DHTreeWorld(
        nodes,
        seed,
        overlay={"fan_out": 2 if seed % 2 else 4, "levels": 6 if seed % 6 == 1 else None},
        back_after=3.0,
        notice=None if seed // 2 % 2 else 0.05,
    )
    simulation = world.simulation
    connections, chance = world.topology.connections, Chance(seed, "troubles")
    sequences = [0] * nodes
    degrees: list[int] = []
    for k in range(15):
        world.run(2.0 * k + chance.uniform(k))
        degrees += [len(world.overlay(node).neighbours) for node in world.running()]
        what, node = chance.below(9, k, 1), chance.below(nodes, k, 2)
        running = simulation.network.nodes[node]
        if what == 0 and connections.side is None:
            connections.cut([chance.below(2, k, n) for n in range(nodes)])
        elif what == 1:
            connections.heal()
        elif what == 2 and running is not None:
            running.stop()
            world.topology.crash(node)
        elif what in (3, 4):
            simulation.subscription(node, Pattern(chance.below(4, k, 5)), True)
        elif what == 5:
            for number in range(4):
                simulation.publication(Event(node, sequences[node], Patterns((number,))))
                sequences[node] += 1
        else:
            world.topology.crash(node)
    connections.heal()
    world.run(simulation.kernel.now / 1e9 + 30.0)
    world.rest()
    assert world.wrong() is None, f"seed {seed}"
    if seed % 2:
        assert max(degrees) <= 3


def test_whatever_comes_and_goes_searches_end() -> None:
    """Nodes that were told of changes faster than they could search once searched for ever."""
    world = DHTreeWorld(
        60,
        more={"link": {"delay": 0.05}},
        joining=60.0,
        notice=0.15,
        churn={"model": "lognormal", "up": 0.5, "mean": 300.0, "median": 120.0, "until": 400.0},
    )
    world.run(400.0)
    world.rest(60.0)
    assert world.wrong() is None
