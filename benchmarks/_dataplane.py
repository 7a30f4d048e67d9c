"""Messages per CPU-second of the data plane in whole runs, for ``shoal bench simulation``.

Whole runs are timed, from the first link to rest, control plane and recording included; only the
set-up (graph and workload) is left out. Each measurement is a process of its own; the best of a few
is taken for what the code can do, as a busy machine only ever adds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

from shoal.experiments import costa_scenarios
from shoal.experiments.costa_scenarios import publishing
from shoal.pipeline.plan.experiment import merge

NODES = 300
DEGREE = 5
RECORDED = ["publications", "traffic", "routes", "links"]

STATIC = {"name": "static-graph", "degree": DEGREE}
MOVING = {"name": "reconfigured-graph", "degree": DEGREE, "interval": 0.03}
SEMI = {"name": "semi-probabilistic", "horizon": 1, "threshold": 0.25}

SCENARIOS: dict[str, dict[str, Any]] = {
    "flooding": {"topology": STATIC, "routing": {"name": "flooding"}, "seconds": 6},
    "flooding_unrecorded": {
        "topology": STATIC,
        "routing": {"name": "flooding"},
        "seconds": 6,
        "record": [],
    },
    "semi_static": {"topology": STATIC, "routing": SEMI, "seconds": 30},
    "semi_static_unrecorded": {"topology": STATIC, "routing": SEMI, "seconds": 30, "record": []},
    "semi_dynamic": {"topology": MOVING, "routing": SEMI, "seconds": 15},
    "large": {"nodes": 100_000, "topology": STATIC, "routing": {"name": "flooding"}, "seconds": 1},
}


def run(quick: bool = False) -> dict[str, float]:
    """All measurements."""
    repeats = 2 if quick else 5
    best: dict[str, dict[str, float]] = {}
    for name in SCENARIOS:
        if name == "large" and quick:
            continue
        found = [_measure(name) for _ in range(1 if name == "large" else repeats)]
        best[name] = min(found, key=lambda f: f["seconds"] / f["messages"])
    result = {f"plane_{name}_messages_per_cpu_second": _rate(best[name]) for name in best}
    for name in ("flooding", "semi_static"):
        plain = _rate(best[f"{name}_unrecorded"])
        result[f"plane_{name}_cost_of_recording"] = max(0.0, 1 - _rate(best[name]) / plain)
    if "large" in best:
        result["plane_large_gigabytes"] = best["large"]["gigabytes"]
    return result


def _rate(found: dict[str, float]) -> float:
    return found["messages"] / found["seconds"]


def _measure(name: str) -> dict[str, float]:
    """One measurement in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, name], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def configuration(name: str) -> dict[str, Any]:
    """The run of a scenario."""
    scenario = SCENARIOS[name]
    nodes = scenario.get("nodes", NODES)
    workload = {} if nodes == NODES else {"publish_rate": 20.0 / nodes}
    changes = {
        "nodes": nodes,
        "topology": scenario["topology"],
        "routing": scenario["routing"],
        "workload": workload,
        "record": scenario.get("record", RECORDED),
        "data_plane": "arrays",
    }
    return merge(costa_scenarios.STATIC, changes, publishing(scenario["seconds"]))


def timed(name: str) -> dict[str, float]:
    """Run a scenario, once small to load the compiled kernel, then timed."""
    from shoal.simulation import Simulation, parse_config
    from shoal.simulation.columns import to_tables
    from shoal.simulation.garbage import uncollected

    small = {**configuration(name), "nodes": 20, "duration": 1.0}
    small["workload"] = {**small["workload"], "publish_rate": 5.0}
    warm = Simulation(parse_config(small))
    warm.run()
    to_tables(warm.recorder, "run", warm.config.record)  # imports what it needs, once
    # From set-up on, as simulate() does: a search for garbage that is put off during the set-up
    # would look at all modules that were imported, once in a process, when the run begins.
    with uncollected():
        simulation = Simulation(parse_config(configuration(name)))
        started = time.process_time()
        simulation.run()
        to_tables(simulation.recorder, "run", simulation.config.record)
        seconds = time.process_time() - started
    kernel = simulation.kernel
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"messages": kernel.handled + kernel.lost, "seconds": seconds, "gigabytes": memory}


if __name__ == "__main__":
    what = sys.argv[1]
    print(json.dumps(run(what == "quick") if what in ("quick", "all") else timed(what)))
