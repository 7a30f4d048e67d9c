"""Frey 2006, chapters 14 and 15: routing on trees that build themselves, among peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from shoal.experiments.frey_scenarios import EXPERIMENTS, THESIS
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Panel, Paper, load_experiments, load_figures
from shoal.pipeline.plan.experiment import Experiment, merge

# Section 15.1


def protocols(timer: float, **informed: Any) -> dict[str, Mapping[str, Any]]:
    """The three protocols compared, with the same timers."""
    informed |= {"unsubscription_timer": timer, "subscription_timer": timer}
    return {
        "SM": {"reconfiguration": {"name": "strawman"}},
        "TDU": {"reconfiguration": {"name": "timed", "unsubscription_timer": timer}},
        "ILA": {"reconfiguration": {"name": "informed-asymmetric", **informed}},
    }


PROTOCOLS = protocols(1.5)
LABELS: Mapping[str, str] = {
    "SM": "Strawman",
    "TDU": "Timed Deferred Unsubscription",
    "ILA": "Informed Link Activation, asymmetric",
    "ILA-symmetric": "Informed Link Activation as in chapter 6",
    "TDU-DHTree": "Timed Deferred Unsubscription on DHTree",
}
ALL = ("SM", "TDU", "ILA")
OPTIMISED = ("TDU", "ILA")

AWAKE = 270
"""Nodes awake in the reference scenario; as many again are away."""
SETTLED, MEASURED = 400.0, 1800.0
"""Seconds before the measured interval, and in it (7,200 in the thesis)."""
PER_MINUTE = 1 / 60 / AWAKE
"""Events per second and node for one event a minute in the system."""

LSTREE: Mapping[str, Any] = {
    "name": "lstree",
    "instance": "RDGM",
    "heartbeat": 0.0,
    "global_period": 250.0,
    "early_merge": 0.0,
    "merge_period": 250.0,
}
P_DEFAULT: Mapping[str, Any] = {
    "nodes": 2 * AWAKE,
    "duration": SETTLED + MEASURED,
    "bin": 1.0,
    "topology": {
        "name": "full-mesh",
        "joining": 60.0,
        # Session lengths of Gnutella's hosts. Failures are told within the bounds of chapter 10.
        "churn": {"model": "lognormal", "up": 0.5, "mean": 8280.0, "median": 3600.0},
        "notice": 0.15,
        "notice_most": 0.2,
    },
    "overlay": LSTREE,
    "link": {"delay": 0.05, "bandwidth": 0.0},
    "workload": {
        "patterns": 400,
        "patterns_per_subscriber": 7,
        "patterns_per_event": 40,
        "subscribers": 0.2,
        "publish_rate": 15 * PER_MINUTE,
        "publish_window": [SETTLED, SETTLED + MEASURED],
    },
    "record": ["traffic", "links", "repairs"],
}
QUICK: Mapping[str, Any] = {
    "duration": SETTLED + 300.0,
    "topology": {"churn": {"model": "lognormal", "up": 0.5, "mean": 690.0, "median": 300.0}},
    "workload": {"publish_window": [SETTLED, SETTLED + 300.0]},
}
"""For the quick tier: sessions a twelfth as long, so that five minutes change what an hour does."""


def p2p(**changes: Any) -> dict[str, Any]:
    """The reference scenario with changes."""
    return merge(P_DEFAULT, changes)


def _short(seconds: float) -> dict[str, Any]:
    """The reference scenario, measured for a shorter time: where there are many nodes or events."""
    end = SETTLED + seconds
    return p2p(duration=end, workload={"publish_window": [SETTLED, end]})


TREE_OF_SIZE = (100, 270, 540, 1000, 1600, 2300)

_on_lstree = partial(Experiment, variants=PROTOCOLS, quick_seeds=2, quick=QUICK)

P2P = (
    _on_lstree(
        "p2p",
        "The reference scenario, looked at closely",
        p2p(record=["traffic", "links", "repairs", "publications"]),
        seeds=10,
    ),
    _on_lstree("p2p-scale", "System scale on LSTree", _short(900.0), seeds=5).along(
        "nodes", tuple(2 * n for n in TREE_OF_SIZE), (200, 540), "nodes (half of them awake)"
    ),
    _on_lstree("p2p-density", "Density of subscribers on LSTree", P_DEFAULT, seeds=10).along(
        "workload.subscribers",
        (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
        (0.05, 0.4, 1.0),
        "share of subscribers σ",
    ),
    _on_lstree("p2p-publish", "Publish rate on LSTree", _short(900.0), seeds=5).along(
        "workload.publish_rate",
        tuple(n * PER_MINUTE for n in (15, 60, 125, 250, 500)),
        tuple(n * PER_MINUTE for n in (15, 500)),
        "events per second and node",
    ),
    _on_lstree("p2p-traffic", "Traffic over time on LSTree", _short(600.0), seeds=10).along(
        "workload.publish_rate",
        tuple(n * PER_MINUTE for n in (50, 200, 800, 1600, 3200)),
        (3200 * PER_MINUTE,),
        "events per second and node",
    ),
    Experiment(
        "p2p-dhtree",
        "Timed Deferred Unsubscription on DHTree",
        merge(
            p2p(nodes=60, overlay={"name": "dhtree"}, duration=400.0),
            {
                "topology": {
                    "churn": {"model": "lognormal", "up": 0.5, "mean": 300.0, "median": 120.0}
                },
                "workload": {"publish_window": [100.0, 400.0]},
            },
        ),
        {"TDU-DHTree": PROTOCOLS["TDU"]},
        seeds=10,
        quick_seeds=3,
    ),
)

WORKED = load_experiments(Path(__file__).with_name("frey_p2p.experiments.yaml"))
"""The worked examples of chapter 14, by name."""

_SCALE = EXPERIMENTS["scale"]
CHAPTER_7 = replace(
    _SCALE,
    title="System scale, links replaced at random (chapter 7)",
    variants={label: _SCALE.variants[label] for label in ALL},
    quick_values=(100, 200),
    seeds=10,
    quick_seeds=2,
)

COST, GAIN = "cost per reconfiguration", "improvement over Strawman (%)"


def pair(experiment: str) -> tuple[Panel, Panel]:
    """The thesis's usual pair: (a) what is saved, (b) what a reconfiguration costs."""
    return (
        Panel(experiment, "unit_cost", GAIN, OPTIMISED, relative_to="SM"),
        Panel(experiment, "unit_cost", COST, ALL),
    )


PAPER = Paper(
    name="frey-p2p",
    title="Publish/subscribe in peer-to-peer networks: routing on a tree that repairs itself",
    citation=f"{THESIS} Chapters 12, 14 and 15.",
    experiments=(*P2P, *WORKED.values(), CHAPTER_7),
    claims=load_claims(Path(__file__).with_name("frey_p2p.claims.yaml")),
    figures=load_figures(Path(__file__).with_name("frey_p2p.figures.yaml")),
    variants=LABELS,
)
