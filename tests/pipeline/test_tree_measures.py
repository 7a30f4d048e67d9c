"""Measures of chapters 11, 14 and 15 on small runs, without Spark: cases are functions of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from run_parts import in_parts

import shoal.pipeline.measure.compute  # noqa: F401  # registers all measures
from shoal.experiments.frey_overlays import DHTREE
from shoal.experiments.frey_overlays import DHTREE_CLAIMS as CLAIMS
from shoal.experiments.frey_p2p import P2P, PAPER
from shoal.overlay.maodv_search import REPAIRS
from shoal.pipeline.judge.claims import Check, Claim, accepted
from shoal.pipeline.measure.cases import ENTRIES, Case
from shoal.pipeline.measure.registry import find_measure
from shoal.pipeline.measure.run_view import Run
from shoal.pipeline.plan.experiment import Experiment, merge
from shoal.simulation import parse_config, simulate
from shoal.simulation.config import canonical_json

EXAMPLES = {experiment.name: experiment for experiment in (*DHTREE.values(), *P2P.values())}


def run_of(experiment: Experiment, variant: str, more: Mapping[str, Any] | None = None) -> Run:
    raw = merge(experiment.base, experiment.variants[variant], more or {})
    config = parse_config(raw)
    return Run(json.loads(canonical_json(config)), in_parts(simulate(config).tables))


def value(run: Run, check: Check) -> float:
    found = find_measure(check.measure)(run, **check.parameters)
    assert isinstance(found, int | float)
    return found


def in_cases(claims: tuple[Claim, ...], experiment: str) -> list[tuple[str, Check]]:
    """The checks of an experiment that are made run by run."""
    return [
        (claim.id, check)
        for claim in claims
        for check in claim.checks
        if check.experiment == experiment and isinstance(find_measure(check.measure), Case)
    ]


@pytest.mark.parametrize(
    "name", ["dhtree-example", "dhtree-full", "figure-14.1", "figure-14.2a", "figure-14.2b"]
)
def test_worked_examples_are_as_the_thesis_prints_them(name: str) -> None:
    checks = in_cases((*CLAIMS, *PAPER.claims), name)
    assert checks
    for claim, check in checks:
        for variant in check.variants:
            low, high = accepted(check)
            assert low <= value(run_of(EXAMPLES[name], variant), check) <= high, claim


def test_an_example_that_went_otherwise_is_noticed() -> None:
    example = EXAMPLES["dhtree-example"]
    run = run_of(example, "DHTree", {"topology": {"changes": []}})
    checks = dict(in_cases(CLAIMS, example.name))
    assert value(run, checks["T11.2-b"]) == 0
    assert value(run, checks["T11.2-c"]) > 0
    assert value(run, checks["T11.2-e"]) > 0


@pytest.mark.parametrize("hosts", [10, 120])
def test_hosts_that_come_and_go_over_a_binary_tree(hosts: int) -> None:
    binary = EXAMPLES["dhtree-binary"]
    run = run_of(binary, "DHTree", {"topology": {"hosts": hosts}})
    for measure in ("search_disagreements", "roots_beside_the_owner", "links_off_a_tree"):
        assert find_measure(measure)(run) == 0
    assert find_measure("most_children")(run) == 2
    for joins in (True, False):
        links = find_measure("links_per_change")(run, joins=joins)
        area = find_measure("changed_area")(run, joins=joins)
        assert isinstance(links, float)
        assert isinstance(area, float)
        assert 1 <= links <= 4
        assert links <= area + 1 <= 12


def test_activations_on_random_trees_carry_what_both_sides_want() -> None:
    run = run_of(EXAMPLES["activations"], "ILA")
    assert find_measure("activation_errors")(run) == 0
    assert find_measure("activation_errors")(run, both_sides=True) == 0
    emptied = [{**m, "content": ""} if m["kind"] == "activate" else m for m in run.messages]
    tables = {"links": run.links, ENTRIES: run.entry_notes, "messages": emptied}
    lost = find_measure("activation_errors")(Run(run.configuration, tables))
    assert lost not in (None, 0)


def test_every_claim_names_measures_and_experiments_that_exist() -> None:
    known = {e.name: e for e in (*DHTREE.values(), *PAPER.experiments)}
    for claim in (*CLAIMS, *PAPER.claims):
        for check in claim.checks:
            find_measure(check.measure).check(check.parameters)
            for experiment, variant in check.places():
                assert variant in known[experiment].variants, (claim.id, experiment, variant)
    assert {claim.id for claim in CLAIMS} == {
        *(f"T11.2-{letter}" for letter in "abcdefghi"),
        *(f"T11.3-{letter}" for letter in "abcdef"),
    }
    assert {label for e in DHTREE.values() for label in e.variants} == {"DHTree"}


def test_frey_p2p_has_all_claims_of_its_chapters() -> None:
    assert {claim.id for claim in PAPER.claims} == {
        *("T12.2-a", "T12.2-b", "T15.1-a", "T15.1-b"),
        *(f"T14.2-{letter}" for letter in "abcdef"),
        *(f"T15.2-{letter}" for letter in "abcdefghijklm"),
    }
    shown = {claim for figure in PAPER.figures for claim in figure.claims}
    assert shown <= {claim.id for claim in PAPER.claims}


def test_reconnections_count_from_the_loss_as_the_orphan_notices_it() -> None:
    lost = [(10.0, 1), (20.0, 2), (30.0, 1), (40.0, 3)]
    found = [(11.0, 1, 1), (22.0, 2, 1), (31.5, 1, 2), (99.0, 3, 1)]  # the last is after the window
    run = Run(
        {"nodes": 5, "workload": {"publish_window": [0.0, 50.0]}},
        {
            "notes": [
                {"time": at, "node": node, "what": "parent lost", "peer": 0, "value": ""}
                for at, node in lost
            ],
            "links": [
                {"time": at, "a": node, "b": 4, "change": "up", "repair": node * REPAIRS + count}
                for at, node, count in found
            ],
        },
    )
    assert find_measure("reconnection_time")(run) == 1.0
    assert find_measure("reconnected")(run, seconds=1.5) == pytest.approx(2 / 3)
