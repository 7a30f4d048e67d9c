"""Frey 2006, chapter 16: routing on WiTree, among radios that move.

Two things are not in the text. The default publish rate: 50 events a second fit the sweep, 20 fit
several statements better. And how the one-hop broadcasts of events fare depends on the radio; with
acknowledged unicasts the figures are others. So there are four *readings*: every claim is judged in
the text's (50 events a second, broadcast), and shown in all of them.

Where no paper has been, the same stacks run on recorded movement and measured links: name the files
in the environment variables ``SHOAL_POSITIONS`` (positions, as of aircraft: 16 of them must stay
for three minutes from second 3,600 on) and ``SHOAL_MESH`` (a community mesh of 100 nodes or more).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from shoal.experiments import frey_p2p
from shoal.experiments.adaptive import MESH, POSITIONS, recorded_files
from shoal.experiments.frey_scenarios import THESIS
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Figure, Panel, Paper, load_figures
from shoal.pipeline.plan.experiment import Experiment, merge

# Section 16.1

_TIMED = {"unsubscription_timer": 2.0}
_INFORMED = {**_TIMED, "subscription_timer": 2.0, "routed": True}
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "SM": {"reconfiguration": {"name": "strawman"}},
    "TDU": {"reconfiguration": {"name": "timed", **_TIMED}},
    "ILA": {"reconfiguration": {"name": "informed-asymmetric", **_INFORMED}},
    "FLOOD": {
        "topology": {"event_transport": "broadcast"},
        "overlay": None,
        "routing": {"name": "air-flooding"},
        "reconfiguration": None,
    },
}
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "TDU-MAODV": merge(PROTOCOLS["TDU"], {"overlay": {"name": "maodv"}}),
    "SPR": {
        "overlay": {"name": "beacons"},
        "routing": {"name": "broadcast", "threshold": 0.5, "jitter": 0.01},
        "reconfiguration": None,
    },
}
"""What the thesis does not compare."""
COMPARED = ("TDU", *BESIDE, "FLOOD")
LABELS: Mapping[str, str] = {
    **{label: frey_p2p.LABELS[label] for label in frey_p2p.ALL},
    "FLOOD": "Flooding by broadcast, without structure",
    "TDU-MAODV": "Timed Deferred Unsubscription on MAODV",
    "SPR": "Semi-probabilistic routing by broadcast (horizon 1, threshold 0.5)",
}
TREE, ALL = frey_p2p.ALL, (*frey_p2p.ALL, "FLOOD")

SETUP, END = 200.0, 400.0
M_DEFAULT: Mapping[str, Any] = {
    "nodes": 50,
    "duration": END,
    "bin": 1.0,
    "topology": {
        "name": "air",
        "range": 200.0,
        "speed": 1.0,
        "pause": 5.0,
        "event_bytes": 50,  # section 16.2.2: 30 bytes and headers
        "largest_frame": 4096,  # the text has no limit; an ACTIVATE may name all 96 patterns
    },
    "overlay": {"name": "witree"},
    "workload": {
        "patterns": 96,
        "patterns_per_subscriber": 7,
        "patterns_per_event": 9,
        "subscribers": 0.2,
        "system_rate": 50.0,
        "publish_window": [SETUP, END],
    },
    "record": ["traffic", "links", "repairs", "publications"],
    # Nodes are still moving when the run ends: a table may be wrong then.
    "invariants": False,
}
QUICK: Mapping[str, Any] = {"duration": 50.0, "workload": {"publish_window": [30.0, 50.0]}}
CLOSE = {"record": ["traffic", "links", "repairs", "publications", "notes", "air"]}


class Reading(NamedTuple):
    """One way to read what the text leaves open."""

    suffix: str
    """Of the names of experiments and figures."""
    words: str
    changes: Mapping[str, Any]
    seeds: int


UNICAST = {"topology": {"event_transport": "unicast"}}
SLOWER = {"workload": {"system_rate": 20.0}}
READINGS = (
    Reading("", "50 events a second, broadcast", {}, 5),
    Reading("-20", "20 events a second, broadcast", SLOWER, 3),
    Reading("-unicast", "50 events a second, acknowledged unicasts", UNICAST, 3),
    Reading("-unicast-20", "20 events a second, acknowledged unicasts", merge(UNICAST, SLOWER), 3),
)
SIZES, SPEEDS, LOADS = (
    (10, 20, 30, 50, 75, 100),
    (0.2, 0.6, 1.0, 1.4, 1.8, 2.0),
    (1.0, 10.0, 50.0, 100.0, 200.0, 300.0),
)


def _experiments(reading: Reading) -> tuple[Experiment, ...]:
    """The scenarios of chapter 16, in one reading."""
    suffix, seeds, text = reading.suffix, reading.seeds, reading.suffix == ""
    base = merge(M_DEFAULT, reading.changes)
    few: dict[str, Any] = {"seeds": seeds, "quick_seeds": 2 if text else 1, "quick": QUICK}
    words = f" ({reading.words})"

    def sweep(name: str, title: str, axis: str, values: Any, quick: Any, label: str) -> Experiment:
        return Experiment(
            f"{name}{suffix}",
            title + words,
            base,
            {**PROTOCOLS, **(BESIDE if text and name == "manet-load" else {})},
            **few,
        ).along(axis, values, quick if text else (), label)

    return (
        Experiment(
            f"manet{suffix}",
            "The reference scenario, looked at closely" + words,
            merge(base, CLOSE),
            {label: PROTOCOLS[label] for label in frey_p2p.ALL},
            quick_values=None if text else (),
            **few,
        ),
        sweep("manet-nodes", "Number of nodes", "nodes", SIZES, (20, 50), "nodes"),
        sweep("manet-speed", "Speed", "topology.speed", SPEEDS, (0.2, 2.0), "metres per second"),
        sweep(
            "manet-load",
            "Event load",
            "workload.system_rate",
            LOADS,
            (1.0, 50.0, 200.0),
            "events per second",
        ),
    )


DENSITY = Experiment(
    "manet-density",
    "Density of subscribers",
    M_DEFAULT,
    {"SM": PROTOCOLS["SM"]},
    seeds=5,
    quick_seeds=2,
    quick=QUICK,
).along("workload.subscribers", (0.05, 0.2, 1.0), (0.05, 0.2, 1.0), "share of subscribers")
_P2P = frey_p2p.P2P["p2p"]
LSTREE = Experiment(
    "lstree",
    "LSTree, for comparison (chapter 15, with shorter sessions)",
    merge(merge(_P2P.base, _P2P.quick), {"record": ["traffic", "links", "repairs", "notes"]}),
    _P2P.variants,
    seeds=3,
    quick_values=(),
)
RANDOM = Experiment(
    "scale", frey_p2p.CHAPTER_7.title, frey_p2p.CHAPTER_7.base, frey_p2p.CHAPTER_7.variants, seeds=5
).along("nodes", (50, 100, 200), (), "dispatchers N")


def _recorded(name: str, title: str, nodes: int, topology: Mapping[str, Any]) -> Experiment:
    """All stacks on recorded data, with few and many events."""
    window = {"publish_window": [60.0, 180.0]}
    # The medium's parameters are the same; where nodes are is not.
    base = {**M_DEFAULT, "nodes": nodes, "duration": 180.0, "topology": topology}
    return Experiment(
        name,
        title,
        merge(base, {"workload": window}),
        {**PROTOCOLS, **BESIDE},
        seeds=3,
        quick_seeds=1,
    ).along("workload.system_rate", (1.0, 5.0, 20.0, 50.0), (5.0,), "events per second")


AIRCRAFT = [
    _recorded(
        "aircraft",
        "Recorded aircraft, radios reaching 100 km",
        16,
        {
            "name": "air-tracks",
            "path": path,
            "range": 100e3,
            "event_bytes": 50,
            "start": 3600.0,
            "stay": 180.0,
            "step": 1.0,
        },
    )
    for path in recorded_files(POSITIONS)[:1]
]
MESHES = [
    _recorded(
        "mesh",
        "A community mesh, frames lost as was measured",
        100,
        {"name": "air-mesh", "path": path, "event_bytes": 50},
    )
    for path in recorded_files(MESH)[:1]
]
CLAIMS = Path(__file__).with_name("frey_manet.claims.yaml")
SHARED = ("manet-density", "lstree", "scale")
"""Experiments that are the same in every reading."""


def _place(reading: Reading) -> Place:
    """Where a reading has its runs."""
    return lambda experiment, variant: (
        experiment if experiment in SHARED else experiment + reading.suffix,
        variant,
    )


DELIVERY, SENT = "share delivered", "messages in 200 s"


FIGURES = load_figures(Path(__file__).with_name("frey_manet.figures.yaml"))


def _figure(figure: Figure, reading: Reading) -> Figure:
    """A figure of the chapter in one reading."""
    return structs.replace(
        figure,
        name=figure.name + reading.suffix,
        title=f"{figure.title} ({reading.words})",
        panels=tuple(
            structs.replace(panel, experiment=panel.experiment + reading.suffix)
            for panel in figure.panels
        ),
    )


PAPER = Paper(
    name="frey-manet",
    title="Publish/subscribe on the air: routing on a tree of radios that move",
    citation=f"{THESIS} Chapter 16.",
    experiments=(
        *(experiment for reading in READINGS for experiment in _experiments(reading)),
        *(DENSITY, LSTREE, RANDOM, *AIRCRAFT, *MESHES),
    ),
    claims=tuple(
        with_readings(claim, {reading.words: _place(reading) for reading in READINGS})
        for claim in load_claims(CLAIMS)
    ),
    figures=(
        *(_figure(figure, reading) for reading in READINGS for figure in FIGURES),
        Figure(
            "beside",
            "MAODV, and routing without a tree",
            (
                Panel("manet-load", "delivery", DELIVERY, COMPARED, x_scale="log"),
                Panel("manet-load", "transmissions", SENT, COMPARED, x_scale="log"),
            ),
            "Nothing: it compares with flooding alone.",
            (),
        ),
        *(
            Figure(
                experiment.name,
                experiment.title,
                (
                    Panel(experiment.name, "delivery", DELIVERY, y_range=(0.0, 1.0)),
                    Panel(experiment.name, "transmissions", "messages in 120 s"),
                ),
                "Nothing: no paper has run these protocols there.",
                (),
            )
            for experiment in (*AIRCRAFT, *MESHES)
        ),
    ),
    variants=LABELS,
)
