"""Connections: each end learns on its own what becomes of them, and at rest both ends agree.

The overlay of these tests does what it is told and writes down what it hears; it makes a link of
every connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.simulation import InvariantViolation, Simulation, parse_config, simulate
from shoal.simulation.kernel import to_ns
from shoal.stack import (
    Contact,
    Host,
    Message,
    NodeId,
    Overlay,
    Routing,
    StackError,
    register,
)
from shoal.stack.layer import Handler
from shoal.stack.registry import _registry

DELAY = 0.001
TIMEOUT = 0.02
BEAT = 0.002
"""Seconds between two beats over a connection."""
SILENCE = 0.01
"""Seconds without a beat after which an end is given up."""


class Note(Message, frozen=True):
    number: int


class Letter(Message, frozen=True):
    """Sent out of band."""

    number: int


class Beat(Message, frozen=True):
    @classmethod
    def routine(cls) -> bool:
        return True


class SwitchboardParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    beats: bool = False
    """Whether silent connections are given up."""
    shy: tuple[int, ...] = ()
    """Nodes that close every connection as soon as they have it."""


class Switchboard(Overlay):
    """Opens and closes what a test says."""

    def __init__(self, host: Host, parameters: SwitchboardParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.parameters = parameters
        self.log: list[tuple[float, str]] = []
        self.contacts: tuple[int, ...] = ()
        self.notes: list[tuple[NodeId, int]] = []
        self.letters: list[int] = []
        self.heard: dict[NodeId, float] = {}
        """Per connected node, when it was last heard of."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {Note: self.on_note, Letter: self.on_letter, Beat: self.on_beat}

    def start(self) -> None:
        if self.parameters.beats:
            self.host.every(BEAT, self.beat)

    def beat(self) -> None:
        now = self.host.now()
        for peer in list(self.heard):
            if now - self.heard[peer] > SILENCE:
                self.close(peer)
            else:
                self.host.send(peer, Beat())

    def join(self, contacts: tuple[Contact, ...]) -> None:
        self.contacts = tuple(contact.node for contact in contacts)

    def opened(self, peer: Contact) -> None:
        assert peer.node not in self.heard
        self.log.append((self.host.now(), f"opened {peer.node}"))
        self.heard[peer.node] = self.host.now()
        self.link_up(peer.node)
        if self.host.node in self.parameters.shy:
            self.close(peer.node)

    def closed(self, peer: NodeId) -> None:
        self.log.append((self.host.now(), f"closed {peer}"))
        self._forget(peer)

    def unreachable(self, contact: Contact) -> None:
        assert contact.node not in self.heard
        self.log.append((self.host.now(), f"unreachable {contact.node}"))

    def close(self, peer: NodeId) -> None:
        if peer in self.heard:
            self._forget(peer)
            self.host.close(peer)

    def _forget(self, peer: NodeId) -> None:
        del self.heard[peer]
        self.link_down(peer)

    def on_note(self, sender: NodeId, message: Note) -> None:
        assert sender in self.heard, "over a connection that is not there"
        self.log.append((self.host.now(), f"note {message.number} from {sender}"))
        self.notes.append((sender, message.number))

    def on_letter(self, sender: NodeId, message: Letter) -> None:
        self.letters.append(message.number)

    def on_beat(self, sender: NodeId, message: Beat) -> None:
        assert sender in self.heard, "over a connection that is not there"
        self.heard[sender] = self.host.now()


@pytest.fixture(autouse=True)
def switchboard() -> Iterator[None]:
    before = dict(_registry)
    _register()
    yield
    _registry.clear()
    _registry.update(before)


def _register() -> None:
    register(
        *("overlay", "switchboard", Switchboard, SwitchboardParameters),
        needs={"reach"},
        provides={"links"},
    )


