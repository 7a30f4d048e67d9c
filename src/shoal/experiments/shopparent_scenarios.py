"""The scenarios of ShopParent's paper: trees of nodes on a plane, static and moving.

Interests are merged by hull unless a variant's label says ``∪`` (union): the paper's numbers fit
the hull (see ``docs/shopparent.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, sin, tau
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

# Invariants: small random networks, everything recorded

_EVERYTHING = ["notes", "messages", "deliveries", "publications", "links"]
_WHOLE = {
    **static(detail=True, events=30, window=[0.1, 0.9], range=150.0, connected_at=150.0, orders=1),
    "record": _EVERYTHING,
}


def _whole(name: str, title: str, **topology: Any) -> Experiment:
    return Experiment(
        name,
        title,
        {**_WHOLE, "topology": {**_WHOLE["topology"], **topology}},
        variants(METRICS),
        axis="nodes",
        values=(3, 9, 18, 30),
        quick_values=(3, 18),
        axis_label="nodes N",
        seeds=8,
        quick_seeds=2,
    )


INVARIANTS = (
    _whole("events", "Events on finished trees"),
    _whole("events-r0", "The same where reception is free", receive=0.0),
    Experiment(
        "work",
        "Any cost of receiving, processing and forwarding",
        {
            **_WHOLE,
            "record": ["notes"],
            "topology": {**_WHOLE["topology"], "process": 2.7, "forward": 0.4},
        },
        variants(METRICS),
        axis="topology.receive",
        values=(0.1, 0.9, 3.3),
        axis_label="cost of reception r",
        seeds=20,
        quick_seeds=3,
    ),
    Experiment(
        "shortest",
        "Trees by hop count",
        static(detail=True, orders=1),
        variants(("NHOP",)),
        axis="topology.range",
        values=(60, 80, 100, 140),
        axis_label="radio range R",
        seeds=60,
        quick_seeds=5,
    ),
    Experiment(
        "models",
        "The same lengths under every model",
        static(orders=1),
        {
            "NI-R": {},
            "NI-X": {"topology": {"interests": {"model": "NI-X"}}},
            "NI-Xmod": {"topology": {"interests": {"model": "NI-Xmod", "offset": 50.0}}},
        },
        seeds=30,
        quick_seeds=5,
    ),
    Experiment(
        "offsets",
        "Centres and x-coordinates",
        {**static(orders=1, metric="RANDOM"), "nodes": 180},
        {
            f"σ={sigma}": {"topology": {"interests": {"model": "NI-Xmod", "offset": sigma}}}
            for sigma in (0, 10, 25, 50, 100)
        },
        seeds=60,
        quick_seeds=30,
    ),
    Experiment(
        "errors",
        "Errors as they are drawn",
        static(detail=True, orders=1, error=0.1, error_terms="shared", range=220.0),
        variants(("COMBO",), (UNION,)),
        seeds=30,
        quick_seeds=10,
    ),
    # A root and m children that all want the same, so that one event is for all of them.
    Experiment(
        "star",
        "One broadcast serves all children",
        {
            **static(
                clusters=1,
                range=2000.0,
                interests={"width": 0.001, "length_spread": 0.0},
                events=5,
                numbers=[0.0] * 5,
                window=[0.1, 0.9],
            ),
            "record": ["traffic", "publications"],
        },
        variants(("NHOP",), (UNION,)),
        axis="nodes",
        values=tuple(range(2, 10)),
        axis_label="nodes N",
        seeds=1,
        quick_seeds=1,
    ),
    Experiment(
        "defaults",
        "Table 2",
        {**static(metric="NHOP"), "topology": {"name": "static-tree"}},
        {"": {}},
        seeds=1,
        quick_seeds=1,
    ),
)

# Worked examples: drawn by hand, the paper's node 1 is node 0


def _given(
    places: Sequence[tuple[float, float]],
    wants: Sequence[tuple[float, float] | None],
    **topology: Any,
) -> dict[str, Any]:
    base = static(
        places=[list(place) for place in places],
        range=60.0,
        interests={"given": [None if want is None else list(want) for want in wants]},
        detail=True,
        **topology,
    )
    return {**base, "nodes": len(places), "record": _EVERYTHING}


def _one(name: str, title: str, base: dict[str, Any], **labels: Any) -> Experiment:
    """Nothing is drawn, so one run is enough."""
    return Experiment(name, title, base, labels or {"run": {}}, seeds=1, quick_seeds=1)


def _line(count: int) -> list[tuple[float, float]]:
    return [(50.0 * k, 0.0) for k in range(count)]


def _published(*numbers: float) -> dict[str, Any]:
    return {"events": len(numbers), "numbers": list(numbers), "window": [0.1, 0.9]}


_TRIANGLE = [(0.0, 0.0), (30.0, 0.0), (0.0, 30.0)]
PENTAGON = [(50 * cos(k * tau / 5), 50 * sin(k * tau / 5)) for k in range(5)]
EXAMPLE_3 = (None, (0.0, 10.0), None, (0.0, 10.0), (0.0, 5.0))

EXAMPLES = (
    _one(
        "table-1",
        "Table 1",
        _given(
            _line(3), (None, (0.0, 2.0), (1.0, 3.0)), **_published(0.5, 2.5, 1.5, 3.5), orders=1
        ),
    ),
    _one(
        "intervals",
        "Intervals as filters",
        _given(
            _line(3),
            (None, (3.0, 4.0), (2000.0, 1e9)),
            **_published(3.2, 5.2, 1999.9, 2000.0, 2500.0),
            orders=1,
        ),
    ),
    _one(
        "figure-5",
        "Figure 5",
        _given(
            [*_TRIANGLE, (30.0, 30.0)],
            (None, (0.0, 4.0), (10.0, 12.0), (2.0, 8.0)),
            **_published(3.0, 9.0, 6.0),
            orders=1,
        ),
    ),
    _one(
        "example-2",
        "Examples 1 and 2, figure 2",
        _given(_TRIANGLE, (None, (0.0, 1.0), (1.0, 2.0))),
        **{
            "(a)": {"topology": {"parents": [-1, 0, 0]}},
            "(b)": {"topology": {"parents": [-1, 0, 1]}},
        },
    ),
    _one(
        "example-3",
        "Example 3, figure 3",
        _given(PENTAGON, EXAMPLE_3),
        **{
            "before": {
                "topology": {
                    "parents": [-1, 0, 1, 4, 0],
                    "interests": {"given": [None, [0.0, 10.0], None, None, [0.0, 5.0]]},
                }
            },
            "under 5": {"topology": {"parents": [-1, 0, 1, 4, 0]}},
            "under 3": {"topology": {"parents": [-1, 0, 1, 2, 0]}},
            "OPT": {"topology": {"metric": "OPT"}},
        },
    ),
)

# By messages: radios in range


def shopping(merge: str = "union", **topology: Any) -> dict[str, Any]:
    """Nodes that shop by messages; a period is a second."""
    return {
        "nodes": 30,
        "duration": 360.0,
        "topology": {"name": "radio-range", **topology},
        "overlay": {
            "name": "shopparent",
            "discovery": "radio",
            "overlap": "axis",
            "heirs": [],
            "hysteresis": 0.0,
            "children": 0,
            "merge": merge,
            "timeout": 4.0,
            "collect": 0.02,
        },
        "routing": {"name": "hierarchical-forwarding"},
        "record": ["notes", "publications"],
    }


def _messages(
    metrics: Sequence[str], merges: Sequence[str] = (UNION,)
) -> dict[str, Mapping[str, Any]]:
    return {
        f"{metric}{merge}": {
            "overlay": {"metric": metric, "merge": "union" if merge == UNION else "hull"}
        }
        for merge in merges
        for metric in metrics
    }


def _moves(count: int, gap: float, what: str = "moves") -> dict[str, Any]:
    """One change after another, each with time to settle; looked at before the next."""
    first = 40.0
    return {
        what: [{"at": first + gap * k} for k in range(count)],
        "inspect": [first + gap * (k + 1) - 1.0 for k in range(count)],
    }


_APART: dict[str, Any] = {"connected_at": None, "range": 60.0}


def _small(
    name: str,
    title: str,
    places: Sequence[tuple[float, float]],
    wants: Sequence[tuple[float, float] | None],
    metrics: Sequence[str] = ("COMBO",),
    **topology: Any,
) -> Experiment:
    """A few radios, every message recorded; seeds differ in when nodes speak up."""
    interests = {"given": [None if want is None else list(want) for want in wants]}
    base = shopping(
        places=[list(place) for place in places], interests=interests, **_APART, **topology
    )
    return Experiment(
        name,
        title,
        {**base, "nodes": len(places), "duration": 45.0, "record": ["notes", "messages", "links"]},
        _messages(metrics),
        seeds=30,
        quick_seeds=5,
    )


DYNAMICS = (
    Experiment(
        "moves",
        "A node moves elsewhere",
        {**shopping(**_moves(4, 80.0), events=360, window=[0.0, 360.0])},
        _messages(AWARE, (HULL, UNION)),
        seeds=12,
        quick_seeds=2,
        quick={
            "duration": 120.0,
            "topology": {**_moves(1, 80.0), "events": 120, "window": [0.0, 120.0]},
        },
    ),
    Experiment(
        "failures",
        "A node fails",
        {**shopping(**_moves(4, 80.0, "failures"))},
        _messages(("COMBO",), (HULL, UNION)),
        seeds=12,
        quick_seeds=2,
        quick={"duration": 120.0, "topology": _moves(1, 80.0, "failures")},
    ),
    Experiment(
        "timeouts",
        "Moves, and how long silence is borne",
        {**shopping(**_moves(3, 150.0)), "duration": 490.0},
        _messages(("COMBO",)),
        axis="overlay.timeout",
        values=(2, 4, 8, 16),
        axis_label="timeout in periods",
        seeds=15,
        quick_seeds=2,
        quick={"duration": 190.0, "topology": _moves(1, 150.0)},
    ),
    Experiment(
        "hops",
        "Moves far from the root and near it",
        {**shopping(**_moves(26, 50.0)), "duration": 1340.0},
        _messages(("COMBO",)),
        seeds=20,
        quick_values=(),
    ),
    _small(
        "silence",
        "A parent falls silent",
        _line(3),
        (None, (0.0, 5.0), (0.0, 10.0)),
        failures=[{"at": 20.0, "node": 1}],
    ),
    _small(
        "partition",
        "A node is alone, and has a neighbour later",
        [(0.0, 0.0), (50.0, 0.0), (500.0, 0.0)],
        (None, (0.0, 5.0), (0.0, 10.0)),
        moves=[{"at": 20.0, "node": 2, "to": [100.0, 0.0]}],
    ),
    _small(
        "better",
        "A better parent comes by",
        [(0.0, 0.0), (50.0, 0.0), (90.0, 0.0), (0.0, 50.0)],
        (None, (0.0, 5.0), (20.0, 30.0), (20.0, 30.0)),
        moves=[{"at": 20.0, "node": 3, "to": [40.0, 20.0]}],
    ),
    _small(
        "newcomer",
        "Example 3 by messages",
        PENTAGON,
        EXAMPLE_3,
        AWARE,
        failures=[{"at": 10.0, "node": 3, "back_after": 20.0}],
    ),
)

ALL = (*FIGURES, *INVARIANTS, *EXAMPLES, *DYNAMICS)
