"""The worked examples and invariants of Frey's thesis: small trees, every message recorded.

Letters of the figures are numbers here: A 0, B 1, C 2, D 3, and so on as the comments say. Links
break at 3 s; the pattern that the figures draw in gray is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.experiments.frey_scenarios import CLOSE, FIVE, FOUR, chosen, quiet, wants
from shoal.pipeline.plan.experiment import Experiment, single

GRAY = [0]
BREAK = 3.0
WIDE, NARROW = "temperature > 30", "temperature > 45"


def act(at: float, node: int, do: str, patterns: Sequence[int] = GRAY) -> dict[str, Any]:
    """One line of a script."""
    return {"at": at, "node": node, "do": do, "patterns": list(patterns)}


def example(
    nodes: int,
    links: Sequence[tuple[int, int]],
    change: dict[str, Any],
    *script: dict[str, Any],
    record: Sequence[str] = CLOSE,
) -> dict[str, Any]:
    """A hand-made tree with one change, and what applications do on it."""
    return {
        "nodes": nodes,
        "duration": 5.0,
        "topology": {
            "name": "abstract-tree",
            "links": [list(link) for link in links],
            "schedule": [{"at": BREAK, **change}],
            "repair_time": 0.1,
        },
        "workload": {"script": list(script)},
        "record": list(record),
    }


# A 0, B 1, C 2, D 3, S 4, T 5
_FIGURE_5_4 = ((4, 0), (0, 2), (0, 1), (1, 3))
# A 0, B 1, C 2, D 3, E 4, F 5, G 6
_FIGURE_5_5 = ((0, 4), (4, 5), (5, 2), (0, 1), (1, 6), (6, 3))
_AB_BY_CD = {"old": [0, 1], "new": [2, 3]}

# A forest of two trees of ten nodes each, for what merges and splits.
_TWO_TREES = [(10 * t + (i - 1) // 2, 10 * t + i) for t in (0, 1) for i in range(1, 10)]


def _one(name: str, title: str, base: dict[str, Any], *variants: str) -> Experiment:
    """A worked example: nothing is drawn, so one run is enough."""
    return single(name, title, base, chosen(*variants))


def _forest(
    name: str, title: str, links: Sequence[tuple[int, int]], change: dict[str, Any]
) -> Experiment:
    base = example(20, links, change)
    base["workload"] = wants(12, 4, subscribers=0.4, publish_rate=0.0)
    return Experiment(name, title, base, chosen(*FIVE), quick_seeds=10)


WORKED = (
    _one(
        "figure-5.4",
        "Figure 5.4: A-B is replaced by C-D",
        example(5, _FIGURE_5_4, _AB_BY_CD, act(0.0, 4, "subscribe")),
        *FOUR,
    ),
    _one(
        "figure-5.5",
        "Figure 5.5: the reconfiguration path",
        example(7, _FIGURE_5_5, _AB_BY_CD, act(0.0, 4, "subscribe"), act(0.5, 3, "subscribe")),
        *FIVE,
    ),
    _one(
        "figure-6.4b",
        "Figure 6.4(b): T subscribes meanwhile",
        example(
            6,
            (*_FIGURE_5_4, (3, 5)),
            _AB_BY_CD,
            act(0.0, 4, "subscribe"),
            act(BREAK + 0.11, 5, "subscribe"),
        ),
        *("ILA", "ILA-no-flush", "ILA-late"),
    ),
    _one(
        "held-back",
        "A subscription held back, with events",
        example(
            6,
            (*_FIGURE_5_4, (3, 5)),
            _AB_BY_CD,
            act(0.0, 4, "subscribe"),
            act(BREAK + 0.11, 5, "subscribe"),
            *(act(BREAK + 0.1 + 0.005 * k, 2, "publish") for k in range(100)),
            record=[*CLOSE, "deliveries"],
        ),
        "ILA",
        "ILA-no-flush",
    ),
    # B 1 is an end of both links and has X 3 beyond it, so that it is no leaf. S 4 wants gray.
    _one(
        "shared-end",
        "Old and new link share a dispatcher",
        example(5, _FIGURE_5_4, {"old": [0, 1], "new": [2, 1]}, act(0.0, 4, "subscribe")),
        *("TDU", "NDU", "ILA", "RP"),
    ),
    _one(
        "leaf",
        "A leaf is attached elsewhere",
        example(
            4,
            ((1, 0), (0, 2), (0, 3)),
            {"old": [0, 3], "new": [2, 3]},
            act(0.0, 1, "subscribe"),
            act(0.5, 3, "subscribe", [1]),
        ),
        "TDU",
        "NDU",
    ),
    # REC leaves A when the new link is up, and reaches E a millisecond later.
    _one(
        "head-race",
        "E unsubscribes while REC is on its way to it",
        example(
            7,
            _FIGURE_5_5,
            _AB_BY_CD,
            act(0.0, 4, "subscribe"),
            act(0.5, 3, "subscribe"),
            act(BREAK + 0.1005, 4, "unsubscribe"),
        ),
        "RP",
    ),
    _one(
        "reconciliation",
        "The second part changes while REC is in the first",
        example(
            7,
            _FIGURE_5_5,
            _AB_BY_CD,
            act(0.0, 4, "subscribe", [2]),
            act(0.5, 3, "subscribe"),
            act(BREAK + 0.1005, 3, "unsubscribe"),
            act(BREAK + 0.1005, 6, "subscribe", [1]),
        ),
        "RP",
    ),
    _forest("split", "A tree splits", [*_TWO_TREES, (3, 14)], {"old": [3, 14]}),
    _forest("merge", "Two trees merge", _TWO_TREES, {"new": [3, 14]}),
)

_ONE = wants(1, 1, patterns_per_event=1)
_STATIC = quiet(
    nodes=60, topology={"rate": 0.0, "shape": "random"}, record=[*CLOSE, "publications"]
)
_ONE_PATTERN = quiet(
    nodes=60,
    # Each act is over within microseconds, long before the next.
    link={"delay": 1e-6, "bandwidth": 0.0},
    topology={"rate": 0.0, "shape": "random"},
    workload=_ONE,
    record=CLOSE,
)


def _some(**more: Any) -> dict[str, Any]:
    """A workload of the one pattern."""
    return {**_ONE_PATTERN["workload"], **more}


INVARIANTS = (
    Experiment(
        "static-events",
        "Events on a static tree",
        {**_STATIC, "workload": {"publish_rate": 0.25}},
        chosen("EF", *FIVE),
        quick_seeds=3,
    ),
    Experiment(
        "static-churn",
        "Clients that change their minds, on a static tree",
        {
            **_STATIC,
            "workload": wants(20, 4, subscribers=0.4, core=0.0, publish_rate=0.0, churn_rate=5.0),
        },
        chosen("EF", "SM", "SM-literal"),
    ),
    Experiment(
        "hierarchy",
        "A rooted tree",
        {**_STATIC, "workload": {**_ONE, "subscribers": 0.2, "publish_rate": 0.25}},
        chosen("HF"),
    ),
    # Node 7 asks for less in addition, then no longer for more; node 30 publishes what is left.
    Experiment(
        "covering",
        "A filter covers another",
        {
            **_STATIC,
            "workload": {
                "script": [
                    {"at": 0.0, "node": 7, "do": "subscribe", "filters": [WIDE]},
                    {"at": 1.0, "node": 7, "do": "subscribe", "filters": [NARROW]},
                    {"at": 2.0, "node": 7, "do": "unsubscribe", "filters": [WIDE]},
                    {"at": 3.0, "node": 30, "do": "publish", "attributes": {"temperature": 50}},
                ]
            },
        },
        chosen("SM", "SM-covering"),
    ),
    Experiment(
        "one-pattern",
        "Subscriptions to one pattern",
        {
            **_ONE_PATTERN,
            "duration": 60.0,
            "workload": _some(
                subscribers=0.3,
                core=0.0,
                subscribe_window=[0.0, 20.0],
                churn_rate=0.05,
                churn_window=[20.0, 60.0],
            ),
        },
        chosen("SM"),
        quick_seeds=10,
    ),
    Experiment(
        "last-subscriber",
        "The only subscriber leaves",
        {
            **_ONE_PATTERN,
            "workload": _some(
                subscribers=1 / 60, core=0.0, churn_rate=0.5, churn_window=[2.0, 6.0]
            ),
        },
        chosen("SM"),
        quick_seeds=10,
    ),
    Experiment(
        "more-subscribers",
        "One more subscriber after another",
        {
            **_ONE_PATTERN,
            "nodes": 100,
            "duration": 52.0,
            "topology": {"name": "abstract-tree", "rate": 0.0},
            "workload": _some(subscribers=0.5, subscribe_window=[0.0, 50.0]),
        },
        chosen("SM"),
        quick_seeds=30,
    ),
    Experiment(
        "pattern-tree",
        "Events of one pattern, after reconfigurations",
        quiet(
            nodes=40,
            duration=12.0,
            topology={"rate": 1.0, "shape": "random"},
            workload={**_ONE, "publish_rate": 0.25},
            record=[*CLOSE, "publications"],
        ),
        chosen(*FIVE),
        quick_seeds=2,
    ),
    Experiment(
        "replacements",
        "Isolated replacements, every message",
        quiet(nodes=50, topology={"shape": "random"}, workload=wants(20, 3), record=CLOSE),
        chosen(*FIVE),
        quick_seeds=2,
    ),
    Experiment(
        "concurrent",
        "Overlapping replacements while clients change their minds",
        quiet(
            nodes=40,
            workload=wants(
                20, 3, subscribers=0.5, core=0.5, churn_rate=2.0, churn_window=[1.0, 8.0]
            ),
            record=["traffic", "links", "repairs", "notes"],
        ),
        chosen(*FOUR),
        quick_seeds=3,
    ).along("topology.rate", (3, 10, 30, 100, 300), (10, 100), "reconfigurations per second ρ"),
    Experiment(
        "condition-6.1",
        "Informed Link Activation without FLUSH",
        quiet(record=["traffic", "links", "repairs", "notes"]),
        chosen("ILA-no-flush"),
        quick_seeds=3,
    ).along(
        "reconfiguration.unsubscription_timer",
        (0.12, 0.15, 0.2, 0.24, 0.26, 0.3, 0.4),
        (0.12, 0.2, 0.3),
        "unsubscription timer T_u (s)",
    ),
    Experiment(
        "crash",
        "A node fails",
        quiet(
            nodes=30,
            duration=4.0,
            topology={"rate": 0.0, "shape": "random", "crashes": [[3.0, 5]]},
            workload=wants(20, 3),
        ),
        chosen("EF", "SM"),
    ),
)
