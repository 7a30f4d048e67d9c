"""Measures of publish/subscribe trees see a fault where there is one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from run_parts import Parts, in_parts

import shoal.pipeline.measure.trees  # noqa: F401  # registers its cases
from shoal.pipeline.measure.cases import ENTRIES
from shoal.pipeline.measure.registry import find_measure
from shoal.pipeline.measure.run_view import Run
from shoal.simulation import parse_config, simulate
from shoal.simulation.config import canonical_json

RECORDED = ["notes", "messages", "deliveries", "publications", "links"]


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], Parts]:
    config = parse_config(
        {
            "nodes": 12,
            "seed": 3,
            "duration": 1.0,
            "topology": {
                "name": "static-tree",
                "range": 150.0,
                "connected_at": 150.0,
                "detail": True,
                "events": 20,
                "window": [0.1, 0.9],
            },
            "routing": {"name": "hierarchical-forwarding"},
            "record": RECORDED,
        }
    )
    tables = simulate(config).tables
    return json.loads(canonical_json(config)), in_parts(tables)


def event_sent(tables: Parts) -> dict[str, Any]:
    return next(row for row in tables["messages"] if row["kind"] == "event")


def lose_delivery(tables: Parts) -> None:
    tables["deliveries"].pop()


def lose_message(tables: Parts) -> None:
    tables["messages"].remove(event_sent(tables))


def send_twice(tables: Parts) -> None:
    tables["messages"].append(dict(event_sent(tables)))


def foreign_publisher(tables: Parts) -> None:
    tables["publications"][0]["publisher"] = 5


def noted(tables: Parts, what: str) -> dict[str, Any]:
    return next(n for n in tables["notes"] if n["what"] == what and n["peer"] >= 0)


def lose_edge(tables: Parts) -> None:
    tables["notes"].remove(noted(tables, "edge"))


def lose_link(tables: Parts) -> None:
    tables["links"].pop()


def farther(tables: Parts) -> None:
    note = noted(tables, "hops")
    note["value"] = repr(float(note["value"]) + 1)


def dearer(tables: Parts) -> None:
    note = noted(tables, "cost")
    note["value"] = repr(float(note["value"]) + 1)


def lose_entry(tables: Parts) -> None:
    added = (n for n in tables[ENTRIES] if n["what"] == "entry added" and n["peer"] >= 0)
    tables[ENTRIES].remove(next(added))


@pytest.mark.parametrize(
    ("measure", "tamper"),
    [
        ("action_faults", lose_delivery),
        ("action_faults", lose_message),
        ("overhead_faults", lose_message),
        ("delivery_faults", lose_delivery),
        ("delivery_faults", send_twice),
        ("delivery_faults", foreign_publisher),
        ("tree_faults", lose_link),
        ("tree_faults", farther),
        ("graph_faults", lose_edge),
        ("cost_faults", dearer),
        ("subscription_faults", lose_entry),
    ],
)
def test_a_fault_is_seen(
    measure: str, tamper: Callable[[Parts], None], recorded: tuple[dict[str, Any], Parts]
) -> None:
    configuration, tables = recorded
    function = find_measure(measure)
    assert function(Run(configuration, tables)) == 0
    broken = copy.deepcopy(tables)
    tamper(broken)
    found = function(Run(configuration, broken))
    assert isinstance(found, float)
    assert found > 0
