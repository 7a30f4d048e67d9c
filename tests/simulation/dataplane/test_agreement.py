"""Objects and arrays follow the same rules: whatever is recorded is equal, row by row.

The property: for every routing that has a rule on arrays, on any graph that it runs on, while links
break and appear and subscriptions change, both data planes send the same messages in the same order
at the same instants, lose the same ones, and deliver the same events.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal.simulation.dataplane.plane  # noqa: F401  # registers the rules
from shoal.routing import Flooding, Forward
from shoal.simulation.config import parse_config
from shoal.simulation.dataplane.forwarding import RULES, Forwarding
from shoal.simulation.dataplane.kernels import kernel
from shoal.simulation.dataplane.state import NEIGHBOUR
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.result import RunResult
from shoal.simulation.run import simulate
from shoal.stack import Host, NodeId, Recovery, Routing, StackError, registry
from shoal.stack.registry import Choice, NoParameters, build, protocols

TABLES = ["publications", "deliveries", "traffic", "routes", "links", "repairs", "messages"]
TREE_ROUTINGS = [
    "event-forwarding",
    "subscription-forwarding",
    "advertisement-forwarding",
    "hierarchical-forwarding",
]
REPAIRS = [protocol.name for protocol in protocols("reconfiguration")]
hops = st.none() | st.integers(1, 6)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "patterns": draw(st.sampled_from([8, 70, 200])),
        "patterns_per_subscriber": draw(st.integers(1, 4)),
        "patterns_per_event": draw(st.integers(1, 6)),
        "subscribers": draw(st.sampled_from([0.0, 0.3, 1.0])),
        "publish_rate": draw(st.sampled_from([1.0, 6.0])),
        "publishing": draw(st.sampled_from(["periodic", "poisson"])),
        "own_events": draw(st.booleans()),
        "core": draw(st.sampled_from([0.5, 1.0])),
        "churn_rate": draw(st.sampled_from([0.0, 3.0])),
        "churn_window": (0.5, 2.0),
        "subscribe_window": (0.0, draw(st.sampled_from([0.0, 0.5]))),
    }


@st.composite
def links(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "delay": draw(st.sampled_from([0.0001, 0.001, 0.02])),
        "bandwidth": draw(st.sampled_from([0.0, 1e4, 1e6])),
    }


@st.composite
def graph_runs(draw: st.DrawFn) -> dict[str, Any]:
    degree = draw(st.integers(2, 6))
    topology: dict[str, Any] = {"name": "static-graph", "degree": degree}
    if draw(st.booleans()):
        topology = {
            "name": "reconfigured-graph",
            "degree": degree,
            "interval": draw(st.sampled_from([0.02, 0.2])),
            "repair_time": draw(st.sampled_from([0.0, 0.1])),
        }
    routing: dict[str, Any] = {"name": "flooding"}
    kind = draw(st.integers(0, 4))
    if kind == 1:
        routing = {
            "name": "adaptive",
            "target": draw(st.sampled_from([0.001, 0.05])),
            "budget": draw(st.sampled_from([0.0, 0.05, 1.0])),
            "farthest": draw(st.integers(1, 3)),
            "period": draw(st.sampled_from([0.1, 0.5])),
            "leaf_rule": draw(st.booleans()),
        }
    elif kind:
        routing = {
            "name": "semi-probabilistic",
            "horizon": draw(st.integers(0, 4)),
            "threshold": draw(st.sampled_from([0.1, 0.25, 0.5, 0.8, 1.0])),
            "ttl": draw(hops),
            "ttl_deterministic": draw(hops),
            "ttl_probabilistic": draw(hops),
            "ttl_rule": draw(st.sampled_from(["either", "own kind"])),
            "publisher": draw(st.sampled_from(["all", "others", "degree"])),
            "leaf_rule": draw(st.booleans()),
        }
    return {"nodes": draw(st.sampled_from([8, 20, 66])), "topology": topology, "routing": routing}


@st.composite
def tree_runs(draw: st.DrawFn) -> dict[str, Any]:
    """A tree whose links are replaced, or whose nodes crash for good."""
    name = draw(st.sampled_from([*TREE_ROUTINGS, "flooding", "semi-probabilistic", "adaptive"]))
    nodes = draw(st.sampled_from([5, 20, 66]))
    topology: dict[str, Any] = {
        "name": "abstract-tree",
        "shape": draw(st.sampled_from(["balanced", "random"])),
    }
    if draw(st.booleans()):
        crashing = draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=4, unique=True))
        times = st.sampled_from([0.0, 0.3, 0.6, 1.0, 1.5])  # also when others publish or subscribe
        topology["crashes"] = [(draw(times), node) for node in crashing]
    else:
        topology |= {"rate": draw(st.sampled_from([0.0, 4.0, 20.0])), "window": (0.6, 1.8)}
    run: dict[str, Any] = {
        "nodes": nodes,
        "topology": topology,
        "routing": {"name": name},
        "invariants": False,
    }
    repairs = [repair for repair in REPAIRS if fits(name, repair)]
    if repairs:
        run["reconfiguration"] = {"name": draw(st.sampled_from(repairs))}
    return run


def fits(routing: str, repair: str) -> bool:
    """Whether a routing on a tree can have its tables repaired so."""
    tree = Choice("abstract-tree")
    try:
        build(Choice("given"), Choice(routing), Choice(repair), topology=tree)
    except StackError:
        return False
    return True


def result(run: dict[str, Any], plane: str) -> RunResult | str:
    """What a run leaves behind, or which promise it broke (slow links can, on a changing tree)."""
    try:
        return simulate(parse_config({**run, "record": TABLES, "data_plane": plane}))
    except InvariantViolation as violation:
        return str(violation)


def both(run: dict[str, Any]) -> None:
    """Run on objects and on arrays; everything recorded must be equal."""
    objects, arrays = result(run, "objects"), result(run, "arrays")
    if isinstance(objects, str) or isinstance(arrays, str):
        assert objects == arrays
        return
    for name, table in objects.tables.items():
        other = arrays.tables[name]
        assert table.drop_columns(["run_id"]).equals(other.drop_columns(["run_id"])), name
    assert objects.fingerprint == arrays.fingerprint
    assert (objects.lost, objects.canonical) == (arrays.lost, arrays.canonical)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph_runs(), workloads(), links(), st.integers(0, 1000))
def test_on_graphs(
    run: dict[str, Any], workload: dict[str, Any], link: dict[str, Any], seed: int
) -> None:
    both({**run, "workload": workload, "link": link, "seed": seed, "duration": 2.0})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree_runs(), workloads(), links(), st.integers(0, 1000))
def test_on_trees(
    run: dict[str, Any], workload: dict[str, Any], link: dict[str, Any], seed: int
) -> None:
    both({**run, "workload": workload, "link": link, "seed": seed, "duration": 2.0})


def test_when_everything_happens_at_once() -> None:
    """Ties at one instant are broken by the order of posting, in both."""
    script = [
        {"at": 1.0, "node": 0, "do": "subscribe", "patterns": [1]},
        {"at": 1.0, "node": 3, "do": "publish", "patterns": [1]},
        {"at": 1.001, "node": 5, "do": "publish", "patterns": [1, 2]},
        {"at": 1.001, "node": 4, "do": "subscribe", "patterns": [2]},
        {"at": 1.002, "node": 5, "do": "publish", "patterns": [2]},
        {"at": 1.002, "node": 6, "do": "publish", "patterns": [2]},
        {"at": 1.003, "node": 4, "do": "unsubscribe", "patterns": [2]},
    ]
    schedule = [{"at": 1.002, "old": [0, 1], "new": [0, 2]}]
    tree = {
        "name": "abstract-tree",
        "links": [[0, 1], [1, 2], [2, 3], [3, 4], [1, 5], [5, 6]],
        "schedule": schedule,
        "repair_time": 0.001,
    }
    for bandwidth in (0.0, 400_000.0):
        for name in ("event-forwarding", "subscription-forwarding"):
            run: dict[str, Any] = {
                "nodes": 7,
                "duration": 2.0,
                "topology": tree,
                "routing": {"name": name},
                "workload": {"script": script},
                "link": {"delay": 0.001, "bandwidth": bandwidth},
            }
            if name == "subscription-forwarding":
                run["reconfiguration"] = {"name": "strawman"}
            both(run)


def test_adaptive_nodes_that_talk_about_losses() -> None:
    """Busy enough for neighbours to tell each other, which moves thresholds between two ticks."""
    run = {
        "nodes": 40,
        "duration": 3.0,
        "topology": {"name": "reconfigured-graph", "degree": 4, "interval": 0.05},
        "routing": {"name": "adaptive", "period": 0.1, "budget": 0.5},
        "workload": {"publish_rate": 20.0, "subscribers": 1.0},
        "link": {"bandwidth": 0.0},
    }
    both(run)


def test_memory_grows_as_needed() -> None:
    """More events and messages on their way than there is room for at first."""
    workload = {
        "publish_rate": 40.0,
        "subscribers": 1.0,
        "publish_window": (0.2, 0.8),
    }
    both(
        {
            "nodes": 66,
            "duration": 1.0,
            "topology": {"name": "static-graph", "degree": 12},
            "routing": {"name": "flooding"},
            "workload": workload,
            "link": {"delay": 0.1, "bandwidth": 0.0},
        }
    )


def test_every_routing_on_arrays_is_one_of_those_compared() -> None:
    made = {p.make: p.name for p in protocols("routing")}
    compared = {*TREE_ROUTINGS, "flooding", "semi-probabilistic", "adaptive"}
    assert {made[kind] for kind in RULES} == compared


class Thrifty(Flooding):
    """Passes an event on to the first neighbour only."""

    def receive(self, sender: NodeId, message: Forward) -> None:
        event, hops = message.event, message.hops
        if self.seen.first(event.id):
            if self.table.match(event.content):
                self.deliver(event, hops)
            for neighbour in [n for n in self.neighbours if n != sender][:1]:
                self.host.send(neighbour, Forward(event, hops + 1))


@kernel(inline="always")
def first_one(  # type: ignore[no-untyped-def]  # numba infers the types
    picks, slots, setup, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # as all rules have it
    chosen = 0
    for k in range(slots):
        if chosen < 1 and link[node, k, NEIGHBOUR] != sender:
            picks[chosen] = k
            chosen += 1
    return chosen, 0


def test_a_routing_brings_its_rule_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else in the simulator knows of it."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    registry.register("routing", "thrifty", Thrifty, needs={"links"})
    rule = Forwarding("thrifty", first_one, remembers=True)
    monkeypatch.setitem(RULES, Thrifty, rule)
    run = {
        "nodes": 30,
        "duration": 2.0,
        "topology": {"name": "reconfigured-graph", "degree": 4, "interval": 0.05},
        "routing": {"name": "thrifty"},
        "workload": {"publish_rate": 5.0, "subscribers": 1.0},
    }
    both(run)
    arrays = result(run, "arrays")
    assert isinstance(arrays, RunResult)
    missed = arrays.tables["publications"].to_pydict()
    assert 0 < sum(missed["received"]) < sum(missed["owed"]), "some are reached, not all"


class Repeating(Recovery):
    """Recovers nothing."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)


