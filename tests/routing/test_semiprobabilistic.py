"""Semi-probabilistic routing, told as small networks (Costa and Picco 2005, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shoal.content import AttributeFilter, Event, Pattern, Patterns
from shoal.routing.parameters import SemiProbabilisticParameters
from shoal.routing.semiprobabilistic import SemiProbabilistic, share
from shoal.routing.semiprobabilistic_messages import Gone, Leaf, Near, Spread
from shoal.simulation.config import parse_config
from shoal.simulation.run import simulate
from shoal.stack import LOCAL, Host, Message, StackError

P, Q = Pattern(1), Pattern(2)


class TestHost(Host):
    """A host that writes down what it is asked to do."""

    __test__ = False

    def __init__(self, node: int = 0, seed: int = 0) -> None:
        super().__init__(node, seed)
        self.sent: list[tuple[int, Message]] = []
        self.delivered: list[tuple[int, int]] = []
        self.ends: list[str] = []

    def send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        self.delivered.append((event.sequence, hops))

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        self.ends.append(why)

    def after(self, delay: float, callback: Callable[[], None]) -> Any:
        raise AssertionError("the protocol has no timers")


def node(
    neighbours: tuple[int, ...] = (1, 2, 3, 4, 5), **parameters: Any
) -> tuple[SemiProbabilistic, TestHost]:
    host = TestHost()
    routing = SemiProbabilistic(host, SemiProbabilisticParameters(**parameters))
    for neighbour in neighbours:
        routing.link_up(neighbour, None)
    host.sent.clear()
    return routing, host


def event(*numbers: int, sequence: int = 0) -> Event:
    return Event(9, sequence, Patterns(numbers))


def targets(host: TestHost) -> list[int]:
    return [to for to, message in host.sent if isinstance(message, Spread)]


# Subscriptions


def test_a_subscription_is_announced_one_hop_farther_than_the_nearest_other_source() -> None:
    routing, host = node((1, 2, 3), horizon=3)
    routing.on_subscription(1, Near(P, 2))
    assert host.sent == [(2, Near(P, 3)), (3, Near(P, 3))]


def test_nothing_travels_beyond_the_horizon() -> None:
    routing, host = node((1, 2, 3), horizon=2)
    routing.on_subscription(1, Near(P, 2))
    assert host.sent == []


def test_a_shorter_way_is_announced_as_a_change_but_not_to_where_it_leads() -> None:
    routing, host = node((1, 2, 3), horizon=4)
    routing.on_subscription(1, Near(P, 3))
    assert host.sent == [(2, Near(P, 4)), (3, Near(P, 4))]
    host.sent.clear()
    routing.on_subscription(2, Near(P, 1))
    assert host.sent == [(1, Near(P, 2)), (3, Near(P, 2, True))]


def test_a_vanished_link_unsubscribes_all_it_brought_unless_another_way_is_left() -> None:
    routing, host = node((1, 2, 3), horizon=4)
    routing.on_subscription(1, Near(P, 1))
    routing.on_subscription(1, Near(Q, 1))
    routing.on_subscription(2, Near(Q, 2))
    host.sent.clear()
    routing.link_down(1, None)
    assert sorted(host.sent, key=str) == sorted(
        [(2, Gone(P)), (3, Gone(P)), (2, Gone(Q)), (3, Near(Q, 3, True))], key=str
    )


def test_a_new_link_is_told_all_that_lies_within_its_horizon() -> None:
    routing, host = node((1,), horizon=2)
    routing.subscribe(P)
    routing.on_subscription(1, Near(Q, 2))
    host.sent.clear()
    routing.link_up(2, None)
    assert host.sent == [(2, Near(P, 1))]


def test_filters_beyond_the_allowance_are_counted_once_however_often_distances_change() -> None:
    """The filter that stands for them goes with the last of them."""
    near, near_host = node((1, 2), horizon=4)
    host = TestHost(1)
    host.neighbour_filters = 2
    bounded = SemiProbabilistic(host, SemiProbabilisticParameters(horizon=4))
    bounded.link_up(0, None)
    wanted = [AttributeFilter(f"x = {number}") for number in range(5)]

    def pass_on() -> None:
        for to, message in near_host.sent:
            if to == 1:
                bounded.receive(0, message)
        near_host.sent.clear()

    for filter in wanted:
        near.on_subscription(2, Near(filter, 2))
    pass_on()
    assert (0, wanted[4].everything()) in bounded.table.entries()
    for filter in wanted:
        near.on_subscription(2, Near(filter, 1, True))
    pass_on()
    near.link_down(2, None)
    pass_on()
    assert bounded.table.entries() == {}


def test_with_horizon_zero_no_subscription_ever_travels() -> None:
    routing, host = node((1, 2), horizon=0)
    routing.subscribe(P)
    routing.link_up(3, None)
    routing.unsubscribe(P)
    assert host.sent == []


# Events


def test_every_link_with_a_subscriber_next_door_is_used_even_beyond_the_threshold() -> None:
    routing, host = node(threshold=0.25, horizon=1)
    for neighbour in (2, 3, 4):
        routing.on_subscription(neighbour, Near(P, 1))
    routing.on_event(1, Spread(event(1), 1, 0))
    assert targets(host) == [2, 3, 4]
    assert all(m.deterministic == 1 for _, m in host.sent if isinstance(m, Spread))


def test_farther_subscriptions_are_followed_nearest_first_and_only_up_to_the_threshold() -> None:
    routing, host = node(threshold=0.5, horizon=3)  # f = 2 of 4
    routing.on_subscription(2, Near(P, 3))
    routing.on_subscription(3, Near(P, 2))
    routing.on_subscription(4, Near(P, 3))
    routing.on_subscription(5, Near(P, 2))
    host.sent.clear()
    routing.on_event(1, Spread(event(1), 1, 0))
    assert sorted(targets(host)) == [3, 5]


def test_random_links_fill_up_to_the_threshold_and_never_lead_back() -> None:
    used: set[int] = set()
    for sequence in range(60):
        routing, host = node(threshold=0.5, horizon=1)
        routing.on_subscription(2, Near(P, 1))
        routing.on_event(1, Spread(event(1, sequence=sequence), 3, 1))
        assert len(targets(host)) == 2
        assert targets(host)[0] == 2
        kinds = [m.deterministic for _, m in host.sent if isinstance(m, Spread)]
        assert kinds == [2, 1]
        used.add(targets(host)[1])
    assert used == {3, 4, 5}


def test_a_second_copy_is_dropped_and_said_so() -> None:
    routing, host = node()
    routing.subscribe(P)
    routing.on_event(1, Spread(event(1), 1, 0))
    sent = len(host.sent)
    routing.on_event(2, Spread(event(1), 4, 0))
    assert host.delivered == [(0, 1)]
    assert len(host.sent) == sent
    assert host.ends == ["duplicate"]


@pytest.mark.parametrize(("rule", "links"), [("all", 5), ("others", 1), ("degree", 2)])
def test_a_publisher_uses_all_its_links_unless_told_otherwise(rule: str, links: int) -> None:
    routing, host = node(threshold=0.25, publisher=rule)
    routing.publish(Event(0, 0, Patterns((1,))))
    assert len(targets(host)) == links


def test_threshold_one_is_flooding() -> None:
    routing, host = node(threshold=1.0, horizon=0)
    routing.on_event(3, Spread(event(1), 1, 0))
    assert sorted(targets(host)) == [1, 2, 4, 5]


def test_a_product_that_should_be_whole_is_not_rounded_up() -> None:
    assert share(0.55, 20) == 11
    assert share(0.1, 10) == 1
    assert share(0.25, 4) == 1
    assert share(0.25, 5) == 2


# TTLs


def test_an_event_crosses_as_many_links_as_its_ttl_says() -> None:
    routing, host = node(ttl=3)
    routing.on_event(1, Spread(event(1), 2, 0))
    assert targets(host)
    host.sent.clear()
    routing.on_event(1, Spread(event(1, sequence=1), 3, 0))
    assert targets(host) == []
    assert host.ends == ["end"]


def test_either_ttl_stops_all_propagation() -> None:
    routing, host = node(ttl_deterministic=2, ttl_probabilistic=2, ttl_rule="either")
    routing.on_subscription(2, Near(P, 1))
    routing.on_event(1, Spread(event(1), 3, 1))  # two random hops behind it
    assert targets(host) == []


def test_each_ttl_stops_its_own_kind_of_hop() -> None:
    routing, host = node(
        threshold=0.5, ttl_deterministic=2, ttl_probabilistic=2, ttl_rule="own kind"
    )
    routing.on_subscription(2, Near(P, 1))
    routing.on_event(1, Spread(event(1), 3, 1))  # random hops are used up
    assert targets(host) == [2]
    host.sent.clear()
    routing.on_event(1, Spread(event(1, sequence=1), 3, 2))  # deterministic ones are
    assert len(targets(host)) == 2
    assert all(m.deterministic == 2 for _, m in host.sent if isinstance(m, Spread))


# Leaves


def test_a_leaf_gets_only_what_it_wants() -> None:
    routing, host = node((1, 2), threshold=1.0, horizon=0, leaf_rule=True)
    routing.on_leaf(2, Leaf(True, (P,)))
    routing.on_event(1, Spread(event(7), 1, 0))
    assert targets(host) == []
    routing.on_event(1, Spread(event(1, sequence=1), 1, 0))
    assert targets(host) == [2]
    host.sent.clear()
    routing.on_leaf(2, Leaf(False))
    routing.on_event(1, Spread(event(7, sequence=2), 1, 0))
    assert targets(host) == [2]


def test_a_node_with_one_link_says_so_and_takes_it_back() -> None:
    host = TestHost()
    routing = SemiProbabilistic(host, SemiProbabilisticParameters(horizon=0, leaf_rule=True))
    routing.subscribe(P)
    routing.link_up(1, None)
    routing.link_up(2, None)
    routing.link_down(1, None)
    assert host.sent == [(1, Leaf(True, (P,))), (1, Leaf(False)), (2, Leaf(True, (P,)))]


# Whole networks


@pytest.mark.parametrize("parameters", [{"horizon": -1}, {"threshold": 0.0}, {"threshold": 1.5}])
def test_values_out_of_range_are_refused_by_name(parameters: dict[str, Any]) -> None:
    with pytest.raises(StackError, match=f"'semi-probabilistic': {next(iter(parameters))}"):
        parse_config(
            {
                "topology": {"name": "static-graph"},
                "routing": {"name": "semi-probabilistic", **parameters},
            }
        )


def _network(**changes: Any) -> dict[str, Any]:
    return {
        "nodes": 60,
        "seed": 3,
        "duration": 2.0,
        "topology": {"name": "static-graph", "degree": 5},
        "routing": {"name": "semi-probabilistic", "horizon": 2},
        "link": {"bandwidth": 0},
        "workload": {
            "patterns": 64,
            "patterns_per_subscriber": 2,
            "patterns_per_event": 4,
            "subscribers": 1.0,
            "publish_rate": 2.0,
        },
        **changes,
    }


def test_threshold_one_sends_exactly_as_many_messages_as_flooding_must() -> None:
    """N (l - 1) + 1 per event, the paper's upper bound."""
    result = simulate(
        parse_config(
            _network(routing={"name": "semi-probabilistic", "horizon": 0, "threshold": 1.0})
        )
    )
    events = result.tables["publications"].num_rows
    assert result.messages == events * (60 * 4 + 1)


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_after_any_changes_tables_hold_the_shortest_walks_without_turning_back(
    horizon: int,
) -> None:
    from shoal.simulation.run import Simulation

    topology = {"name": "reconfigured-graph", "degree": 4, "interval": 0.05, "window": (0.5, 1.5)}
    routing = {"name": "semi-probabilistic", "horizon": horizon, "leaf_rule": True}
    simulation = Simulation(parse_config(_network(topology=topology, routing=routing)))
    simulation.run()
    hosts = simulation.network.hosts
    tables: list[Any] = [n.routing.table for n in simulation.network.nodes]  # type: ignore[union-attr]  # it has one
    wants = [table.filters_of(LOCAL) for table in tables]
    for host in hosts:
        expected = {(LOCAL, filter): 0 for filter in wants[host.node]}
        for neighbour in host.channels:
            walks = {(neighbour, host.node)}
            for distance in range(1, horizon + 1):
                for at, _ in walks:
                    for filter in wants[at]:
                        expected.setdefault((neighbour, filter), distance)
                walks = {
                    (far, at) for at, came in walks for far in hosts[at].channels if far != came
                }
        assert tables[host.node].entries() == expected
