"""When events are published and what is in them."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.simulation.workload import WorkloadParameters, plan_workload
from shoal.stack import StackError


def test_poisson_publications_have_the_rate_asked_for_and_stay_in_their_window() -> None:
    parameters = WorkloadParameters(
        publish_rate=5.0, publishing="poisson", publish_window=(1.0, 11.0)
    )
    workload = plan_workload(parameters, 200, 12.0, 1)
    assert len(workload.times) == pytest.approx(10_000, rel=0.04)
    assert workload.times.min() >= 1e9
    assert workload.times.max() < 11e9
    pauses = np.concatenate([np.diff(workload.times[workload.publishers == n]) for n in range(200)])
    assert pauses.std() == pytest.approx(pauses.mean(), rel=0.1)  # exponential


def test_distinct_patterns_are_distinct_and_make_a_tenth_of_the_dispatchers_receivers() -> None:
    parameters = WorkloadParameters(
        patterns=512, patterns_per_subscriber=2, patterns_per_event=26, distinct=True,
        subscribers=1.0, publish_rate=5.0,
    )  # fmt: skip  # the paper's table 1
    workload = plan_workload(parameters, 100, 4.0, 2)
    held: dict[int, set[int]] = {}
    for _, node, number, _ in workload.by_number():
        held.setdefault(node, set()).add(number)
    receivers = []
    for event in range(len(workload.times)):
        content = set(workload.content(event))
        assert len(content) == 26
        receivers.append(sum(bool(content & wanted) for wanted in held.values()))
    assert np.mean(receivers) == pytest.approx(10, rel=0.1)


def test_a_fixed_number_of_receivers_is_exact_and_does_not_count_the_publisher() -> None:
    parameters = WorkloadParameters(
        patterns=512, patterns_per_subscriber=2, receivers=10, subscribers=1.0, publish_rate=2.0
    )
    workload = plan_workload(parameters, 80, 2.0, 2)
    held: dict[int, set[int]] = {}
    for _, node, number, _ in workload.by_number():
        held.setdefault(node, set()).add(number)
    for event, publisher in enumerate(workload.publishers.tolist()):
        content = set(workload.content(event))
        wanting = [n for n, wanted in held.items() if content & wanted and n != publisher]
        assert len(wanting) == 10


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(StackError, match="cannot be distinct"):
        WorkloadParameters(patterns=8, patterns_per_event=9, distinct=True)
    with pytest.raises(StackError, match="needs churn_rate = 0"):
        WorkloadParameters(receivers=3, churn_rate=1.0)
    with pytest.raises(StackError, match="publish_window ends before it starts"):
        WorkloadParameters(publish_window=(2.0, 1.0))
    with pytest.raises(StackError, match="exactly 50 receivers"):
        plan_workload(WorkloadParameters(receivers=50), 10, 2.0, 0)
