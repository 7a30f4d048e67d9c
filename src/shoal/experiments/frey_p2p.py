"""Frey 2006, chapters 14 and 15: routing on trees that build themselves, among peers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shoal.experiments.frey_scenarios import EXPERIMENTS, THESIS
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Paper, load_experiments, load_figures, load_labels

ALL = ("SM", "TDU", "ILA")

_FILE = Path(__file__).with_name("frey_p2p.experiments.yaml")
P2P = load_experiments(_FILE)
"""Experiments by name."""

_SCALE = EXPERIMENTS["scale"]
CHAPTER_7 = replace(
    _SCALE,
    title="System scale, links replaced at random (chapter 7)",
    variants={label: _SCALE.variants[label] for label in ALL},
    quick_values=(100, 200),
    seeds=10,
    quick_seeds=2,
)


PAPER = Paper(
    name="frey-p2p",
    title="Publish/subscribe in peer-to-peer networks: routing on a tree that repairs itself",
    citation=f"{THESIS} Chapters 12, 14 and 15.",
    experiments=(*P2P.values(), CHAPTER_7),
    claims=load_claims(Path(__file__).with_name("frey_p2p.claims.yaml")),
    figures=load_figures(Path(__file__).with_name("frey_p2p.figures.yaml")),
    variants=load_labels(_FILE),
)
