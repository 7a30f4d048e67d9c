"""Frey 2006, parts I and II: routing that survives change. Figures 7.1 to 7.18, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.frey_scenarios import EXPERIMENTS, FILE, THESIS
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Paper, load_figures, load_labels

PAPER = Paper(
    name="frey-routing",
    title="Publish/subscribe on dynamic trees: five ways to keep routes right",
    citation=f"{THESIS} Parts I and II.",
    experiments=tuple(EXPERIMENTS.values()),
    claims=load_claims(Path(__file__).with_name("frey_routing.claims.yaml")),
    figures=load_figures(Path(__file__).with_name("frey_routing.figures.yaml")),
    variants=load_labels(FILE),
)
