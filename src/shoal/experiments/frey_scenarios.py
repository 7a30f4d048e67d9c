"""The scenarios of Frey's thesis, parts I and II (chapter 7 and the worked examples of 5 and 6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shoal.pipeline.paper import load_experiments
from shoal.pipeline.plan.experiment import Experiment, merge

THESIS = (
    "Davide Frey: Publish Subscribe on Large-Scale Dynamic Topologies: Routing and Overlay "
    "Management. PhD thesis, Politecnico di Milano, 2006."
)


def _held_back(experiment: Experiment) -> Experiment:
    """Figure 6.4(b) with a hundred events while the subscription waits."""
    script = list(experiment.base["workload"]["script"])
    for k in range(100):
        at = 3.0 + 0.1 + 0.005 * k
        script.append({"at": at, "node": 2, "do": "publish", "patterns": [0]})
    record = [*experiment.base["record"], "deliveries"]
    return replace(
        experiment,
        name="held-back",
        title="A subscription held back, with events",
        base=merge(experiment.base, {"workload": {"script": script}, "record": record}),
        variants={label: experiment.variants[label] for label in ("ILA", "ILA-no-flush")},
    )


FILE = Path(__file__).with_name("frey_routing.experiments.yaml")
_LISTED = load_experiments(FILE)
EXPERIMENTS = {**_LISTED, "held-back": _held_back(_LISTED["figure-6.4b"])}
"""Experiments by name."""
