"""Huang and Garcia-Molina 2003: ShopParent. Tables 1 and 2, figures 6 to 10, section 5.6."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments import shopparent_scenarios as scenarios
from shoal.experiments.shopparent_dynamics import DYNAMICS
from shoal.experiments.shopparent_examples import EXAMPLES, INVARIANTS
from shoal.experiments.shopparent_scenarios import AWARE, HULL, METRICS, SHARED, UNION
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Figure, Panel, Paper

MERGES = (("hull", HULL), ("union", UNION))
"""Readings of how interests add up, each with the end of its variants' labels."""
OVERHEAD = {"what": "tree overhead"}
TOTAL, RATIO = "total overhead O", "overhead relative to SP-COMBO"


def _total(experiment: str, suffix: str, title: str) -> Panel:
    """Overheads of the four algorithms."""
    chosen = tuple(f"{metric}{suffix}" for metric in METRICS)
    return Panel(experiment, "mean_note", TOTAL, chosen, OVERHEAD, title=title)


def _ratio(experiment: str, suffix: str, title: str, metrics: tuple[str, ...] = AWARE) -> Panel:
    """Overheads relative to SP-COMBO."""
    chosen = tuple(f"{metric}{suffix}" for metric in metrics)
    return Panel(
        experiment,
        "mean_note",
        RATIO,
        chosen,
        OVERHEAD,
        relative_to=f"COMBO{suffix}",
        as_="ratio",
        y_from_zero=False,
        title=title,
    )


def _both(experiment: str, metrics: tuple[str, ...] = AWARE) -> tuple[Panel, Panel]:
    """The same under both readings of merged interests."""
    return (
        _ratio(experiment, "", "one interval per node", metrics),
        _ratio(experiment, UNION, "unions", metrics),
    )


FIGURES = (
    Figure(
        "6",
        "Overhead and interval length",
        (_total("length", "", "one interval per node"), _total("length", UNION, "unions")),
        "Overhead grows with interests. RANDOM is far worse than the others; SP-COMBO is the best, "
        "and its advantage grows.",
        (
            *("P-O-LRISE", "P-O-RANDOM", "P-O-NHOPWORST", "P-O-COMBOBEST", "P-O-AMPLIFY"),
            *("P-O-OVHDCLOSE", "P-O-RSMALL", "P-O-RSHAPE", "P-Q-OVERLAP1", "P-Q-OVERLAP50"),
        ),
    ),
    Figure(
        "7",
        "The variants and the radio range",
        _both("range"),
        "SP-NHOP costs about 30% more than SP-COMBO at R = 80. The gap widens with the range, then "
        "narrows as the graph becomes complete.",
        (
            *("P-Q-NHOP30", "P-Q-NHOP23-R0", "P-O-FIG7ORDER", "P-O-FIG7HUMP", "P-O-FULLGRAPH"),
            *("P-Q-DEG60", "P-Q-DEG140"),
        ),
    ),
    Figure(
        "8",
        "SP-COMBO and the optimum",
        tuple(
            Panel(
                experiment,
                "mean_note",
                "overhead relative to OPT",
                chosen,
                {"what": "times optimum"},
                y_from_zero=False,
                title=title,
            )
            for experiment, chosen, title in (
                ("optimal-9", ("COMBO", "COMBO ∪"), "9 nodes"),
                ("optimal-15", ("COMBO", "COMBO ∪"), "15 nodes"),
                ("optimal-30", ("COMBO ∪",), "30 nodes, unions"),
                ("optimal-30-hull", ("COMBO",), "30 nodes, one interval per node"),
            )
        ),
        "SP-COMBO comes close to the optimum, within 8% in many cases and 15% in all.",
        ("P-Q-OPT8", "P-Q-OPT15", "P-O-LARGER", "P-INV-OPT", "P-EXIST-SUBOPT"),
    ),
    Figure(
        "9",
        "SP-NHOP over SP-COMBO under other subscriptions",
        tuple(
            _ratio(experiment, "", f"{experiment}, one interval", ("NHOP",))
            for experiment in ("ni-r", "ni-x80", "ni-x40", "ni-x20", "ni-x")
        ),
        "The more subscriptions follow geography, the smaller is the advantage of SP-COMBO.",
        (
            *("P-O-FIG9X", "P-O-FIG9XMOD", "P-O-FIG9LIMIT", "P-O-FIG9TOTAL", "P-O-FIG9BENEFIT"),
            "P-O-SKEW",
        ),
    ),
    Figure(
        "10",
        "Errors in the expected events",
        (*_both("error", ("COMBOerr", f"COMBOerr{SHARED}", "NHOP")),),
        "SP-COMBO bears errors up to 0.4; beyond, hops alone are the better guide.",
        (*("P-Q-ERR0", "P-Q-ERR20", "P-Q-ERRCROSS", "P-Q-ERRBELOW", "P-Q-ERRABOVE"), "P-O-ERRRISE"),
    ),
    Figure(
        "5.6",
        "Time to settle after a move",
        (Panel("timeouts", "settling", "periods to the last change of a parent"),),
        "The time to settle is roughly proportional to the timeout, and grows with the distance "
        "from the root.",
        (
            *("P-D-CONV", "P-D-QUALITY", "P-D-TIMEOUT", "P-D-HOPS", "P-D-LOSS", "P-D-FAIL"),
            *("P-D-EXPIRE", "P-D-SWITCH"),
        ),
    ),
)

LABELS = {
    "RANDOM": "a random parent, one covering interval per node",
    "NHOP": "SP-NHOP: fewest hops to the root",
    "OVHD": "SP-OVHD: least overhead for the parent",
    "COMBO": "SP-COMBO: the product of both",
    "RANDOM ∪": "a random parent, interests as unions",
    "NHOP ∪": "SP-NHOP, interests as unions",
    "OVHD ∪": "SP-OVHD, interests as unions",
    "COMBO ∪": "SP-COMBO, interests as unions",
    "COMBOerr": "SP-COMBO with an error on each of the two overheads",
    "COMBOerr shared": "SP-COMBO with one error for both",
    "COMBOerr ∪": "SP-COMBO with two errors, interests as unions",
    "COMBOerr shared ∪": "SP-COMBO with one error for both, interests as unions",
}

EXPERIMENTS = (*scenarios.FIGURES, *INVARIANTS, *EXAMPLES, *DYNAMICS)
_VARIANTS = {experiment.name: experiment.variants for experiment in EXPERIMENTS}


def _reading(merge: str, error: str | None = None) -> Place:
    """Where a reading of merged interests, and of the error, has its runs."""

    def place(experiment: str, variant: str) -> tuple[str, str]:
        where, label = experiment.removesuffix("-hull"), variant.removesuffix(UNION)
        if merge == HULL and f"{where}-hull" in _VARIANTS:
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
        terms = (("two errors", ""), ("one error", SHARED))
        return with_readings(
            claim,
            {
                f"{how}, {words}": _reading(merge, error)
                for how, merge in MERGES
                for words, error in terms
            },
        )
    return with_readings(claim, {how: _reading(merge) for how, merge in MERGES})


PAPER = Paper(
    name="shopparent",
    title="ShopParent: every node shops for the parent that costs least",
    citation=(
        "Yongqiang Huang, Hector Garcia-Molina: Publish/Subscribe Tree Construction in Wireless "
        "Ad-Hoc Networks. 4th International Conference on Mobile Data Management, 2003."
    ),
    experiments=EXPERIMENTS,
    claims=tuple(map(_readings, load_claims(Path(__file__).with_name("shopparent.claims.yaml")))),
    figures=FIGURES,
    variants=LABELS,
)
