"""WiTree and MAODV on radios that stand where a picture says; letters are 100 m apart in it.

A radio reaches 150 m: its neighbours in the picture, also diagonally.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.overlay import MAODV
from shoal.overlay.maodv_label import BLANK, Label, below, leads, nearer
from shoal.overlay.maodv_messages import Confirm, Handover, Leave, Mact, Rrep, Rreq, Taken
from shoal.routing.messages import Subscribe, Unsubscribe
from shoal.simulation import Simulation, parse_config, simulate
from shoal.simulation.kernel import to_ns
from shoal.simulation.player import Player
from shoal.stack import LOCAL, Contact, StackError


class Field:
    """Radios on a picture; each starts when it is told to."""

    def __init__(self, picture: str, overlay: str = "witree", **topology: Any) -> None:
        rows = [line for line in picture.splitlines() if line.strip()]
        found = {
            letter: (100.0 * column, 100.0 * row)
            for row, line in enumerate(rows)
            for column, letter in enumerate(line)
            if letter.isalpha()
        }
        self.names = sorted(found)
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": len(found),
                    "topology": {
                        "name": "air",
                        "range": 150.0,
                        "places": [found[name] for name in self.names],
                        **topology,
                    },
                    "overlay": {"name": overlay},
                    "routing": {"name": "flooding"},
                    "workload": {
                        "script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]
                    },
                    "record": ["traffic"],
                }
            )
        )
        self.kernel = self.simulation.kernel

    def start(self, names: str, seconds: float = 10.0) -> None:
        for name in names:
            self.simulation.topology.begin(self.names.index(name))
            self.wait(seconds)

    def wait(self, seconds: float) -> None:
        self.kernel.run(self.kernel.now + to_ns(seconds))

    def crash(self, name: str) -> None:
        self.simulation.topology.connections.crash(self.names.index(name))

    def node(self, name: str) -> MAODV:
        node = self.simulation.network.nodes[self.names.index(name)]
        assert node is not None
        assert isinstance(node.overlay, MAODV)
        return node.overlay

    def parents(self) -> dict[str, str]:
        """Who has which parent; "" for a leader."""
        running = [n for n in self.names if self.simulation.network.nodes[self.names.index(n)]]
        found = {}
        for name in running:
            overlay = self.node(name)
            found[name] = "" if overlay.parent == LOCAL else self.names[overlay.parent]
        return found

    def leaders(self) -> str:
        return "".join(name for name, parent in self.parents().items() if not parent)

    def sent(self, kind: str) -> int:
        return count(self.simulation, kind)


def test_nodes_that_start_one_by_one_join_the_tree_of_the_first() -> None:
    field = Field("abc")
    field.start("abc")
    assert field.parents() == {"a": "", "b": "a", "c": "b"}
    assert field.node("c").label[4] == 2.0  # hops to the leader


RING = """
ap
e.r
f..c
.dg
"""


def tree(links: str) -> dict[str, str]:
    """The parents that make up a tree: "ba ca" are b and c below a, which leads."""
    found = {link[0]: link[1] for link in links.split()}
    return {**dict.fromkeys(found.values(), ""), **found}


def test_a_node_below_the_orphan_finds_the_new_link_and_pointers_turn_round() -> None:
    """p fails. Its child r hears only its own child c; c hears g.

    g is further from the leader than r was, so it replies once it has a later group hello than r.
    """
    field = Field(RING)
    field.start("aprefdgc")
    assert field.parents() == tree("pa rp cr ea fe df gd")
    field.wait(2.0)  # so that one comes while r asks
    field.crash("p")
    field.wait(12.0)
    assert field.parents() == tree("ea fe df gd cg rc")
    assert field.sent("handover") == 1


def test_maodv_declares_a_partition_there_and_merges_the_trees_later() -> None:
    field = Field(RING, "maodv")
    field.start("aprefdgc")
    field.crash("p")
    field.wait(40.0)
    assert field.leaders() == "r"  # which found nobody to attach to; then a's tree joined its own
    assert field.sent("merge") >= 1


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_trees_that_meet_merge(overlay: str) -> None:
    """Two trees grow apart; then c starts between them."""
    field = Field("abcde", overlay)
    field.start("abde")
    assert len(field.leaders()) == 2
    field.start("c")
    field.wait(40.0)
    assert len(field.leaders()) == 1
    assert field.sent("handover") >= 1


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_the_tree_is_whole_again_when_the_leader_fails(overlay: str) -> None:
    field = Field("abc\ndef\nghi", overlay)
    field.start("eabcdfghi")
    assert field.leaders() == "e"
    field.crash("e")
    field.wait(60.0)
    assert len(field.leaders()) == 1


def test_a_link_that_one_end_has_given_up_keeps_a_network_from_being_at_rest() -> None:
    field = Field("ab")
    field.start("ab")
    assert field.kernel.at_rest()
    parent = field.node("a")
    parent.drop_child(1, "the test says so")
    assert not field.kernel.at_rest()
    field.wait(10.0)
    assert field.parents() == {"a": "", "b": "a"}
    assert field.kernel.at_rest()
    field.crash("a")
    assert not field.kernel.at_rest()
    field.wait(10.0)
    assert field.kernel.at_rest()


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_radios_that_move_and_fade_come_to_rest_with_right_tables(overlay: str) -> None:
    config = {
        "nodes": 20,
        "duration": 20.0,
        "topology": {
            "name": "air",
            "width": 600.0,
            "height": 600.0,
            "propagation": "path loss",
            "fading": "rayleigh",
        },
        "overlay": {"name": overlay},
        "reconfiguration": {"name": "timed", "unsubscription_timer": 2.0},
        "workload": {"publish_rate": 0.1},
    }
    assert simulate(parse_config(config)).canonical


def test_a_part_out_of_reach_leads_itself() -> None:
    field = Field("abc")
    field.start("abc")
    field.crash("b")
    field.wait(15.0)
    assert field.leaders() == "ac"


def test_a_neighbour_is_lost_after_some_frames_without_acknowledgement() -> None:
    field = Field("ab")
    field.start("ab")
    child = field.node("b")
    for _ in range(child.parameters.failures - 1):
        child.unreachable(Contact(child.parent))
    assert child.parent != LOCAL
    child.unreachable(Contact(child.parent))
    assert child.parent == LOCAL


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_a_neighbour_is_lost_when_nothing_is_heard_of_it_for_two_hellos(overlay: str) -> None:
    """AODV's ALLOWED_HELLO_LOSS, not rounded up to the next hello."""
    field = Field("ab", overlay)
    field.start("ab")
    child = field.node("b")
    field.crash("a")
    heard = max(child.parent_heard, child.host.heard(child.parent))
    while child.parent != LOCAL:
        field.wait(0.05)
    assert 2.0 < child.host.now() - heard < 2.35


