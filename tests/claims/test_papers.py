"""The claims of Frey's parts I and II, and of Costa and Picco: complete and well formed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from msgspec import structs

from shared_data import shared
from shoal.experiments import (
    costa_picco,
    dps,
    find_paper,
    frey_manet,
    frey_overlays,
    frey_p2p,
    frey_routing,
    shopparent,
)
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.claims import ANY, Check
from shoal.pipeline.judge.samples import within
from shoal.pipeline.measure.compute import questions
from shoal.pipeline.measure.registry import find_measure
from shoal.pipeline.paper import Paper, runnable
from shoal.pipeline.plan.experiment import Experiment, plan
from shoal.pipeline.reproduce import select

FREY, COSTA, DPS = frey_routing.PAPER, costa_picco.PAPER, dps.PAPER
OVERLAYS, P2P, MANET = frey_overlays.PAPER, frey_p2p.PAPER, frey_manet.PAPER
SHOP = shopparent.PAPER
both = pytest.mark.parametrize(
    "paper", [FREY, COSTA, DPS, OVERLAYS, P2P, MANET, SHOP], ids=lambda paper: paper.name
)


def experiments(paper: Paper) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in paper.experiments}


def _of_the_thesis(stated: Any) -> list[str]:
    return [claim["id"] for claim in stated["claims"] if claim["part"] in ("I", "II")]


def _of_the_paper(stated: Any) -> list[str]:
    return [claim["id"] for claim in stated]


@pytest.mark.parametrize(
    ("paper", "file", "ids", "count"),
    [
        (FREY, "thesis.yaml", _of_the_thesis, 117),
        (COSTA, "semiprobabilistic.yaml", _of_the_paper, 63),
        (DPS, "dps.yaml", _of_the_paper, 100),
        (SHOP, "shopparent.yaml", _of_the_paper, 81),
    ],
    ids=["frey-routing", "costa-picco", "dps", "shopparent"],
)
def test_every_statement_is_there(
    paper: Paper, file: str, ids: Callable[[Any], list[str]], count: int
) -> None:
    path = shared(f"claims/{file}")
    if path is None:
        pytest.skip("the list of statements is not here")
    stated = ids(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert sorted(claim.id for claim in paper.claims) == sorted(stated)
    assert len(stated) == count


def test_every_statement_on_trees_that_build_themselves_is_there() -> None:
    """Part III, and chapters 14 and 15 of part IV, in two papers; none is left open."""
    path = shared("claims/thesis.yaml")
    if path is None:
        pytest.skip("the list of statements is not here")
    stated = yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]
    chapters = ("T9", "T10", "T11", "T12", "T14", "T15")
    wanted = [c["id"] for c in stated if c["id"].partition(".")[0].partition("-")[0] in chapters]
    claims = [*OVERLAYS.claims, *P2P.claims]
    assert sorted(claim.id for claim in claims) == sorted(wanted)
    assert len(wanted) == 100
    assert not [claim.id for claim in claims if claim.pending]


def test_every_statement_on_routing_on_the_air_is_there_and_read_in_six_ways() -> None:
    """The list of statements lacks four of the chapter's sentences."""
    path = shared("claims/thesis.yaml")
    if path is None:
        pytest.skip("the list of statements is not here")
    stated = yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]
    wanted = [c["id"] for c in stated if c["id"].startswith("T16.")]
    found = {claim.id for claim in MANET.claims}
    assert found - set(wanted) == {"T16.2-c", "T16.2-j", "T16.2-n", "T16.3-j"}
    assert found >= set(wanted)
    assert len(wanted) == 25
    text, *others = (reading.words for reading in frey_manet.READINGS)
    assert len(others) == 5
    for claim in MANET.claims:
        if not claim.experiments() & set(frey_manet.READ):
            assert (claim.readings, claim.others) == ((ANY,), ())
        else:
            assert claim.readings == (text,)
            assert [other.name for other in claim.others] == others


@both
def test_claims_name_experiments_and_variants_that_exist(paper: Paper) -> None:
    for claim in paper.claims:
        for check in claim.every_check():
            for experiment, variant in check.places():
                assert variant in experiments(paper)[experiment].variants, claim.id


@both
def test_claims_and_figures_name_measures_that_exist(paper: Paper) -> None:
    for question in questions(paper.claims, paper.figures):
        find_measure(question.measure).check(question.parameters)


@both
def test_runs_record_what_claims_are_measured_from(paper: Paper) -> None:
    """A claim on a table that no run records would never be judged."""
    recorded: dict[tuple[str, str], set[str]] = {}
    for run in plan(paper.experiments):
        recorded[run.experiment, run.variant] = set(json.loads(run.configuration)["record"])
    for claim in paper.claims:
        for check in claim.every_check():
            for place in {place for place in check.places() if place in recorded}:
                missing = {*find_measure(check.measure).tables} - recorded[place] - {"runs"}
                assert not missing, f"{claim.id}: {place} does not record {missing}"


@both
def test_ranges_of_the_axis_have_points(paper: Paper) -> None:
    """A claim about a point that no run visits would never be judged."""
    for claim in paper.claims:
        for check in claim.every_check():
            for term in check.terms():
                values = experiments(paper)[term.experiment or check.experiment].values
                between = term.x or check.x
                assert between is None or any(within(x, between) for x in values), claim.id


def _places(check: Check) -> Iterator[tuple[str, str]]:
    yield from check.places()
    if check.measure == "gain":  # sets a variant against its namesake with a suffix
        yield from ((experiment, f"{variant} static") for experiment, variant in check.places())
    if check.measure == "informed_advantage":  # sets one variant against two others
        yield from ((experiment, v) for experiment, _ in check.places() for v in ("SM", "TDU"))


