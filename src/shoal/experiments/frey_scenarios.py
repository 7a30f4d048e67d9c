"""The scenarios of Frey's thesis, parts I and II (chapter 7 and the worked examples of 5 and 6).

Names and defaults are those of Table 7.1. Only what the measures need is recorded: events by the
million are counted in ``traffic``, and listed one by one only where delivery is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.pipeline.plan.experiment import Experiment, merge

THESIS = (
    "Davide Frey: Publish Subscribe on Large-Scale Dynamic Topologies: Routing and Overlay "
    "Management. PhD thesis, Politecnico di Milano, 2006."
)
STRAWMAN = {"reconfiguration": {"name": "strawman"}}
INFORMED = {"reconfiguration": {"name": "informed"}}

PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "EF": {"routing": {"name": "event-forwarding"}},
    "SM": STRAWMAN,
    "TDU": {"reconfiguration": {"name": "timed"}},
    "NDU": {"reconfiguration": {"name": "notified"}},
    "ILA": INFORMED,
    "RP": {"reconfiguration": {"name": "path"}},
    # Readings and switches of the same protocols.
    "SM-literal": merge(
        STRAWMAN, {"routing": {"name": "subscription-forwarding", "announced": False}}
    ),
    "SM-covering": merge(
        STRAWMAN, {"routing": {"name": "subscription-forwarding", "covering": True}}
    ),
    "ILA-no-flush": {"reconfiguration": {"name": "informed", "flush": False}},
    "ILA-late": {
        "reconfiguration": {"name": "informed", "subscription_timer": 10.0, "flush": False}
    },
    "HF": {"routing": {"name": "hierarchical-forwarding"}, **STRAWMAN},
}

LABELS: Mapping[str, str] = {
    "EF": "Event Forwarding",
    "SM": "Strawman",
    "TDU": "Timed Deferred Unsubscription",
    "NDU": "Notified Deferred Unsubscription",
    "ILA": "Informed Link Activation",
    "RP": "Reconfiguration Path",
    "SM-literal": "Strawman as printed, without a memory of what was announced",
    "SM-covering": "Strawman with covering",
    "ILA-no-flush": "Informed Link Activation without FLUSH",
    "ILA-late": "The same with a subscription timer of 10 s",
    "HF": "Hierarchical Forwarding",
}

FIVE = ("SM", "TDU", "NDU", "ILA", "RP")
FOUR = ("SM", "TDU", "NDU", "ILA")
"""Without Reconfiguration Path, which does not tolerate overlap."""

DEFAULT: Mapping[str, Any] = {
    "nodes": 100,
    "duration": 8.0,
    "topology": {"name": "abstract-tree", "rate": 3.0, "window": [3.0, 7.0], "repair_time": 0.1},
    "workload": {
        "patterns": 96,
        "patterns_per_subscriber": 7,
        "patterns_per_event": 9,
        "subscribers": 0.2,
        "publish_rate": 1.0,
    },
    "record": ["traffic", "links", "repairs"],
}
QUIET = merge(DEFAULT, {"workload": {"publish_rate": 0.0}})

CLOSE = ["traffic", "links", "repairs", "messages", "notes"]
"""What is recorded of a run looked at closely."""


def wants(patterns: int, each: int, **more: Any) -> dict[str, Any]:
    """A workload with so many patterns, of which a subscriber wants some."""
    return {"patterns": patterns, "patterns_per_subscriber": each, **more}


def chosen(*labels: str) -> dict[str, Mapping[str, Any]]:
    """Some protocols by label."""
    return {label: PROTOCOLS[label] for label in labels}


def quiet(**changes: Any) -> dict[str, Any]:
    """The default scenario without events: the overhead of repair alone."""
    return merge(QUIET, changes)


def default(**changes: Any) -> dict[str, Any]:
    """The default scenario."""
    return merge(DEFAULT, changes)


N, RHO, EPSILON = (
    "dispatchers N",
    "reconfigurations per second ρ",
    "events per second and dispatcher ε",
)
T_U, T_S = "unsubscription timer T_u (s)", "subscription timer T_s (s)"
TIMER = "reconfiguration.unsubscription_timer"
TIMES = (0.0, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
RATES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)

_BRIEFLY = {"topology": {"window": [3.0, 5.0]}, "duration": 6.0}
"""For the quick tier, where there are replacements enough in half the time."""

OVERHEAD = (
    Experiment(
        "default",
        "The default scenario",
        default(record=["traffic", "links", "repairs", "publications"]),
        chosen(*FIVE),
    ),
    Experiment(
        "quiet", "Repair alone, every message", quiet(record=CLOSE), chosen(*FIVE), quick_seeds=3
    ),
    Experiment("scale", "System scale", quiet(workload={"patterns": 200}), chosen(*FIVE)).along(
        "nodes", (50, 100, 200, 300, 400, 500), (50, 100, 200), N
    ),
    Experiment(
        "scale-unbalanced",
        "System scale, random trees",
        quiet(workload={"patterns": 200}, topology={"shape": "random"}),
        chosen(*FIVE),
    ).along("nodes", (50, 100, 200, 300, 400, 500), (50, 100, 200), N),
    Experiment("patterns", "Number of patterns", QUIET, chosen(*FIVE)).along(
        "workload.patterns",
        (50, 96, 150, 200, 300, 400),
        (50, 96, 200, 400),
        "available patterns Π",
    ),
    Experiment("density", "Density of subscribers", QUIET, chosen(*FIVE)).along(
        "workload.subscribers",
        (0.03, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        (0.03, 0.1, 0.4, 1.0),
        "share of subscribers σ",
    ),
    Experiment("degree", "Maximum degree", QUIET, chosen(*FIVE)).along(
        "topology.max_degree", (3, 4, 5, 6, 8), (3, 4, 8), "neighbours at most δ"
    ),
    Experiment(
        "rate", "Frequency of reconfigurations", QUIET, chosen(*FOUR), quick_seeds=3, quick=_BRIEFLY
    ).along("topology.rate", (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 400), (1, 3, 30, 400), RHO),
    Experiment("rate-extreme", "Extreme frequency", QUIET, chosen(*FOUR)).along(
        "topology.rate", (400, 600, 800), (), RHO
    ),
    Experiment(
        "unsubscription-timer",
        "Unsubscription timer, overlapping reconfigurations",
        quiet(topology={"rate": 30.0}),
        chosen(*FOUR),
        fixed=("SM",),
        quick_seeds=3,
        quick=_BRIEFLY,
    ).along(TIMER, TIMES, (0.05, 0.08, 0.12, 0.2, 0.5), T_U),
    Experiment(
        "unsubscription-timer-isolated",
        "Unsubscription timer, isolated reconfigurations",
        QUIET,
        chosen("TDU", "NDU", "ILA"),
        quick_seeds=3,
    ).along(TIMER, (0.12, 0.15, 0.2, 0.24), (0.12, 0.24), T_U),
    Experiment(
        "subscription-timer",
        "Subscription timer",
        QUIET,
        chosen("TDU", "NDU", "ILA", "ILA-no-flush"),
        fixed=("TDU", "NDU"),
        quick_seeds=4,
    ).along(
        "reconfiguration.subscription_timer",
        (0.0, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5),
        (0.0, 0.02, 0.15, 0.5),
        T_S,
    ),
    Experiment(
        "zero-timer",
        "No unsubscription timer",
        QUIET,
        {
            "SM": STRAWMAN,
            "TDU": {"reconfiguration": {"name": "timed", "unsubscription_timer": 0.0}},
            "NDU": {"reconfiguration": {"name": "notified", "unsubscription_timer": 0.0}},
        },
        quick_seeds=4,
    ),
    Experiment(
        "path-overlap",
        "Overlapping reconfigurations, Reconfiguration Path",
        quiet(topology={"rate": 30.0}, invariants=False),
        chosen("RP"),
    ),
)

_DELIVERY = default(
    topology={"rate": 3.0},
    workload={
        "publish_rate": 50.0,
        "subscribers": 0.5,
        "core": 0.5,
        "churn_rate": 1.0,
        "churn_window": [1.0, 8.0],
    },
    record=["traffic", "links", "repairs", "publications"],
)
_SETTLED = merge(
    _DELIVERY, {"workload": {"churn_window": [1.0, 7.0]}, "record": ["traffic", "links", "repairs"]}
)

_LESS = {"workload": {"publish_rate": 3.0}}
_with_events = partial(Experiment, quick_seeds=2, quick=_LESS)

EVENTS = (
    _with_events("delivery-low", "Delivery, isolated reconfigurations", _DELIVERY, chosen(*FIVE)),
    _with_events(
        "delivery-high",
        "Delivery, overlapping reconfigurations",
        merge(_DELIVERY, {"topology": {"rate": 30.0}}),
        chosen(*FOUR),
    ),
    _with_events("settled-low", "After isolated reconfigurations", _SETTLED, chosen(*FIVE)),
    _with_events(
        "settled-high",
        "After overlapping reconfigurations",
        merge(_SETTLED, {"topology": {"rate": 30.0}}),
        chosen(*FOUR),
    ),
    Experiment("publish", "Publish rate", DEFAULT, chosen(*FIVE), quick_seeds=2).along(
        "workload.publish_rate", RATES, (0.2, 3.2, 51.2), EPSILON
    ),
    Experiment(
        "publish-high-rate",
        "Publish rate, overlapping reconfigurations",
        default(topology={"rate": 30.0}),
        chosen(*FOUR),
        quick_seeds=2,
    ).along("workload.publish_rate", RATES, (0.2, 3.2), EPSILON),
    Experiment(
        "timer-under-load",
        "Unsubscription timer under load",
        default(workload={"publish_rate": 50.0}),
        chosen("TDU", "NDU", "ILA"),
        quick_seeds=3,
        quick={"workload": {"publish_rate": 10.0}},
    ).along(TIMER, TIMES, (0.05, 0.08, 0.12, 0.5), T_U),
    Experiment(
        "timer-light-load",
        "Unsubscription timer, one event per second",
        DEFAULT,
        chosen("TDU", "NDU", "ILA"),
        quick_seeds=4,
    ).along(TIMER, (0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5), (0.12, 0.5), T_U),
    Experiment(
        "subscription-timer-delivery",
        "Subscription timer and delivery",
        default(
            workload={
                "publish_rate": 10.0,
                "core": 0.5,
                "churn_rate": 1.0,
                "churn_window": [3.0, 7.0],
            },
            record=["traffic", "links", "repairs", "publications"],
        ),
        chosen("ILA"),
        quick_seeds=4,
        quick=_LESS,
    ).along("reconfiguration.subscription_timer", (0.15, 0.3, 0.5, 1.0), (0.15, 1.0), T_S),
    Experiment(
        "burst",
        "A burst of reconfigurations",
        default(workload={"subscribers": 0.8}, topology={"rate": 30.0, "window": [5.0, 5.5]}),
        chosen("EF", "SM", "TDU", "ILA"),
    ),
    Experiment(
        "rate-against-events",
        "Subscription against event forwarding",
        default(workload={"subscribers": 0.8}),
        chosen("EF", "SM", "TDU", "ILA"),
        quick_seeds=3,
    ).along("topology.rate", (1, 3, 5, 10, 20, 30), (1, 5, 30), RHO),
    Experiment(
        "receivers",
        "Receivers of an event",
        default(topology={"rate": 0.0}, record=["publications", "traffic", "links"]),
        chosen("SM"),
        quick_seeds=8,
    ).along("workload.subscribers", (0.03, 1.0), label="share of subscribers σ"),
)
