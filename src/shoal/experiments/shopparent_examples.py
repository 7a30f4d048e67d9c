"""The worked examples of ShopParent's paper, drawn by hand: its node 1 is node 0 here.

Everything is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, sin, tau
from pathlib import Path
from typing import Any, TypeAlias

from shoal.pipeline.paper import load_experiments
from shoal.pipeline.plan.experiment import Experiment, merge, single

LISTED = load_experiments(Path(__file__).with_name("shopparent.experiments.yaml"))
"""The scenarios of the paper's figures, by name."""
MERGES: Mapping[str, str] = {"hull": "", "union": " ∪"}
"""Readings of how interests add up, each with the end of its variants' labels."""

Places: TypeAlias = Sequence[tuple[float, float]]
Wants: TypeAlias = Sequence[tuple[float, float] | None]
"""The interval that each node wants, if any."""


def placed(places: Places, wants: Wants) -> dict[str, Any]:
    """A topology's nodes, drawn by hand."""
    intervals = [None if want is None else list(want) for want in wants]
    return {"places": [list(place) for place in places], "interests": {"given": intervals}}


def _given(places: Places, wants: Wants, **topology: Any) -> dict[str, Any]:
    drawn = {**placed(places, wants), "range": 60.0, "detail": True, **topology}
    everything = LISTED["events"].base["record"]
    changes = {"nodes": len(places), "topology": drawn, "record": everything}
    return merge(LISTED["length"].base, changes)


def _one(name: str, title: str, base: dict[str, Any], **labels: Any) -> Experiment:
    """Nothing is drawn, so one run is enough; with interests merged by hull and by union."""
    both = {
        f"{label}{suffix}": merge(changes, {"topology": {"merge": how}})
        for how, suffix in MERGES.items()
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
