"""The scenarios of Anceaume et al. 2006: Table 1, figure 3 and worked examples."""

from __future__ import annotations

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
    """A network that grows from its first nodes to 2.5 times as many."""
    nodes = 5 * first // 2
    later = [500.0 + every * turn for turn in range(nodes - first)]
    sessions = [[node, at, None] for node, at in enumerate([0.0] * first + later)]
    return {
        "nodes": nodes,
        "topology": {"churn": {"model": "given", "sessions": sessions}},
        "workload": {"content": {"domain": values, "publishers": first}},
    }


def _grown(experiment: Experiment, many: int, few: int) -> Experiment:
    """A network with those who join; so many values of an attribute in the full and quick tier."""
    base = merge(experiment.base, growing(1000, 2.0, many))
    return replace(experiment, base=base, quick=growing(100, 20.0, few))


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


EXPERIMENTS = {
    **LISTED,
    "growth": _grown(LISTED["growth"], 500, 50),
    "growth-zones": _grown(LISTED["growth-zones"], 8, 8),
    "concurrent": _concurrent(LISTED["concurrent"]),
    "arrivals": _arrivals(LISTED["arrivals"]),
}
"""All scenarios by name."""
