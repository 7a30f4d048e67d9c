"""The figures of ShopParent's paper: nodes on a plane that take turns to shop for a parent.

Interests are merged by hull unless a variant's label says ``∪`` (union): the paper's numbers fit
the hull (see ``docs/shopparent.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.pipeline.plan.experiment import Experiment

HULL, UNION = "", " ∪"
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
    metrics: Sequence[str], merges: Sequence[str] = (HULL, UNION), **topology: Any
) -> dict[str, Mapping[str, Any]]:
    """Metrics by label, under each way to merge interests."""
    return {
        f"{metric}{merge}": {
            "topology": {
                "metric": metric,
                "merge": "union" if merge == UNION else "hull",
                **topology,
            }
        }
        for merge in merges
        for metric in metrics
    }


def _lengths(name: str, title: str, base: dict[str, Any], values: Sequence[float]) -> Experiment:
    """Metrics along the mean length of intervals."""
    return Experiment(
        name,
        title,
        base,
        variants(METRICS),
        axis="topology.interests.length",
        values=tuple(values),
        quick_values=(1, 10, 25, 50),
        axis_label="average interval length l",
        seeds=60,
        quick_seeds=5,
    )


def _model(name: str, model: str, offset: float = 0.0) -> Experiment:
    """Figure 9: one subscription model along the mean length."""
    return Experiment(
        name,
        f"Subscriptions {model}" + (f", σ = {offset:g}" if offset else ""),
        static(interests={"model": model, "offset": offset}),
        variants(("NHOP", "COMBO")),
        axis="topology.interests.length",
        values=(5, 10, 25, 50, 75, 100),
        quick_values=(5, 25),
        axis_label="average interval length l",
        seeds=120,
        quick_seeds=5,
    )


def _optimal(nodes: int) -> Experiment:
    """Figure 8: how far SP-COMBO is from the optimum in a system of this size."""
    return Experiment(
        f"optimal-{nodes}",
        f"SP-COMBO and OPT, {nodes} nodes, R = 180",
        {**static(range=180.0, connected_at=180.0, compare=True, seconds=20.0), "nodes": nodes},
        variants(("COMBO",)),
        axis="topology.interests.length",
        values=(1, 10, 25, 50),
        quick_values=(10, 50),
        axis_label="average interval length l",
        seeds=30,
        quick_seeds=4,
    )


FIGURES = (
    _lengths("length", "Overhead and interval length", static(), LENGTHS),
    _lengths("length-r0", "The same where reception is free", static(receive=0.0), LENGTHS),
    Experiment(
        "reception",
        "Cheaper reception",
        static(),
        variants(METRICS),
        axis="topology.receive",
        values=(0, 0.5, 1),
        axis_label="cost of reception r",
        seeds=60,
        quick_seeds=5,
    ),
    Experiment(
        "range",
        "Overhead and radio range",
        static(),
        variants(METRICS),
        axis="topology.range",
        values=(60, 70, 80, 100, 120, 140, 180, 220),
        quick_values=(60, 80, 120, 140, 220),
        axis_label="radio range R",
        seeds=60,
        quick_seeds=5,
    ),
    Experiment(
        "complete",
        "Everybody hears everybody",
        static(range=2000.0, compare=True),
        variants(AWARE),
        seeds=60,
        quick_seeds=8,
    ),
    *(_optimal(nodes) for nodes in (9, 15, 30)),
    Experiment(
        "optimal-80",
        "SP-COMBO and OPT, 30 nodes, R = 80",
        static(compare=True, seconds=20.0),
        variants(("COMBO",), (UNION,)),
        axis="topology.interests.length",
        values=(10, 25),
        quick_values=(25,),
        axis_label="average interval length l",
        seeds=12,
        quick_seeds=2,
    ),
    Experiment(
        "optimal-all",
        "Every algorithm and OPT, 30 nodes, R = 80",
        static(compare=True, seconds=20.0),
        variants(METRICS, (UNION,)),
        seeds=4,
        quick_seeds=1,
    ),
    Experiment(
        "optimal-wide",
        "SP-COMBO and OPT, 30 nodes, R = 80, l = 50",
        static(compare=True, seconds=30.0, interests={"length": 50.0}),
        variants(("COMBO",), (UNION,)),
        seeds=8,
        quick_values=(),
    ),
    Experiment(
        "larger",
        "SP-COMBO and the best tree known, 60 nodes",
        {**static(compare=True, seconds=60.0), "nodes": 60},
        variants(("COMBO",), (UNION,)),
        seeds=4,
        quick_values=(),
    ),
    _model("ni-r", "NI-R"),
    _model("ni-x", "NI-X"),
    *(_model(f"ni-x{sigma}", "NI-Xmod", sigma) for sigma in (20, 40, 80)),
    Experiment(
        "dilution",
        "Less and less geographical correlation",
        static(interests={"model": "NI-Xmod"}),
        variants(("NHOP", "COMBO")),
        axis="topology.interests.offset",
        values=(0, 50, 100, 200),
        quick_values=(0, 200),
        axis_label="σ",
        seeds=120,
        quick_seeds=5,
    ),
    Experiment(
        "error",
        "Errors in the expected events",
        static(),
        {
            **variants(("NHOP", "COMBO")),
            "COMBOerr": {"topology": {"merge": "hull", "error_terms": "independent"}},
            "COMBOerr shared": {"topology": {"merge": "hull", "error_terms": "shared"}},
            "COMBOerr ∪": {"topology": {"merge": "union", "error_terms": "shared"}},
        },
        axis="topology.error",
        values=(0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8),
        quick_values=(0, 0.2, 0.3, 0.5, 0.6),
        axis_label="standard deviation of the error σ_ε",
        fixed=("NHOP", "COMBO", "NHOP ∪", "COMBO ∪"),
        seeds=60,
        quick_seeds=5,
    ),
    Experiment(
        "skewed",
        "Events around the middle of the axis",
        static(interests={"density": "normal"}),
        variants(METRICS),
        seeds=60,
        quick_seeds=8,
    ),
    Experiment(
        "placement",
        "One placement with the paper's numbers of neighbours",
        static(draw=105_147, metric="NHOP", orders=1),
        variants(("NHOP",), (UNION,)),
        axis="topology.range",
        values=(60, 140),
        axis_label="radio range R",
        seeds=1,
        quick_seeds=1,
    ),
)
