"""The scenarios of Anceaume et al. 2006: Table 1, figure 3 and worked examples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.pipeline.paper import load_experiments
from shoal.pipeline.plan.experiment import Experiment, merge
from shoal.stack import Chance

FILE = Path(__file__).with_name("dps.experiments.yaml")
LISTED = load_experiments(FILE)
"""The scenarios by name; three lack what is computed here."""
FOUR: Mapping[str, Any] = LISTED["load"].variants
"""The four systems: traversal from the root or generic, leaders or epidemic communication."""


def growing(first: int, every: float, values: int) -> dict[str, Any]:
    """A network that grows from its first nodes, with so many values, to 2.5 times as many."""
    nodes = 5 * first // 2
    later = [500.0 + every * turn for turn in range(nodes - first)]
    sessions = [[node, at, None] for node, at in enumerate([0.0] * first + later)]
    return {
        "nodes": nodes,
        "topology": {"churn": {"model": "given", "sessions": sessions}},
        "workload": {"content": {"domain": values, "publishers": first}},
    }


def _subscribe(at: float, node: int, text: str) -> dict[str, Any]:
    return {"at": at, "node": node, "do": "subscribe", "filters": [text]}


LEVELS, PAIRS = 6, 200
PUBLISHERS = 40
"""Nodes that never subscribe: like a newcomer, they enter the tree at a contact point."""


def _concurrent(experiment: Experiment) -> Experiment:
    """A chain of groups of four; then events, each with a subscription made in the same step.

    What an event carries beside its number only that one subscriber wants.
    """
    chain = 4 * LEVELS
    script = [_subscribe(60.0 + 5.0 * n, n, f"a > {n // 4} AND b = -1") for n in range(chain)]
    begin = 60.0 + 5.0 * chain + 240.0
    for pair in range(PAIRS):
        at, publisher = begin + 10.0 * pair, chain + PAIRS + pair % PUBLISHERS
        event = {"at": at, "node": publisher, "do": "publish", "attributes": {"a": 9, "b": pair}}
        script += [_subscribe(at, chain + pair, f"a > {pair % LEVELS} AND b = {pair}"), event]
    nodes, end = chain + PAIRS + PUBLISHERS, begin + 10.0 * PAIRS + 100.0
    changes = {"nodes": nodes, "duration": end, "workload": {"script": script}}
    return replace(experiment, base=merge(experiment.base, changes))


def _arriving(subscribers: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """Subscriptions one after the other."""
    acts = [_subscribe(100.0 + 20.0 * n, *one) for n, one in enumerate(subscribers)]
    return {"workload": {"script": acts}}


def _arrivals(experiment: Experiment) -> Experiment:
    """One-sided ranges and equalities in ten orders."""
    some = [(node, f"a {'><='[node % 3]} {(7 * node) % 11}") for node in range(30)]
    orders = [Chance(order, "order of arrival").sample(some, len(some)) for order in range(10)]
    variants = {f"order {n}": _arriving(order) for n, order in enumerate(orders)}
    return replace(experiment, base=merge(experiment.base, _arriving(some)), variants=variants)


def _branches(experiment: Experiment) -> Experiment:
    """One branch below the root, or two; who publishes is in the last group, farthest from most."""
    variants = {}
    for levels, size, name in itertools.product((2, 8), (1, 10, 50), experiment.variants):
        if size == 1 and "epidemic" in name:
            continue  # nine nodes hold the root
        texts = [f"a > {level}" for level in range(1, levels)]
        if name.startswith("generic"):
            texts += [f"a < {1000 - level}" for level in range(1, levels)]
        script = [
            _subscribe(100.0 + 20.0 * (n // size) + 10.0 * bool(n % size), n, texts[n // size])
            for n in range(size * len(texts))
        ]
        at, last = 300.0 + 20.0 * len(texts), len(script) - 1
        script.append({"at": at, "node": last, "do": "publish", "attributes": {"a": 500}})
        sized = {"nodes": last + 3, "duration": at + 100.0, "workload": {"script": script}}
        variants[f"{name}, h={levels}, S={size}"] = merge(experiment.variants[name], sized)
    return replace(experiment, variants=variants)


EXPERIMENTS = {
    **LISTED,
    "growth": replace(
        LISTED["growth"],
        base=merge(LISTED["growth"].base, growing(1000, 2.0, 500)),
        quick=growing(100, 20.0, 50),
    ),
    "concurrent": _concurrent(LISTED["concurrent"]),
    "arrivals": _arrivals(LISTED["arrivals"]),
    "branches": _branches(LISTED["branches"]),
}
"""All scenarios by name."""