def test_what_a_liar_sends_makes_no_link() -> None:
    """Activations, confirmations and handovers that nobody asked for change nothing."""
    field = Field("abc")
    field.start("abc")
    before, b = field.parents(), field.node("b")
    ahead: Label = (2**40, 2, 0, 1, 0.0)
    for message in (
        Mact(1, 1, BLANK, -1),
        Confirm(1, 99, ahead),
        Taken(1, 99, ahead),
        Handover(1, 2, ahead, 1.0, (), 0, 1, -1),
        Rrep(1, 99, 2, 5, ahead, ()),
        Rreq(1, 5, BLANK),
        Leave(77),
    ):
        b.receive(2, message)
        b.receive(0, message)
    field.wait(5.0)
    assert field.parents() == before


def test_labels_lead_upwards_whatever_a_parent_says() -> None:
    own: Label = (1, 3, 0, 7, 4.0)
    assert leads(own, (1, 3, 0, 8, 9.0))  # a later group hello
    assert leads(own, (2, 1, 0, 1, 9.0))  # a later generation
    assert leads(own, (1, 3, 0, 7, 3.5))  # nearer to the leader
    assert not leads(own, own)
    assert leads(below(own, (1, 3, 0, 7, 3.5)), (1, 3, 0, 7, 3.5))
    assert below(own, (1, 3, 0, 7, 1.0)) == (1, 3, 0, 7, 2.0)
    assert leads(own, nearer(own, 0.25))


