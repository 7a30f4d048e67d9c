"""Which system for which network? Six systems with the same subscriptions, events and crashes.

    python examples/systems.py [--nodes 60 120] [--seeds 2]

Each node subscribes twice; an event is published every 0.1 s by a node drawn at random. Networks:
`calm`, where nobody fails; `crash`, where from 30 s on half of the nodes crash a minute and are
back after 5 s, and broken connections are noticed after 0.2 s; `vanish`, the same without such
notice. Counted from 30 s on. A delivery is owed to a node that is up, and stays up until the event
has come.
"""

import argparse
import statistics
import time
from collections import defaultdict
from typing import Any

from shoal.routing.dps import Dps
from shoal.simulation import Simulation, parse_config

FROM, UNTIL, END = 30.0, 90.0, 100.0

BASE: dict[str, Any] = {
    "duration": END,
    "link": {"delay": 0.02, "bandwidth": 0.0},
    "data_plane": "objects",
    "invariants": False,
    "bin": 5.0,
    "record": ["publications", "deliveries", "traffic", "loads", "reach"],
    "workload": {
        "subscribe_window": [8.0, 12.0],
        "publish_window": [FROM, UNTIL],
    },
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "DPS, root, leader": {"routing": {"name": "dps"}},
    "DPS, generic, leader": {"routing": {"name": "dps", "traversal": "generic"}},
    "DPS, root, epidemic": {"routing": {"name": "dps", "communication": "epidemic"}},
    "DPS, generic, epidemic": {
        "routing": {"name": "dps", "traversal": "generic", "communication": "epidemic"}
    },
    "LSTree, forwarding, timed": {
        "overlay": {"name": "lstree"},
        "routing": {"name": "subscription-forwarding"},
        "reconfiguration": {"name": "timed", "unsubscription_timer": 1.5},
    },
    "graph, semi-probabilistic": {
        "overlay": {"name": "graph"},
        "routing": {"name": "semi-probabilistic"},
    },
}
WORKLOADS = {
    "few want it": {"name": "dps3", "zipf": 0.5, "subscriptions": 2, "event_every": 0.1},
    "many want it": {"name": "dps2", "domain": 20, "subscriptions": 2, "event_every": 0.1},
}
CHURN = {"crash_rate": 0.5, "back_after": 5.0, "window": [FROM, UNTIL]}
NETWORKS: dict[str, dict[str, Any]] = {
    "calm": {},
    "crash": {**CHURN, "notice": 0.2},
    "vanish": CHURN,
}


def state(simulation: Simulation) -> list[int]:
    """Per node the entries that it routes by: pointers to nodes, or filters of neighbours."""
    kept = []
    for node in simulation.network.nodes:
        if node is None:
            continue
        routing: Any = node.routing
        if isinstance(routing, Dps):
            entries = len(routing.trees.peers) + len(routing.trees.roots)
            for group in routing.groups.values():
                entries += 1 + len(group.coleaders) + len(group.members) + len(group.known)
                entries += len(group.predview)
                entries += sum(len(successor.view) for successor in group.successors.values())
        else:
            entries = len(routing.table) + len(node.overlay.neighbours if node.overlay else ())
        kept.append(entries)
    return kept


def measure(config: dict[str, Any]) -> dict[str, float]:
    """One run, in numbers."""
    simulation = Simulation(parse_config(config))
    simulation.run()
    recorder = simulation.recorder
    published = {(r.publisher, r.sequence): r for r in recorder.publications}
    owed = sum((r.owed & ~r.excused).bit_count() for r in published.values())
    received = sum((r.owed & r.received & ~r.excused).bit_count() for r in published.values())
    rows = recorder.deliveries
    delays = [
        (rows[i + 3] - published[rows[i], rows[i + 1]].time) / 1e9 for i in range(0, len(rows), 7)
    ]
    first = FROM / config["bin"]
    last = UNTIL / config["bin"]
    events = others = 0
    for kind, bin_, count, *_ in recorder.traffic:
        if first <= bin_ < last:
            if kind == "event":
                events += count
            else:
                others += count
    sent: dict[int, int] = defaultdict(int)
    loads = recorder.loads
    for i in range(0, len(loads), 5):
        if first <= loads[i] < last:
            sent[loads[i + 1]] += loads[i + 2]
    span = UNTIL - FROM
    kept = state(simulation)
    return {
        "delivered": 100 * received / owed if owed else 100.0,
        "per event": events / len(published),
        "median node": statistics.median(sent.values()) / span,
        "busiest node": max(sent.values()) / span,
        "delay": 1000 * statistics.median(delays) if delays else 0.0,
        "entries": statistics.median(kept),
        "most entries": max(kept),
        "others": others / span / config["nodes"],
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Which system for which network?")
    parser.add_argument("--nodes", type=int, nargs="+", default=[60, 120])
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    print(
        "| interests | network | nodes | system | delivered % | event messages per event "
        "| messages sent per s: median node | busiest node | delay (ms, median) "
        "| entries kept: median node | most | other messages per node and s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    start = time.process_time()
    for interests, content in WORKLOADS.items():
        for network, trouble in NETWORKS.items():
            for nodes in arguments.nodes:
                for name, system in SYSTEMS.items():
                    runs = []
                    for seed in range(arguments.seeds):
                        config = {**BASE, **system, "nodes": nodes, "seed": seed}
                        config["topology"] = {"name": "full-mesh", "joining": 5.0, **trouble}
                        config["workload"] = {**BASE["workload"], "content": content}
                        runs.append(measure(config))
                    means = [statistics.mean(run[key] for run in runs) for key in runs[0]]
                    words = " | ".join(f"{mean:,.4g}" for mean in means)
                    print(f"| {interests} | {network} | {nodes} | {name} | {words} |", flush=True)
    print(f"\n{arguments.seeds} seeds, {time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
