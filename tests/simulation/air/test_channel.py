"""The channel: who hears what when, on a few radios whose places say it all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from shoal.simulation.air.host import AirHost
from shoal.simulation.air.parameters import AirParameters
from shoal.simulation.air.state import COUNTS
from shoal.simulation.air.topologies import Air
from shoal.simulation.kernel import Kernel
from shoal.simulation.network import Network
from shoal.simulation.recorder import Recorder
from shoal.stack import Contact, Message, StackError
from shoal.stack.host import Host
from shoal.stack.layer import Routing
from shoal.stack.node import Node

MICRO = 1000


class Word(Message, frozen=True, tag="air test word"):
    """What nodes say to each other."""

    text: str = ""
    length: int = 64

    def size(self) -> int:
        return self.length


class Ear(Routing):
    """Writes down what a node hears, and when."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.heard: list[tuple[int, int, str]] = []
        self.lost: list[tuple[int, int]] = []

    def handlers(self) -> dict[type[Message], Any]:
        return {Word: self.on_word}

    def on_word(self, sender: int, word: Word) -> None:
        self.heard.append((self.host.kernel.now, sender, word.text))  # type: ignore[attr-defined]

    def linked(self) -> list[int]:
        return []

    def unreachable(self, contact: Contact) -> None:
        self.lost.append((self.host.kernel.now, contact.node))  # type: ignore[attr-defined]


class World:
    """Radios at places on a line, 200 m of range, 2 Mbit/s."""

    def __init__(self, places: list[float], seed: int = 0, **more: Any) -> None:
        self.kernel = Kernel()
        nodes = len(places)
        self.recorder = Recorder(self.kernel, nodes, 10**8, [])
        self.network = Network(self.kernel, self.recorder)
        for _ in places:
            self.network.add_host(seed)
        self.network.make_node = lambda host: Node(host, None, Ear(host), None)
        at = tuple((x, 0.0) for x in places)
        parameters = AirParameters(places=at, width=1e6, **more)
        self.air = Air(parameters, self.network, nodes, seed)
        self.air.start()
        self.kernel.run(0)

    def host(self, node: int) -> AirHost:
        host = self.network.hosts[node]
        assert isinstance(host, AirHost)
        return host

    def ear(self, node: int) -> Ear:
        ear = self.network.nodes[node]
        assert ear is not None
        assert isinstance(ear.routing, Ear)
        return ear.routing

    def at(self, micro: float, act: Any, *arguments: Any) -> None:
        self.kernel.call_at(int(micro * MICRO), lambda: act(*arguments))

    def run(self, seconds: float = 10.0) -> None:
        assert self.kernel.run_to_rest(int(seconds * 10**9))

    def count(self, name: str) -> int:
        return int(self.air.medium.counted()[:, COUNTS.index(name)].sum())


AIRTIME = 192 + 8 * (64 + 36) / 2
"""Microseconds of a word at 2 Mbit/s."""


def test_a_broadcast_reaches_all_in_range_after_its_airtime_and_nobody_else() -> None:
    world = World([0, 150, 199, 201])
    world.at(1000, world.host(0).broadcast, Word("hello"))
    world.run()
    expected = [(int((1000 + AIRTIME) * MICRO), 0, "hello")]
    assert world.ear(1).heard == world.ear(2).heard == expected
    assert world.ear(3).heard == world.ear(0).heard == []
    assert (world.count("frames"), world.count("receptions")) == (1, 2)


def test_who_senses_a_transmission_waits_for_its_end_difs_and_its_slots() -> None:
    world = World([0, 100, 150])
    world.at(1000, world.host(0).broadcast, Word("first"))
    world.at(1100, world.host(1).broadcast, Word("second"))
    world.run()
    assert [text for _, _, text in world.ear(2).heard] == ["first", "second"]
    (end, _, _), (later, _, _) = world.ear(2).heard
    slots, rest = divmod(later - end - int(AIRTIME * MICRO) - 50 * MICRO, 20 * MICRO)
    assert rest == 0
    assert 0 <= slots <= 31
    assert world.count("collisions") == 0


