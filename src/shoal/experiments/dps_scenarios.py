"""The scenarios of Anceaume et al. 2006: worked examples, Table 1 and figure 3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.experiments.dps_examples import WORKED
from shoal.experiments.dps_steps import LISTED
from shoal.pipeline.plan.experiment import Experiment, merge


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


VALUES = {"growth": (500, 50), "growth-zones": (8, 8)}
"""Values of an attribute in networks that grow: in the full tier, and in the quick one."""


def _grown(experiment: Experiment) -> Experiment:
    """An experiment with those who join, if it is one of a network that grows."""
    if experiment.name not in VALUES:
        return experiment
    many, few = VALUES[experiment.name]
    base = merge(experiment.base, growing(1000, 2.0, many))
    return replace(experiment, base=base, quick=growing(100, 20.0, few))


EXPERIMENTS = (*WORKED, *map(_grown, LISTED.values()))
