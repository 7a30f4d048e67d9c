"""Section 5.6 of ShopParent's paper: radios in range that shop by messages, move and fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.experiments.shopparent_examples import (
    EXAMPLE_3,
    MERGES,
    PENTAGON,
    Places,
    Wants,
    line,
    placed,
)
from shoal.pipeline.plan.experiment import Experiment


def shopping(**topology: Any) -> dict[str, Any]:
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
            "merge": "union",
            "timeout": 4.0,
            "collect": 0.02,
        },
        "routing": {"name": "hierarchical-forwarding"},
        "record": ["notes", "publications"],
    }


AWARE = ("NHOP", "OVHD", "COMBO")


def _messages(metrics: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Metrics by label, under each way to merge interests."""
    return {
        f"{metric}{label}": {"overlay": {"metric": metric, "merge": how}}
        for how, label in MERGES.items()
        for metric in metrics
    }


def _moves(count: int, gap: float, what: str = "moves") -> dict[str, Any]:
    """One change after another, each with time to settle; looked at before the next."""
    first = 40.0
    return {
        what: [{"at": first + gap * k} for k in range(count)],
        "inspect": [first + gap * (k + 1) - 1.0 for k in range(count)],
    }


def _small(
    name: str,
    title: str,
    places: Places,
    wants: Wants,
    metrics: Sequence[str] = ("COMBO",),
    **topology: Any,
) -> Experiment:
    """A few radios, every message recorded; seeds differ in when nodes speak up."""
    base = shopping(**placed(places, wants), connected_at=0.0, range=60.0, **topology)
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
        shopping(**_moves(4, 80.0), events=360, window=[0.0, 360.0]),
        _messages(AWARE),
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
        shopping(**_moves(4, 80.0, "failures")),
        _messages(("COMBO",)),
        seeds=12,
        quick_seeds=2,
        quick={"duration": 120.0, "topology": _moves(1, 80.0, "failures")},
    ),
    Experiment(
        "timeouts",
        "Moves, and how long silence is borne",
        {**shopping(**_moves(3, 150.0)), "duration": 490.0},
        _messages(("COMBO",)),
        seeds=15,
        quick_seeds=2,
        quick={"duration": 190.0, "topology": _moves(1, 150.0)},
    ).along("overlay.timeout", (2, 4, 8, 16), label="timeout in periods"),
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
        line(3),
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