def test_an_overlay_for_radios_is_refused_elsewhere_by_name() -> None:
    with pytest.raises(StackError, match="overlay 'witree' needs a layer that carries frames"):
        parse_config({"topology": {"name": "full-mesh"}, "overlay": {"name": "witree"}})


def on_air(**changes: Any) -> Simulation:
    """Radios on a line that subscribe at the start; what they send is not lost by chance alone."""
    return Simulation(
        parse_config(
            {
                "nodes": 4,
                "topology": {
                    "name": "air",
                    "range": 150.0,
                    "places": [[100.0 * n, 0.0] for n in range(4)],
                },
                "overlay": {"name": "witree"},
                "duration": 40.0,
                "workload": {"subscribers": 1.0, "publish_rate": 0.0},
                **changes,
            }
        )
    )


def test_a_subscription_that_did_not_arrive_is_said_again_while_it_holds() -> None:
    simulation = on_air()
    simulation.run()
    assert simulation.wrong_table() is None
    node = next(n for n in simulation.network.nodes if n is not None)
    routing = node.routing
    neighbour = routing.linked()[0]
    told = list(routing.announced[neighbour])  # type: ignore[attr-defined]
    before = count(simulation, "sub"), count(simulation, "unsub")
    routing.undelivered(neighbour, Subscribe(told[0]))
    routing.undelivered(neighbour, Unsubscribe(told[0]))  # by now it is wanted again
    routing.undelivered(99, Subscribe(told[0]))  # no neighbour any more
    assert (count(simulation, "sub"), count(simulation, "unsub")) == (before[0] + 1, before[1])


def count(simulation: Simulation, kind: str) -> int:
    """Messages of a kind sent so far."""
    simulation.recorder.close_bin()
    return sum(row[2] for row in simulation.recorder.traffic if row[0] == kind)


def test_events_for_several_neighbours_are_one_frame_that_names_them() -> None:
    """The middle of a line of three publishes: one frame, and both ends get the event."""
    for transport, frames in (("broadcast", 1), ("unicast", 2)):
        simulation = on_air(
            nodes=3,
            topology={
                "name": "air",
                "range": 150.0,
                "places": [[100.0 * n, 0.0] for n in range(3)],
                "event_transport": transport,
            },
            workload={
                "script": [
                    {"at": 0, "node": 0, "do": "subscribe", "patterns": [1]},
                    {"at": 0, "node": 2, "do": "subscribe", "patterns": [1]},
                    {"at": 30, "node": 1, "do": "publish", "patterns": [1]},
                ]
            },
            record=["traffic", "publications"],
        )
        simulation.run()
        traffic = [row for row in simulation.recorder.traffic if row[0] == "event"]
        assert sum(row[2] for row in traffic) == frames
        (record,) = simulation.recorder.publications
        assert record.received == 0b101


def test_activate_goes_along_the_tree_where_nodes_reach_only_those_in_range() -> None:
    """The ring again: r works out what c and g need to know, and tells c, which tells g."""
    rows = [(0, 0), (1, 0), (2, 1), (3, 2), (0, 1), (0, 2), (1, 3), (2, 3)]  # a p r c e f d g
    simulation = on_air(
        nodes=8,
        topology={
            "name": "air",
            "range": 150.0,
            "places": [[100.0 * x, 100.0 * y] for x, y in rows],
        },
        reconfiguration={
            "name": "informed-asymmetric",
            "unsubscription_timer": 2.0,
            "subscription_timer": 2.0,
            "routed": True,
        },
        record=["traffic", "links"],
    )
    simulation.begin()
    player = Player(simulation.kernel, simulation.workload, simulation, simulation.advertises)
    player.start()
    simulation.kernel.run(to_ns(60.0))
    lost = simulation.network.nodes[2]
    assert lost is not None
    parent = lost.overlay.parent  # type: ignore[union-attr]
    simulation.topology.connections.crash(parent if parent != LOCAL else 1)
    simulation.kernel.run(to_ns(120.0))
    assert simulation.kernel.run_to_rest(to_ns(180.0))
    assert simulation.wrong_table() is None
