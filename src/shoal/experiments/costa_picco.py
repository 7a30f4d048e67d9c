"""Costa and Picco 2005: semi-probabilistic routing on a graph. Figures 3 to 11, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.costa_scenarios import EXPERIMENTS, FILE
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Paper, load_figures, load_labels

PAPER = Paper(
    name="costa-picco",
    title="Semi-probabilistic routing: nearby subscriptions, and chance beyond",
    citation=(
        "Paolo Costa, Gian Pietro Picco: Semi-probabilistic Content-Based Publish-Subscribe. "
        "25th International Conference on Distributed Computing Systems, 2005."
    ),
    experiments=tuple(EXPERIMENTS.values()),
    claims=load_claims(Path(__file__).with_name("costa_picco.claims.yaml")),
    figures=load_figures(Path(__file__).with_name("costa_picco.figures.yaml")),
    variants=load_labels(FILE),
)
