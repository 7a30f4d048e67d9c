"""Frey 2006, chapter 16: routing on WiTree, among radios that move.

The text leaves things open. It has no default for the publish rate: 50 events a second fit the
sweep, 20 fit several statements better. It has a carrier sense threshold and a receiving threshold,
with "standard values": by the standard a radio that receives a frame also takes the channel for
busy and none beyond does, in ns-2 carrier is sensed from 13.7 dB below that on. And how one-hop
broadcasts fare depends on the radio; with acknowledged unicasts the figures are others. So there
are six *readings*: every claim is judged in the text's, the first, and shown in all of them.

Where no paper has been, the same stacks run on recorded movement and measured links: name the files
in the environment variables ``SHOAL_POSITIONS`` (positions, as of aircraft: 16 of them must stay
for three minutes from second 3,600 on) and ``SHOAL_MESH`` (a community mesh of 100 nodes or more).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from shoal.experiments import frey_p2p
from shoal.experiments.frey_scenarios import THESIS
from shoal.pipeline.judge.claims import load_claims, read_yaml
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Figure, Paper, load_experiments, load_figures, load_labels
from shoal.pipeline.plan.experiment import Experiment, merge

CHAPTER = (*frey_p2p.ALL, "FLOOD")
"""Variants that the chapter compares."""


class Reading(NamedTuple):
    """One way to read what the text leaves open."""

    suffix: str
    """Of the names of experiments and figures; none in the text's reading."""
    words: str
    changes: Mapping[str, Any]


_FILE = Path(__file__).with_name("frey_manet.experiments.yaml")
READINGS = tuple(Reading(**reading) for reading in read_yaml(_FILE)["readings"])
"""The text's reading comes first."""
READ = ("manet", "manet-nodes", "manet-speed", "manet-load")
"""Experiments that differ between readings."""


def _experiment(experiment: Experiment, reading: Reading) -> Experiment:
    """An experiment of the chapter in one reading; in all but the text's, in the full tier only."""
    read = replace(experiment, title=f"{experiment.title} ({reading.words})")
    if not reading.suffix:
        return read
    variants = {label: v for label, v in experiment.variants.items() if label in CHAPTER}
    return replace(
        read,
        name=experiment.name + reading.suffix,
        base=merge(experiment.base, reading.changes),
        variants=variants,
        quick_values=(),
    )


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


def _place(reading: Reading) -> Place:
    """Where a reading has its runs."""
    return lambda experiment, variant: (
        experiment + reading.suffix if experiment in READ else experiment,
        variant,
    )


LISTED = load_experiments(_FILE)
"""The scenarios of the text, and those on recorded data, by name."""
_P2P = frey_p2p.P2P["p2p"]
LSTREE = replace(
    _P2P,
    name="lstree",
    title="LSTree, for comparison (chapter 15, with shorter sessions)",
    base=merge(_P2P.base, _P2P.quick, {"record": ["traffic", "links", "repairs", "notes"]}),
    quick={},
    quick_values=(),
    seeds=30,
)
RANDOM = replace(frey_p2p.CHAPTER_7, values=(50, 100, 200), quick_values=(), seeds=10)
EXPERIMENTS = (
    *(_experiment(LISTED[name], reading) for reading in READINGS for name in READ),
    *(experiment for name, experiment in LISTED.items() if name not in READ),
    *(LSTREE, RANDOM),
)
_NAMES = {experiment.name for experiment in EXPERIMENTS}
_FIGURES = load_figures(Path(__file__).with_name("frey_manet.figures.yaml"))

PAPER = Paper(
    name="frey-manet",
    title="Publish/subscribe on the air: routing on a tree of radios that move",
    citation=f"{THESIS} Chapter 16.",
    experiments=EXPERIMENTS,
    claims=tuple(
        with_readings(claim, {reading.words: _place(reading) for reading in READINGS})
        for claim in load_claims(Path(__file__).with_name("frey_manet.claims.yaml"))
    ),
    figures=(
        *(_figure(figure, reading) for reading in READINGS for figure in _FIGURES if figure.claims),
        *(f for f in _FIGURES if not f.claims and {p.experiment for p in f.panels} <= _NAMES),
    ),
    variants=load_labels(_FILE),
)
