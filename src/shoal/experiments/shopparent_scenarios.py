"""The figures of ShopParent's paper: nodes on a plane that take turns to shop for a parent.

Interests are merged by hull unless a variant's label says ``∪`` (union): the paper's numbers fit
the hull (see ``docs/shopparent.md``). With hulls the solver needs a hundred times as long, so where
it has to solve large networks an experiment has a smaller twin for them, called ``…-hull``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from shoal.pipeline.plan.experiment import Experiment, merge, single

HULL, UNION, SHARED = "", " ∪", " shared"
AWARE = ("NHOP", "OVHD", "COMBO")
METRICS = ("RANDOM", *AWARE)
LENGTHS = (1, 5, 10, 25, 50)


def static(**topology: Any) -> dict[str, Any]:
    """Nodes that take turns; nothing but notes is recorded."""
    return {
        "nodes": 30,
        "duration": 1.0,
        "topology": {"name": "static-tree", **topology},
        "routing": {"name": "hierarchical-forwarding"},
        "record": ["notes"],
    }


def variants(
    metrics: Sequence[str], merges: Sequence[str] = (HULL, UNION), section: str = "topology"
) -> dict[str, Mapping[str, Any]]:
    """Metrics by label, under each way to merge interests."""
    return {
        f"{metric}{label}": {
            section: {"metric": metric, "merge": "union" if label == UNION else "hull"}
        }
        for label in merges
        for metric in metrics
    }


_sixty = partial(Experiment, seeds=60, quick_seeds=5)


def _lengths(name: str, title: str, base: dict[str, Any], values: Sequence[float]) -> Experiment:
    """Metrics along the mean length of intervals."""
    return _sixty(name, title, base, variants(METRICS)).along(
        "topology.interests.length", tuple(values), (1, 10, 25, 50), "average interval length l"
    )


def _model(name: str, model: str, offset: float = 0.0) -> Experiment:
    """Figure 9: one subscription model along the mean length."""
    return Experiment(
        name,
        f"Subscriptions {model}" + (f", σ = {offset:g}" if offset else ""),
        static(interests={"model": model, "offset": offset}),
        variants(("NHOP", "COMBO")),
        seeds=120,
        quick_seeds=5,
    ).along(
        "topology.interests.length", (5, 10, 25, 50, 75, 100), (5, 25), "average interval length l"
    )


def _optimal(name: str, nodes: int, seeds: int, merges: Sequence[str]) -> Experiment:
    """Figure 8: how far SP-COMBO is from the optimum in a system of this size."""
    return Experiment(
        name,
        f"SP-COMBO and OPT, {nodes} nodes, R = 180",
        {**static(range=180.0, connected_at=180.0, compare=True, seconds=20.0), "nodes": nodes},
        variants(("COMBO",), merges),
        seeds=seeds,
        quick_seeds=4,
    ).along("topology.interests.length", (1, 10, 25, 50), (10, 50), "average interval length l")


def _hard(experiment: Experiment, seeds: int, seconds: float) -> tuple[Experiment, Experiment]:
    """A comparison with OPT at R = 80 by unions, and its smaller twin by hulls."""
    metrics = [label.removesuffix(UNION) for label in experiment.variants]
    twin = replace(
        experiment,
        name=f"{experiment.name}-hull",
        title=f"{experiment.title}, one interval per node",
        base=merge(experiment.base, {"topology": {"seconds": seconds}}),
        variants=variants(metrics, (HULL,)),
        seeds=seeds,
        quick_values=(),
    )
    return experiment, twin


FIGURES = (
    _lengths("length", "Overhead and interval length", static(), LENGTHS),
    _lengths("length-r0", "The same where reception is free", static(receive=0.0), LENGTHS),
    _sixty("reception", "Cheaper reception", static(), variants(METRICS)).along(
        "topology.receive", (0, 0.5, 1), label="cost of reception r"
    ),
    _sixty("range", "Overhead and radio range", static(), variants(METRICS)).along(
        "topology.range",
        (60, 70, 80, 100, 120, 140, 180, 220),
        (60, 80, 120, 140, 220),
        "radio range R",
    ),
    Experiment(
        "complete",
        "Everybody hears everybody",
        static(range=2000.0, compare=True),
        variants(AWARE),
        seeds=60,
        quick_seeds=8,
    ),
    _optimal("optimal-9", 9, 30, (HULL, UNION)),
    _optimal("optimal-15", 15, 30, (HULL, UNION)),
    _optimal("optimal-30", 30, 30, (UNION,)),
    _optimal("optimal-30-hull", 30, 8, (HULL,)),
    *_hard(
        Experiment(
            "optimal-80",
            "SP-COMBO and OPT, 30 nodes, R = 80",
            static(compare=True, seconds=20.0),
            variants(("COMBO",), (UNION,)),
            seeds=12,
            quick_seeds=2,
        ).along("topology.interests.length", (10, 25), (25,), "average interval length l"),
        seeds=4,
        seconds=10.0,
    ),
    *_hard(
        Experiment(
            "optimal-all",
            "Every algorithm and OPT, 30 nodes, R = 80",
            static(compare=True, seconds=20.0),
            variants(METRICS, (UNION,)),
            seeds=4,
            quick_seeds=1,
        ),
        seeds=2,
        seconds=10.0,
    ),
    *_hard(
        Experiment(
            "optimal-wide",
            "SP-COMBO and OPT, 30 nodes, R = 80, l = 50",
            static(compare=True, seconds=30.0, interests={"length": 50.0}),
            variants(("COMBO",), (UNION,)),
            seeds=8,
            quick_values=(),
        ),
        seeds=4,
        seconds=10.0,
    ),
    *_hard(
        Experiment(
            "larger",
            "SP-COMBO and the best tree known, 60 nodes",
            {**static(compare=True, seconds=30.0), "nodes": 60},
            variants(("COMBO",), (UNION,)),
            seeds=4,
            quick_values=(),
        ),
        seeds=2,
        seconds=30.0,
    ),
    _model("ni-r", "NI-R"),
    _model("ni-x", "NI-X"),
    *(_model(f"ni-x{sigma}", "NI-Xmod", sigma) for sigma in (20, 40, 80)),
    Experiment(
        "dilution",
        "Less and less geographical correlation",
        static(interests={"model": "NI-Xmod"}),
        variants(("NHOP", "COMBO")),
        seeds=120,
        quick_seeds=5,
    ).along("topology.interests.offset", (0, 50, 100, 200), (0, 200), "σ"),
    _sixty(
        "error",
        "Errors in the expected events",
        static(),
        {
            **variants(("NHOP", "COMBO")),
            **{
                f"COMBOerr{SHARED if terms == 'shared' else ''}{label}": {
                    "topology": {"merge": how, "error_terms": terms}
                }
                for label, how in ((HULL, "hull"), (UNION, "union"))
                for terms in ("independent", "shared")
            },
        },
        fixed=("NHOP", "COMBO", "NHOP ∪", "COMBO ∪"),
    ).along(
        "topology.error",
        (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8),
        (0, 0.2, 0.3, 0.5, 0.6),
        "standard deviation of the error σ_ε",
    ),
    Experiment(
        "skewed",
        "Events around the middle of the axis",
        static(interests={"density": "normal"}),
        variants(METRICS),
        seeds=60,
        quick_seeds=8,
    ),
    single(
        "placement",
        "One placement with the paper's numbers of neighbours",
        static(draw=105_147, metric="NHOP", orders=1),
        variants(("NHOP",)),
    ).along("topology.range", (60, 140), label="radio range R"),
)
