"""Graphs whose links are replaced."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from shoal.simulation.config import parse_config
from shoal.simulation.graph import ReconfiguredGraphParameters, initial_graph, plan_changes
from shoal.simulation.run import simulate
from shoal.stack import StackError


def test_degrees_stay_within_one_of_the_nominal() -> None:
    """Costa and Picco, section 4: l - 1 to l + 1."""
    links = initial_graph("reconfigured-graph", 100, 5, 7)
    degree = [0] * 100
    for a, b in links:
        degree[a] += 1
        degree[b] += 1
    seen = set()
    parameters = ReconfiguredGraphParameters(degree=5, interval=0.03)
    for change in islice(plan_changes(parameters, 100, links, 7), 2000):
        for end in change.link:
            degree[end] += 1 if change.appears else -1
        seen |= set(degree)
    assert seen == {4, 5, 6}


def test_a_link_is_replaced_a_repair_time_after_it_vanished() -> None:
    links = initial_graph("reconfigured-graph", 50, 4, 1)
    parameters = ReconfiguredGraphParameters(
        degree=4, interval=0.03, repair_time=0.1, window=(1.0, 2.0)
    )
    changes = list(plan_changes(parameters, 50, links, 1))
    assert [c.at for c in changes] == sorted(c.at for c in changes)
    gone = {c.reconfiguration: c.at for c in changes if not c.appears}
    come = {c.reconfiguration: c.at for c in changes if c.appears}
    assert len(gone) == 34
    assert gone.keys() == come.keys()
    assert all(come[k] == pytest.approx(gone[k] + 0.1) for k in gone)


@pytest.mark.parametrize(
    ("nodes", "degree", "words"),
    [(5, 5, "needs more than 5 nodes"), (7, 3, "odd degree"), (9, 1, "odd degree")],
)
def test_a_degree_that_no_graph_can_have_is_refused(nodes: int, degree: int, words: str) -> None:
    config: dict[str, Any] = {
        "nodes": nodes,
        "topology": {"name": "reconfigured-graph", "degree": degree},
        "routing": {"name": "flooding"},
    }
    with pytest.raises(StackError, match=words):
        simulate(parse_config(config))


def test_what_cannot_be_reached_is_told_apart_from_what_was_lost() -> None:
    """Degree 2 and breaking links leave a graph in parts; that is not an error."""
    config = {
        "nodes": 20,
        "duration": 3.0,
        "topology": {
            "name": "reconfigured-graph",
            "degree": 2,
            "interval": 0.2,
            "repair_time": 1.0,
        },
        "routing": {"name": "flooding"},
        "workload": {"publish_rate": 5, "subscribers": 1.0, "own_events": False},
    }
    rows = simulate(parse_config(config)).tables["publications"].to_pylist()
    assert any(row["reachable"] < row["owed"] for row in rows)
    for row in rows:
        assert row["received"] <= row["owed"]
