"""What applications do is drawn from the seed alone, as Frey's section 7.1 prescribes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import AnyFilter, Pattern
from shoal.simulation import Simulation, parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.workload import Act, WorkloadParameters, plan_workload
from shoal.stack import StackError


def receivers_share(share: float, patterns: int, per_subscriber: int, per_event: int) -> float:
    """Equation (7.1)."""
    return share * (1 - ((patterns - per_subscriber) / patterns) ** per_event)


def test_t7_1_a_the_formula_gives_a_tenth_of_the_dispatchers() -> None:
    assert round(receivers_share(0.2, 96, 7, 9), 4) == 0.0988


def test_t7_1_b_the_formula_over_the_density_sweep() -> None:
    assert receivers_share(0.03, 96, 7, 9) == pytest.approx(0.0148, abs=0.0002)
    assert receivers_share(1.0, 96, 7, 9) == pytest.approx(0.494, abs=0.0002)


@pytest.mark.parametrize(("subscribers", "expected"), [(0.2, 0.0988), (1.0, 0.494)])
def test_t7_1_a_measured_share_of_receivers(subscribers: float, expected: float) -> None:
    shares = []
    for seed in range(30):
        parameters = WorkloadParameters(subscribers=subscribers, publish_rate=5.0)
        plan = plan_workload(parameters, 100, 8.0, seed)
        wanted = np.zeros((100, 96), bool)
        for _, node, number, _ in plan.by_number():
            wanted[node, number] = True
        events = np.array([plan.content(event) for event in range(len(plan.times))])
        shares.append(wanted[:, events].any(axis=2).mean())
    assert np.mean(shares) == pytest.approx(expected, abs=0.005)


def test_every_dispatcher_publishes_once_per_period() -> None:
    plan = plan_workload(WorkloadParameters(publish_rate=2.0), 50, 8.0, 1)
    assert len(plan.times) == 50 * 16
    periods = set(zip(plan.publishers.tolist(), (plan.times // to_ns(0.5)).tolist(), strict=True))
    assert len(periods) == 50 * 16


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
def test_slow_publishers_publish_at_their_rate(rate: float) -> None:
    """Also where the run ends in the middle of a period, or before the end of the first."""
    counts = [
        len(plan_workload(WorkloadParameters(publish_rate=rate), 200, 8.0, seed).times)
        for seed in range(10)
    ]
    assert np.mean(counts) == pytest.approx(200 * 8.0 * rate, rel=0.05)


def test_nobody_acts_after_the_end() -> None:
    parameters = WorkloadParameters(publish_rate=0.3, core=0.5, subscribers=1.0, churn_rate=3.0)
    plan = plan_workload(parameters, 40, 2.5, 3)
    assert plan.times.max() < to_ns(2.5)
    assert max(at for at, *_ in plan.subscriptions) < to_ns(2.5)


@settings(max_examples=30, deadline=None)
@given(
    nodes=st.integers(1, 40),
    seed=st.integers(0, 2**32),
    subscribers=st.floats(0, 1),
    core=st.floats(0, 1),
    churn=st.sampled_from([0.0, 0.7, 4.0]),
)
def test_subscriptions_are_lawful(
    nodes: int, seed: int, subscribers: float, core: float, churn: float
) -> None:
    parameters = WorkloadParameters(
        patterns=12,
        patterns_per_subscriber=3,
        subscribers=subscribers,
        core=core,
        churn_rate=churn,
        churn_window=(1.0, 4.0),
    )
    plan = plan_workload(parameters, nodes, 8.0, seed)
    assert len(plan.core) == (nodes if core == 1 else round(core * nodes))
    held: dict[int, set[AnyFilter]] = {}
    for at, node, pattern, subscribe in plan.subscriptions:
        mine = held.setdefault(node, set())
        if at >= to_ns(1.0):
            assert node not in plan.core, "the core is stable"
        if subscribe:
            assert pattern not in mine, "nobody subscribes to what it has"
            mine.add(pattern)
        else:
            mine.remove(pattern)
    for node, mine in held.items():
        assert len(mine) == 3 if node in plan.core else 2 <= len(mine) <= 3
    others = nodes - len(plan.core)
    assert len(held) == round(subscribers * len(plan.core)) + round(subscribers * others)
    assert all(a[0] <= b[0] for a, b in pairwise(plan.subscriptions))


def test_a_script_is_played_as_written() -> None:
    acts = (
        Act(0.2, 1, "publish", (4, 4)),
        Act(0.1, 0, "subscribe", (4, 5)),
        Act(0.1, 2, "unsubscribe", (5,)),
    )
    plan = plan_workload(WorkloadParameters(script=acts), 3, 1.0, 0)
    told = list(plan.subscriptions)
    assert told == [
        (to_ns(0.1), 0, Pattern(4), True),
        (to_ns(0.1), 0, Pattern(5), True),
        (to_ns(0.1), 2, Pattern(5), False),
    ]
    assert len(plan.times) == 1
    assert plan.content(0) == (4, 4)


def act(do: str, at: float = 0.0, node: int = 0, **content: Any) -> dict[str, Any]:
    return {"at": at, "node": node, "do": do, **content}


@pytest.mark.parametrize("covering", [False, True])
def test_a_script_may_speak_the_filter_language(covering: bool) -> None:
    script = [
        act("subscribe", node=3, filters=["temperature > 30", "room LIKE 'lab%'"]),
        act("publish", 1.0, 1, attributes={"temperature": 31}),
        act("publish", 1.1, 1, attributes={"temperature": 29.5, "room": "lab 2"}),
        act("publish", 1.2, 1, attributes={"temperature": 29.5, "room": "hall"}),
    ]
    config = {
        "nodes": 5,
        "duration": 2.0,
        "routing": {"name": "subscription-forwarding", "covering": covering},
        "reconfiguration": {"name": "strawman"},
        "workload": {"script": script},
    }
    simulation = Simulation(parse_config(config))
    simulation.run()
    received = [record.received for record in simulation.recorder.publications]
    assert received == [1 << 3, 1 << 3, 0]
    with pytest.raises(StackError, match="patterns only"):
        Simulation(parse_config({**config, "data_plane": "arrays"}))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([act("subscribe", filters=["temperature >"])], "filter 'temperature >'"),
        ([act("subscribe", attributes={"a": 1})], "subscribe takes filters"),
        ([act("publish", filters=["a = 1"])], "an event has no filters"),
        ([act("subscribe", patterns=[1]), act("publish", attributes={"a": 1})], "not both"),
    ],
)
def test_a_script_that_cannot_be_played(script: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(StackError, match=reason):
        parse_config({"reconfiguration": {"name": "strawman"}, "workload": {"script": script}})


STACKS: dict[str, dict[str, Any]] = {
    "EF": {"routing": {"name": "event-forwarding"}},
    "SM": {"reconfiguration": {"name": "strawman"}},
    "SM, literal": {
        "routing": {"name": "subscription-forwarding", "announced": False},
        "reconfiguration": {"name": "strawman"},
    },
}


def test_every_protocol_meets_the_same_world_at_a_seed() -> None:
    worlds = []
    for stack in STACKS.values():
        simulation = Simulation(
            parse_config(
                {
                    "nodes": 30,
                    "seed": 11,
                    "topology": {"name": "abstract-tree", "shape": "random", "rate": 3},
                    "workload": {"core": 0.5, "churn_rate": 1.0, "subscribers": 0.5},
                    **stack,
                }
            )
        )
        simulation.run()
        recorder = simulation.recorder
        published = [(r.time, r.publisher, r.sequence, r.owed) for r in recorder.publications]
        worlds.append((recorder.links, published, simulation.workload.subscriptions))
    assert worlds[0] == worlds[1] == worlds[2]
    assert len(worlds[0][0]) == 29 + 24


def test_another_seed_is_another_world() -> None:
    plans = [plan_workload(WorkloadParameters(), 20, 2.0, seed) for seed in (1, 2)]
    assert plans[0].times.tolist() != plans[1].times.tolist()
    assert plans[0].subscriptions != plans[1].subscriptions