class World:
    """A few nodes that can all reach each other. Times are in milliseconds, the delay is one."""

    def __init__(
        self, nodes: int = 3, bandwidth: float = 0.0, overlay: Any = None, **topology: Any
    ) -> None:
        raw = {
            "nodes": nodes,
            "topology": {"name": "full-mesh", "joining": 0.0, "timeout": TIMEOUT, **topology},
            "overlay": {"name": "switchboard", **(overlay or {})},
            "routing": {"name": "flooding"},
            "link": {"delay": DELAY, "bandwidth": bandwidth},
            "workload": {"script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]},
        }
        self.simulation = Simulation(parse_config(raw))
        self.topology = self.simulation.topology
        self.connections = self.topology.connections
        self.kernel = self.simulation.kernel
        self.network = self.simulation.network
        self.simulation.begin()
        self.kernel.run(0)
        self.past: list[tuple[int, Switchboard]] = []
        """Overlays of nodes that crashed."""

    def overlay(self, node: int) -> Switchboard:
        found = self.network.nodes[node]
        assert found is not None
        assert isinstance(found.overlay, Switchboard)
        return found.overlay

    def open(self, a: int, b: int) -> None:
        self.network.hosts[a].open(Contact(b))

    def close(self, a: int, b: int) -> None:
        self.overlay(a).close(b)

    def send(self, a: int, b: int, number: int) -> None:
        self.network.hosts[a].send(b, Note(number))

    def crash(self, node: int) -> None:
        self.past.append((node, self.overlay(node)))
        self.topology.crash(node)

    def at(self, ms: float, act: Any, *arguments: Any) -> None:
        self.kernel.call_at(to_ns(ms / 1000), partial(act, *arguments))

    def run(self, ms: float) -> None:
        self.kernel.run(to_ns(ms / 1000))

    def rest(self) -> None:
        assert self.kernel.run_to_rest(self.kernel.now + to_ns(10))
        assert (self.kernel.armed, self.kernel.waiting, self.kernel.unnoticed) == (0, 0, 0)

    def log(self, node: int) -> list[str]:
        return [f"{at * 1000:g} {text}" for at, text in self.overlay(node).log]

    def connected(self) -> set[tuple[int, int]]:
        """The connections, as both ends see them."""
        ends = {(h.node, peer) for h in self.network.hosts for peer in h.channels}
        assert ends == {(b, a) for a, b in ends}
        return {(a, b) for a, b in ends if a < b}


def joined(*pairs: tuple[int, int], **more: Any) -> World:
    """A world in which these nodes are connected already, at 2 ms."""
    world = World(**more)
    for a, b in pairs:
        world.open(a, b)
    world.run(2)
    assert world.connected() == {(min(pair), max(pair)) for pair in pairs}
    for node in world.network.nodes:
        if node is not None:
            world.overlay(node.host.node).log.clear()
    return world


# Opening


def test_the_other_end_is_open_a_delay_later_and_this_one_another_delay() -> None:
    world = World()
    world.open(0, 1)
    world.rest()
    assert world.log(1) == ["1 opened 0"]
    assert world.log(0) == ["2 opened 1"]
    assert world.connected() == {(0, 1)}
    assert world.log(2) == []


def test_to_open_what_is_there_or_asked_for_does_nothing() -> None:
    world = World()
    for ms in (0, 0.5, 1.5, 2, 10):
        world.at(ms, world.open, 0, 1)
    world.at(10, world.open, 1, 0)
    world.rest()
    assert (world.log(0), world.log(1)) == (["2 opened 1"], ["1 opened 0"])


@pytest.mark.parametrize("later", [0, 0.3, 0.999, 1.0, 1.5])
def test_two_nodes_that_ask_each_other_have_one_connection(later: float) -> None:
    world = World()
    world.at(0, world.open, 0, 1)
    world.at(later, world.open, 1, 0)
    world.rest()
    assert [text.partition(" ")[2] for text in world.log(0)] == ["opened 1"]
    assert [text.partition(" ")[2] for text in world.log(1)] == ["opened 0"]
    assert world.connected() == {(0, 1)}
    world.send(0, 1, 7)
    world.send(1, 0, 8)
    world.rest()
    assert world.overlay(1).notes == [(0, 7)]
    assert world.overlay(0).notes == [(1, 8)]


@pytest.mark.parametrize("why", ["not started", "crashed", "cut off"])
def test_who_cannot_be_reached_is_reported_after_the_timeout(why: str) -> None:
    world = World(joining=1000.0 if why == "not started" else 0.0)
    if why == "crashed":
        world.crash(1)
    elif why == "cut off":
        world.connections.cut([0, 1, 1])
    world.open(0, 1)
    world.run(15)
    assert world.log(0) == []
    world.run(30)
    assert world.log(0) == ["21 unreachable 1"]  # a request's delay, and the timeout of 20 ms
    world.open(0, 1)
    world.run(60)
    assert world.log(0)[1:] == ["51 unreachable 1"]


def test_no_node_reaches_itself() -> None:
    world = World()
    world.open(0, 0)
    world.rest()
    assert world.log(0) == ["1 unreachable 0"]
    assert world.connected() == set()


def test_one_that_connects_meanwhile_is_not_unreachable() -> None:
    world = World()
    world.connections.cut([0, 1, 1])
    world.open(0, 1)
    world.at(5, world.connections.heal)
    world.at(6, world.open, 1, 0)
    world.rest()
    assert world.log(0) == ["7 opened 1"]


# Closing


def test_the_other_end_is_told_behind_what_was_sent_and_this_one_is_not() -> None:
    world = joined((0, 1), bandwidth=1e5)  # 4 ms for a note
    for number in range(3):
        world.send(0, 1, number)
    world.close(0, 1)
    world.rest()
    assert world.log(1) == [
        "7 note 0 from 0",
        "11 note 1 from 0",
        "15 note 2 from 0",
        "15 closed 0",
    ]
    assert world.log(0) == []
    assert world.connected() == set()


def test_what_is_on_its_way_to_the_end_that_closed_is_lost() -> None:
    world = joined((0, 1))
    world.at(3.0, world.send, 1, 0, 1)
    world.at(3.5, world.send, 1, 0, 2)
    world.at(4.2, world.close, 0, 1)
    world.at(4.4, world.send, 1, 0, 3)
    world.rest()
    assert world.log(0) == ["4 note 1 from 1"]
    assert world.log(1) == ["5.2 closed 0"]
    assert world.kernel.lost == 2


def test_both_may_close_at_once() -> None:
    world = joined((0, 1))
    world.close(0, 1)
    world.close(1, 0)
    world.rest()
    assert (world.log(0), world.log(1)) == ([], [])
    assert world.connected() == set()


def test_a_connection_that_is_refused_at_once_is_open_and_then_closed() -> None:
    """A node that has enough neighbours closes what it is asked for, before the other knows."""
    world = World(overlay={"shy": [1]})
    world.open(0, 1)
    world.rest()
    assert world.log(1) == ["1 opened 0"]
    assert world.log(0) == ["2 opened 1", "2 closed 1"]
    assert world.connected() == set()


@pytest.mark.parametrize("again", [0, 0.5, 1, 3])
@pytest.mark.parametrize("who", [(0, 1), (1, 0)])
def test_what_was_closed_can_be_opened_again(again: float, who: tuple[int, int]) -> None:
    world = joined((0, 1))
    world.at(4, world.close, 0, 1)
    world.at(4 + again, world.open, *who)
    world.rest()
    if who == (1, 0) and again <= 1:  # it has not heard yet, and holds its end for open
        assert world.connected() == set()
    else:
        assert world.connected() == {(0, 1)}
        assert [text.partition(" ")[2] for text in world.log(1)] == ["closed 0", "opened 0"]


def test_nothing_of_the_old_connection_arrives_over_the_new_one() -> None:
    world = joined((0, 1), bandwidth=1e5)
    for number in range(3):
        world.send(0, 1, number)
    world.close(0, 1)
    world.open(0, 1)
    world.at(30, world.send, 0, 1, 9)
    world.rest()
    notes = [text.partition(" ")[2] for text in world.log(1)]
    assert notes.index("closed 0") == notes.index("opened 0") - 1
    assert [n for n in notes[notes.index("opened 0") :] if n.startswith("note")] == [
        "note 9 from 0"
    ]


# Crashes


def test_a_crash_is_silent_and_counted_until_each_end_has_noticed() -> None:
    world = joined((0, 1), (2, 1))
    world.crash(1)
    assert world.kernel.unnoticed == 2
    world.send(0, 1, 1)
    world.run(500)
    assert (world.log(0), world.log(2)) == ([], [])
    assert world.kernel.lost == 1
    assert not world.kernel.at_rest()
    world.close(0, 1)
    assert world.kernel.unnoticed == 1
    assert not world.kernel.run_to_rest(to_ns(1))
    world.close(2, 1)
    world.rest()
    assert (world.log(0), world.log(2)) == ([], [])
    assert world.connected() == set()


def test_what_a_node_has_sent_before_it_crashed_still_arrives() -> None:
    world = joined((0, 1))
    world.send(1, 0, 5)
    world.crash(1)
    world.run(4)
    assert world.overlay(0).notes == [(1, 5)]


def test_broken_connections_are_told_where_the_topology_says_so() -> None:
    world = joined((0, 1), (2, 1), notice=0.1)
    world.crash(1)
    world.run(101)
    assert world.kernel.unnoticed == 2
    assert not world.kernel.at_rest()
    world.rest()
    assert (world.log(0), world.log(2)) == (["102 closed 1"], ["102 closed 1"])


def test_silent_connections_are_noticed_by_beats() -> None:
    world = joined((0, 1), (0, 2), overlay={"beats": True})
    world.run(40)
    assert world.kernel.at_rest()  # beats on their way do not count
    world.crash(1)
    assert not world.kernel.at_rest()
    world.rest()
    assert world.kernel.now <= to_ns(0.040 + SILENCE + 2 * BEAT)
    assert world.connected() == {(0, 2)}


@pytest.mark.parametrize("crash_at", [0.5, 1, 1.5, 1.999, 2, 2.5])
def test_a_node_that_crashes_while_it_connects_leaves_nobody_with_half_a_connection(
    crash_at: float,
) -> None:
    world = World(notice=0.1)
    world.open(0, 1)
    world.at(crash_at, world.crash, 0)
    world.run(50)
    assert world.kernel.unnoticed == (1 if "1 opened 0" in world.log(1) else 0)
    world.send(1, 0, 3)
    world.rest()
    assert world.past[0][1].notes == []
    assert world.connected() == set()


@pytest.mark.parametrize("crash_at", [0.5, 1, 1.5, 1.999, 2, 2.5])
def test_a_node_that_crashes_while_it_is_connected_to_leaves_nobody_with_half(
    crash_at: float,
) -> None:
    world = World(notice=0.1)
    world.open(0, 1)
    world.at(crash_at, world.crash, 1)
    world.run(50)
    heard = [text.partition(" ")[2] for text in world.log(0)]
    if crash_at < 1:
        assert heard == ["unreachable 1"]
    else:
        assert heard == ["opened 1"]
        assert world.kernel.unnoticed == 1
    world.rest()
    assert world.connected() == set()


def test_the_timers_of_a_node_end_with_it() -> None:
    world = World()
    fired: list[float] = []
    host = world.network.hosts[1]
    host.after(0.01, lambda: fired.append(host.now()))
    kept = host.after(0.01, lambda: fired.append(host.now()))
    host.every(0.002, lambda: fired.append(host.now()), 0.001)
    world.run(4)
    assert fired == [0.001, 0.003]
    world.crash(1)
    assert world.kernel.armed == 0
    kept.cancel()  # harmless afterwards
    world.topology.begin(1)
    world.run(20)
    assert fired == [0.001, 0.003]
    assert world.kernel.at_rest()


def test_a_timer_that_ends_its_node_does_not_come_again() -> None:
    world = World()
    world.network.hosts[1].every(0.002, partial(world.crash, 1))
    world.run(10)
    assert world.network.nodes[1] is None
    assert world.kernel.at_rest()


# Starting again


def test_a_node_that_is_back_has_a_later_epoch_and_no_memory() -> None:
    world = joined((0, 1), (0, 2))
    assert world.network.hosts[0].epoch == 0
    before = world.overlay(0)
    world.crash(0)
    world.topology.begin(0)
    assert world.network.hosts[0].epoch == 1
    assert world.overlay(0) is not before
    assert world.network.neighbours(0) == []
    assert sorted(world.overlay(0).contacts) == [1, 2]
    # Its neighbours have not noticed; they do when it asks for a connection.
    assert world.kernel.unnoticed == 2
    world.open(0, 1)
    world.close(2, 0)
    world.rest()
    assert world.log(1) == ["3 closed 0", "3 opened 0"]
    assert world.log(0) == ["4 opened 1"]
    assert world.connected() == {(0, 1)}
    world.send(1, 0, 4)
    world.rest()
    assert world.overlay(0).notes == [(1, 4)]
    assert before.notes == []


def test_a_request_of_an_earlier_life_does_not_stand_in_for_one_of_this() -> None:
    world = World()
    world.open(0, 1)
    world.at(0.2, world.crash, 0)
    world.at(0.4, world.topology.begin, 0)
    world.at(0.6, world.open, 0, 1)
    world.rest()
    assert world.log(0) == ["2.6 opened 1"]
    assert world.log(1) == ["1.6 opened 0"]


def test_out_of_band_messages_reach_the_node_that_is_there_now() -> None:
    world = World()
    direct = world.network.hosts[0].send_direct
    direct(Contact(1), Letter(1))
    world.run(2)
    direct(Contact(1), Letter(2))
    world.crash(1)
    world.run(4)
    direct(Contact(1), Letter(3))
    world.run(6)
    world.topology.begin(1)
    direct(Contact(1), Letter(4))
    world.rest()
    assert world.past[0][1].letters == [1]
    assert world.overlay(1).letters == [4]
    assert world.kernel.lost == 2


# Cuts


def test_messages_wait_while_a_network_is_cut_and_arrive_in_order_after_it() -> None:
    world = joined((0, 1), (0, 2))
    world.send(0, 1, 1)
    world.connections.cut([0, 1, 0])
    assert world.kernel.unnoticed == 2
    world.send(1, 0, 2)
    world.send(0, 2, 3)
    world.run(10)
    assert (world.overlay(1).notes, world.overlay(0).notes) == ([], [])
    assert world.overlay(2).notes == [(0, 3)]
    world.connections.heal()
    assert world.kernel.unnoticed == 0
    world.network.hosts[0].send_all((1, 2), Note(4))
    world.send(1, 0, 5)
    world.rest()
    assert world.overlay(1).notes == [(0, 1), (0, 4)]
    assert world.overlay(2).notes == [(0, 3), (0, 4)]
    assert world.overlay(0).notes == [(1, 2), (1, 5)]
    assert world.log(0) == ["10 note 2 from 1", "11 note 5 from 1"]
    assert world.kernel.lost == 0
    assert world.connected() == {(0, 1), (0, 2)}


def test_out_of_band_messages_do_not_cross_a_cut() -> None:
    world = World()
    for number, change in enumerate([None, [0, 1, 0], None]):
        if change is None:
            world.connections.heal()
        else:
            world.connections.cut(change)
        world.network.hosts[0].send_direct(Contact(1), Letter(number))
        world.network.hosts[0].send_direct(Contact(2), Letter(number))
        world.rest()
    assert world.overlay(1).letters == [0, 2]
    assert world.overlay(2).letters == [0, 1, 2]


def test_a_connection_that_one_end_gave_up_stays_broken_after_the_cut() -> None:
    world = joined((0, 1))
    world.connections.cut([0, 1, 0])
    world.send(0, 1, 0)
    world.run(5)
    world.close(0, 1)
    assert world.kernel.lost == 1
    assert world.kernel.unnoticed == 1
    world.connections.heal()
    assert world.kernel.unnoticed == 1
    world.send(1, 0, 1)
    world.run(10)
    assert world.overlay(0).notes == []
    assert not world.kernel.at_rest()
    world.close(1, 0)
    world.rest()
    assert world.connected() == set()


@pytest.mark.parametrize("cut_at", [0.5, 1, 1.5, 1.999, 2, 2.5])
def test_a_cut_while_two_nodes_connect_separates_them_all_the_same(cut_at: float) -> None:
    world = World(notice=0.1)
    world.open(0, 1)
    world.at(cut_at, world.connections.cut, [0, 1, 0])
    world.run(50)
    world.send(0, 1, 1)
    world.send(1, 0, 2)
    world.rest()
    assert world.overlay(0).notes == world.overlay(1).notes == []
    assert world.connected() == set()
    world.connections.heal()
    world.open(0, 1)
    world.rest()
    assert world.connected() == {(0, 1)}


@pytest.mark.parametrize("how", ["closes", "crashes"])
def test_the_last_words_of_a_node_do_not_reach_the_dead(how: str) -> None:
    world = joined((0, 1))
    world.send(0, 1, 1)
    if how == "closes":
        world.close(0, 1)
    else:
        world.crash(0)
    dead = world.overlay(1)
    world.crash(1)
    world.rest()
    assert dead.notes == []
    assert world.kernel.lost == 1


@pytest.mark.parametrize("dies", [False, True])
def test_a_request_waits_for_a_node_that_stands_still(dies: bool) -> None:
    world = World()
    world.connections.stand_still(1)
    world.open(0, 1)
    world.run(50)
    assert (world.log(0), world.log(1)) == ([], [])
    if dies:
        world.crash(1)
    world.connections.go_on(1)
    world.rest()
    assert world.connected() == (set() if dies else {(0, 1)})
    assert world.log(0) == (["70 unreachable 1"] if dies else ["51 opened 1"])


def test_an_end_is_told_a_full_time_after_the_last_break() -> None:
    world = joined((0, 1), notice=0.1)
    world.connections.cut([0, 1, 0])
    world.at(50, world.connections.heal)
    world.at(90, world.connections.cut, [0, 1, 0])
    world.run(150)
    assert (world.log(0), world.log(1)) == ([], [])
    world.rest()
    assert (world.log(0), world.log(1)) == (["190 closed 1"], ["190 closed 0"])


# Links


def test_a_link_is_there_while_both_ends_hold_it() -> None:
    world = World()
    world.open(0, 1)
    world.run(1)
    assert world.simulation.recorder.links == []
    world.run(2)
    world.close(1, 0)
    world.rest()
    assert world.simulation.recorder.links == [
        (2_000_000, 0, 1, "up", -1),
        (2_000_000, 1, 0, "down", -1),
    ]


def test_the_links_of_a_node_that_crashes_go_down_with_it() -> None:
    world = joined((0, 1), (2, 1), notice=0.1)
    world.crash(1)
    down = [row for row in world.simulation.recorder.links if row[3] == "down"]
    assert sorted(row[1:3] for row in down) == [(1, 0), (1, 2)]
    assert world.simulation.oracle.forest.links == [{}, {}, {}]
    world.rest()
    assert len([row for row in world.simulation.recorder.links if row[3] == "down"]) == 2


def test_a_link_is_made_and_given_up_once() -> None:
    world = joined((0, 1))
    with pytest.raises(ValueError, match="node 0 makes a link to 1 twice"):
        world.overlay(0).link_up(1)


def test_who_follows_a_script_opens_nothing() -> None:
    raw = {"nodes": 3, "topology": {"name": "static-graph", "degree": 2}}
    simulation = Simulation(parse_config({**raw, "routing": {"name": "flooding"}}))
    with pytest.raises(TypeError, match="node 0 opens or closes a connection, but links follow"):
        simulation.network.hosts[0].open(Contact(1))


# Whole runs


class Star(Switchboard):
    """Every node connects to node 0."""

    def join(self, contacts: tuple[Contact, ...]) -> None:
        super().join(contacts)
        if self.host.node:
            self.host.open(Contact(0))


def star(**topology: Any) -> dict[str, Any]:
    register(
        *("overlay", "star", Star, SwitchboardParameters),
        needs={"reach"},
        provides={"links", "tree"},
    )
    return {
        "nodes": 5,
        "duration": 4.0,
        "topology": {"name": "full-mesh", "joining": 0.1, **topology},
        "overlay": {"name": "star"},
        "routing": {"name": "event-forwarding"},
        "workload": {
            "script": [
                {"at": 0.0, "node": 3, "do": "subscribe", "patterns": [1]},  # not there yet
                {"at": 0.5, "node": 2, "do": "subscribe", "patterns": [1]},
                {"at": 1.0, "node": 1, "do": "publish", "patterns": [1]},
                {"at": 2.0, "node": 1, "do": "publish", "patterns": [1]},
                {"at": 3.0, "node": 1, "do": "publish", "patterns": [1]},
            ]
        },
        "record": ["deliveries", "links", "publications"],
    }


def test_a_tree_that_nodes_build_themselves_carries_events() -> None:
    """Node 3 is away from 1.5 s on, and wants what it wanted when it is back at 2.5 s."""
    result = simulate(parse_config(star(notice=0.1, crashes=[[1.5, 3]], back_after=1.0)))
    rows = result.tables["deliveries"].to_pylist()
    got = [(row["sequence"], row["node"], row["hops"]) for row in rows]
    assert sorted(got) == [(0, 2, 2), (0, 3, 2), (1, 2, 2), (2, 2, 2), (2, 3, 2)]
    published = result.tables["publications"].to_pylist()
    assert [(row["owed"], row["received"]) for row in published] == [(2, 2), (1, 1), (2, 2)]
    changes = [row["change"] for row in result.tables["links"].to_pylist()]
    assert changes == ["up"] * 4 + ["down", "up"]
    assert result.diameter is None


def test_a_failure_that_nobody_notices_is_named() -> None:
    with pytest.raises(InvariantViolation, match="0 timers armed, 1 ends of broken connections un"):
        simulate(parse_config(star(crashes=[[1.5, 3]])))


# Full mesh


def test_nodes_start_evenly_spaced_and_are_told_of_some_that_run() -> None:
    world = World(nodes=11, joining=1.0, contacts=3)
    running = [0]
    assert world.overlay(0).contacts == ()
    for number in range(1, 11):
        world.run(100 * number - 1)
        assert [n for n, node in enumerate(world.network.nodes) if node is not None] == running
        world.run(100 * number)
        contacts = world.overlay(number).contacts
        assert len(set(contacts)) == len(contacts) == min(3, number)
        assert set(contacts) <= set(running)
        running.append(number)


def test_crashes_come_at_their_rate_and_nodes_come_back() -> None:
    world = World(nodes=20, crash_rate=0.5, window=(1.0, 61.0), back_after=5.0)
    world.run(7_000)
    away = [
        host.node
        for host, node in zip(world.network.hosts, world.network.nodes, strict=True)
        if not node
    ]
    assert len(away) == 1
    world.run(120_000)
    assert sum(host.epoch for host in world.network.hosts) == 10
    assert all(node is not None for node in world.network.nodes)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"window": [3.0, 1.0]}, r"window ends before it starts; give \[1, 3\]"),
        ({"partitions": [{"start": 2.0, "end": 1.0}]}, "end after they start.* at 2 s"),
        (
            {"partitions": [{"start": 1.0, "end": 4.0}, {"start": 3.0, "end": 5.0}]},
            "not overlap; look at the one at 3 s",
        ),
        ({"crashes": [[1.0, 3]]}, "there is no node 3 at 1 s; nodes are 0 to 2"),
        ({"contacts": 0}, "contacts: expected `int` >= 1"),
    ],
)
def test_what_cannot_be_is_refused(topology: dict[str, Any], words: str) -> None:
    with pytest.raises(StackError, match=words):
        World(**topology)


