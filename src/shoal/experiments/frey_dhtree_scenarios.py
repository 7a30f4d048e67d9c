"""The scenarios of Frey's thesis, chapter 11: DHTree, and what its claims say of it.

``PLACES`` is the thesis's abstract model, a hash table that is always settled; ``PROTOCOL`` runs
the protocol on a ring of its own. Claims on both are in ``frey_dhtree.claims.yaml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.plan.experiment import Experiment, single

VARIANT = {
    "DHTree": {"routing": {"name": "subscription-forwarding"}, "reconfiguration": {"name": "timed"}}
}
LABELS = {"DHTree": "DHTree, Timed Deferred Unsubscription"}

EXAMPLE_HOSTS = (5, 9, 11, 13, 15, 4)
"""Keys of the hosts of section 11.2.4; h4, the last, is away at first."""


def _settled(nodes: int, topology: dict[str, Any], duration: float = 1.0) -> dict[str, Any]:
    return {
        "nodes": nodes,
        "duration": duration,
        "topology": {"name": "reference-tree", **topology},
        "workload": {"publish_rate": 0.0, "subscribers": 0.0},
        "record": ["links"],
    }


def _sizes(name: str, title: str, base: dict[str, Any], values: Sequence[int]) -> Experiment:
    return Experiment(name, title, base, VARIANT, seeds=10, quick_seeds=3).along(
        "topology.hosts", tuple(values), label="hosts N"
    )


PLACES = (
    single(
        "dhtree-example",
        "The example of section 11.2.4",
        _settled(
            6,
            {
                "levels": 4,
                "positions": list(EXAMPLE_HOSTS),
                "hosts": 5,
                "changes": [
                    {"at": 10.0, "node": 5, "do": "join"},
                    {"at": 20.0, "node": 3, "do": "leave"},
                ],
            },
            duration=30.0,
        ),
        VARIANT,
    ),
    _sizes(
        "dhtree-binary",
        "Hosts that come and go over 255 keys",
        _settled(240, {"levels": 8, "swaps": 40, "hosts": 100}, duration=45.0),
        (10, 30, 60, 90, 100, 120),
    ),
    single("dhtree-full", "A host at every key", _settled(255, {"levels": 8}), VARIANT),
    Experiment(
        "dhtree-quaternary",
        "Random hosts over 21,845 keys, fan-out 4",
        _settled(10_000, {"fan_out": 4, "levels": 8}),
        VARIANT,
        seeds=5,
        quick_seeds=2,
    ).along("nodes", (10_000, 16_000, 20_000), (10_000, 20_000), "hosts N"),
)

PROTOCOL = (
    Experiment(
        "dhtree-protocol",
        "The protocol on a ring of its own, while nodes come and go",
        {
            "nodes": 120,
            "duration": 300.0,
            "topology": {
                "name": "full-mesh",
                "joining": 20.0,
                "notice": 0.15,
                "notice_most": 0.2,
                "churn": {
                    "model": "lognormal",
                    "up": 0.5,
                    "mean": 300.0,
                    "median": 120.0,
                    "leaving": 0.5,
                    "until": 200.0,
                },
            },
            "overlay": {"name": "dhtree", "levels": 8},
            "link": {"delay": 0.05, "bandwidth": 0.0},
            "workload": {"patterns": 40, "publish_rate": 0.01},
            "record": ["traffic", "links"],
            "bin": 1.0,
        },
        VARIANT,
        seeds=10,
        quick_seeds=3,
    ),
)

CLAIMS = load_claims(Path(__file__).with_name("frey_dhtree.claims.yaml"))
