"""Recoveries at work: losses are mended, bad input is refused, forged input does no harm."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shoal.content import Event, Pattern, Patterns
from shoal.recovery.budget import BURST
from shoal.recovery.delivered import Delivered
from shoal.recovery.gossip import Gossip
from shoal.recovery.messages import Compare, Digest, Follow, Hole, Missing, Reply, Request, Tally
from shoal.recovery.numbering import MARK
from shoal.simulation import chaos as trouble
from shoal.simulation import parse_config, simulate
from shoal.simulation.chaos.recovery import RecoveryHistory
from shoal.simulation.chaos.trials import begin
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Contact, StackError, protocols

NAMES = [protocol.name for protocol in protocols("recovery")]


def config(recovery: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    """A small tree whose links lose a tenth of the events, quiet for a while at the end."""
    return {
        "nodes": 20,
        "duration": 60.0,
        "recovery": recovery,
        "link": {"loss": 0.1},
        "workload": {
            "patterns": 10,
            "patterns_per_subscriber": 2,
            "patterns_per_event": 2,
            "distinct": True,
            "subscribers": 0.5,
            "publish_rate": 2.0,
            "publish_window": [2.0, 6.0],
        },
        "record": ["publications", "deliveries", "traffic"],
        **more,
    }


def run(raw: dict[str, Any]) -> Simulation:
    simulation = Simulation(parse_config(raw))
    simulation.run()
    return simulation


def delivery(simulation: Simulation) -> float:
    records = simulation.recorder.publications
    owed = sum(record.owed.bit_count() for record in records)
    return sum((record.received & record.owed).bit_count() for record in records) / owed


def recovery_of(simulation: Simulation, node: int) -> Gossip:
    found = simulation.network.nodes[node]
    assert found is not None
    assert isinstance(found.recovery, Gossip)
    return found.recovery


@pytest.mark.parametrize("name", NAMES)
def test_what_links_lose_is_recovered(name: str) -> None:
    without, mended = run(config(None)), run(config({"name": name}))
    assert delivery(without) < 0.9
    if name != "subscriber-pull":  # what that one can reach is computed in test_ceiling.py
        assert delivery(mended) > 0.99
    rows = mended.recorder.deliveries
    assert any(rows[6::7])
    assert not any(
        wanted < recovered for wanted, recovered in zip(rows[5::7], rows[6::7], strict=True)
    )


def test_what_the_bound_on_gossip_withholds_does_not_count_as_told() -> None:
    script = [
        {"at": 0.0, "node": 1, "do": "subscribe", "patterns": [1]},
        *({"at": at, "node": 0, "do": "publish", "patterns": [1]} for at in (1.0, 2.0)),
    ]
    push = {"name": "push", "rate": 1, "share": 0.0, "compare": 0.0}
    raw = config(push, nodes=2, duration=5.0, workload={"script": script})
    raw["topology"] = {"name": "abstract-tree"}
    raw["routing"] = {"name": "subscription-forwarding"}
    recovery = recovery_of(run(raw), 0)
    assert recovery.withheld > 10
    assert recovery.buffer.untold(1)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "push"])
def test_a_pull_without_losses_asks_for_nothing(name: str) -> None:
    simulation = run(config({"name": name}, link={"loss": 0.0}))
    kinds = {row[0] for row in simulation.recorder.traffic}
    assert delivery(simulation) == 1.0
    assert not kinds & {"missing", "request", "reply"}


def test_an_idle_network_is_nearly_silent_and_a_busy_one_within_its_bound() -> None:
    raw = config({"name": "push"}, duration=600.0)
    simulation = run(raw)
    for node in range(20):
        recovery = recovery_of(simulation, node)
        bound = recovery.parameters.rate * (600.0 + 10.0)
        assert recovery.gossip_bytes < bound
    late = sum(row[5] for row in simulation.recorder.traffic if row[1] > 3000 and row[0] != "event")
    assert late / 20 / 300.0 < 50.0  # bytes per second and node


def test_what_is_still_on_its_way_is_not_offered_to_who_compares() -> None:
    simulation, recovery = alone()
    me = simulation.network.nodes[1]
    assert me is not None
    me.publish(Event(1, 0, Patterns((3,))))
    walk = Compare(Contact(0), 1, (Pattern(3),), (60.0,), (), 0)
    before = recovery.gossip_bytes
    recovery.receive(0, walk)
    assert recovery.gossip_bytes == before
    simulation.kernel.run(simulation.kernel.now + to_ns(0.5))
    before = recovery.gossip_bytes
    recovery.receive(0, walk)
    assert recovery.gossip_bytes > before


def test_what_nobody_has_is_a_gap_within_the_patience() -> None:
    raw = config({"name": "combined-pull", "buffer_age": 0.5, "patience": 5.0})
    simulation = run(raw)
    lacking: dict[tuple[int, int], int] = {}
    for record in simulation.recorder.publications:
        for node in range(20):
            if (record.owed & ~record.received) >> node & 1:
                lacking[node, record.publisher] = lacking.get((node, record.publisher), 0) + 1
    assert sum(lacking.values()) > 20
    for (node, publisher), count in lacking.items():
        told = simulation.recorder.gaps_told.get((node, publisher), [])
        heard = publisher in recovery_of(simulation, node).streams.by_publisher
        assert sum(told) >= count or 0 in told or not heard
    assert simulation.recorder.gaps > 20
    assert not any(len(recovery_of(simulation, node).losses) for node in range(20))


def test_runs_repeat_exactly() -> None:
    raw = parse_config(config({"name": "combined-pull"}))
    assert simulate(raw).fingerprint == simulate(raw).fingerprint


STACKS = trouble.recovery_subjects()


@pytest.mark.parametrize("place", range(0, len(STACKS), 6), ids=lambda place: str(STACKS[place]))
def test_whatever_a_reachable_buffer_holds_is_delivered_once(place: int) -> None:
    """All recoveries, routings and overlays, not all of them together; ``shoal chaos`` has more."""
    history, found = trouble.trial(STACKS[place], place, 60)
    assert found is None, (found, trouble.describe(history, history.log))


def test_what_a_node_published_before_it_crashed_is_not_counted_as_of_its_next_life() -> None:
    """It tells its numbers before it publishes again; the first event after that is lost."""
    ground = {"nodes": 7, "seed": 400028, "buffer": 4, "topology": {"name": "full-mesh"}}
    subject = trouble.Subject("lstree", "adaptive", recovery="combined-pull")
    steps = ["publish 1 x=4", "subscribe 2 x >= 3 AND x < 8", "crash 1", "return 1", "wait 0.85"]
    history = trouble.play(subject, ground, [])
    assert trouble.failure(history, [*steps, "publish 1 x=4"]) is None


def test_the_oracle_finds_a_recovery_that_finds_nothing() -> None:
    """Nodes whose clocks stand still gossip no more."""
    subject = trouble.Subject("given", "flooding", recovery="random-pull")
    for seed in range(20):
        history = begin(subject, seed)
        assert isinstance(history, RecoveryHistory)
        for node in range(history.nodes):
            history.step(f"subscribe {node} x >= 0")
            history.network.hosts[node].clock.stop()
        for count in range(10):
            history.step(f"publish {count % history.nodes} x=1")
            history.step("wait 0.1")
        if trouble.failure(history) is not None:
            return
    pytest.fail("twenty histories without recovery, and the oracle is content")


# Bad input


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"buffer": 0}, "buffer"),
        ({"buffer_bytes": 0}, "buffer_bytes"),
        ({"period": 0}, "period"),
        ({"period": 60.0}, "longest"),
        ({"probability": 0.0}, "probability"),
        ({"digest": 1_000_000}, "digest"),
        ({"marks": 65}, "marks"),
        ({"beta": 5}, "beta"),
        ({"eviction": "random"}, "eviction"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters: dict[str, Any], named: str) -> None:
    with pytest.raises(StackError, match=named):
        parse_config(config({"name": "push", **parameters}))


def test_arrays_are_refused_with_the_reason() -> None:
    with pytest.raises(StackError, match="recovery 'push' works on the objects of events"):
        Simulation(parse_config(config({"name": "push"}, data_plane="arrays")))


MILLION = tuple((1, n, 0.0) for n in range(1_000_000))


@pytest.mark.parametrize(
    "message",
    [
        Digest(Contact(1), 1, Pattern(1), MILLION, 1),
        Request(tuple((1, n) for n in range(1001)), ()),
        Request((), (Pattern(1),) * 65),
        Missing(Contact(1), 1, "random", (), (Hole(1, 0, 0, 9, 1),) * 1001, 1),
        Missing(Contact(1), 1, "random", (), (Hole(1, 0, 0, 9, 1, tuple(range(257))),), 1),
        Compare(Contact(1), 1, (), (), (), 65),
        Compare(Contact(1), 1, (Pattern(1),), (-1.0,), (), 5),
        Tally(((0, 0, 0),) * 1001),
        Follow(Contact(1), 2, (Pattern(1),) * 65, (), (), 1),
        Reply(((Event(1, 1, Patterns((1,))), 0.0),) * 65),
        Reply(((Event(1, 1, Patterns((1,)), b"", b"x" * (64 * 12 + 1)), 0.0),)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_no_node_would_send_is_not_read_from_a_wire(message: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


def alone(nodes: int = 2, **parameters: Any) -> tuple[Simulation, Gossip]:
    """Node 1 of a few, which wants pattern 1, once all is quiet."""
    acts = [
        {"at": 0.0, "node": 1, "do": "subscribe", "patterns": [1]},
        {"at": 1.0, "node": 0, "do": "publish", "patterns": [1]},
    ]
    simulation = run(
        {
            "nodes": nodes,
            "duration": 5.0,
            "recovery": {"name": "combined-pull", **parameters},
            "workload": {"script": acts},
            "record": ["publications", "deliveries"],
        }
    )
    return simulation, recovery_of(simulation, 1)


def test_copies_that_were_not_asked_for_are_dropped() -> None:
    simulation, recovery = alone()
    forged = Event(0, 17, Patterns((1,)))
    recovery.receive(0, Reply(((forged, 0.0),)))
    assert recovery.unasked == 1
    assert len(simulation.recorder.deliveries) == 7
    assert forged.id not in recovery.buffer


def later(simulation: Simulation, seconds: float) -> None:
    simulation.kernel.run(simulation.kernel.now + to_ns(seconds))


def lose(simulation: Simulation, sequence: int) -> None:
    """Node 0 publishes an event, and its link loses it."""
    publisher, lost = recovery_of(simulation, 0), Event(0, sequence, Patterns((1,)))
    simulation.recorder.publish(lost)
    publisher.published(lost)
    publisher.routed(lost)


def test_after_a_forged_sequence_number_losses_are_noticed_again() -> None:
    simulation, recovery = alone(compare=0.0)
    [(index, _)] = recovery.streams.named(0)
    recovery.count(Event(0, 2**61, Patterns((1,)), b"", MARK.pack(index, 2**60)), 5.0)
    later(simulation, 100.0)
    assert 0 in simulation.recorder.gaps_told[1, 0], "what came meanwhile was not counted"
    lose(simulation, 1)
    later(simulation, 5.0)
    assert (0, 1) in recovery.delivered


def test_who_offers_and_then_declines_keeps_no_other_from_giving() -> None:
    simulation, recovery = alone(3, compare=0.0, marks=0)
    lose(simulation, 1)
    offer = ((0, 1, 0.0),)
    recovery.receive(2, Digest(Contact(2), 1, Pattern(1), offer, 1))
    recovery.receive(2, Reply((), ((0, 1),)))
    recovery.receive(0, Digest(Contact(0), 1, Pattern(1), offer, 1))
    later(simulation, 1.0)
    assert (0, 1) in recovery.delivered


def test_gossip_in_the_name_of_another_does_not_stand_for_its_own() -> None:
    _, recovery = alone(3)
    question = Missing(Contact(0), 5, "random", (Pattern(1),), (Hole(0, 0, -1, 9, 9),), 1)
    recovery.receive(2, msgspec.structs.replace(question, holes=()))
    recovery.receive(0, question)
    given = recovery.reply_bytes
    assert given > 0
    recovery.receive(0, question)
    recovery.receive(2, question)
    assert recovery.reply_bytes == given, "it is answered once"


def test_what_comes_too_late_to_know_whether_it_is_new_is_a_gap() -> None:
    simulation, recovery = alone(compare=0.0)
    recovery.delivered = Delivered(generation=1)
    for sequence in (100, 200, 300, 400):
        recovery.delivered.first(0, sequence)
    told = simulation.recorder.gaps_told
    assert (1, 0) not in told
    recovery.arrived(Event(0, 400, Patterns((1,))), 1)
    assert (1, 0) not in told, "this one was delivered"
    recovery.arrived(Event(0, 40, Patterns((1,))), 1)
    assert told[1, 0] == [1]


def test_nobody_is_given_what_it_did_not_ask_for() -> None:
    simulation, recovery = alone()
    before = simulation.kernel.waiting
    recovery.receive(0, Request(((0, 0),), (Pattern(2),)))
    recovery.receive(0, Missing(Contact(0), 5, "random", (Pattern(2),), (Hole(0, 0, -1, 9, 9),), 1))
    recovery.receive(0, Missing(Contact(0), 6, "random", (), (Hole(0, 0, -1, 9, 9),), 1))
    assert simulation.kernel.waiting == before + 1  # that it does not match
    assert recovery.reply_bytes == 0
    recovery.receive(0, Request(((0, 0),), (Pattern(1),)))
    assert recovery.reply_bytes > 0


class Costly(Pattern, frozen=True, tag="costly"):
    """A filter that counts how often it is asked, and matches nothing."""

    def matches(self, content: Any) -> bool:
        asked.append(1)
        return False


asked: list[int] = []


@pytest.mark.parametrize("kind", ["compare", "request", "missing", "follow"])
def test_the_work_for_others_is_bounded_whatever_they_ask(kind: str) -> None:
    """Long messages about everything there is, with filters that must be asked one by one."""
    simulation, recovery = alone()
    asked.clear()
    me = simulation.network.nodes[1]
    assert me is not None
    for sequence in range(1000):
        me.publish(Event(1, sequence, Patterns((2,))))
    simulation.kernel.run(simulation.kernel.now + to_ns(1.0))
    held = tuple((1, sequence) for sequence in range(1000))
    filters = tuple(Costly(number) for number in range(64))
    for number in range(100):
        ages, numbers = (60.0,) * 64, (-1,) * 64
        recovery.receive(
            0,
            {
                "compare": Compare(Contact(0), number, filters, ages, (), 8),
                "request": Request(held, filters),
                "missing": Missing(
                    *(Contact(0), number, "random", filters),
                    tuple(Hole(1, place % 64, -1, 2000, 2000) for place in range(1000)),
                    1,
                ),
                "follow": Follow(Contact(0), 1, filters, ages, numbers, 1),
            }[kind],
        )
    burst = 10 * recovery.parameters.looks
    assert 0 < len(asked) <= burst
    assert recovery.withheld > 0


def test_those_who_compare_leave_a_node_room_to_ask_for_what_it_lacks() -> None:
    simulation, recovery = alone()
    me = simulation.network.nodes[1]
    assert me is not None
    for sequence in range(500):
        me.publish(Event(1, sequence, Patterns((2,))))
    simulation.kernel.run(simulation.kernel.now + to_ns(1.0))
    before = recovery.gossip_bytes
    for number in range(1000):
        recovery.receive(0, Compare(Contact(0), number, (Pattern(2),), (60.0,), (), 8))
    assert recovery.gossip_bytes > before
    assert recovery.withheld > 0
    room = 0.5 * BURST * recovery.parameters.rate
    assert recovery.budget.allows(int(0.99 * room), recovery.host.now())


def test_replies_are_bounded_whoever_asks() -> None:
    _, recovery = alone()
    for number in range(5000):
        seeker = Contact(0)
        hole = Hole(0, 0, -1, 9, 9)
        recovery.receive(0, Missing(seeker, 100 + number, "direct", (Pattern(1),), (hole,), 1))
    rate = recovery.parameters.reply_rate
    assert recovery.reply_bytes <= 10 * rate
    assert len(recovery._passed) <= 20_000
