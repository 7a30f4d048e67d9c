"""Frey 2006, part III: LSTree, what it is compared with, and DHTree. Figures 10.3 to 11.5."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments import frey_dhtree_scenarios as dhtree
from shoal.experiments.frey_overlays_scenarios import EARLY, EXPERIMENTS, FIVE, LABELS
from shoal.experiments.frey_scenarios import THESIS
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import with_readings
from shoal.pipeline.paper import Figure, Panel, Paper

WITH_OVERCAST = (*FIVE, "Overcast+G")


def _shares(experiment: str, title: str) -> Panel:
    return Panel(
        experiment, "strategy_share", "repairs by Regional", FIVE, {"strategy": "R"}, title=title
    )


def _traffic(experiment: str, variants: tuple[str, ...], title: str) -> Panel:
    measure, label = "traffic_per_node_over_time", "messages per node and second"
    return Panel(experiment, measure, label, variants, x_label="time (s)", title=title)


FIGURES = (
    Figure(
        "10.3",
        "Which strategy repairs",
        (_shares("gnutella", "Gnutella"), _shares("catastrophic", "Catastrophic")),
        "Regional data repair most failures, under churn and after a catastrophe; Global ones are "
        "needed almost never under churn.",
        ("T10.4-b", "T10.4-c", "T10.4-d", "T10.4-j", "T10.4-s"),
    ),
    Figure(
        "10.4",
        "Degrees at the end",
        (
            Panel("gnutella", "top_degree", "largest degree", WITH_OVERCAST, title="Gnutella"),
            Panel(
                "catastrophic", "top_degree", "largest degree", WITH_OVERCAST, title="Catastrophic"
            ),
        ),
        "Instances with Downstream and a late BreakMaxDegree never exceed the limit of 5 under "
        "churn; RMG reaches 20, Overcast hundreds.",
        (
            *("T10.4-l", "T10.4-m", "T10.4-n", "T10.4-o", "T10.4-p", "T10.4-q", "T10.4-r"),
            *("T10.4-t", "T10.4-u", "T10.4-v"),
        ),
    ),
    Figure(
        "10.5",
        "Locality and delay of repairs",
        (
            Panel("gnutella", "share_of_small_areas", "repairs among neighbours (share)", FIVE),
            Panel("gnutella", "repair_delay", "delay of 95% of repairs (s)", FIVE),
        ),
        "Most instances repair among the neighbours of the node that failed in over 85% of all "
        "cases, and 95% of the repairs take less than a second.",
        (
            *("T10.5-a", "T10.5-b", "T10.5-c", "T10.5-d", "T10.5-f", "T10.5-h", "T10.5-i"),
            *("T10.5-j", "T10.5-k", "T10.5-m"),
        ),
    ),
    Figure(
        "10.6",
        "What maintenance costs",
        (
            _traffic("gnutella", FIVE, "Gnutella"),
            _traffic("catastrophic", ("RMG",), "Catastrophic"),
        ),
        "Maintenance stays below a tenth of a message per node and second under churn. After a "
        "catastrophe traffic rises for some seconds to less than five.",
        ("T10.6-a", "T10.6-b", "T10.6-c", "T10.6-d"),
    ),
    Figure(
        "10.7",
        "Ancestors or siblings",
        (
            Panel("shape", "top_degree", "largest degree"),
            Panel("shape", "overlay_diameter", "diameter (links)"),
        ),
        "Only ancestors tend to a star, only siblings to a line; the mix lies between.",
        ("T10.3-b",),
    ),
)


def _stated(experiment: str, variant: str) -> tuple[str, str]:
    """New roots look for other trees periodically, no sooner."""
    return experiment, variant


def _early(experiment: str, variant: str) -> tuple[str, str]:
    """They also look a second after they became root."""
    return EARLY if experiment == "catastrophic" else experiment, variant


def _readings(claim: Claim) -> Claim:
    """A claim on the catastrophe in both readings of when roots look for other trees."""
    if "catastrophic" not in claim.experiments():
        return claim
    return with_readings(claim, {"roots look periodically": _stated, "also early": _early})


PAPER = Paper(
    name="frey-overlays",
    title="Trees that build and heal themselves",
    citation=f"{THESIS} Part III, chapters 9 to 12.",
    experiments=(*EXPERIMENTS, *dhtree.PLACES, *dhtree.PROTOCOL),
    claims=(
        *map(_readings, load_claims(Path(__file__).with_name("frey_overlays.claims.yaml"))),
        *dhtree.CLAIMS,
    ),
    figures=FIGURES,
    variants={**LABELS, **dhtree.LABELS},
)
