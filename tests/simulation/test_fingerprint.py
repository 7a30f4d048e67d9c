"""The same run has the same fingerprint: again, under any hash seed, compiled or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal._pure import compiled
from shoal.simulation import parse_config, simulate

SOURCES = Path(__file__).resolve().parents[2] / "src"

RUNS: dict[str, dict[str, Any]] = {
    "SM": {
        "nodes": 40,
        "seed": 3,
        "duration": 3.0,
        "topology": {"name": "abstract-tree", "rate": 20, "window": [1, 2.5], "shape": "random"},
        "reconfiguration": {"name": "strawman"},
        "workload": {"publish_rate": 4, "core": 0.5, "churn_rate": 2, "subscribers": 0.5},
    },
    "EF": {
        "nodes": 30,
        "duration": 2.0,
        "topology": {"name": "abstract-tree", "rate": 5, "window": [0.5, 1.5]},
        "routing": {"name": "event-forwarding"},
    },
    "flooding": {
        "nodes": 30,
        "duration": 1.0,
        "topology": {"name": "static-graph", "degree": 5},
        "routing": {"name": "flooding"},
        "link": {"bandwidth": 0},
    },
}

SCRIPT = """
import json, sys
from shoal._pure import compiled
from shoal.simulation import parse_config, run_id, simulate
runs = json.loads(sys.argv[1])
results = {}
for name, raw in runs.items():
    config = parse_config(raw)
    results[name] = [simulate(config).fingerprint, run_id(config)]
print(json.dumps([compiled(), results]))
"""


def elsewhere(**environment: str) -> tuple[bool, dict[str, list[str]]]:
    """Run everything in another process; whether it was compiled, fingerprints and run ids."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(RUNS)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    was_compiled, results = json.loads(ran.stdout)
    return was_compiled, results


@pytest.mark.parametrize("name", RUNS)
def test_again(name: str) -> None:
    config = parse_config(RUNS[name])
    assert simulate(config).fingerprint == simulate(config).fingerprint


def test_under_any_hash_seed() -> None:
    _, first = elsewhere(PYTHONHASHSEED="0")
    _, second = elsewhere(PYTHONHASHSEED="31337")
    assert first == second


def test_pure_and_compiled_are_the_same_simulation() -> None:
    """Against the sources that are installed, so that both are of the same age."""
    if not compiled():
        pytest.skip("the package under test is not compiled")
    _, fast = elsewhere()
    was_compiled, slow = elsewhere(SHOAL_PURE="1")
    assert not was_compiled
    assert fast == slow


def test_every_aspect_of_a_run_is_in_it() -> None:
    base = RUNS["SM"]
    prints = {simulate(parse_config(base)).fingerprint}
    for change in (
        {"seed": 4},
        {"link": {"delay": 0.002}},
        {"link": {"bandwidth": 9e6}},
        {"topology": {**base["topology"], "repair_time": 0.05}},
        {"reconfiguration": {"name": "timed"}},
        {"workload": {**base["workload"], "patterns": 95}},
    ):
        prints.add(simulate(parse_config({**base, **change})).fingerprint)
    assert len(prints) == 7