@both
def test_everything_that_is_run_is_used(paper: Paper) -> None:
    checks = [check for claim in paper.claims for check in claim.every_check()]
    used = {place for check in checks for place in _places(check)}
    for figure in paper.figures:
        for panel in figure.panels:
            named = panel.variants or tuple(experiments(paper)[panel.experiment].variants)
            used |= {(panel.experiment, variant) for variant in (*named, panel.relative_to or "")}
    run = {(e.name, variant) for e in paper.experiments for variant in e.variants}
    assert run - used == set()


def test_every_statement_on_shopping_is_measured_in_both_readings_of_merged_interests() -> None:
    """Except what is configured or drawn, which none of them changes."""
    drawn = [claim.id for claim in SHOP.claims if claim.readings == (ANY,)]
    assert drawn == ["P-INV-SAMELEN", "P-INV-XCENTER", "P-TAB2"]
    for claim in SHOP.claims:
        if claim.id not in drawn:
            named = " ".join([*claim.readings, *(other.name for other in claim.others)])
            assert "hull" in named, claim.id
            assert "union" in named, claim.id


def test_another_reading_asks_the_same_of_other_runs() -> None:
    nhop30 = next(claim for claim in SHOP.claims if claim.id == "P-Q-NHOP30")
    assert nhop30.readings == ("hull",)
    (other,) = nhop30.others
    (stated,), (read,) = nhop30.checks, other.checks
    assert (read.variants, read.relative_to) == (("NHOP ∪",), "COMBO ∪")
    changes = {"variants": stated.variants, "relative_to": stated.relative_to}
    assert structs.replace(read, **changes) == stated
    bound = next(claim for claim in SHOP.claims if claim.id == "P-Q-OPT15").others[0]
    assert {check.experiment for check in bound.checks} == {
        "optimal-30-hull",
        "optimal-80-hull",
        "optimal-wide-hull",
    }


@both
def test_figures_name_claims_and_experiments_that_exist(paper: Paper) -> None:
    ids = {claim.id for claim in paper.claims}
    for figure in paper.figures:
        assert set(figure.claims) <= ids
        for panel in figure.panels:
            assert set(panel.variants) <= set(experiments(paper)[panel.experiment].variants)


def test_every_figure_is_there() -> None:
    assert [figure.name for figure in FREY.figures] == [f"7.{n}" for n in range(1, 19)]
    assert [figure.name for figure in COSTA.figures] == [f"{n}" for n in range(3, 12)]


def test_every_claim_of_costa_and_picco_stands_beside_its_figure() -> None:
    shown = Counter(claim for figure in COSTA.figures for claim in figure.claims)
    assert shown == Counter(claim.id for claim in COSTA.claims)


@both
@pytest.mark.parametrize("tier", ["quick", "full"])
def test_the_whole_plan_is_valid(paper: Paper, tier: str) -> None:
    able, missing = runnable(paper.experiments, tier)  # type: ignore[arg-type]
    runs = plan(able, tier, seeds=1)  # type: ignore[arg-type]
    assert len(runs) > (300 if paper is FREY else 35)
    assert all("full tier" in reason for reason in missing.values())


@both
def test_quick_values_are_among_the_full_ones(paper: Paper) -> None:
    for experiment in paper.experiments:
        assert set(experiment.quick_values or ()) <= set(experiment.values), experiment.name


@pytest.mark.parametrize(
    ("paper", "claim", "needed", "figure", "wrong", "near"),
    [
        (FREY, "T7.4-c", {"scale", "scale-unbalanced"}, "7.4", "T7.4-x", r"T7\.4"),
        (COSTA, "S-F8-01", {"moving", "ttl"}, "8", "S-F8-09", "S-F8-0"),
    ],
    ids=["frey-routing", "costa-picco"],
)
def test_one_claim_brings_only_what_it_needs(
    paper: Paper, claim: str, needed: set[str], figure: str, wrong: str, near: str
) -> None:
    narrowed = paper.only([claim])
    assert [c.id for c in narrowed.claims] == [claim]
    assert {e.name for e in narrowed.experiments} == needed
    assert [f.name for f in narrowed.figures] == [figure]
    with pytest.raises(PipelineError, match=f"no claim '{wrong}'; did you mean {near}"):
        select([FREY, COSTA], [wrong])


@both
def test_what_is_left_for_one_claim_is_whole(paper: Paper) -> None:
    """Its figure shows only what is run for it."""
    for claim in paper.claims:
        narrowed = paper.only([claim.id])
        run = set(experiments(narrowed))
        assert {panel.experiment for f in narrowed.figures for panel in f.panels} <= run, claim.id


def test_papers_are_found_by_name() -> None:
    assert find_paper("frey-routing") is FREY
    assert find_paper("costa-picco") is COSTA
    with pytest.raises(PipelineError, match="did you mean 'frey-routing'"):
        find_paper("fray-routing")


def test_a_variant_whose_protocol_is_missing_is_left_out() -> None:
    from dataclasses import replace

    quiet = experiments(FREY)["quiet"]
    strange = {"SM": quiet.variants["SM"], "X": {"reconfiguration": {"name": "x"}}}
    able, missing = runnable([replace(quiet, variants=strange)], "quick")
    assert list(able[0].variants) == ["SM"]
    assert "unknown reconfiguration 'x'" in missing["quiet", "X"]
