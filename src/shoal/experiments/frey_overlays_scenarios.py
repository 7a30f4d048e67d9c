"""The scenarios of Frey's thesis, part III: trees that build and heal themselves (section 10.4.1).

*Gnutella* is churn with the figures published on Gnutella's hosts; the trace itself is not public.
The thesis plays 60 hours of it. Repairs are measured over the first six, in which a run has some
5,000 of them; *sixty hours* are for what builds up with time. *Catastrophic* is a stable tree of
10,000 nodes of which a quarter crash at once.
Messages take 50 ms; the loss of a neighbour is noticed after 0.15 to 0.2 s, as the thesis has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.pipeline.plan.experiment import Experiment, merge

FIVE = ("RMG", "RDGM", "DRGM", "RUmDGM", "DUmRGM")
"""The instances of Table 10.2."""


PERIODS = {
    "heartbeat": 0.0,
    "global_size": 10,
    "global_period": 250.0,
    "pings": 10,
    "early_merge": 0.0,
    "merge_period": 250.0,
}
"""As section 10.4.1 has them; failures are told, so that beats are not needed. Roots look for other
trees periodically (section 10.3.3), and not early."""
LSTREE = {
    **PERIODS,
    "max_degree": 5,
    "ancestors": 3,
    "ancestor_probability": 0.5,
    "global_fanout": 2,
    "global_repropagation": 0.3,
    "references": 3,
    "busy_retries": 3,
}


def instance(strategies: str, **more: Any) -> dict[str, Any]:
    """An instance of LSTree with the parameters of section 10.4.1."""
    return {"overlay": {"name": "lstree", "instance": strategies, **LSTREE, **more}}


INSTANCES: Mapping[str, Mapping[str, Any]] = {
    **{name: instance(name) for name in (*FIVE, "RGDM")},
    "Overcast": {"overlay": {"name": "overcast", **PERIODS}},
    "Overcast+G": {"overlay": {"name": "overcast-g", **PERIODS}},
    "RMG integer": instance("RMG", depth="integer"),
    "DUmRGM integer": instance("DUmRGM", depth="integer"),
}

LABELS: Mapping[str, str] = {
    "RMG": "Regional, BreakMaxDegree, Global",
    "RDGM": "Regional, Downstream, Global, BreakMaxDegree",
    "DRGM": "Downstream, Regional, Global, BreakMaxDegree",
    "RUmDGM": "Regional, Upstream, BreakMinDegree, Downstream, Global, BreakMaxDegree",
    "DUmRGM": "Downstream, Upstream, BreakMinDegree, Regional, Global, BreakMaxDegree",
    "RGDM": "Regional, Global, Downstream, BreakMaxDegree",
    "Overcast": "ancestors only, no limit on degrees",
    "Overcast+G": "ancestors, then Global, no limit on degrees",
    "RMG integer": "RMG with hop counts for depths",
    "DUmRGM integer": "DUmRGM with hop counts for depths",
    "RG": "Regional, Global, no limit on degrees",
    "RMG at rest": "RMG that never spreads depths again",
    "RDGM corrupted": "RDGM whose caches are filled with random nodes every 30 s",
}

HOUR = 3600.0
BASE: Mapping[str, Any] = {
    "routing": {"name": "flooding"},
    "overlay": {"name": "lstree", **PERIODS},
    "link": {"delay": 0.05, "bandwidth": 0.0},
    "workload": {"publish_rate": 0.0, "subscribers": 0.0},
    "topology": {"name": "full-mesh", "notice": 0.15, "notice_most": 0.2, "joining": 600.0},
    "record": ["traffic", "links", "notes"],
}


def churning(hours: float, nodes: int = 17_125, **more: Any) -> dict[str, Any]:
    """Hours of churn; the last ten minutes are quiet, so that the tree is whole at the end."""
    return {
        "nodes": nodes,
        "duration": hours * HOUR,
        "bin": 600.0,
        "topology": {"churn": {"model": "gnutella", "until": hours * HOUR - 600}, **more},
    }


GNUTELLA = merge(BASE, churning(6))
QUICK_GNUTELLA = churning(2, 2_400)

CRASH = 300.0
CATASTROPHIC = merge(
    BASE,
    {
        "nodes": 10_000,
        "duration": CRASH + 60.0,
        "bin": 1.0,
        "topology": {"joining": 60.0, "catastrophes": [{"at": CRASH, "share": 0.25}]},
    },
)
"""Measured a minute after the crash, before trees that are left apart merge periodically."""
EARLY = "catastrophic-early"
"""Experiment of the other reading: section 10.3.3 does not say when a new root first looks."""


CUTS = [{"start": at, "end": at + 300.0, "share": 0.5} for at in range(1200, 4800, 600)]
CLOSELY = merge(BASE, churning(6, 1_700, partitions=CUTS) | {"record": ["links", "notes"]})
"""A tenth of the trace, cut now and then so that trees merge: seen from within."""


def closely(strategies: str, **more: Any) -> dict[str, Any]:
    """An instance that notes places, requests and searches; trees merge soon, so often."""
    overlay = instance(strategies, early_merge=1.0, **more)["overlay"]
    return {"overlay": {**overlay, "name": "lstree-observed"}}


OBSERVED: Mapping[str, Mapping[str, Any]] = {name: closely(name) for name in FIVE}


def chosen(*names: str) -> dict[str, Mapping[str, Any]]:
    """Some instances by name."""
    return {name: INSTANCES[name] for name in names}


def regional(probability: float) -> Mapping[str, Any]:
    """RMG without limits on degrees, whose Regional step prefers ancestors or siblings."""
    return instance("RG", max_degree=0, ancestor_probability=probability)


# Ten runs each, as the thesis has them; of sixty hours, which take half a minute each, six.
_ten = partial(Experiment, seeds=10, quick_seeds=2)

EXPERIMENTS = (
    _ten(
        "gnutella",
        "Six hours of churn",
        GNUTELLA,
        chosen(*FIVE, "RGDM", "Overcast+G"),
        quick=QUICK_GNUTELLA,
    ),
    Experiment(
        "sixty-hours",
        "Sixty hours of churn",
        merge(BASE, churning(60)),
        chosen("RMG", "Overcast", "RMG integer", "DUmRGM integer"),
        seeds=6,
        quick_seeds=2,
        quick=QUICK_GNUTELLA,
    ),
    _ten(
        "catastrophic",
        "A quarter of 10,000 nodes crash at once",
        CATASTROPHIC,
        chosen(*FIVE, "Overcast+G"),
        quick={"nodes": 1_000},
    ),
    _ten(
        EARLY,
        "The same, with roots that look for other trees a second after they became root",
        CATASTROPHIC,
        {
            name: merge(variant, {"overlay": {"early_merge": 1.0}})
            for name, variant in chosen(*FIVE, "Overcast+G").items()
        },
        quick={"nodes": 1_000},
    ),
    _ten(
        "shape",
        "Ancestors or siblings",
        merge(BASE, churning(12, 2_400)),
        {"p = 0": regional(0.0), "p = 0.5": regional(0.5), "p = 1": regional(1.0)},
        quick=QUICK_GNUTELLA,
    ),
    Experiment(
        "isolated",
        "Failures and joins one at a time",
        merge(
            BASE,
            {
                "nodes": 120,
                "duration": 2000.0,
                "topology": {"joining": 240.0, "crash_rate": 0.05, "window": [300.0, 1400.0]},
            },
        ),
        chosen(*FIVE),
        seeds=10,
        quick_seeds=3,
    ),
    _ten(
        "two-trees",
        "A network that was cut for ten minutes",
        merge(
            BASE,
            {
                "nodes": 400,
                "duration": 3000.0,
                "topology": {
                    "joining": 60.0,
                    "partitions": [{"start": 200.0, "end": 800.0, "share": 0.5}],
                },
            },
        ),
        chosen(*FIVE),
    ),
    Experiment(
        "closely",
        "Colours, depths and caches under churn",
        CLOSELY,
        {
            **OBSERVED,
            "RMG integer": closely("RMG", depth="integer"),
            "RG": closely("RG", max_degree=0),
            "RMG at rest": {**closely("RMG", recolour=1e9), "topology": {"partitions": []}},
            "RDGM corrupted": closely("RDGM", corrupt=30.0),
        },
        seeds=3,
        quick_seeds=1,
        quick=churning(2, 900),
    ),
    Experiment(
        "closely-catastrophic",
        "Colours and depths when a quarter of 1,000 nodes crash at once",
        merge(CATASTROPHIC, {"nodes": 1_000, "record": ["links", "notes"]}),
        OBSERVED,
        seeds=5,
        quick_seeds=1,
        quick={"nodes": 300},
    ),
)
