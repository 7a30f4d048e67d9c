"""Anceaume et al. 2006: DPS, a semantic overlay. Table 1, figure 3, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.dps_scenarios import EXPERIMENTS, FILE
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Paper, load_figures, load_labels

PAPER = Paper(
    name="dps",
    title="DPS: subscribers that organise themselves by what they want",
    citation=(
        "Emmanuelle Anceaume, Ajoy K. Datta, Maria Gradinariu, Gwendal Simon, Antonino Virgillito: "
        "A Semantic Overlay for Self-* Peer-to-Peer Publish/Subscribe. "
        "26th International Conference on Distributed Computing Systems, 2006."
    ),
    experiments=tuple(EXPERIMENTS.values()),
    claims=load_claims(Path(__file__).with_name("dps.claims.yaml")),
    figures=load_figures(Path(__file__).with_name("dps.figures.yaml")),
    variants=load_labels(FILE),
)
