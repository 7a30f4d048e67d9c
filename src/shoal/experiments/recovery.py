"""Event recovery, evaluated as Costa, Migliavacca, Picco and Cugola did (ICDCS 2004).

The five algorithms as published (a fixed period, no comparisons, no bound on what gossip costs), no
recovery, and combined pull as it is by default here, on a tree whose links lose events or are
replaced. Swept: the loss, buffers, the period, P_f, what subscribers want, how many there are, and
the size of the network. Frey's thesis, which outlines this layer, states no result; the claims are
our own expectations, each with its reason.

Real losses need data: name the files in ``SHOAL_MESH`` (a community mesh with the quality of each
link) and ``SHOAL_POSITIONS`` (timestamped positions, as of aircraft); without them these are not
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from shoal.experiments.adaptive import MESH, POSITIONS, recorded_files
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.measure.recovery import DIGESTS
from shoal.pipeline.paper import Figure, Panel, Paper
from shoal.pipeline.plan.experiment import Experiment, merge

AS_PUBLISHED: Mapping[str, Any] = {
    "adaptive": False,
    "compare": 0,
    "share": 1.0,
    "rate": 10**9,
    "reply_rate": 10**9,
    "looks": 10**9,
}
NAMES = {
    "push": "push",
    "subscriber": "subscriber-pull",
    "publisher": "publisher-pull",
    "combined": "combined-pull",
    "random": "random-pull",
}
ALGORITHMS: Mapping[str, Any] = {
    label: {"recovery": {"name": name, **AS_PUBLISHED}} for label, name in NAMES.items()
}
OURS: Mapping[str, Any] = {"ours": {"recovery": {"name": "combined-pull"}}}
NONE: Mapping[str, Any] = {"none": {"recovery": None}}
ALL: Mapping[str, Any] = {**NONE, **ALGORITHMS, **OURS}

BASE: Mapping[str, Any] = {
    "nodes": 50,
    "duration": 12.0,
    "topology": {"name": "abstract-tree"},
    "routing": {"name": "subscription-forwarding"},
    "link": {"delay": 0.001, "bandwidth": 10e6, "loss": 0.1},
    "workload": {
        "patterns": 20,
        "patterns_per_subscriber": 2,
        "patterns_per_event": 2,
        "distinct": True,
        "subscribers": 1.0,
        "publish_rate": 4.0,
        "publishing": "poisson",
        "publish_window": [1.0, 7.0],
        "subscribe_window": [0.0, 0.5],
        "own_events": False,
    },
    "record": ["publications", "deliveries", "traffic", "links"],
    "bin": 0.5,
}
"""Six seconds of publishing and five to recover in."""
QUICK: Mapping[str, Any] = {"nodes": 30, "workload": {"publish_rate": 2.0}}
"""Of the quick tier: a smaller network with fewer events."""


_five = partial(Experiment, seeds=5, quick_seeds=1, quick=QUICK)
_ten = partial(Experiment, seeds=10, quick_seeds=2, quick=QUICK)


def _sweep(
    name: str,
    title: str,
    axis: str,
    values: tuple[float, ...],
    label: str,
    change: Mapping[str, Any] | None = None,
    quick: tuple[float, ...] | None = (),
) -> Experiment:
    """All variants along an axis; where it is a parameter of recoveries, none has no points."""
    return _ten(
        name,
        title,
        merge(BASE, change or {}),
        ALL,
        fixed=("none",) if axis.startswith("recovery.") else (),
    ).along(axis, values, quick, label)


_GRAPH = {"routing": {"name": "semi-probabilistic", "horizon": 1, "threshold": 0.5}}


def _real() -> list[Experiment]:
    """Networks that were recorded, as far as there are files."""
    found = []
    for path in recorded_files(MESH)[:1]:
        mesh = {"nodes": 100, "topology": {"name": "mesh", "path": path}, "link": {"loss": 0.0}}
        found.append(("mesh", "A community mesh with lossy links", mesh))
    for path in recorded_files(POSITIONS)[:1]:
        tracks = {"name": "tracks", "path": path, "reach": 50e3, "start": 3600.0, "stay": 60.0}
        aircraft = {"nodes": 24, "topology": tracks, "link": {"loss": 0.0}}
        found.append(("aircraft", "Recorded aircraft", aircraft))
    return [
        Experiment(name, title, merge(merge(BASE, _GRAPH), network), ALL, seeds=5, quick_values=())
        for name, title, network in found
    ]


REMEMBERED: Mapping[str, Any] = {
    "nodes": 100,
    "duration": 6.0,
    "workload": {
        "patterns": 70,
        "patterns_per_subscriber": 2,
        "patterns_per_event": 3,
        "publish_rate": 50.0,
        "publish_window": [0.5, 2.5],
    },
}
"""The ICDCS 2004 paper's setting under high load, as far as it is remembered; two seconds of it."""
_SHORT_PERIOD = {
    label: merge(variant, {"recovery": {"period": 0.03}}) for label, variant in ALGORITHMS.items()
}

_PACES = {
    f"{label}, {pace}": {
        "recovery": {"name": NAMES[label], "period": 0.1, "compare": 5.0, **parameters}
    }
    for label in ("push", "combined")
    for pace, parameters in (
        ("T = 0.1 s", {"adaptive": False, "rate": 10**9}),
        ("adaptive", {"adaptive": True}),
    )
}
QUIET: Mapping[str, Any] = {
    "duration": 300.0,
    "link": {"loss": 0.0},
    "workload": {"publish_rate": 1.0},
    "bin": 10.0,
}
"""Five minutes, of which events are published for six seconds; nothing is lost."""

