"""ShopParent: trees that nodes build by shopping for parents, on radios and by peer sampling."""

from __future__ import annotations

import itertools
import math
from typing import Any

import msgspec
import pytest

from shoal.overlay.shopparent import ShopParent
from shoal.overlay.shopparent_costs import Axis, Density, Work
from shoal.overlay.shopparent_messages import Wanted
from shoal.simulation import chaos, parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.simulation.shopping import Tree
from shoal.simulation.topology import distances
from shoal.stack import LOCAL, Chance, StackError

PERIOD, TIMEOUT = 1.0, 3.5


def config(nodes: int, seed: int = 0, **sections: Any) -> dict[str, Any]:
    """A network of radios that shop."""
    overlay = {
        "name": "shopparent",
        "overlap": "axis",
        "discovery": "radio",
        "collect": 0.02,
        "heirs": [],
        "hysteresis": 0.0,
        "children": 0,
        **sections.pop("overlay", {}),
    }
    topology = {"name": "radio-range", **sections.pop("topology", {})}
    return {
        "nodes": nodes,
        "seed": seed,
        "duration": 1000.0,
        "topology": topology,
        "overlay": overlay,
        "routing": {"name": "hierarchical-forwarding"},
        "record": ["publications", "traffic", "links", "repairs", "notes", "messages"],
        **sections,
    }


class World:
    """A network that is looked at from outside. Cycles and wrong deliveries stop it by itself."""

    def __init__(self, nodes: int, seed: int = 0, **sections: Any) -> None:
        self.raw = config(nodes, seed, **sections)
        self.simulation = Simulation(parse_config(self.raw))
        self.simulation.begin()
        from shoal.simulation.player import Player

        Player(self.simulation.kernel, self.simulation.workload, self.simulation).start()

    @property
    def now(self) -> float:
        return self.simulation.kernel.now / 1e9

    def run(self, until: float) -> None:
        self.simulation.kernel.run(to_ns(until))

    def running(self) -> list[int]:
        return [n for n, node in enumerate(self.simulation.network.nodes) if node is not None]

    def overlay(self, node: int) -> ShopParent:
        found = self.simulation.network.nodes[node]
        assert found is not None
        assert isinstance(found.overlay, ShopParent)
        return found.overlay

    def parents(self) -> dict[int, int]:
        return {node: self.overlay(node).parent for node in self.running()}

    def notes(self, what: str, since: float = 0.0) -> list[tuple[float, int, int]]:
        """When, which node, which peer."""
        notes = self.simulation.recorder.notes
        return [(n[0] / 1e9, n[1], n[3]) for n in notes if n[2] == what and n[0] / 1e9 >= since]

    def settle(self, quiet: float = 12.0, limit: float = 300.0) -> None:
        """Let time pass until no parent has changed for a while."""
        start = self.now
        while self.now < start + limit:
            self.run(self.now + quiet)
            if not self.notes("parent", self.now - quiet):
                return
        raise AssertionError("parents keep changing")

    def tree(self, merge: str = "union", root: int = 0) -> Tree:
        """The tree there is, as the direct evaluation sees it."""
        topology = self.simulation.topology
        intervals = [pair or (0.0, 0.0) for pair in topology.intervals]
        axis = Axis([end for pair in intervals for end in pair], merge == "hull", Density())
        running = self.running()
        near = [
            [k for k in topology.connections.near[node] if k in running]
            for node in range(len(intervals))
        ]
        tree = Tree(near, [axis.interest((pair,)) for pair in intervals], axis, Work(), root)
        for node in sorted(running, key=lambda n: len(self.overlay(n).route)):
            if node != root:
                tree.move(node, self.overlay(node).parent)
        return tree

    def check(self, metric: str = "COMBO", merge: str = "union", root: int = 0) -> None:
        """All are in the tree, tables are right, and nobody has a better parent in range."""
        tree = self.tree(merge, root)
        for node in self.running():
            overlay = self.overlay(node)
            assert overlay.rank >= 0, node
            assert len(overlay.route) == tree.hops[node]
            assert set(overlay.child_nodes()) == set(tree.children[node])
            if node != root:
                route = [hop.node for hop in overlay.route]
                assert route[0] == root
                assert route[-1] == overlay.parent
                if metric != "RANDOM":
                    assert not tree.turn(node, metric, Chance(0, "ties")), node
        assert self.simulation.wrong_table() is None


