"""DPS: how fast it is simulated, and what two options save.

The scenario of figure 3(e): a subscription per node every 300 steps, ten events every 100. Speed is
messages per second of CPU; beside it that of subscription forwarding on a tree, also with objects
for every message, as DPS has no other data plane. The same with ten times as many nodes shows
whether the cost of a message grows with the network. Then nodes that are sent an event in vain:
with the attribute joined at random, the most or the least selective one, and with labels tested
before an event is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.experiments.dps_scenarios import FOUR, LISTED
from shoal.pipeline.plan.experiment import merge
from shoal.simulation import parse_config, simulate

SPEED: Mapping[str, Any] = {"record": ["traffic"]}


def measured(*parts: Mapping[str, Any]) -> tuple[float, float, Any]:
    """Seconds of CPU that a run takes, messages per such second, and the run."""
    config = parse_config(merge(*parts))
    start = time.process_time()
    result = simulate(config)
    seconds = time.process_time() - start
    messages = sum(result.tables["traffic"]["count"].to_pylist())
    return seconds, messages / seconds, result


def in_vain(result: Any) -> float:
    """Nodes per event that are sent it and do not want it, once all have subscribed."""
    rows = [row["in_vain"] for row in result.tables["reach"].to_pylist() if row["time"] >= 1100]
    return float(sum(rows) / len(rows))


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """Measure, yielding numbers as they are known."""
    steps, large = (700.0, 2000) if quick else (3100.0, 10_000)
    load = merge(LISTED["load"].base, {"duration": steps}, SPEED)
    measured(load, FOUR["root leader"], {"nodes": 50, "duration": 300.0})  # loads and compiles
    speeds = {}
    for name in ("root leader", "root epidemic"):
        seconds, speeds[name], _ = measured(load, FOUR[name])
        label = name.replace(" ", "_")
        yield {f"{label}_1000_nodes_seconds": seconds, f"{label}_messages_per_s": speeds[name]}
    tree = {
        "nodes": 1000,
        "duration": 20.0 if quick else 60.0,
        "topology": {"name": "abstract-tree"},
        "routing": {"name": "subscription-forwarding"},
        "data_plane": "objects",
        "workload": {"publish_rate": 0.05, "content": {"name": "dps2", "event_every": 0.05}},
    }
    _, forwarding, _ = measured(tree, SPEED)
    yield {
        "subscription_forwarding_messages_per_s": forwarding,
        "root_leader_vs_subscription_forwarding": speeds["root leader"] / forwarding,
    }
    seconds, speed, _ = measured(load, FOUR["root leader"], {"nodes": large})
    yield {
        f"root_leader_{large}_nodes_seconds": seconds,
        f"root_leader_1000_vs_{large}_nodes": speeds["root leader"] / speed,
    }
    asked = LISTED["selective"]
    for name, options in asked.variants.items():
        _, _, result = measured(asked.base, asked.quick if quick else {}, options)
        yield {f"{name.replace(' ', '_')}_nodes_in_vain_per_event": in_vain(result)}
