"""The claims of Frey's parts I and II: complete and well formed."""

from __future__ import annotations

import pytest
import yaml

from shared_data import shared
from shoal.experiments import find_paper
from shoal.experiments.frey_routing import PAPER
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.cases import CASES, find_case
from shoal.pipeline.measure.compute import questions
from shoal.pipeline.measure.registry import find_measure
from shoal.pipeline.paper import runnable
from shoal.pipeline.plan.experiment import plan

EXPERIMENTS = {experiment.name: experiment for experiment in PAPER.experiments}


def test_every_statement_of_parts_one_and_two_is_there() -> None:
    path = shared("claims/thesis.yaml")
    if path is None:
        pytest.skip("the list of statements is not here")
    stated = yaml.safe_load(path.read_text(encoding="utf-8"))["claims"]
    ids = [claim["id"] for claim in stated if claim["part"] in ("I", "II")]
    assert [claim.id for claim in PAPER.claims] == ids
    assert len(ids) == 117


def test_claims_name_experiments_and_variants_that_exist() -> None:
    for claim in PAPER.claims:
        for check in claim.checks:
            for experiment, variant in check.places():
                assert variant in EXPERIMENTS[experiment].variants, claim.id


def test_claims_and_figures_name_measures_that_exist() -> None:
    for question in questions(PAPER.claims, PAPER.figures):
        if question.measure in CASES:
            find_case(question.measure, question.parameters)
        else:
            find_measure(question.measure).check(question.parameters)


def test_ranges_of_the_axis_have_points() -> None:
    """A claim about a point that no run visits would never be judged."""
    for claim in PAPER.claims:
        for check in claim.checks:
            values = EXPERIMENTS[check.experiment].values
            for low, high in [t.x or check.x for t in check.terms() if t.x or check.x]:  # type: ignore[misc]
                assert any(low - 1e-9 <= value <= high + 1e-9 for value in values), claim.id


def test_figures_name_claims_that_exist() -> None:
    ids = {claim.id for claim in PAPER.claims}
    for figure in PAPER.figures:
        assert set(figure.claims) <= ids
        assert all(panel.experiment in EXPERIMENTS for panel in figure.panels)
    assert [figure.name for figure in PAPER.figures] == [f"7.{n}" for n in range(1, 19)]


@pytest.mark.parametrize("tier", ["quick", "full"])
def test_the_whole_plan_is_valid(tier: str) -> None:
    able, missing = runnable(PAPER.experiments, tier)  # type: ignore[arg-type]
    runs = plan(able, tier, seeds=1)  # type: ignore[arg-type]
    assert len(runs) > 300
    assert all("full tier" in reason for reason in missing.values())


def test_quick_values_are_among_the_full_ones() -> None:
    for experiment in PAPER.experiments:
        assert set(experiment.quick_values or ()) <= set(experiment.values), experiment.name


def test_one_claim_brings_only_what_it_needs() -> None:
    narrowed = PAPER.only(["T7.4-c"])
    assert [claim.id for claim in narrowed.claims] == ["T7.4-c"]
    assert {e.name for e in narrowed.experiments} == {"scale", "scale-unbalanced"}
    assert [figure.name for figure in narrowed.figures] == ["7.4"]
    with pytest.raises(PipelineError, match=r"no claim 'T7\.4-x'; did you mean T7\.4"):
        PAPER.only(["T7.4-x"])


def test_papers_are_found_by_name() -> None:
    assert find_paper("frey-routing") is PAPER
    with pytest.raises(PipelineError, match="did you mean 'frey-routing'"):
        find_paper("fray-routing")


def test_a_variant_whose_protocol_is_missing_is_left_out() -> None:
    from dataclasses import replace

    strange = {"SM": EXPERIMENTS["quiet"].variants["SM"], "X": {"reconfiguration": {"name": "x"}}}
    able, missing = runnable([replace(EXPERIMENTS["quiet"], variants=strange)], "quick")
    assert list(able[0].variants) == ["SM"]
    assert "unknown reconfiguration 'x'" in missing["quiet", "X"]
