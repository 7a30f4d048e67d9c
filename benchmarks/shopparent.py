"""ShopParent: how fast trees are grown, and how many messages brokers save by shopping.

Trees are grown as in the static figures of Huang and Garcia-Molina, and by ten thousand nodes. Then
simulated brokers that can all reach each other shop with a sample of events, under two kinds of
interests: *skewed*, where a broker wants a few topics, as popular as their rank, and *local*, where
it wants a rectangle and events come in clusters. Messages that carry an event are counted once the
tree is steady, beside the tree by hop count and a graph that is flooded.

The same is done with recorded events if ``SHOAL_DATA`` names a folder that has them: edits of
Wikipedia (``wikipedia-edits/edits.json.gz``, lines of JSON with a ``channel``), and positions of
aircraft (``adsb-flights/switzerland.csv.gz``, with ``latitude`` and ``longitude``).
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from shoal.overlay.shopparent_costs import Axis, Density, Work
from shoal.simulation import parse_config, simulate
from shoal.simulation.optimum import optimum
from shoal.simulation.placement import (
    PlacementParameters,
    edges_within,
    intervals_of,
    places_of,
)
from shoal.simulation.shopping import Tree
from shoal.simulation.topology import adjacency, distances
from shoal.stack import Chance

STEADY = 40.0
"""Simulated seconds after which events are counted; a sample is collected before."""
BROKERS = 48
EVENTS = 1500
Workload: TypeAlias = tuple[list[list[str]], list[dict[str, Any]]]
"""The filters of each broker, and the events that the root publishes."""


def instance(seed: int, merge: str) -> tuple[list[list[int]], list[int], Axis]:
    """Thirty nodes as in the paper's Table 2."""
    parameters = PlacementParameters()
    places = places_of(parameters, 30, seed)
    near: list[list[int]] = [[] for _ in range(30)]
    for a, b in edges_within(places, parameters.range):
        near[a].append(b)
        near[b].append(a)
    wanted = [pair for pair in intervals_of(parameters.interests, places, seed) if pair]
    axis = Axis([end for pair in wanted for end in pair], merge == "hull", Density())
    return near, [axis.interest((pair,)) for pair in wanted], axis


def static_runs(runs: int) -> float:
    """Milliseconds of CPU to grow one tree, at the median."""
    took = []
    for seed in range(runs):
        near, own, axis = instance(seed, "union")
        start = time.process_time()
        tree = Tree(near, own, axis, Work())
        tree.shop("COMBO", Chance(seed, "turns"))
        took.append(1000 * (time.process_time() - start))
    return statistics.median(took)


def optima(runs: int) -> float:
    """Seconds of CPU to find the optimum, at the median."""
    took = []
    for seed in range(runs):
        near, own, axis = instance(seed, "union")
        start = time.process_time()
        optimum(near, own, axis, Work(), seconds=120.0)
        took.append(time.process_time() - start)
    return statistics.median(took)


def many_nodes(nodes: int) -> tuple[float, float]:
    """Seconds of CPU until so many nodes are steady, and the share that the root reaches."""
    side = 30.0 * nodes**0.5
    chance = Chance(1, "many")
    points = [[chance.uniform(n, 0) * side, chance.uniform(n, 1) * side] for n in range(nodes)]
    near = adjacency(nodes, edges_within(np.array(points), 60.0))
    reached = distances(near, 0)
    centres = [chance.uniform(n, 2) * 250 for n in range(nodes)]
    wanted = [(round(c - 12.5), round(c + 12.5)) for c in centres]
    axis = Axis([float(end) for pair in wanted for end in pair], False, Density())
    own = [axis.interest(((float(low), float(high)),)) for low, high in wanted]
    start = time.process_time()
    tree = Tree([list(one) for one in near], own, axis, Work())
    tree.shop("COMBO", Chance(1, "turns"))
    return time.process_time() - start, len(reached) / nodes


# Brokers


def skewed(chance: Chance) -> Workload:
    """Topics as popular as their rank."""
    topics = 40
    weights = [1 / (rank + 1) for rank in range(topics)]

    def topic(*question: int) -> int:
        left = chance.uniform(*question) * sum(weights)
        for rank, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return rank
        return topics - 1

    filters = [
        sorted({f"topic = 't{topic(node, k)}'" for k in range(4)}) for node in range(BROKERS)
    ]
    events = [{"topic": f"t{topic(-1, k)}"} for k in range(EVENTS)]
    return filters, events


def local(chance: Chance) -> Workload:
    """Rectangles around airports, and events near airports."""
    airports = [(chance.uniform(-2, k, 0) * 100, chance.uniform(-2, k, 1) * 100) for k in range(8)]
    filters = []
    for node in range(BROKERS):
        x, y = airports[chance.below(8, node, 0)]
        x, y = x + 8 * chance.uniform(node, 1) - 4, y + 8 * chance.uniform(node, 2) - 4
        filters.append(
            [f"x >= {x - 8:.3f} AND x <= {x + 8:.3f} AND y >= {y - 8:.3f} AND y <= {y + 8:.3f}"]
        )
    events = []
    for k in range(EVENTS):
        x, y = airports[chance.below(8, -3, k)]
        events.append(
            {
                "x": round(x + 20 * chance.uniform(-4, k) - 10, 3),
                "y": round(y + 20 * chance.uniform(-5, k) - 10, 3),
            }
        )
    return filters, events