def test_hidden_terminals_collide_at_the_node_between_them() -> None:
    world = World([0, 190, 380], capture="off")
    world.at(1000, world.host(0).broadcast, Word("left"))
    world.at(1100, world.host(2).broadcast, Word("right"))
    world.run()
    assert world.ear(1).heard == []
    assert world.count("collisions") == 2


def test_the_first_frame_survives_an_overlap_if_its_bits_stay_right() -> None:
    """At 1 Mbit/s one interferer of equal power does nothing; at 11 Mbit/s it destroys all."""
    for rate, expected in ((1e6, ["left"]), (11e6, [])):
        world = World([0, 190, 380], rate=rate)
        world.at(1000, world.host(0).broadcast, Word("left", 1000))
        world.at(1300, world.host(2).broadcast, Word("right", 1000))
        world.run()
        assert [text for _, _, text in world.ear(1).heard] == expected, rate


def test_the_channel_is_busy_as_far_as_transmissions_can_be_sensed() -> None:
    """900 m away a signal is 13.06 dB below what can be received."""
    for sense, waits in ((-12.9, False), (-13.2, True)):
        world = World([0, 900, 1050], propagation="path loss", sense=sense)
        world.at(1000, world.host(0).broadcast, Word("first"))
        world.at(1300, world.host(1).broadcast, Word("second"))
        world.run()
        heard_at = world.ear(2).heard[0][0] / MICRO
        assert (heard_at > 1000 + 2 * AIRTIME) == waits


def test_frames_that_begin_together_are_both_lost() -> None:
    world = World([0, 190, 380], rate=1e6)
    for node in (0, 2):
        world.at(1000, world.host(node).broadcast, Word("both"))
    world.run()
    assert world.ear(1).heard == []


def test_a_much_stronger_frame_is_captured_if_asked_for() -> None:
    """Path loss: a frame from 10 m overpowers one from 190 m that began before it."""
    for capture, expected in (("strongest", ["near"]), ("first", [])):
        world = World([0, 190, 380, 200], propagation="path loss", capture=capture, sense=40.0)
        world.at(1000, world.host(0).broadcast, Word("far", 200))
        world.at(1100, world.host(3).broadcast, Word("near", 200))
        world.run()
        assert [text for _, _, text in world.ear(1).heard] == expected


def test_a_node_hears_nothing_while_it_transmits() -> None:
    world = World([0, 190, 380], capture="off")
    world.at(1000, world.host(0).broadcast, Word("a"))
    world.at(1000, world.host(1).broadcast, Word("b"))
    world.run()
    assert world.ear(0).heard == world.ear(1).heard == []
    assert [text for _, _, text in world.ear(2).heard] == ["b"]
    assert world.count("deaf") == 2


def test_unicast_is_acknowledged_and_heard_once_by_its_target_alone() -> None:
    world = World([0, 100, 150])
    world.at(1000, world.host(0).send, 1, Word("for one"))
    world.run()
    assert world.ear(1).heard == [(int((1000 + AIRTIME) * MICRO), 0, "for one")]
    assert world.ear(2).heard == []
    assert world.ear(0).lost == []
    assert (world.count("frames"), world.count("acknowledgements")) == (1, 1)


def test_a_target_out_of_range_is_reported_after_the_last_attempt() -> None:
    world = World([0, 100, 500])
    world.at(1000, world.host(0).send, 2, Word("too far"))
    world.at(1000, world.host(0).send, 1, Word("next"))
    world.run()
    assert [node for _, node in world.ear(0).lost] == [2]
    assert world.count("frames") == 7 + 1
    assert world.count("retries") == 6
    assert world.count("given_up") == world.kernel.lost == 1
    assert [text for _, _, text in world.ear(1).heard] == ["next"]
    assert world.ear(1).heard[0][0] > world.ear(0).lost[0][0]


@pytest.mark.parametrize("seed", range(5))
def test_hidden_senders_get_unicast_through_where_broadcasts_would_be_lost(seed: int) -> None:
    world = World([0, 190, 380], seed, capture="off")
    for k in range(20):
        world.at(1000 + 2000 * k, world.host(0).send, 1, Word(f"l{k}"))
        world.at(1100 + 2000 * k, world.host(2).send, 1, Word(f"r{k}"))
    world.run()
    heard = [text for _, _, text in world.ear(1).heard]
    lost = len(world.ear(0).lost) + len(world.ear(2).lost)
    assert len(set(heard)) == len(heard), "an acknowledgement was lost, and its frame heard twice"
    assert len(heard) + lost >= 40
    assert lost <= 2
    assert world.count("retries") >= 5


