"""Invariants of ShopParent's paper on small random networks, and its worked examples.

Everything is recorded. The examples are drawn by hand; the paper's node 1 is node 0 here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, sin, tau
from typing import Any, TypeAlias

from shoal.experiments.shopparent_scenarios import HULL, METRICS, UNION, static, variants
from shoal.pipeline.plan.experiment import Experiment, merge, single

EVERYTHING = ["notes", "messages", "deliveries", "publications", "links"]
_WHOLE = {
    **static(detail=True, events=30, window=[0.1, 0.9], range=150.0, connected_at=150.0, orders=1),
    "record": EVERYTHING,
}


def _whole(name: str, title: str, **topology: Any) -> Experiment:
    return Experiment(
        name,
        title,
        {**_WHOLE, "topology": {**_WHOLE["topology"], **topology}},
        variants(METRICS),
        seeds=8,
        quick_seeds=2,
    ).along("nodes", (3, 9, 18, 30), (3, 18), "nodes N")


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
        seeds=20,
        quick_seeds=3,
    ).along("topology.receive", (0.1, 0.9, 3.3), label="cost of reception r"),
    Experiment(
        "shortest",
        "Trees by hop count",
        static(detail=True, orders=1),
        variants(("NHOP",)),
        seeds=60,
        quick_seeds=5,
    ).along("topology.range", (60, 80, 100, 140), label="radio range R"),
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
        variants(("COMBO",)),
        seeds=30,
        quick_seeds=10,
    ),
    # A root and m children that all want the same, so that one event is for all of them.
    single(
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
        variants(("NHOP",)),
    ).along("nodes", tuple(range(2, 10)), label="nodes N"),
    single(
        "defaults",
        "Table 2",
        {**static(metric="NHOP"), "topology": {"name": "static-tree"}},
        {"": {}},
    ),
)

# Worked examples

Places: TypeAlias = Sequence[tuple[float, float]]
Wants: TypeAlias = Sequence[tuple[float, float] | None]
"""The interval that each node wants, if any."""


def placed(places: Places, wants: Wants) -> dict[str, Any]:
    """A topology's nodes, drawn by hand."""
    intervals = [None if want is None else list(want) for want in wants]
    return {"places": [list(place) for place in places], "interests": {"given": intervals}}


def _given(places: Places, wants: Wants, **topology: Any) -> dict[str, Any]:
    base = static(**placed(places, wants), range=60.0, detail=True, **topology)
    return {**base, "nodes": len(places), "record": EVERYTHING}


def _one(name: str, title: str, base: dict[str, Any], **labels: Any) -> Experiment:
    """Nothing is drawn, so one run is enough; with interests merged by hull and by union."""
    both = {
        f"{label}{suffix}": merge(changes, {"topology": {"merge": how}})
        for suffix, how in ((HULL, "hull"), (UNION, "union"))
        for label, changes in (labels or {"run": {}}).items()
    }
    return single(name, title, base, both)


def line(count: int) -> list[tuple[float, float]]:
    """Places in a line, each in range of the next."""
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
        _given(line(3), (None, (0.0, 2.0), (1.0, 3.0)), **_published(0.5, 2.5, 1.5, 3.5), orders=1),
    ),
    _one(
        "intervals",
        "Intervals as filters",
        _given(
            line(3),
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
