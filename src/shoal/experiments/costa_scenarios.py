"""The scenarios of Costa and Picco 2005, section 4; defaults are those of its Table 1.

The paper does not say how long its runs are. Events are published for 3.4 s after the first
subscriptions are laid, which fits most of the totals it prints; flooding's total needs 6.64 s, the
mobile table 9.27 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.pipeline.plan.experiment import Experiment, merge

START = 0.5
"""When publishing begins: subscriptions are laid by then."""
SPAN = 3.4


def publishing(span: float, start: float = START) -> dict[str, Any]:
    """Publish for a time after everything is in place."""
    return {"duration": start + span, "workload": {"publish_window": [start, start + span]}}


STATIC: Mapping[str, Any] = merge(
    {
        "nodes": 300,
        "topology": {"name": "static-graph", "degree": 5},
        "routing": {"name": "semi-probabilistic", "horizon": 1, "threshold": 0.25},
        "link": {"delay": 0.001, "bandwidth": 0.0},
        "workload": {
            "patterns": 512,
            "patterns_per_subscriber": 2,
            "patterns_per_event": 26,
            "distinct": True,
            "subscribers": 1.0,
            "subscribe_window": [0.0, 0.1],
            "publish_rate": 5.0,
            "publishing": "poisson",
            "own_events": False,
        },
        "record": ["publications", "traffic", "routes"],
    },
    publishing(SPAN),
)
MOVING = merge(
    STATIC,
    {
        "topology": {
            "name": "reconfigured-graph",
            "degree": 5,
            "interval": 0.03,
            "window": [START, 1e6],
        },
        "record": ["publications", "traffic", "routes", "links"],
    },
)
STILL = {"topology": {"name": "static-graph", "degree": 5}}
FLOODING = {"routing": {"horizon": 0, "threshold": 1.0}}

PHI = (0, 1, 2, 3)
"""Subscription horizons."""


def horizons(suffix: str = "", phi: tuple[int, ...] = PHI, **changes: Any) -> dict[str, Any]:
    """A variant for each horizon, with further changes of the routing."""
    return {f"φ={p}{suffix}": {"routing": {"horizon": p, **changes}} for p in phi}


def on_topology(variants: Mapping[str, Any], topology: Mapping[str, Any]) -> dict[str, Any]:
    """The same variants on another topology."""
    return {label: merge(variant, {"topology": topology}) for label, variant in variants.items()}


N, TAU, TTL = "dispatchers N", "event propagation threshold τ", "TTL"
SIZES = (50, 100, 150, 200, 250, 300, 350, 400)
QUICK = (50, 300)
TAUS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
OWN = "own kind"
_DUAL: Mapping[str, Any] = {"ttl_deterministic": 10, "ttl_probabilistic": 8, "ttl_rule": OWN}

_BRIEFLY = publishing(SPAN / 4)
"""For the quick tier, where no total is compared with a printed one."""

_ten = partial(Experiment, seeds=10, quick_seeds=2)

GRAPH = (
    _ten(
        "static",
        "Static network",
        STATIC,
        {**horizons(), **horizons(" τ=.5", threshold=0.5), "FL": FLOODING},
    ).along("nodes", SIZES, QUICK, N),
    Experiment(
        "flooding",
        "Flooding, the upper bound",
        merge(STATIC, publishing(6.64)),
        {"FL": FLOODING},
        seeds=10,
        quick_seeds=3,
    ),
    _ten(
        "fanout",
        "Degree 9, fanout 2",
        STATIC,
        {
            **on_topology(horizons(), {"degree": 9}),
            **horizons(" l=5 τ=.5", phi=(0, 1, 2), threshold=0.5),
        },
    ),
    _ten(
        "threshold",
        "Event propagation threshold, degree 11",
        merge(STATIC, {"topology": {"degree": 11}}),
        horizons(phi=(0, 1, 2)),
        quick=_BRIEFLY,
    ).along("routing.threshold", TAUS, (0.1, 0.2, 0.4, 0.5), TAU),
    _ten("dynamic", "Dynamic network", MOVING, horizons()).along("nodes", SIZES, QUICK, N),
    _ten(
        "moving",
        "Dynamic network, limits of propagation",
        MOVING,
        {
            **horizons(),
            **on_topology(horizons(" static"), STILL["topology"]),
            **horizons(" TTL=14", ttl=14),
            **horizons(" dual", **_DUAL),
            **horizons(" either", ttl_deterministic=10, ttl_probabilistic=8, phi=(1, 2, 3)),
            **horizons(
                " wide", ttl_deterministic=14, ttl_probabilistic=6, ttl_rule=OWN, phi=(1, 2, 3)
            ),
        },
    ),
    _ten("ttl", "Time to live", MOVING, horizons()).along(
        "routing.ttl", (4, 6, 8, 10, 12, 14, 18), (8, 14), TTL
    ),
    _ten(
        "settled",
        "After ten seconds of reconfiguration, which goes on or stops",
        merge(MOVING, publishing(SPAN, START + 10.0)),
        {
            **horizons("", (0, 1)),
            **on_topology(horizons(" frozen", (0, 1)), {"window": [START, START + 10.0]}),
            **horizons(" dual", (1, 2, 3), **_DUAL),
        },
    ),
    _ten(
        "receivers",
        "Ten receivers in a growing network",
        merge(MOVING, {"workload": {"receivers": 10}}),
        {**horizons(), **horizons(" τ=.5", threshold=0.5)},
        quick=_BRIEFLY,
    ).along("nodes", (50, 100, 200, 300, 400), (50, 400), N),
)

_RADIO = merge(
    STATIC,
    {
        "nodes": 200,
        "topology": {"name": "radio", "width": 2000.0, "height": 2000.0, "reach": 250.0},
        "routing": {"leaf_rule": True},
        "record": ["publications", "traffic"],
    },
)
_SWAPPED = {"ttl_deterministic": 8, "ttl_probabilistic": 12, "ttl_rule": OWN}
_PRINTED = {"ttl_deterministic": 12, "ttl_probabilistic": 8}


def _mobile(ttl: Mapping[str, Any]) -> dict[str, Any]:
    return {**horizons(" τ=.25", threshold=0.25, **ttl), **horizons(" τ=.5", threshold=0.5, **ttl)}


MOBILE = (
    _ten(
        "mobile",
        "Moving radios, TTL_p = 12 and TTL_d = 8",
        merge(_RADIO, publishing(9.27)),
        _mobile(_SWAPPED),
    ),
    Experiment(
        "mobile-printed",
        "Moving radios, TTL_d = 12 and TTL_p = 8 as printed",
        merge(_RADIO, publishing(SPAN)),
        _mobile(_PRINTED),
        quick_values=(),
        seeds=10,
    ),
)