def test_a_full_queue_drops_frames_and_an_old_frame_is_not_sent() -> None:
    world = World([0, 100], queue=3)
    for _ in range(5):
        world.at(1000, world.host(0).broadcast, Word())
    world.run()
    assert len(world.ear(1).heard) == 3
    assert world.count("queue_drops") == 2
    world = World([0, 100], lifetime=0.001)
    for _ in range(5):
        world.at(1000, world.host(0).broadcast, Word())
    world.run()
    assert len(world.ear(1).heard) + world.count("expired") == 5
    assert world.count("expired") > 0
    assert world.kernel.lost == world.count("expired")


def test_a_message_for_some_is_one_frame_that_others_drop() -> None:
    from shoal.content import Event, Patterns
    from shoal.routing import Forward

    class Two(Ear):
        def handlers(self) -> dict[type[Message], Any]:
            return {Forward: self.on_event}

        def on_event(self, sender: int, message: Forward) -> None:
            self.heard.append((0, sender, str(message.hops)))

    for transport, frames in (("broadcast", 1), ("unicast", 2)):
        world = World([0, 50, 100, 150], event_transport=transport)
        for node in range(4):
            world.network.nodes[node] = Node(world.host(node), None, Two(world.host(node)), None)
        message = Forward(Event(0, 0, Patterns((1,))), 1)
        world.at(1000, world.host(0).send_all, (1, 2, 3), message, 2)
        world.run()
        assert [len(world.ear(node).heard) for node in range(4)] == [0, 1, 0, 1]
        assert world.count("frames") == frames


def test_a_crashed_node_is_silent_and_deaf() -> None:
    world = World([0, 100])
    world.at(900, world.host(1).broadcast, Word("last words"))
    world.at(1000, world.air.connections.crash, 1)
    world.at(2000, world.host(0).broadcast, Word("anybody?"))
    world.at(2000, world.host(1).broadcast, Word("ghost"))
    world.run()
    assert [text for _, _, text in world.ear(0).heard] == ["last words"]
    assert world.count("frames") == 2
    world.air.begin(1)
    world.host(0).broadcast(Word("again"))
    world.run()
    assert [text for _, _, text in world.ear(1).heard] == ["again"]


def test_a_message_larger_than_the_medium_takes_is_refused_by_name() -> None:
    world = World([0, 100])
    with pytest.raises(
        StackError, match=r"node 0 sends a message .* of 2305 bytes; the medium takes 2304"
    ):
        world.host(0).broadcast(Word("", 2305))


def test_connections_are_refused() -> None:
    world = World([0, 100])
    with pytest.raises(TypeError, match="on the air there are none"):
        world.host(0).open(Contact(1))
    world.host(0).close(1)


@pytest.mark.parametrize("seed", range(10))
def test_every_frame_is_heard_or_counted_as_lost_and_no_receiver_hears_two_at_once(
    seed: int,
) -> None:
    """Random traffic: at each node in range a frame is received, or its loss is counted."""
    from shoal.stack import Chance

    chance = Chance(seed, "test")
    places = [600 * chance.uniform(node) for node in range(12)]
    world = World(places, seed, model="still")
    sent = 0
    for k in range(200):
        node = chance.below(12, 1, k)
        world.at(1000 + 60_000 * chance.uniform(2, k), world.host(node).broadcast, Word(str(k)))
        sent += 1
    world.run()
    in_range = sum(
        abs(places[source] - place) <= 200
        for k in range(200)
        for source in [chance.below(12, 1, k)]
        for node, place in enumerate(places)
        if node != source
    )
    assert world.count("frames") + world.count("expired") == sent
    received = sum(len(world.ear(node).heard) for node in range(12))
    assert received == world.count("receptions")
    if not world.count("expired"):
        assert received + world.count("collisions") + world.count("deaf") == in_range
    for node in range(12):
        ends = [at for at, _, _ in world.ear(node).heard]
        gaps = [later - earlier for earlier, later in itertools.pairwise(ends)]
        assert all(gap >= AIRTIME * MICRO for gap in gaps)