REFUSED: dict[str, dict[str, Any]] = {
    "nodes build their overlay themselves": {
        "topology": {"name": "full-mesh"},
        "overlay": {"name": "graph"},
    },
    "routing 'broadcast' has no rule on arrays": {"routing": {"name": "broadcast"}},
    "recovery 'repeating' works on the objects of events": {"recovery": {"name": "repeating"}},
    "notes are taken by objects": {"record": ["notes"]},
    "it knows patterns only": {
        "workload": {
            "script": [
                {"at": 0.1, "node": 0, "do": "subscribe", "filters": ["x > 1"]},
                {"at": 0.2, "node": 0, "do": "publish", "attributes": {"x": 2}},
            ]
        }
    },
}


@pytest.mark.parametrize("reason", REFUSED)
def test_arrays_that_cannot_be_are_refused_with_the_reason(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    registry.register("recovery", "repeating", Repeating)
    run = {
        "nodes": 10,
        "duration": 1.0,
        "topology": {"name": "static-graph", "degree": 3},
        "routing": {"name": "flooding"},
        **REFUSED[reason],
    }
    with pytest.raises(StackError, match=f"'arrays' cannot be: {reason}.*; use 'auto'"):
        simulate(parse_config({**run, "data_plane": "arrays"}))
    simulate(parse_config({**run, "data_plane": "auto"}))


def test_a_dead_node_publishes_nothing_and_is_owed_nothing() -> None:
    run = {
        "nodes": 3,
        "duration": 2.0,
        "topology": {
            "name": "abstract-tree",
            "links": [[0, 1], [1, 2]],
            "crashes": [[1.0, 2]],
        },
        "routing": {"name": "flooding"},
        "workload": {
            "script": [
                *[
                    {"at": 0.0, "node": node, "do": "subscribe", "patterns": [1]}
                    for node in range(3)
                ],
                {"at": 0.5, "node": 2, "do": "publish", "patterns": [1]},
                {"at": 1.5, "node": 2, "do": "publish", "patterns": [1]},
                {"at": 1.5, "node": 0, "do": "publish", "patterns": [1]},
            ]
        },
    }
    both(run)
    arrays = result(run, "arrays")
    assert isinstance(arrays, RunResult)
    publications = arrays.tables["publications"].to_pydict()
    assert publications["publisher"] == [2, 0]
    assert publications["owed"] == publications["received"] == [3, 2]
