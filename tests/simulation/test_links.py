"""Links carry messages in order, lose what is in flight when they go down, and start anew."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.overlay.given import Given
from shoal.simulation.kernel import NANOSECONDS, Kernel, to_ns
from shoal.simulation.network import Network
from shoal.simulation.recorder import Recorder
from shoal.stack import Contact, Host, Message, Node, NodeId, Reconfiguration, Routing
from shoal.stack.layer import Handler
from shoal.stack.registry import NoParameters


class Note(Message, frozen=True):
    text: str
    length: int = 50

    def size(self) -> int:
        return self.length


class Listener(Routing):
    """Writes down what arrives."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.heard: list[tuple[float, NodeId, str]] = []
        self.links: list[str] = []

    def handlers(self) -> dict[type[Message], Handler]:
        return {Note: self.on_note}

    def on_note(self, sender: NodeId, message: Note) -> None:
        self.heard.append((self.host.now(), sender, message.text))

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.links.append(f"+{neighbour}")

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.links.append(f"-{neighbour}")


class World:
    """A few listening nodes."""

    def __init__(self, nodes: int = 4, delay: float = 0.001, bandwidth: float = 0.0) -> None:
        self.kernel = Kernel()
        self.recorder = Recorder(self.kernel, nodes, to_ns(0.1), ["messages"])
        self.network = Network(self.kernel, self.recorder, delay, bandwidth)
        self.network.make_node = self._node
        self.listeners: list[Listener] = []
        for number in range(nodes):
            self.network.add_host(0)
            self.network.put_node(number)

    def _node(self, host: Host) -> Node:
        self.listeners.append(Listener(host))
        return Node(host, Given(host, NoParameters(), self.listeners[-1]), self.listeners[-1], None)

    def at(self, seconds: float, act: Any, *arguments: Any) -> None:
        self.kernel.call_at(to_ns(seconds), partial(act, *arguments))

    def send(self, source: int, target: int, text: str, length: int = 50) -> None:
        self.network.hosts[source].send(target, Note(text, length))

    def run(self) -> None:
        assert self.kernel.run_to_rest(to_ns(1e6))

    def heard(self, node: int) -> list[str]:
        return [text for _, _, text in self.listeners[node].heard]


def test_a_message_takes_its_transmission_time_and_the_delay() -> None:
    world = World(delay=0.001, bandwidth=10e6)
    world.network.link_up(0, 1)
    world.send(0, 1, "hello", length=50)
    world.run()
    assert world.listeners[1].heard == [(0.00104, 0, "hello")]


def test_both_directions_are_independent() -> None:
    world = World(bandwidth=1e3)
    world.network.link_up(0, 1)
    world.send(0, 1, "there", 1000)
    world.send(1, 0, "back", 1)
    world.run()
    assert world.listeners[0].heard[0][0] == pytest.approx(0.001 + 0.008)
    assert world.listeners[1].heard[0][0] == pytest.approx(0.001 + 8.0)


@settings(max_examples=50, deadline=None)
@given(
    sends=st.lists(
        st.tuples(st.integers(0, 3000), st.integers(0, 400), st.booleans()), min_size=1, max_size=25
    ),
    bandwidth=st.sampled_from([0.0, 1e4, 1e6, 1e12]),
)
def test_a_link_is_first_in_first_out_and_never_faster_than_its_bandwidth(
    sends: list[tuple[int, int, bool]], bandwidth: float
) -> None:
    """Also when copies to several neighbours and single messages mix."""
    world = World(nodes=3, delay=0.0005, bandwidth=bandwidth)
    world.network.link_up(0, 1)
    world.network.link_up(0, 2)
    due: list[tuple[int, int, str, int]] = []
    for number, (at, length, both) in enumerate(sends):
        note = Note(str(number), length)
        host = world.network.hosts[0]
        if both:
            world.at(at / 1e6, host.send_all, (1, 2), note)
        else:
            world.at(at / 1e6, host.send, 1, note)
        due.append((at * 1000, number, note.text, length))
    world.run()
    heard = world.listeners[1].heard
    assert [text for *_, text in heard] == [text for *_, text, _ in sorted(due)]
    free_at = 0.0
    for (at, _, _, length), (arrived, _, _) in zip(sorted(due), heard, strict=True):
        sending = length * 8 * NANOSECONDS / bandwidth if bandwidth else 0.0
        free_at = max(free_at, at) + sending
        assert arrived * NANOSECONDS == pytest.approx(free_at + 500_000, abs=len(due) + 1)
    copies = {str(number) for number, (_, _, both) in enumerate(sends) if both}
    assert set(world.heard(2)) == copies


def test_what_is_in_flight_when_a_link_goes_down_is_lost() -> None:
    world = World()
    world.network.link_up(0, 1)
    world.at(0.0, world.send, 0, 1, "arrives")
    world.at(0.0005, world.send, 0, 1, "lost")
    world.at(0.0011, world.network.link_down, 0, 1)
    world.at(0.0020, world.send, 0, 1, "nowhere to go")
    world.run()
    assert world.heard(1) == ["arrives"]
    assert world.kernel.lost == 1
    assert world.kernel.handled == 1
    assert world.recorder.unlinked == 1


