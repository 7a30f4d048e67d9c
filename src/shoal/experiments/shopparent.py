"""Huang and Garcia-Molina 2003: ShopParent. Tables 1 and 2, figures 6 to 10, section 5.6."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Paper, load_experiments, load_figures, load_labels

MERGES: Mapping[str, str] = {"hull": "", "union": " ∪"}
"""Readings of how interests add up, each with the end of its variants' labels."""
_FILE = Path(__file__).with_name("shopparent.experiments.yaml")
STATIC = load_experiments(_FILE)
DYNAMIC = load_experiments(Path(__file__).with_name("shopparent_dynamics.experiments.yaml"))
EXPERIMENTS = (*STATIC.values(), *DYNAMIC.values())
_VARIANTS = {experiment.name: experiment.variants for experiment in EXPERIMENTS}


def _reading(merge: str, error: str | None = None) -> Place:
    """Where a reading of merged interests, and of the error, has its runs."""

    def place(experiment: str, variant: str) -> tuple[str, str]:
        where, label = experiment.removesuffix("-hull"), variant.removesuffix(MERGES["union"])
        if merge == MERGES["hull"] and f"{where}-hull" in _VARIANTS:
            where += "-hull"
        if error is not None and label.startswith("COMBOerr"):
            label = f"COMBOerr{error}"
        label += merge
        return (where, label) if label in _VARIANTS[where] else (experiment, variant)

    return place


def _readings(claim: Claim) -> Claim:
    """A claim under both readings of merged interests; if about errors, under both of these."""
    named = {variant for check in claim.checks for _, variant in check.places()}
    if any(variant.startswith("COMBOerr") for variant in named):
        terms = (("two errors", ""), ("one error", " shared"))
        return with_readings(
            claim,
            {
                f"{how}, {words}": _reading(merge, error)
                for how, merge in MERGES.items()
                for words, error in terms
            },
        )
    return with_readings(claim, {how: _reading(merge) for how, merge in MERGES.items()})


PAPER = Paper(
    name="shopparent",
    title="ShopParent: every node shops for the parent that costs least",
    citation=(
        "Yongqiang Huang, Hector Garcia-Molina: Publish/Subscribe Tree Construction in Wireless "
        "Ad-Hoc Networks. 4th International Conference on Mobile Data Management, 2003."
    ),
    experiments=EXPERIMENTS,
    claims=tuple(map(_readings, load_claims(Path(__file__).with_name("shopparent.claims.yaml")))),
    figures=load_figures(Path(__file__).with_name("shopparent.figures.yaml")),
    variants=load_labels(_FILE),
)
