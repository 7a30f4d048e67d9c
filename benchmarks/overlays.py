"""Trees that build and heal themselves: what churn and crashes cost (``shoal bench overlays``).

Each measurement is a process of its own; CPU times of whole runs are shown, from the first start of
a node on. Failures are told (no beats), periods are the thesis's (250 s), one way takes 50 ms.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

HOUR = 3600.0
PERIOD = 250.0


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """All measurements, each as soon as it is known."""
    hours = 3.0 if quick else 60.0
    churn = _measure("churn", 17_125, hours)
    yield {
        "lstree_churn_hours": hours,
        "lstree_churn_seconds": churn["seconds"],
        "lstree_messages_per_cpu_second": churn["messages"] / churn["seconds"],
        "lstree_churn_gigabytes": churn["gigabytes"],
    }
    for nodes in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
        crash = _measure("catastrophe", nodes, 0.0)
        name = f"lstree_{nodes}"
        yield {
            f"{name}_build_seconds": crash["build"],
            f"{name}_catastrophe_seconds": crash["crash"],
            f"{name}_messages_per_cpu_second": crash["messages"] / crash["seconds"],
            f"{name}_gigabytes": crash["gigabytes"],
        }
        if nodes == 10_000:
            yield {"catastrophe_seconds": crash["seconds"]}


def _measure(what: str, nodes: int, hours: float) -> dict[str, float]:
    """One measurement in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, what, str(nodes), str(hours)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def configuration(nodes: int, duration: float, topology: dict[str, Any]) -> dict[str, Any]:
    """A network of LSTree alone: nobody publishes."""
    return {
        "nodes": nodes,
        "duration": duration,
        "bin": 60.0,
        "topology": {"name": "full-mesh", "notice": 0.15, "notice_most": 0.2, **topology},
        "overlay": {
            "name": "lstree",
            "heartbeat": 0,
            "global_period": PERIOD,
            "merge_period": PERIOD,
        },
        "routing": {"name": "flooding"},
        "workload": {"publish_rate": 0.0, "subscribers": 0.0},
        "link": {"delay": 0.05, "bandwidth": 0.0},
        "record": ["traffic", "links"],
    }


def timed(what: str, nodes: int, hours: float) -> dict[str, float]:
    """Run a scenario and time it; at its end there is one tree."""
    from shoal.simulation import Simulation, parse_config
    from shoal.simulation.garbage import uncollected
    from shoal.simulation.kernel import to_ns

    joining = max(10.0, nodes / 500)
    crash_at = joining + 3 * PERIOD
    if what == "churn":
        end = hours * HOUR
        topology: dict[str, Any] = {
            "joining": 600.0,
            "churn": {"model": "gnutella", "until": end - 60.0},
        }
        crash_at = end / 2
    else:
        end = crash_at + 60.0
        topology = {"joining": joining, "catastrophes": [{"at": crash_at, "share": 0.25}]}
    simulation = Simulation(parse_config(configuration(nodes, end, topology)))
    kernel = simulation.kernel
    with uncollected():
        started = time.process_time()
        simulation.begin()
        kernel.run(to_ns(crash_at) - 1)
        built = time.process_time()
        kernel.run(to_ns(end))
        ended = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "seconds": ended - started,
        "build": built - started,
        "crash": ended - built,
        "messages": kernel.handled + kernel.lost,
        "gigabytes": memory,
    }


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