def test_it_is_lost_also_if_the_same_pair_is_linked_again_before_it_would_arrive() -> None:
    world = World()
    world.network.link_up(0, 1)
    world.at(0.0000, world.send, 0, 1, "of the old link")
    world.at(0.0002, world.network.link_down, 0, 1)
    world.at(0.0003, world.network.link_up, 0, 1)
    world.at(0.0004, world.send, 0, 1, "of the new link")
    world.run()
    assert world.heard(1) == ["of the new link"]
    assert world.listeners[1].heard[0][0] == pytest.approx(0.0014)
    assert world.listeners[0].links == ["+1", "-1", "+1"]


def test_a_new_link_does_not_wait_for_the_old_ones_queue() -> None:
    world = World(bandwidth=1e3)
    world.network.link_up(0, 1)
    world.send(0, 1, "long", 10_000)
    world.network.link_down(0, 1)
    world.network.link_up(0, 1)
    world.send(0, 1, "short", 1)
    world.run()
    assert world.heard(1) == ["short"]
    assert world.listeners[1].heard[0][0] == pytest.approx(0.009)


@settings(max_examples=60, deadline=None)
@given(
    acts=st.lists(
        st.tuples(
            st.integers(0, 400), st.sampled_from(["send", "all", "cut", "join"]), st.integers(1, 3)
        ),
        max_size=40,
    )
)
def test_exactly_what_a_link_was_up_for_arrives(acts: list[tuple[int, str, int]]) -> None:
    """A message arrives iff its link stayed up, without a break, from sending to arrival."""
    delay = 100
    world = World(nodes=4, delay=delay / NANOSECONDS)
    acts = sorted(acts, key=lambda act: act[0])
    up = {1: False, 2: False, 3: False}
    epoch = {1: 0, 2: 0, 3: 0}
    breaks: dict[tuple[int, int], float] = {}
    sent: list[tuple[int, int, int, str]] = []
    for number, (at, act, node) in enumerate(acts):
        host, text = world.network.hosts[0], str(number)
        if act == "cut" and up[node]:
            up[node] = False
            breaks[node, epoch[node]] = at
            world.kernel.call_at(at, partial(world.network.link_down, 0, node))
        elif act == "join" and not up[node]:
            up[node] = True
            epoch[node] += 1
            world.kernel.call_at(at, partial(world.network.link_up, 0, node))
        elif act == "send":
            world.kernel.call_at(at, partial(host.send, node, Note(text)))
            sent += [(at, node, epoch[node], text)] if up[node] else []
        elif act == "all":
            world.kernel.call_at(at, partial(host.send_all, (1, 2, 3), Note(text), node))
            sent += [(at, n, epoch[n], text) for n in (1, 2, 3) if up[n] and n != node]
    world.run()
    for node in (1, 2, 3):
        # A break at the very instant of arrival was scheduled before the message was sent.
        due = [
            text
            for at, target, era, text in sent
            if target == node and breaks.get((node, era), float("inf")) > at + delay
        ]
        assert world.heard(node) == due
    assert world.kernel.handled + world.kernel.lost == len(sent)


def test_out_of_band_messages_need_no_link() -> None:
    world = World()
    world.network.direct_delay = to_ns(0.3)
    world.network.hosts[0].send_direct(Contact(3), Note("psst"))
    world.run()
    assert world.listeners[3].heard == [(0.3, 0, "psst")]


def test_a_crashed_node_hears_and_says_nothing() -> None:
    world = World()
    for other in (1, 2):
        world.network.link_up(0, other)
    hosts = world.network.hosts
    world.at(0.0001, world.send, 1, 0, "in flight")
    world.at(0.0001, hosts[3].send_direct, Contact(0), Note("in flight, directly"))
    world.at(0.0002, world.network.crash, 0)
    world.at(0.0003, hosts[3].send_direct, Contact(0), Note("directly"))
    world.at(0.0003, hosts[2].send_direct, Contact(0), Note("directly, for the first time"))
    world.at(0.0003, hosts[0].send_direct, Contact(1), Note("from beyond"))
    world.at(0.0003, world.send, 0, 1, "from beyond")
    world.run()
    assert world.listeners[0].heard == []
    assert world.listeners[1].heard == []
    assert world.listeners[1].links == ["+0", "-0"]
    assert world.listeners[2].links == ["+0", "-0"]
    assert world.listeners[0].links == ["+1", "+2"]
    assert world.kernel.lost == 4


def test_two_nodes_have_one_link() -> None:
    world = World()
    world.network.link_up(0, 1)
    with pytest.raises(ValueError, match="1-0 are linked already"):
        world.network.link_up(1, 0)
    assert world.network.neighbours(0) == [1]


def test_messages_are_frozen() -> None:
    note = Note("fixed")
    with pytest.raises(AttributeError):
        note.text = "changed"  # type: ignore[misc]  # on purpose
    assert msgspec.json.decode(msgspec.json.encode(note), type=Note) == note
