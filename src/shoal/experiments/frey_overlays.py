"""Frey 2006, part III: LSTree, what it is compared with, and DHTree. Figures 10.3 to 11.5."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.frey_scenarios import THESIS
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import with_readings
from shoal.pipeline.paper import Paper, load_experiments, load_figures, load_labels

_FILE = Path(__file__).with_name("frey_overlays.experiments.yaml")
LSTREE = load_experiments(_FILE)
DHTREE = load_experiments(Path(__file__).with_name("frey_dhtree.experiments.yaml"))
DHTREE_CLAIMS = load_claims(Path(__file__).with_name("frey_dhtree.claims.yaml"))


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
    variants=load_labels(_FILE),
)
