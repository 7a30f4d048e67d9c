"""The ring: order, lists and ownership are exact once it is quiet, and lookups always end."""

from __future__ import annotations

import pytest
from ring_world import KEYS, RingWorld

from shoal.overlay.chord_messages import RingPeer, Stabilise
from shoal.stack import Chance, Contact

QUIET = 60.0
"""Seconds of peace: a silent node is noticed after four, a lost one asked again every ten."""


def check_lookups(world: RingWorld, seed: int) -> None:
    """Everybody finds every owner."""
    chance, running = Chance(seed, "keys"), world.running()
    for number in range(10):
        key = 1 + chance.below(KEYS, number)
        assert world.look_up(running[number % len(running)], key) == world.owner(key)


@pytest.mark.parametrize("nodes", [1, 2, 3, 9, 60])
def test_nodes_that_start_together_form_one_ring(nodes: int) -> None:
    world = RingWorld(nodes, contacts=1)
    world.run(10.0)
    assert world.wrong() is None
    check_lookups(world, 1)


def test_a_lookup_asks_few_nodes() -> None:
    world = RingWorld(100, joining=5.0)
    world.run(45.0)  # a finger every four seconds
    assert world.wrong() is None
    before = world.ring(0).lookups.questions
    count = 40
    for number in range(count):
        key = 1 + Chance(0, "keys").below(KEYS, number)
        assert world.look_up(0, key) == world.owner(key)
    assert world.ring(0).lookups.count >= count - 2
    assert (
        world.ring(0).lookups.questions - before
    ) / count < 8  # half of log2(100), and the owner


def test_a_crash_is_noticed_by_silence() -> None:
    world = RingWorld(20)
    world.run(5.0)
    world.topology.crash(7)
    world.run(6.0)
    assert world.wrong() is not None
    world.run(25.0)
    assert world.wrong() is None


def test_a_crash_is_noticed_sooner_by_a_broken_connection() -> None:
    world = RingWorld(20, notice=0.05)
    world.run(5.0)
    world.topology.crash(7)
    world.run(6.5)
    assert world.wrong() is None


def test_a_node_that_leaves_is_replaced_at_once() -> None:
    world = RingWorld(20)
    world.run(5.0)
    leaving = world.simulation.network.nodes[3]
    assert leaving is not None
    leaving.stop()
    world.topology.crash(3)
    world.run(5.3)
    assert world.wrong() is None
    assert not any(3 in world.ring(node).lost for node in world.running())


def test_more_crash_at_once_than_a_list_is_long() -> None:
    world = RingWorld(60)
    world.run(30.0)
    for node in world.order()[5:25]:
        world.topology.crash(node)
    world.run(30.0 + QUIET)
    assert world.wrong() is None


def test_rings_that_were_cut_merge() -> None:
    world = RingWorld(40, partitions=[{"start": 10.0, "end": 100.0}])
    world.run(90.0)
    assert world.wrong() is not None
    world.run(100.0 + QUIET)
    assert world.wrong() is None


def test_the_holder_hears_of_every_change_of_its_keys() -> None:
    world = RingWorld(2)
    world.run(5.0)
    before = [world.simulation.network.nodes[n].overlay.holder.changes for n in (0, 1)]  # type: ignore[union-attr]  # runs
    assert min(before) >= 1  # from all keys to one's own
    world.topology.crash(1)
    world.run(20.0)
    assert world.simulation.network.nodes[0].overlay.holder.changes == before[0] + 1  # type: ignore[union-attr]  # runs
    assert world.ring(0).owns(1)


def test_nodes_at_one_position_part() -> None:
    world = RingWorld(6)
    network = world.simulation.network
    make = network.make_node
    assert make is not None

    def crowded(host):  # type: ignore[no-untyped-def]  # as the network's
        node = make(host)
        node.overlay.ring.position = 4711  # type: ignore[union-attr]  # has one
        return node

    network.make_node = crowded
    world.run(QUIET)
    assert world.wrong() is None
    assert world.ring(0).position == 4711


def test_who_speaks_for_another_node_is_not_heard() -> None:
    world = RingWorld(3)
    world.run(5.0)
    ring = world.ring(0)
    false = RingPeer(Contact(2), ring.position + 1)
    ring.on_stabilise(1, Stabilise(false, (), (), False))
    ring.on_stabilise(1, Stabilise(RingPeer(Contact(1), KEYS + 1), (), (), False))
    assert world.wrong() is None


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_the_ring_is_exact_once_quiet(seed: int) -> None:
    nodes = 24
    world = RingWorld(nodes, seed, back_after=3.0, notice=None if seed % 2 else 0.05)
    connections, chance = world.topology.connections, Chance(seed, "troubles")
    for k in range(15):
        world.run(2.0 * k + chance.uniform(k))
        what, node = chance.below(6, k, 1), chance.below(nodes, k, 2)
        running = world.running()
        if what == 0 and connections.side is None:
            connections.cut([chance.below(2, k, n) for n in range(nodes)])
        elif what == 1:
            connections.heal()
        elif what == 2 and node in running:
            world.simulation.network.nodes[node].stop()  # type: ignore[union-attr]  # runs
            world.topology.crash(node)
        elif what == 3 and running:
            world.look_up(running[node % len(running)], 1 + chance.below(KEYS, k, 4))  # it ends
        else:
            world.topology.crash(node)
    connections.heal()
    world.run(world.simulation.kernel.now / 1e9 + QUIET)
    assert world.wrong() is None, f"seed {seed}"
    check_lookups(world, seed)