@pytest.mark.parametrize("merge", ["union", "hull"])
@pytest.mark.parametrize("metric", ["NHOP", "OVHD", "COMBO", "RANDOM"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_tree_grows_in_which_nobody_has_a_better_parent(
    metric: str, merge: str, seed: int
) -> None:
    events = {"events": 40, "window": [40.0, 50.0]}
    world = World(30, seed, topology=events, overlay={"metric": metric, "merge": merge})
    world.run(39.9)
    world.check(metric, merge)
    world.run(51.0)
    tree = world.tree(merge)
    own = [node.routing for node in world.simulation.network.nodes if node is not None]
    publications = world.simulation.recorder.publications
    assert len(publications) == 40
    assert all(record.received == record.owed for record in publications)
    frames: dict[Any, set[int]] = {}
    for at, kind, source, _, content in world.simulation.recorder.messages:
        if kind == "event":
            frames.setdefault(content.split("hops")[0], set()).add(source)
            assert at >= to_ns(40.0)
    sent = sum(row[2] for row in world.simulation.recorder.traffic if row[0] == "event")
    assert sent == sum(len(sources) for sources in frames.values())  # one broadcast per forwarder
    # A forwarder has a child that wants the event.
    for number, attributes in world.simulation.workload.attributes.items():
        wanting = [bool(routing.table.match(attributes)) for routing in own]  # type: ignore[attr-defined]
        forwarders = {n for n in range(30) if any(wanting[c] for c in tree.children[n])}
        mine = [s for text, s in frames.items() if f"sequence={number}," in text]
        assert (mine[0] if mine else set()) == forwarders


def test_by_hop_count_every_node_is_as_near_to_the_root_as_can_be() -> None:
    world = World(30, 5, overlay={"metric": "NHOP"}, topology={"range": 70.0})
    world.settle()
    hops = {node: len(world.overlay(node).route) for node in world.running()}
    assert hops == distances(world.simulation.topology.connections.near, 0)


@pytest.mark.parametrize("merge", ["union", "hull"])
@pytest.mark.parametrize("seed", range(4))
def test_the_tree_follows_moves_and_failures(seed: int, merge: str) -> None:
    changes = {
        "moves": [{"at": 15.0}, {"at": 16.0}, {"at": 40.0}],
        "failures": [{"at": 17.0, "back_after": 9.0}, {"at": 41.0}],
        "events": 60,
        "window": [150.0, 160.0],
    }
    world = World(30, 100 + seed, topology=changes, overlay={"merge": merge})
    world.run(60.0)
    world.settle()
    world.check("COMBO", merge)
    world.run(161.0)
    assert all(r.received == r.owed for r in world.simulation.recorder.publications)


def test_links_never_close_a_cycle_however_many_nodes_move_at_once() -> None:
    """The simulator stops at the first link that would."""
    for seed in range(3):
        moves = [{"at": 5.0 + 0.4 * k} for k in range(60)]
        failures = [{"at": 6.0 + 2.0 * k, "back_after": 3.0} for k in range(10)]
        world = World(
            30,
            seed,
            topology={"moves": moves, "failures": failures},
            overlay={"metric": "OVHD", "merge": "hull"},
        )
        world.run(60.0)
        world.settle()
        world.check("OVHD", "hull")


def test_a_node_says_what_it_forwards_for_others_and_what_shopping_saved() -> None:
    events = {"events": 400, "window": [2.0, 60.0]}
    world = World(30, 4, topology=events, overlay={"overlap": "sample"})
    world.run(61.0)
    told = {node: world.overlay(node).describe() for node in world.running()}
    moved = [one for one in told.values() if one["moves"]]
    assert sum(float(str(one["work saved"])) for one in moved) > 0
    assert all(one["work saved"] == 0 for one in told.values() if one not in moved)
    for node, one in told.items():
        forwards, foreign = float(str(one["forwards"])), float(str(one["only for others"]))
        assert 0 <= foreign <= forwards <= 1
        assert bool(forwards) == bool(world.overlay(node).child_nodes()), node


LINE = [(0.0, 0.0), (50.0, 0.0), (100.0, 0.0)]
APART = {"connected_at": 0.0, "range": 60.0}


def line(**topology: Any) -> World:
    """Root, a, b in a row; b hears a alone."""
    wants = [None, (0.0, 5.0), (0.0, 10.0)]
    places = topology.pop("places", LINE)
    given = {"interests": {"given": wants[: len(places)]}, "places": places, **APART}
    return World(len(places), 3, topology={**given, **topology})


def test_a_silent_parent_is_expired_within_the_timeout_and_a_period() -> None:
    world = line(failures=[{"at": 20.0, "node": 1}])
    world.run(19.9)
    assert world.parents() == {0: -1, 1: 0, 2: 1}
    assert world.notes("expired") == []
    world.run(40.0)
    (at,) = (at for at, node, peer in world.notes("expired") if (node, peer) == (2, 1))
    assert 20.0 < at <= 20.0 + TIMEOUT + PERIOD
    probes = [time for time, node, _ in world.notes("probe", at) if node == 2]
    assert probes[0] == pytest.approx(at)  # as if it were new
    assert world.overlay(2).parent == -1


def test_a_parent_that_advertises_is_never_expired() -> None:
    world = World(30, 8)
    world.run(120.0)
    assert world.notes("expired") == []


@pytest.mark.parametrize("at", [20.0, 20.3, 20.6, 20.9])
def test_a_partitioned_node_tries_again_and_joins_within_a_period(at: float) -> None:
    places = [(0.0, 0.0), (50.0, 0.0), (500.0, 0.0)]
    world = line(places=places, moves=[{"at": at, "node": 2, "to": (100.0, 0.0)}])
    world.run(at - 0.01)
    probes = [time for time, node, _ in world.notes("probe") if node == 2]
    assert all(b - a <= PERIOD + 1e-6 for a, b in itertools.pairwise(probes))
    assert len(probes) >= 19
    assert world.overlay(2).parent == -1
    world.run(at + PERIOD + 0.1)
    assert world.overlay(2).parent == 1


def test_only_nodes_with_a_route_advertise() -> None:
    places = [(0.0, 0.0), (50.0, 0.0), (500.0, 0.0), (540.0, 0.0)]
    world = World(4, 1, topology={**APART, "places": places})
    world.run(30.0)
    senders = {
        source
        for _, kind, source, _, _ in world.simulation.recorder.messages
        if kind == "parent-advertise"
    }
    assert senders == {0, 1}
    assert {node for _, node, _ in world.notes("answer")} <= {0, 1}
    assert world.overlay(3).parent == world.overlay(2).parent == -1


def test_nodes_below_one_that_lost_its_route_stop_advertising_and_stay() -> None:
    places = [(0.0, 0.0), (50.0, 0.0), (100.0, 0.0), (150.0, 0.0)]
    # Node 1 leaves for good: 2 loses its parent, and 3 stays below it.
    world = World(
        4,
        1,
        topology={
            **APART,
            "places": places,
            "moves": [{"at": 20.0, "node": 1, "to": (0.0, 900.0)}],
        },
    )
    world.run(40.0)
    assert world.overlay(3).parent == 2
    assert world.overlay(3).rank == world.overlay(2).rank == -1
    late = [
        source
        for at, kind, source, _, _ in world.simulation.recorder.messages
        if kind == "parent-advertise" and at > to_ns(20.0 + TIMEOUT + PERIOD)
    ]
    assert set(late) <= {0}


def test_a_better_parent_that_appears_is_taken_at_the_next_look() -> None:
    # b hangs on a; then c, which wants all that b wants and hears the root, comes by.
    wants = [None, (0.0, 5.0), (20.0, 30.0), (20.0, 30.0)]
    places = [(0.0, 0.0), (50.0, 0.0), (90.0, 0.0), (0.0, 50.0)]
    world = World(
        4,
        0,
        topology={
            **APART,
            "places": places,
            "interests": {"given": wants},
            "moves": [{"at": 20.0, "node": 3, "to": (40.0, 20.0)}],
        },
    )
    world.run(19.9)
    assert world.overlay(2).parent == 1
    world.run(20.0 + 2 * PERIOD + 0.1)
    assert world.overlay(2).parent == 3
    world.run(24.0)
    routing = world.simulation.network.nodes[1]
    assert routing is not None
    assert routing.routing.filters_from(2) == []
    assert world.overlay(3).routing.filters_from(2) == world.overlay(2).routing.filters()
    assert world.simulation.wrong_table() is None
    assert world.overlay(2).describe()["moves"] == 1


def pentagon() -> list[tuple[float, float]]:
    """Figure 3: 1-2, 2-3, 3-4, 4-5, 5-1 hear each other, no others do."""
    around = [(math.cos(k * math.tau / 5), math.sin(k * math.tau / 5)) for k in range(5)]
    return [(50 * x, 50 * y) for x, y in around]


@pytest.mark.parametrize("metric", ["NHOP", "OVHD", "COMBO"])
def test_example_3_node_4_hears_3_and_5_and_takes_5(metric: str) -> None:
    wants = [None, (0.0, 10.0), None, (0.0, 10.0), (0.0, 5.0)]
    topology = {
        "places": pentagon(),
        "range": 60.0,
        "interests": {"given": wants},
        "failures": [{"at": 10.0, "node": 3, "back_after": 20.0}],
    }
    world = World(5, 2, topology=topology, overlay={"metric": metric})
    world.run(29.9)
    assert world.parents() == {0: -1, 1: 0, 2: 1, 4: 0}
    world.run(30.02)
    assert {node for _, node, peer in world.notes("answer", 30.0) if peer == 3} == {2, 4}
    world.run(31.5)
    assert world.overlay(3).parent == 4
    joined = [peer for _, node, peer in world.notes("parent", 30.0) if node == 3]
    assert joined == [4]


# Roots


def test_without_its_root_a_tree_waits_and_is_there_again_with_it() -> None:
    world = World(12, 1, topology={"failures": [{"at": 20.0, "node": 0, "back_after": 30.0}]})
    world.run(45.0)
    assert all(world.overlay(node).rank == -1 for node in world.running())
    world.run(60.0)
    world.settle()
    world.check()


def test_an_heir_takes_the_place_of_a_root_that_fails_and_gives_it_back() -> None:
    fails = {"failures": [{"at": 20.0, "node": 0, "back_after": 60.0}]}
    world = World(12, 1, topology=fails, overlay={"heirs": [5, 7]})
    world.run(75.0)
    assert world.overlay(5).parent == -1
    assert {world.overlay(node).rank for node in world.running()} == {1}
    world.check(root=5)
    world.run(100.0)
    world.settle()
    world.check(root=0)
    assert {world.overlay(node).rank for node in world.running()} == {0}


def test_two_parts_with_a_root_each_become_one_tree() -> None:
    # Nodes 2 and 3 are apart; 3 is an heir, and node 1 later joins the parts.
    places = [(0.0, 0.0), (0.0, 50.0), (150.0, 0.0), (200.0, 0.0), (50.0, 0.0)]
    moves = [{"at": 60.0, "node": 1, "to": (100.0, 0.0)}]
    topology = {**APART, "places": places, "moves": moves}
    world = World(5, 1, topology=topology, overlay={"heirs": [3]})
    world.run(59.0)
    assert world.overlay(2).parent == 3
    assert world.overlay(3).rank == 1
    world.run(90.0)
    assert [world.overlay(node).rank for node in range(5)] == [0] * 5
    assert world.overlay(3).parent == 2


# By peer sampling


def mesh(nodes: int, seed: int, **sections: Any) -> World:
    script = [
        {"at": 0.0, "node": node, "do": "subscribe", "filters": [f"x >= {node % 7} AND x < {9}"]}
        for node in range(nodes)
    ]
    script += [
        {"at": 30.0 + 0.1 * k, "node": k % 3, "do": "publish", "attributes": {"x": k % 10}}
        for k in range(40)
    ]
    topology = {"name": "full-mesh", "joining": 5.0, **sections.pop("topology", {})}
    overlay = {"discovery": "sampling", **sections.pop("overlay", {})}
    raw = config(nodes, seed, overlay=overlay, workload={"script": script}, **sections)
    world = World.__new__(World)
    world.raw = {**raw, "topology": topology}
    world.simulation = Simulation(parse_config(world.raw))
    world.simulation.begin()
    from shoal.simulation.player import Player

    Player(world.simulation.kernel, world.simulation.workload, world.simulation).start()
    return world


@pytest.mark.parametrize("metric", ["COMBO", "NHOP"])
def test_where_all_can_reach_all_everybody_finds_the_root(metric: str) -> None:
    world = mesh(15, 4, overlay={"metric": metric, "probes": 8})
    world.run(35.0)
    hops = [len(world.overlay(node).route) for node in range(1, 15)]
    assert hops == [1] * 14 if metric == "NHOP" else all(hops)
    assert all(r.received == r.owed for r in world.simulation.recorder.publications)
    assert world.simulation.wrong_table() is None


def test_by_sample_nodes_move_to_parents_that_share_their_interests() -> None:
    world = mesh(15, 4, overlay={"metric": "OVHD", "overlap": "sample"})
    world.run(50.0)
    assert all(world.overlay(node).rank == 0 for node in world.running())
    assert world.simulation.wrong_table() is None


def test_crashed_nodes_are_left_and_the_rest_is_one_tree() -> None:
    world = mesh(15, 6, topology={"crashes": [[20.0, 4], [20.0, 9], [21.0, 13]]})
    world.run(40.0)
    assert len(world.running()) == 12
    assert all(world.overlay(node).rank == 0 for node in world.running())
    assert world.simulation.wrong_table() is None


def test_an_advertisement_from_before_the_welcome_does_not_part_a_child_from_its_parent() -> None:
    """Answers to probes come out of band: one that does not name the child may overtake."""
    world = mesh(5, 1)
    at = 0.0
    while not (child := [n for n in world.running() if world.overlay(n).parent != LOCAL]):
        at += 0.1
        world.run(at)
    node = world.overlay(child[0])
    parent = node.parent
    old = msgspec.structs.replace(world.overlay(parent).advertisement(), children=())
    node.receive(parent, old)
    assert node.parent == parent
    world.run(at + 2 * node.timeout)
    node = world.overlay(child[0])
    old = msgspec.structs.replace(world.overlay(node.parent).advertisement(), children=())
    node.receive(node.parent, old)
    assert node.parent == LOCAL, "a parent that has expired it is believed"


def test_a_node_that_began_alone_finds_those_it_was_told_of() -> None:
    """It is its own root by the time that its contact starts."""
    subject = chaos.Subject("shopparent", "hierarchical-forwarding", "strawman", False, "")
    history = chaos.play(subject, {"nodes": 9, "notices": True}, [])
    assert chaos.failure(history, ["start 2", "wait 10.3"]) is None


# Bad input


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"error": 3.0}, "error: expected `float` <= 1.0"),
        ({"receive": math.nan}, "receive: expected `float` >= 0.0"),
        ({"forward": math.inf}, "forward"),
        ({"forward": -1.0}, "forward: expected `float` >= 0.0"),
        ({"heirs": [0]}, "one root"),
        ({"heirs": [4, 4]}, "one root"),
        ({"root": 30}, "there is no node 30; nodes are 0 to 29"),
        ({"heirs": [99]}, "there is no node 99"),
        ({"timeout": 0.5}, "timeout must be longer than period"),
        ({"merge": "hull", "overlap": "sample"}, "a sample has no intervals"),
        ({"metric": "OPT"}, "metric"),
    ],
)
def test_a_bad_overlay_is_refused_by_name(overlay: dict[str, Any], words: str) -> None:
    with pytest.raises(StackError, match=words.replace("`", ".")):
        parse_config(config(30, overlay=overlay))


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"interests": {"given": [[5.0, 1.0]]}}, "node 0 ends before it starts; give .1, 5."),
        ({"interests": {"given": [[math.nan, 1.0]]}}, "node 0 has an end that is no number"),
        ({"interests": {"length": math.nan}}, "length"),
        ({"places": [[0, 0], [999, 0], [0, 10]]}, "not connected at a range of 80"),
        ({"places": [[0, 0]]}, "1 places for 3 nodes"),
        ({"clusters": 2}, "cannot be divided among 2 clusters"),
        ({"range": 0.5}, "none of .* placements of 3 nodes is connected"),
        ({"moves": [{"at": 1.0, "node": 3}]}, "there is no node 3"),
        ({"window": [5.0, 1.0]}, "window ends before it starts"),
    ],
)
def test_a_bad_placement_is_refused_by_name(topology: dict[str, Any], words: str) -> None:
    with pytest.raises(StackError, match=words):
        Simulation(parse_config(config(3, topology=topology)))


@pytest.mark.parametrize("ends", [[5.0, 1.0], [math.nan, 1.0]])
def test_an_interval_from_the_wire_has_its_ends_in_order(ends: list[float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert([[ends]], Wanted)
