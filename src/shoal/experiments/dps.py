"""Anceaume et al. 2006: DPS, a semantic overlay. Table 1, figure 3, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.dps_scenarios import EXPERIMENTS, FILE
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Paper, load_figures, load_labels


def _place(suffix: str) -> Place:
    """Where a reading of workload 2 has its runs of figures 3(c) to 3(g)."""
    return lambda experiment, variant: (
        experiment + suffix if experiment in ("growth", "load") else experiment,
        variant,
    )


READINGS = {"500 values": _place(""), "eight values": _place("-zones")}
"""What the paper leaves open of workload 2 decides figures 3(c) to 3(g)."""


def _read(claim: Claim) -> Claim:
    """A claim on these figures in both readings; any other as it is."""
    asked = {check.experiment for check in claim.checks}
    return with_readings(claim, READINGS) if asked & {"growth", "load"} else claim


PAPER = Paper(
    name="dps",
    title="DPS: subscribers that organise themselves by what they want",
    citation=(
        "Emmanuelle Anceaume, Ajoy K. Datta, Maria Gradinariu, Gwendal Simon, Antonino Virgillito: "
        "A Semantic Overlay for Self-* Peer-to-Peer Publish/Subscribe. "
        "26th International Conference on Distributed Computing Systems, 2006."
    ),
    experiments=tuple(EXPERIMENTS.values()),
    claims=tuple(map(_read, load_claims(Path(__file__).with_name("dps.claims.yaml")))),
    figures=load_figures(Path(__file__).with_name("dps.figures.yaml")),
    variants=load_labels(FILE),
)
