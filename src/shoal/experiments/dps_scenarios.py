"""The scenarios of Anceaume et al. 2006, section 5.2: Table 1 and figure 3."""

from __future__ import annotations

from functools import partial
from typing import Any

from shoal.experiments.dps_examples import STRUCTURE, WORKED
from shoal.experiments.dps_steps import (
    FOUR,
    RECORD,
    SETTLED,
    SIX,
    STEPS,
    content,
    crashing,
    merged,
    variant,
)
from shoal.pipeline.plan.experiment import Experiment, merge

# Table 1: false positives

TABLE_1 = merge(
    STEPS,
    {
        "nodes": 10_000,
        "duration": 700.0,
        "routing": {"traversal": "generic"},
        "workload": {"content": {"subscriptions": 1, "event_every": 1.0, "even": False}},
        "record": ["publications", "traffic", "reach", "routes"],
    },
)


def _workload(number: int, **changes: Any) -> dict[str, Any]:
    return content(f"dps{number}", event_every=1.0, **changes)


def _fewer(nodes: int, duration: float) -> dict[str, Any]:
    """Fewer nodes, and fewer values in proportion: groups are as large as with 10,000 nodes."""
    small = {"workload": {"content": {"domain": nodes // 20}}}
    return merged({"nodes": nodes, "duration": duration}, small)


_three = partial(Experiment, seeds=3, quick_seeds=3)

FALSE_POSITIVES = (
    Experiment(
        "table-1",
        "Table 1: nodes contacted and matching",
        TABLE_1,
        {"workload 1": _workload(1), "workload 2": _workload(2), "workload 3": _workload(3)},
        seeds=10,
        quick_seeds=3,
        quick=_fewer(1000, SETTLED + 200.0),
    ),
    _three(
        "numbers",
        "The same with fewer nodes, and so fewer subscriptions",
        TABLE_1,
        {"workload 2": _workload(2)},
        quick={"duration": SETTLED + 40.0},
    ).along("nodes", (1000, 2000, 5000, 10_000), (1000, 2000), "nodes"),
    _three(
        "attributes",
        "Ranges of half the domain on one to four attributes",
        merged(TABLE_1, _fewer(2000, 700.0), {"record": ["reach"]}),
        {"generic leader": _workload(2)},
        quick=_fewer(500, SETTLED + 100.0),
    ).along("workload.content.attributes", (1, 2, 3, 4), label="attributes"),
    _three(
        "variants",
        "The same in each of the four systems",
        merged(TABLE_1, _fewer(2000, 700.0)),
        FOUR,
        quick=_fewer(500, SETTLED + 100.0),
    ),
    _three(
        "selective",
        "Six subscriptions per node, one after the other, while events are published",
        merged(
            STEPS,
            content("dps1", subscriptions=6, subscribe_every=150.0, event_every=5.0),
            {
                "nodes": 500,
                "duration": 1500.0,
                "workload": {"subscribe_window": [100.0, 100.0], "publish_window": [100.0, 1500.0]},
                "record": ["reach", "traffic"],
            },
        ),
        {
            "uniform": variant("root", "leader"),
            "most selective": variant("root", "leader", attribute="most-selective"),
            "least selective": variant("root", "leader", attribute="least-selective"),
            "filter at sender": variant("root", "leader", filter_at_sender=True),
        },
        quick={"nodes": 100},
    ),
)

# Figure 3(a) and (b): dependability

NO_COLEADERS = variant("root", "leader", coleaders=0)
P = (0.01, 0.05, 0.10, 0.20, 0.25)
END = SETTLED + 3000.0
SMALL = {"nodes": 100, "workload": {"content": {"domain": 50}}}
"""As large groups, as many leaders and as many crashes per node as with 1,000 nodes."""
GENERIC = ("generic leader", "generic epidemic k=1", "generic epidemic k=2")

DEPENDABILITY = (
    *(
        _three(
            f"crashes-{p:g}",
            f"Figure 3(a): {p:g} crashes per step",
            merged(STEPS, crashing(p, 1000, END)),
            SIX if p < P[-1] else {**SIX, "root leader, no co-leaders": NO_COLEADERS},
            quick=SMALL,
        )
        for p in P
    ),
    _three(
        "subscriptions",
        "Figure 3(a) with fewer and more subscriptions per node, 0.25 crashes per step",
        merged(STEPS, crashing(0.25, 1000, END)),
        {name: SIX[name] for name in GENERIC},
        quick=SMALL,
    ).along("workload.content.subscriptions", (1, 3, 6), label="subscriptions per node"),
    Experiment(
        "reconnected",
        "The network 100 steps after half of the nodes have crashed",
        merge(
            STEPS,
            {
                "duration": SETTLED + 2100.0,
                "topology": {"crash_rate": 0.03, "window": [SETTLED + 1000.0, SETTLED + 2000.0]},
                "record": ["notes"],
            },
        ),
        {"generic epidemic k=2": SIX["generic epidemic k=2"]},
        seeds=3,
        quick_seeds=2,
        quick={
            "nodes": 150,
            "duration": SETTLED + 700.0,
            "topology": {"crash_rate": 0.06, "window": [SETTLED + 100.0, SETTLED + 600.0]},
        },
    ),
    _three(
        "recovery",
        "Figure 3(b): half of the nodes crash between steps 1000 and 2000",
        merge(
            STEPS,
            {
                "duration": END,
                "topology": {"crash_rate": 0.03, "window": [SETTLED + 1000.0, SETTLED + 2000.0]},
            },
        ),
        {name: SIX[name] for name in GENERIC},
        quick=SMALL,
    ),
)

# Figure 3(c) and (d): scalability


def growing(first: int, every: float) -> dict[str, Any]:
    """A network that grows from its first nodes to 2.5 times as many."""
    nodes = 5 * first // 2
    later = [SETTLED + every * turn for turn in range(nodes - first)]
    sessions = [[node, at, None] for node, at in enumerate([0.0] * first + later)]
    return {
        "nodes": nodes,
        "topology": {"churn": {"model": "given", "sessions": sessions}},
        "workload": {"content": {"domain": first // 2, "publishers": first}},
    }


GROWING = merged(
    STEPS,
    growing(1000, 2.0),
    {
        "duration": END,
        "workload": {"subscribe_window": [100.0, 100.0], "content": {"subscriptions": 1}},
        "record": [*RECORD, "notes"],
    },
)
ZONES = {"workload": {"content": {"domain": 8}}}
"""Another reading of figures 3(c) to 3(g): five zones per attribute, so few and large groups."""
_two = partial(Experiment, seeds=2, quick_seeds=2)
SCALABILITY = (
    _three(
        "growth",
        "Figures 3(c) and 3(d): a node joins every two steps",
        GROWING,
        FOUR,
        quick=growing(100, 20.0),
    ),
    _two(
        "growth-zones",
        "The same with eight values",
        merge(GROWING, ZONES),
        FOUR,
        quick=merge(growing(100, 20.0), ZONES),
    ),
)

# Figure 3(e) to (g): load

LOADED = merge(
    STEPS,
    {
        "duration": 3100.0,
        "record": [*RECORD, "notes"],
        "workload": {
            "subscribe_window": [100.0, 100.0],
            "publish_window": [100.0, 3100.0],
            "content": {"subscriptions": 10, "subscribe_every": 300.0},
        },
    },
)
LOAD = (
    _three(
        "load",
        "Figures 3(e) to 3(g): a subscription per node every 300 steps",
        LOADED,
        FOUR,
        quick=SMALL,
    ),
    _two(
        "load-zones",
        "The same with eight values, so with few groups, each of which most nodes are in",
        merge(LOADED, ZONES),
        FOUR,
        quick={"nodes": 200},
    ),
    Experiment(
        "load-1000",
        "The same, with 1,000 nodes only: how many subscriptions there are in the end",
        LOADED,
        {name: FOUR[name] for name in ("root leader", "root epidemic")},
        seeds=3,
        quick_values=(),
    ),
)

EXPERIMENTS = (*WORKED, *FALSE_POSITIVES, *DEPENDABILITY, *SCALABILITY, *LOAD, *STRUCTURE)
