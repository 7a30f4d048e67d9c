"""Adaptive routing: what a node concludes from what it sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.content import Event, Pattern, Patterns
from shoal.experiments.costa_scenarios import STATIC, publishing
from shoal.pipeline.plan.experiment import merge
from shoal.routing.adaptive import Adaptive
from shoal.routing.parameters import AdaptiveParameters
from shoal.routing.semiprobabilistic import WHOLE
from shoal.routing.semiprobabilistic_messages import Feedback, Gone, Near, Spread
from shoal.simulation.config import parse_config
from shoal.simulation.run import Simulation
from shoal.stack import Host, Message, StackError, Timer

WANTED, OTHER = Pattern(1), Patterns((9,))


class FakeHost(Host):
    """A host that writes down what it is asked to send; its timers never fire."""

    def __init__(self, node: int) -> None:
        super().__init__(node, 0)
        self.sent: list[tuple[int, Message]] = []

    def now(self) -> float:
        return 0.0

    def send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        pass

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        return Timer()


def node(neighbours: int = 5, **parameters: Any) -> tuple[Adaptive, FakeHost]:
    host = FakeHost(0)
    routing = Adaptive(host, AdaptiveParameters(**parameters))
    for neighbour in range(1, neighbours + 1):
        routing.link_up(neighbour, None)
    routing.subscribe(WANTED)
    return routing, host


def arrive(
    routing: Adaptive, sequence: int, before: Event | None, content: Patterns = OTHER
) -> None:
    routing.on_event(1, Spread(Event(7, sequence, content), 1, 0, before))


def test_a_wanted_event_that_came_is_not_missed() -> None:
    routing, _ = node()
    arrive(routing, 1, None, Patterns((1,)))
    arrive(routing, 2, Event(7, 1, Patterns((1,))))
    assert (routing.observed.wanted, routing.observed.missed) == (1, 0)


def test_an_event_stands_for_those_that_did_not_come() -> None:
    """Three numbers are skipped: the fourth counts four times, or one would hear of losses least
    where they are worst."""
    routing, _ = node()
    arrive(routing, 1, None)
    arrive(routing, 5, Event(7, 4, Patterns((1,))))
    assert (routing.observed.wanted, routing.observed.missed) == (4, 4)


def test_unwanted_events_are_not_missed() -> None:
    routing, _ = node()
    arrive(routing, 5, Event(7, 4, OTHER))
    assert routing.observed.wanted == 0


def test_the_threshold_falls_while_nothing_is_missed_and_rises_with_losses() -> None:
    routing, _ = node()
    for sequence in range(1, 100):
        arrive(routing, 2 * sequence, None, Patterns((1,)))
        arrive(routing, 2 * sequence + 1, Event(7, 2 * sequence, Patterns((1,))))
    routing.adjust()
    low = routing.threshold
    assert low < 1.0
    assert WHOLE < routing.fanout(False) < 4 * WHOLE
    for sequence in range(300, 400):
        arrive(routing, sequence, Event(7, sequence - 1000, Patterns((1,))))
    routing.adjust()
    assert routing.threshold > low


def test_neighbours_losses_count() -> None:
    routing, _ = node()
    routing.threshold = 0.5
    arrive(routing, 1, None)
    for neighbour in range(1, 6):
        routing.on_feedback(neighbour, Feedback(30.0, 100.0, 0.5))
    routing.adjust()
    assert routing.threshold > 0.5


def test_losses_are_told_only_now_and_then() -> None:
    routing, host = node()
    arrive(routing, 1, None)
    routing.adjust()
    assert not [m for _, m in host.sent if isinstance(m, Feedback)]
    for sequence in range(2, 60):
        arrive(routing, sequence, None)
    routing.adjust()
    assert len([m for _, m in host.sent if isinstance(m, Feedback)]) == 5


def test_the_horizon_widens_once_it_is_paid_for() -> None:
    routing, host = node(budget=0.5)
    for number in range(20):
        routing.on_subscription(2, Near(Pattern(100 + number), 1))
    arrive(routing, 1, None)
    routing.adjust()
    assert routing.horizon == 1  # 20 filters over 5 links: not earned yet
    for sequence in range(2, 100):
        arrive(routing, sequence, None)
    routing.adjust()
    assert routing.horizon == 2
    assert [m for _, m in host.sent if isinstance(m, Near) and m.distance == 2]


def test_what_comes_by_many_links_is_not_followed() -> None:
    routing, _ = node()
    for number in range(10):
        for link in (1, 2, 3):
            routing.on_subscription(link, Near(Pattern(100 + number), 2))
    arrive(routing, 1, None)
    routing.adjust()
    assert routing.follows == 1
    for number in range(10):
        for link in (2, 3):
            routing.on_unsubscription(link, Gone(Pattern(100 + number)))
    arrive(routing, 2, None)
    routing.adjust()
    assert routing.follows == 2


def test_it_comes_near_its_target_in_a_network_it_was_not_told_about() -> None:
    network = {"nodes": 100, "routing": {"name": "adaptive"}, "record": ["publications", "traffic"]}
    raw = merge(STATIC, network, publishing(20.0))
    simulation = Simulation(parse_config(raw))
    simulation.run()
    columns = simulation.recorder.columns["publications"]
    time, owed, received = columns[2], columns[3], columns[4]
    late = time > 10
    assert received[late].sum() / owed[late].sum() > 0.985
    flooding = 100 * 4 + 1
    assert simulation.kernel.handled / len(time) < 0.75 * flooding


@pytest.mark.parametrize(("key", "value"), [("target", 0.0), ("target", 1.0), ("budget", -1.0)])
def test_bounds(key: str, value: float) -> None:
    with pytest.raises(StackError, match=key):
        parse_config(
            {"topology": {"name": "static-graph"}, "routing": {"name": "adaptive", key: value}}
        )