def wikipedia(path: Path) -> Callable[[Chance], Workload]:
    """Edits as they came; a broker wants three channels, as popular as they are."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        edits = [{"channel": json.loads(line)["channel"]} for line in lines]

    def workload(chance: Chance) -> Workload:
        filters = [
            sorted({f"channel = '{drawn(chance, edits, node, k)['channel']}'" for k in range(3)})
            for node in range(BROKERS)
        ]
        return filters, span(chance, edits)

    return workload


def aircraft(path: Path) -> Callable[[Chance], Workload]:
    """Positions as they came; a broker wants the surroundings of a place where aircraft fly."""
    with gzip.open(path, "rt", encoding="utf-8") as rows:
        seen = [
            {"lat": float(row["latitude"]), "lon": float(row["longitude"])}
            for row in itertools.islice(csv.DictReader(rows), 60_000)
        ]

    def workload(chance: Chance) -> Workload:
        filters = []
        for node in range(BROKERS):
            at = drawn(chance, seen, node)
            bounds = [f"{name} >= {at[name] - 0.4:.4f}" for name in ("lat", "lon")]
            bounds += [f"{name} <= {at[name] + 0.4:.4f}" for name in ("lat", "lon")]
            filters.append([" AND ".join(bounds)])
        return filters, span(chance, seen)

    return workload


def drawn(chance: Chance, recorded: list[dict[str, Any]], *question: int) -> dict[str, Any]:
    """An event, any as likely as any other."""
    return recorded[chance.below(len(recorded), *question)]


def span(chance: Chance, recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events that came one after the other."""
    start = chance.below(len(recorded) - EVENTS, -6)
    return recorded[start : start + EVENTS]


def workloads() -> dict[str, Callable[[Chance], Workload]]:
    """By name, those drawn and, where there is recorded data, those recorded."""
    found: dict[str, Callable[[Chance], Workload]] = {"skewed": skewed, "local": local}
    data = Path(os.environ.get("SHOAL_DATA", "no such folder"))
    edits, positions = "wikipedia-edits/edits.json.gz", "adsb-flights/switzerland.csv.gz"
    if (data / edits).exists():
        found["wikipedia"] = wikipedia(data / edits)
    if (data / positions).exists():
        found["aircraft"] = aircraft(data / positions)
    return found


def forwarded(workload: Workload, stack: dict[str, Any], seed: int) -> tuple[float, float]:
    """Messages per event, and the share of deliveries made, once the network is steady."""
    filters, events = workload
    end = STEADY + 20.0
    script: list[dict[str, Any]] = [
        {"at": 0.0, "node": node, "do": "subscribe", "filters": wanted}
        for node, wanted in enumerate(filters)
    ]
    script += [
        {"at": 1.0 + (end - 2.0) * k / len(events), "node": 0, "do": "publish", "attributes": event}
        for k, event in enumerate(events)
    ]
    config = parse_config(
        {
            "nodes": BROKERS,
            "seed": seed,
            "duration": end,
            "topology": {"name": "full-mesh", "joining": 2.0},
            "workload": {"script": script},
            "record": ["publications", "traffic"],
            **stack,
        }
    )
    tables = simulate(config).tables
    traffic, published = tables["traffic"].to_pylist(), tables["publications"].to_pylist()
    late = [row for row in published if row["time"] >= STEADY]
    sent = sum(row["count"] for row in traffic if row["kind"] == "event" and row["time"] >= STEADY)
    owed, received = (sum(row[name] for row in late) for name in ("owed", "received"))
    return sent / len(late), received / max(1, owed)


def tree(metric: str) -> dict[str, Any]:
    """A tree whose nodes shop by a metric."""
    return {
        "overlay": {"name": "shopparent", "metric": metric, "children": 4, "probes": 4},
        "routing": {"name": "hierarchical-forwarding"},
    }


GRAPH = {"overlay": {"name": "graph", "degree": 5}, "routing": {"name": "flooding"}}


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """Yield numbers as they are known."""
    yield {"static_run_ms": static_runs(20 if quick else 100)}
    yield {"optimum_median_s": optima(3 if quick else 15)}
    nodes = 2_000 if quick else 10_000
    seconds, share = many_nodes(nodes)
    yield {f"steady_{nodes}_nodes_s": seconds, "share_in_reach_of_the_root": share}
    every: list[float] = []
    for name, make in workloads().items():
        counts: dict[str, list[float]] = {"COMBO": [], "OVHD": [], "NHOP": [], "graph": []}
        made: list[float] = []
        for seed in range(1 if quick else 5):
            workload = make(Chance(seed, name))
            for label, found in counts.items():
                stack = GRAPH if label == "graph" else tree(label)
                messages, share = forwarded(workload, stack, seed)
                found.append(messages)
                made.append(share)
        yield {f"{name}_deliveries_made_at_least": min(made)}
        mean = {label: statistics.fmean(found) for label, found in counts.items()}
        yield {f"{name}_messages_per_event_{k.lower()}": v for k, v in mean.items()}
        yield {
            f"{name}_forwarded_over_hop_count": mean["COMBO"] / mean["NHOP"],
            f"{name}_forwarded_over_graph": mean["COMBO"] / mean["graph"],
        }
        every.append(mean["COMBO"] / mean["NHOP"])
    yield {"forwarded_over_hop_count": statistics.fmean(every)}
