"""The scenarios of Anceaume et al. 2006, section 5.2.

A step is a second: a message sent in one step arrives in the next. What the paper leaves open: the
domain has 500 values, ranges are of equal length and lie anywhere in it alike, K = 3, K_c = 2,
k' = 2, F_s = 3, and the network is given 500 steps to settle before a scenario begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.pipeline.plan.experiment import Experiment, merge
from shoal.stack import Chance


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """The first with what each of the others says."""
    whole: dict[str, Any] = {}
    for part in parts:
        whole = merge(whole, part)
    return whole


def content(name: str = "dps2", **more: Any) -> dict[str, Any]:
    """Workload: the filters and events of a name, with these parameters."""
    return {"workload": {"content": {"name": name, "event_every": 10.0, **more}}}


SETTLED = 500.0
"""Steps after which nodes have joined, subscribed and found their groups."""
RECORD = ["publications", "traffic", "loads", "reach"]

STEPS: Mapping[str, Any] = {
    "nodes": 1000,
    "topology": {"name": "full-mesh", "joining": 100.0},
    "routing": {"name": "dps", "interval": [10.0, 25.0], "timeout": 3.0, "shuffle": 50.0},
    "link": {"delay": 1.0, "bandwidth": 0.0},
    "bin": 100.0,
    "record": RECORD,
    "workload": {
        "subscribe_window": [100.0, 300.0],
        "publish_window": [SETTLED, 1e6],
        "content": {"name": "dps2", "subscriptions": 3, "event_every": 10.0},
    },
    "data_plane": "objects",
}


def variant(traversal: str, communication: str, **more: Any) -> dict[str, Any]:
    """One of the four systems."""
    return {"routing": {"traversal": traversal, "communication": communication, **more}}


ROOT_LEADER, GENERIC_LEADER = variant("root", "leader"), variant("generic", "leader")
FOUR = {
    "root leader": ROOT_LEADER,
    "generic leader": GENERIC_LEADER,
    "root epidemic": variant("root", "epidemic"),
    "generic epidemic": variant("generic", "epidemic"),
}
SIX = {
    "root leader": ROOT_LEADER,
    "generic leader": GENERIC_LEADER,
    "root epidemic k=1": variant("root", "epidemic", fanout=1),
    "generic epidemic k=1": variant("generic", "epidemic", fanout=1),
    "root epidemic k=2": variant("root", "epidemic"),
    "generic epidemic k=2": variant("generic", "epidemic"),
}


def crashing(p: float, nodes: int, end: float) -> dict[str, Any]:
    """Topology: ``p`` crashes per step from the time the network has settled."""
    return {"topology": {"crash_rate": 60.0 * p / nodes, "window": [SETTLED, end]}}


# Table 1: false positives

TABLE_1 = merge(
    STEPS,
    {
        "nodes": 10_000,
        "duration": 1000.0,
        "routing": {"traversal": "generic", "shuffle": 400.0},
        "workload": {"content": {"subscriptions": 1, "event_every": 1.0}},
        "record": ["publications", "traffic", "reach"],
    },
)


def _workload(number: int, **changes: Any) -> dict[str, Any]:
    return content(f"dps{number}", event_every=1.0, **changes)


FALSE_POSITIVES = (
    Experiment(
        "table-1",
        "Table 1: nodes contacted and matching",
        TABLE_1,
        {
            "workload 1": _workload(1),
            "workload 2": _workload(2),
            "workload 3": _workload(3),
            "workload 2, D=1000": _workload(2, domain=1000),
        },
        seeds=5,
        quick_seeds=2,
        quick={"duration": SETTLED + 40.0},
    ),
    Experiment(
        "variants",
        "The same in each of the four systems",
        merge(TABLE_1, {"nodes": 2000, "duration": 700.0}),
        {
            **FOUR,
            "most selective": variant("generic", "leader", attribute="most-selective"),
        },
        seeds=5,
        quick_seeds=2,
        quick={"duration": SETTLED + 40.0},
    ),
)

# Figure 3(a) and (b): dependability

NO_COLEADERS = variant("root", "leader", coleaders=0)
P = (0.01, 0.05, 0.10, 0.20, 0.25)
END = SETTLED + 3000.0

DEPENDABILITY = (
    *(
        Experiment(
            f"crashes-{p:g}",
            f"Figure 3(a): {p:g} crashes per step",
            merged(STEPS, {"duration": END}, crashing(p, 1000, END)),
            SIX if p < P[-1] else {**SIX, "root leader, no co-leaders": NO_COLEADERS},
            seeds=3,
            quick_seeds=2,
            quick_values=None if p == 0.25 else (),
            quick=merged({"duration": SETTLED + 400.0, "nodes": 300}, crashing(p, 300, END)),
        )
        for p in P
    ),
    Experiment(
        "recovery",
        "Figure 3(b): half of the nodes crash between steps 1000 and 2000",
        merge(
            STEPS,
            {
                "duration": END,
                "topology": {"crash_rate": 0.03, "window": [SETTLED + 1000.0, SETTLED + 2000.0]},
            },
        ),
        {
            name: SIX[name]
            for name in ("generic leader", "generic epidemic k=1", "generic epidemic k=2")
        },
        seeds=3,
        quick_values=(),
    ),
)

# Figure 3(c) and (d): scalability

GROWING = merge(
    STEPS,
    {
        "nodes": 2500,
        "duration": END,
        "topology": {
            "churn": {
                "model": "given",
                "sessions": [
                    [node, 0.0 if node < 1000 else SETTLED + 2.0 * (node - 1000), None]
                    for node in range(2500)
                ],
            }
        },
        "workload": {
            "subscribe_window": [100.0, 100.0],
            "content": {"subscriptions": 1, "publishers": 1000},
        },
    },
)
SCALABILITY = (
    Experiment(
        "growth",
        "Figures 3(c) and 3(d): a node joins every two steps",
        GROWING,
        FOUR,
        seeds=3,
        quick_values=(),
    ),
)

# Figure 3(e) to (g): load

LOAD = (
    Experiment(
        "load",
        "Figures 3(e) to 3(g): a subscription per node every 300 steps",
        merge(
            STEPS,
            {
                "duration": 3100.0,
                "workload": {
                    "subscribe_window": [100.0, 100.0],
                    "publish_window": [100.0, 3100.0],
                    "content": {"subscriptions": 10, "subscribe_every": 300.0},
                },
            },
        ),
        FOUR,
        seeds=3,
        quick_seeds=2,
        quick={"duration": 1300.0},
    ),
)

# Groups and trees without failures

POPULATION = merge(
    STEPS,
    {
        "nodes": 60,
        "duration": 1200.0,
        "topology": {"joining": 50.0},
        "routing": {"shuffle": 25.0},
        "workload": {
            "subscribe_window": [100.0, 600.0],
            "publish_window": [900.0, 1100.0],
            "content": {"subscriptions": 2, "event_every": 4.0},
        },
        "record": [*RECORD, "deliveries", "notes"],
    },
)
STRUCTURE = (
    Experiment(
        "population",
        "Random conjunctions over numbers and texts",
        merged(POPULATION, content("dps1", subscriptions=2, event_every=4.0)),
        {
            **FOUR,
            **{
                f"{rule} attribute": variant("root", "leader", attribute=rule)
                for rule in ("first", "most-selective", "least-selective")
            },
        },
        seeds=100,
        quick_seeds=10,
    ),
    Experiment(
        "nested",
        "Random ranges, equalities and the like, also with OR",
        merged(POPULATION, content("W4", subscriptions=2, event_every=4.0)),
        FOUR,
        seeds=100,
        quick_seeds=5,
    ),
    Experiment(
        "sizes",
        "Neighbours that a node keeps",
        merged(
            POPULATION, content(event_every=4.0), {"workload": {"publish_window": [900.0, 940.0]}}
        ),
        {"root epidemic": FOUR["root epidemic"]},
        axis="nodes",
        values=(500, 1000, 2000),
        quick_values=(500, 1000),
        axis_label="nodes",
        seeds=3,
        quick_seeds=2,
    ),
)

# Worked examples: subscribers one after the other, then events


def example(*acts: tuple[int, str, Any], nodes: int = 12) -> dict[str, Any]:
    """A script: node, "subscribe", "unsubscribe" or "publish", and a filter or attributes."""
    script = []
    for number, (node, do, what) in enumerate(acts):
        content = {"attributes": what} if do == "publish" else {"filters": [what]}
        script.append({"at": 100.0 + 20.0 * number, "node": node, "do": do, **content})
    end = 100.0 + 20.0 * len(acts) + 400.0
    return merged({**POPULATION, "workload": {"script": script}}, {"nodes": nodes, "duration": end})


def _one(name: str, title: str, base: dict[str, Any], *systems: str) -> Experiment:
    """A worked example: one run is enough."""
    chosen = {system: FOUR[system] for system in systems or ("root leader", "generic leader")}
    return Experiment(name, title, base, chosen, seeds=1, quick_seeds=1)


_FIGURE_2 = tuple(
    (node, "subscribe", text)
    for node, text in enumerate(["a > 2", "a < 20", "a < 11", "a < 4", "a > 5", "a = 4"])
)
_ONE_SIDED = [(node, f"a {'><='[node % 3]} {(7 * node) % 11}") for node in range(30)]
_BRANCH = [(node, "subscribe", f"a > {node // 4}") for node in range(20)]


def _shuffled(order: int) -> list[tuple[int, str]]:
    """The same subscriptions in another order of arrival."""
    chance = Chance(order, "order of arrival")
    return chance.sample(_ONE_SIDED, len(_ONE_SIDED))


WORKED = (
    _one(
        "matching",
        "Section 2: what matches",
        example(
            (1, "subscribe", "a > 1 AND a < 5 AND b = 2"),
            (2, "subscribe", "c > 2 AND c < 8"),
            *(
                (0, "publish", event)
                for event in (
                    {"a": 3, "b": 2},
                    {"a": 3, "b": 7},
                    {"a": 3},
                    {"a": 3, "b": 2, "d": 9},
                )
            ),
            *((0, "publish", {"c": value}) for value in (2, 3, 7, 8)),
        ),
    ),
    Experiment(
        "grouping",
        "Section 3: the group a > 3",
        example(
            (1, "subscribe", "a > 3 AND b < 2"),
            (2, "subscribe", "a > 3"),
            (3, "subscribe", "a > 4"),
        ),
        {"root leader": variant("root", "leader", attribute="first")},
        seeds=1,
        quick_seeds=1,
    ),
    _one(
        "figure-2",
        "Figure 2: a = 3 is created, a = 4 is published",
        example(*_FIGURE_2, (8, "subscribe", "a = 3"), (9, "publish", {"a": 4})),
    ),
    _one(
        "joining",
        "Section 4.1: a second subscriber of a = 4",
        example(*_FIGURE_2, (8, "subscribe", "a = 4")),
    ),
    _one(
        "ambiguous",
        "Section 3: where a = 4 goes",
        example(
            *(
                (node, "subscribe", text)
                for node, text in enumerate(["a < 20", "a < 11", "a = 4", "a > 2", "a > 3"])
            )
        ),
    ),
    _one(
        "last-member",
        "Section 4.2.1: who remains leads",
        example(
            *((node, "subscribe", "a > 2") for node in (1, 2, 3)),
            *((node, "unsubscribe", "a > 2") for node in (1, 2)),
        ),
    ),
    Experiment(
        "takeover",
        "Section 4.3: the leader crashes",
        merged(
            example(*((node, "subscribe", "a > 2") for node in (0, 7, 4, 9, 11))),
            {"topology": {"crashes": [[300.0, 0]]}},
        ),
        {"root leader": ROOT_LEADER},
        seeds=5,
        quick_seeds=5,
    ),
    Experiment(
        "arrivals",
        "Sections 3 and 4.1: the same subscriptions in ten orders",
        example(*((node, "subscribe", text) for node, text in _ONE_SIDED), nodes=30),
        {
            f"order {order}": {
                "workload": example(
                    *((node, "subscribe", text) for node, text in _shuffled(order)), nodes=30
                )["workload"]
            }
            for order in range(10)
        },
        seeds=1,
        quick_seeds=1,
    ),
    Experiment(
        "at-once",
        "Section 4.1: trees of one attribute created in the same step",
        merged(
            example((0, "subscribe", "a > 1")),
            {
                "workload": {
                    "script": [
                        {"at": 100.0, "node": node, "do": "subscribe", "filters": [f"a > {node}"]}
                        for node in range(6)
                    ]
                }
            },
        ),
        FOUR,
        seeds=20,
        quick_seeds=10,
    ),
    _one(
        "branch",
        "Section 5.1: one branch of five groups of four",
        example(*_BRANCH, (22, "publish", {"a": 9}), nodes=24),
        *FOUR,
    ),
)

EXPERIMENTS = (*WORKED, *FALSE_POSITIVES, *DEPENDABILITY, *SCALABILITY, *LOAD, *STRUCTURE)
