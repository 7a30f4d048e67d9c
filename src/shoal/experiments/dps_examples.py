"""The worked examples of Anceaume et al. 2006: subscribers one after the other, then events."""

from __future__ import annotations

from typing import Any

from shoal.experiments.dps_steps import FOUR, LISTED, ROOT_LEADER, merged
from shoal.pipeline.plan.experiment import Experiment, single
from shoal.stack import Chance

POPULATION = LISTED["nested"].base
FIRST = {
    name: merged(FOUR[name], {"routing": {"attribute": "first"}})
    for name in ("root leader", "generic leader")
}
"""Subscriptions that join by their first attribute."""


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
    return single(name, title, base, chosen)


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


_LEVELS = 6
_PAIRS = 200
_PUBLISHERS = 40
"""Nodes that never subscribe: like a newcomer, they enter the tree at a contact point."""


def _concurrent() -> dict[str, Any]:
    """A chain of groups of four; then events, each with a subscription made in the same step.

    What an event carries beside its number only that one subscriber wants.
    """
    chain = [(node, f"a > {node // 4} AND b = -1") for node in range(4 * _LEVELS)]
    script: list[dict[str, Any]] = [
        {"at": 60.0 + 5.0 * node, "node": node, "do": "subscribe", "filters": [text]}
        for node, text in chain
    ]
    begin = 60.0 + 5.0 * len(chain) + 240.0
    for pair in range(_PAIRS):
        at, newcomer = begin + 10.0 * pair, len(chain) + pair
        wanted = f"a > {pair % _LEVELS} AND b = {pair}"
        subscribe = {"at": at, "node": newcomer, "do": "subscribe", "filters": [wanted]}
        publisher = len(chain) + _PAIRS + pair % _PUBLISHERS
        event = {"at": at, "node": publisher, "do": "publish", "attributes": {"a": 9, "b": pair}}
        script += [subscribe, event]
    nodes, end = len(chain) + _PAIRS + _PUBLISHERS, begin + 10.0 * _PAIRS + 100.0
    return merged({**POPULATION, "workload": {"script": script}}, {"nodes": nodes, "duration": end})


WORKED = (
    Experiment(
        "concurrent",
        "Section 5.1: a subscription and an event in the same step",
        _concurrent(),
        FIRST,
        seeds=5,
        quick_seeds=2,
    ),
    single(
        "incomparable",
        "Section 3: two subscriptions of which neither includes the other",
        example(
            (1, "subscribe", "a > 0 AND a < 10 AND b > 0"),
            (2, "subscribe", "a > 1 AND a < 12 AND b > 2 AND b < 4"),
        ),
        {"root leader": FIRST["root leader"]},
    ),
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
    single(
        "grouping",
        "Section 3: the group a > 3",
        example(
            (1, "subscribe", "a > 3 AND b < 2"),
            (2, "subscribe", "a > 3"),
            (3, "subscribe", "a > 4"),
        ),
        {"root leader": FIRST["root leader"]},
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
    single(
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
        quick_seeds=2,
    ),
    _one(
        "branch",
        "Section 5.1: one branch of five groups of four",
        example(*_BRANCH, (22, "publish", {"a": 9}), nodes=24),
        *FOUR,
    ),
)