def test_partitions_cut_a_share_of_the_nodes_off_for_their_time() -> None:
    world = World(nodes=10, partitions=[{"start": 1.0, "end": 2.0, "share": 0.3}])
    for a in range(10):
        for b in range(a):
            world.open(a, b)
    world.run(999)
    assert world.kernel.unnoticed == 0
    world.run(1000)
    assert world.kernel.unnoticed == 2 * 3 * 7
    world.run(2000)
    assert world.kernel.unnoticed == 0


# The property


acts = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 3, 30]),
        st.sampled_from(["open"] * 4 + ["close"] * 2 + ["send"] * 2 + ["crash", "start", "cut"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=60,
)
"""Half delays since the last act, what is done, and by and to whom."""


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    acts=acts,
    healed=st.booleans(),
    bandwidth=st.sampled_from([0.0, 1e6]),
    beats=st.booleans(),
    shy=st.sampled_from([[], [3]]),
)
def test_at_rest_both_ends_agree(
    acts: list[tuple[int, str, int, int]],
    healed: bool,
    bandwidth: float,
    beats: bool,
    shy: list[int],
) -> None:
    """Whatever is opened, closed, cut and crashed, in steps of half a delay."""
    notice = None if beats else 0.007
    world = World(4, bandwidth, {"beats": beats, "shy": shy}, notice=notice)
    sent: dict[tuple[int, int], list[int]] = {}

    def act(number: int, what: str, a: int, b: int) -> None:
        if what == "cut":
            sides = [int(node in (a, b)) for node in range(4)]
            if world.connections.side is None:
                world.connections.cut(sides)
            else:
                world.connections.heal()
        elif what == "start":
            world.topology.begin(a)
        elif world.network.nodes[a] is not None:
            if what == "open":
                world.open(a, b)
            elif what == "close":
                world.close(a, b)
            elif what == "crash":
                world.crash(a)
            elif b in world.network.hosts[a].channels:
                sent.setdefault((a, b), []).append(number)
                world.send(a, b, number)

    at = 0
    for number, (gap, what, a, b) in enumerate(acts):
        at += gap
        world.at(at / 2, act, number, what, a, b)
    world.run(at / 2)
    if healed and world.connections.side is not None:
        world.connections.heal()
    world.rest()
    for a, node in enumerate(world.network.nodes):
        channels = world.network.hosts[a].channels
        if node is None:
            assert not channels
            continue
        overlay = world.overlay(a)
        assert set(overlay.heard) == set(channels) == set(overlay.neighbours)
        for b, channel in channels.items():
            assert world.connections.reaches(a, b)
            back = world.network.hosts[b].channels[a]
            assert channel.up
            assert back.up
            assert channel.node is world.network.nodes[b]
    links = world.simulation.oracle.forest.links
    assert [set(found) for found in links] == [set(h.channels) for h in world.network.hosts]
    # Messages arrive in order, at most once, and only what was sent.
    for b, overlay in [*world.past, *((n, world.overlay(n)) for n in world.topology.running)]:
        for a in range(4):
            got = [number for sender, number in overlay.notes if sender == a]
            assert got == [number for number in sent.get((a, b), []) if number in got]
    # A connection at rest carries messages both ways.
    for a, b in world.connected():
        for source, target in ((a, b), (b, a)):
            before = len(world.overlay(target).notes)
            world.send(source, target, -1)
            world.run(world.kernel.now / 1e6 + 2)
            assert world.overlay(target).notes[before:] == [(source, -1)]
    # Nothing is left behind that would keep two nodes from connecting.
    if world.connections.side is None and not shy:
        running = list(world.topology.running)
        for a in running:
            for b in running:
                if a != b:
                    world.open(a, b)
        world.rest()
        assert len(world.connected()) == len(running) * (len(running) - 1) // 2
