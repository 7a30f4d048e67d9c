"""Frey 2006, part III: LSTree, what it is compared with, and DHTree. Figures 10.3 to 11.5."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.frey_scenarios import THESIS
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import with_readings
from shoal.pipeline.paper import Paper, load_experiments, load_figures

LSTREE = load_experiments(Path(__file__).with_name("frey_overlays.experiments.yaml"))
DHTREE = load_experiments(Path(__file__).with_name("frey_dhtree.experiments.yaml"))
DHTREE_CLAIMS = load_claims(Path(__file__).with_name("frey_dhtree.claims.yaml"))
LABELS = {
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
    "DHTree": "DHTree, Timed Deferred Unsubscription",
}


def _stated(experiment: str, variant: str) -> tuple[str, str]:
    """New roots look for other trees periodically, no sooner."""
    return experiment, variant


def _early(experiment: str, variant: str) -> tuple[str, str]:
    """They also look a second after they became root."""
    return "catastrophic-early" if experiment == "catastrophic" else experiment, variant


def _readings(claim: Claim) -> Claim:
    """A claim on the catastrophe in both readings of when roots look for other trees."""
    if "catastrophic" not in claim.experiments():
        return claim
    return with_readings(claim, {"roots look periodically": _stated, "also early": _early})


PAPER = Paper(
    name="frey-overlays",
    title="Trees that build and heal themselves",
    citation=f"{THESIS} Part III, chapters 9 to 12.",
    experiments=(*LSTREE.values(), *DHTREE.values()),
    claims=(
        *map(_readings, load_claims(Path(__file__).with_name("frey_overlays.claims.yaml"))),
        *DHTREE_CLAIMS,
    ),
    figures=load_figures(Path(__file__).with_name("frey_overlays.figures.yaml")),
    variants=LABELS,
)
