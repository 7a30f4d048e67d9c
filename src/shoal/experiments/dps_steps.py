"""What the scenarios of Anceaume et al. 2006 have in common.

A step is a second: a message sent in one step arrives in the next. What the paper leaves open: the
domain has 500 values, ranges are of equal length and lie anywhere in it alike (but for figures 3(c)
to 3(g), see ``ZONES``), K = 3, K_c = 2, k' = 2, F_s = 3, and the network is given 500 steps to
settle before a scenario begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.pipeline.plan.experiment import merge


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
HEALED = 200.0
"""Steps without crashes at the end of a run, in which it comes to rest."""
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


ROOT_LEADER = variant("root", "leader")
WAYS = ("root", "generic")
LEADERS = {f"{way} leader": variant(way, "leader") for way in WAYS}
FOUR = {**LEADERS, **{f"{way} epidemic": variant(way, "epidemic") for way in WAYS}}
SIX = {
    **LEADERS,
    **{f"{way} epidemic k=1": variant(way, "epidemic", fanout=1) for way in WAYS},
    **{f"{way} epidemic k=2": variant(way, "epidemic") for way in WAYS},
}


def crashing(p: float, nodes: int, end: float) -> dict[str, Any]:
    """Events, and ``p`` crashes per step, from the time the network has settled to an end."""
    return {
        "duration": end + HEALED,
        "topology": {"crash_rate": 60.0 * p / nodes, "window": [SETTLED, end]},
        "workload": {"publish_window": [SETTLED, end]},
    }