EXPERIMENTS = (
    _sweep(
        "loss",
        "Links that lose events",
        "link.loss",
        (0.05, 0.1, 0.15, 0.2),
        "loss per link ε",
        quick=(0.05, 0.1, 0.2),
    ),
    _sweep(
        "buffer",
        "Buffer size",
        "recovery.buffer",
        (10, 20, 50, 100, 200, 500),
        "events β",
        quick=(20, 500),
    ),
    _sweep("period", "Gossip period", "recovery.period", (0.05, 0.1, 0.2, 0.5, 1.0), "T in s"),
    _sweep(
        "probability", "Forwarding of gossip", "recovery.probability", (0.3, 0.5, 0.7, 0.9), "P_f"
    ),
    _sweep(
        "patterns",
        "Patterns per subscriber",
        "workload.patterns_per_subscriber",
        (1, 2, 4, 8),
        "patterns",
    ),
    _sweep(
        "subscribers",
        "Share of subscribers",
        "workload.subscribers",
        (0.1, 0.25, 0.5, 1.0),
        "share of dispatchers that subscribe",
    ),
    _sweep("size", "Size of the network", "nodes", (25, 50, 100, 200), "dispatchers"),
    _sweep(
        "reconfigured",
        "Links that are replaced, and lose nothing else",
        "topology.rate",
        (1, 2, 5, 10),
        "links replaced per second",
        {"link": {"loss": 0.0}, "topology": {"window": [1.0, 7.0]}, "invariants": False},
        quick=(5,),
    ),
    Experiment(
        "eviction",
        "What leaves a full buffer",
        merge(BASE, {"workload": {"publish_rate": 8.0}}),
        {
            f"{label}, {rule}": {
                "recovery": {"name": NAMES[label], **AS_PUBLISHED, "eviction": rule}
            }
            for label in ("push", "combined")
            for rule in ("first in first out", "least spread first")
        },
        seeds=10,
    ).along("recovery.buffer", (10, 20, 50, 100), (), "events β"),
    _five(
        "lossless", "Nothing is lost", merge(BASE, {"link": {"loss": 0.0}}), {**ALGORITHMS, **OURS}
    ),
    _five("quiet", "A network that falls silent", merge(BASE, QUIET), _PACES),
    _ten("adapting", "The same with losses", merge(BASE, {"link": {"loss": 0.1}}), _PACES),
    _five(
        "givers",
        "Who serves",
        merge(BASE, {"record": ["publications", "deliveries", "traffic", "links", "notes"]}),
        {**ALGORITHMS, **OURS},
    ),
    Experiment(
        "paper",
        "Many dispatchers that publish much, few that want the same",
        merge(BASE, REMEMBERED),
        {**NONE, **_SHORT_PERIOD, **OURS},
        quick_values=(),
        seeds=3,
    ),
    *_real(),
)
DELIVERED = "deliveries made of those owed"


def _figure(number: int, experiment: Experiment, says: str, claims: tuple[str, ...]) -> Figure:
    """Delivery, delay and cost side by side."""
    return Figure(
        str(number),
        experiment.title,
        (
            Panel(experiment.name, "delivery", DELIVERED, y_from_zero=False),
            Panel(experiment.name, "recovery_delay", "median delay of recovered events in s"),
            Panel(
                experiment.name,
                "gossip_bytes_per_hop",
                "bytes of gossip per hop of an event",
                parameters={"kinds": list(DIGESTS)},
            ),
        ),
        says,
        claims,
    )


SAYS = {
    "loss": "Every algorithm delivers more than none. Digests towards a publisher are cheapest.",
    "buffer": "What is no longer in any buffer cannot be recovered.",
    "period": "The longer the period, the fewer rounds before buffers forget.",
    "probability": "P_f decides how far a digest gets.",
    "patterns": "More patterns per subscriber mean more to choose among in each round.",
    "subscribers": "Where few want the same, subscribers have less to give each other.",
    "size": "Longer ways lose more, and buffers of the same size hold it for less time.",
    "reconfigured": "What is lost while links are replaced is recovered as what links lose.",
    "eviction": "Small buffers: keeping what is least spread against keeping what is newest.",
    "lossless": "With nothing lost, pulls ask for nothing; push still talks.",
    "quiet": "Once events stop, an adaptive period lets gossip fall nearly silent.",
    "adapting": "With losses, an adaptive period costs no delivery.",
    "givers": "Who sends the copies: publishers, or others that hold them.",
    "paper": "The setting of ICDCS 2004 under high load, as remembered, with T = 0.03 s.",
    "mesh": "Losses as measured on the links of a community mesh.",
    "aircraft": "Losses of links between aircraft that move out of reach.",
}
CLAIMS = tuple(
    claim
    for claim in load_claims(Path(__file__).with_name("recovery.claims.yaml"))
    if claim.experiments() <= {e.name for e in EXPERIMENTS}
)

PAPER = Paper(
    name="recovery",
    title="Event recovery",
    citation="After Costa, Migliavacca, Picco, Cugola (ICDCS 2004), as outlined by Frey (2006).",
    speaker="Our expectation",
    experiments=EXPERIMENTS,
    claims=CLAIMS,
    figures=tuple(
        _figure(
            number,
            experiment,
            SAYS[experiment.name],
            tuple(claim.id for claim in CLAIMS if experiment.name in claim.experiments()),
        )
        for number, experiment in enumerate(EXPERIMENTS, 1)
    ),
    variants={
        "none": "no recovery",
        "push": "digests of what is held",
        "subscriber": "pull among those who want the same",
        "publisher": "pull back along the route from the publisher",
        "combined": "pull in either direction, by chance",
        "random": "pull over random links",
        "ours": "combined pull with adaptive period, comparisons and bounded cost",
    },
)
