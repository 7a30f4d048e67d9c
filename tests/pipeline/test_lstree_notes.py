"""Measures of LSTree from within: all rules hold in a run, and each measure sees a broken rule."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from shoal.experiments.frey_overlays import LSTREE
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure import lstree_notes as notes
from shoal.pipeline.measure.cases import Case
from shoal.pipeline.measure.run_view import Run
from shoal.pipeline.plan.experiment import merge
from shoal.simulation import parse_config, simulate

CLOSELY = LSTREE["closely"]
SHORT = {"nodes": 600, "duration": 5400.0, "topology": {"churn": {"until": 4800.0}}}


@cache
def recorded(instance: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    overlay = {**CLOSELY.variants["RMG"]["overlay"], "instance": instance, **more}
    raw = merge(CLOSELY.base, SHORT, {"seed": 3, "overlay": overlay})
    return raw, simulate(parse_config(raw)).tables["notes"].to_pylist()


def number(value: Any) -> float:
    """A measure's value, of which there is one."""
    assert value is not None
    return float(value)


def seen(instance: str = "DUmRGM", **more: Any) -> Run:
    raw, rows = recorded(instance, **more)
    return Run(raw, {"notes": rows})


NEVER: list[Case] = [
    notes.relation_errors,
    notes.order_violations,
    notes.depth_increases,
    notes.colours_that_went_back,
    notes.roots_of_other_colours,
    notes.depths_not_above,
    notes.out_of_sequence,
    notes.wrong_regional_caches,
    notes.forced_against_order,
]


@pytest.mark.parametrize("measure", NEVER, ids=lambda measure: measure.name)
def test_no_rule_is_broken(measure: Case) -> None:
    assert measure(seen()) == 0
    assert measure(seen("RMG")) == 0


@pytest.mark.parametrize("rule", ["fresh", "shallower", "deeper", "searching", "full", "leaf"])
def test_candidates_answer_by_the_rules(rule: str) -> None:
    assert notes.answers_against(seen(), rule) == 0


def test_hop_counts_keep_siblings_apart_and_real_depths_do_not() -> None:
    assert notes.answers_against(seen("RMG", depth="integer"), "hop counts") == 0
    assert number(notes.answers_against(seen("RMG"), "hop counts")) > 0


def test_caches_that_refusals_alone_fill() -> None:
    assert number(notes.most_entries(seen(), "U")) > 0
    assert notes.most_entries(seen("RMG"), "Um") == 0
    assert number(notes.most_retries(seen())) <= 3
    assert notes.colours_per_tree(seen()) == 1


def test_corrupted_caches_break_no_order() -> None:
    run = seen("RDGM", corrupt=30.0)
    assert notes.order_violations(run) == 0
    assert number(notes.wrong_regional_caches(run)) > 0


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(PipelineError, match="no rule 'polite'"):
        notes.answers_against(seen(), "polite")


# What each measure sees


def place(at: float, node: int, parent: int, colour: Any, depth: float, **more: Any) -> Any:
    value = {"above": 0.0, "root": False, "ancestors": [], "siblings": [], **more}
    return note(at, "place", node, parent, colour=colour, depth=depth, **value)


def note(at: float, what: str, node: int, peer: int, **value: Any) -> dict[str, Any]:
    note.n = getattr(note, "n", 0) + 1  # type: ignore[attr-defined]
    text = json.dumps({"n": note.n, **value})  # type: ignore[attr-defined]
    return {"time": at, "what": what, "node": node, "peer": peer, "value": text}


def told(*rows: dict[str, Any]) -> Run:
    ups = [
        {"time": 0.0, "what": "node up", "node": node, "peer": -1, "value": ""} for node in range(5)
    ]
    return Run({"overlay": {"instance": "RDGM"}}, {"notes": [*ups, *rows]})


ROOT = (1, 0, 0)
LATER = (2, 1, 0)


def test_a_child_ahead_of_its_parent_is_seen_when_either_moves() -> None:
    first = place(1.0, 0, -1, ROOT, 1.0, root=True)
    assert notes.order_violations(told(first, place(2.0, 1, 0, ROOT, 0.5))) == 1
    moved = place(3.0, 1, 0, LATER, 2.0)
    assert notes.order_violations(told(first, place(2.0, 1, 0, ROOT, 1.5), moved)) == 1


def test_values_that_go_back_are_seen() -> None:
    rows = place(1.0, 1, 0, ROOT, 1.0), place(2.0, 1, 0, ROOT, 2.0)
    assert notes.depth_increases(told(*rows)) == 1
    rows = place(1.0, 1, 0, LATER, 1.0), place(2.0, 1, 0, ROOT, 2.0)
    assert notes.colours_that_went_back(told(*rows)) == 1
    rows = place(1.0, 1, 0, ROOT, 1.0), place(2.0, 1, -1, (2, 7, 0), 1.0, root=True)
    assert notes.roots_of_other_colours(told(*rows)) == 1
    rows = place(1.0, 1, 0, ROOT, 1.0), place(2.0, 1, 0, LATER, 1.0, above=1.0)
    assert notes.depths_not_above(told(*rows)) == 1


def test_colours_and_caches_at_the_end() -> None:
    root = place(1.0, 0, -1, ROOT, 0.0, root=True)
    child = place(1.0, 1, 0, ROOT, 1.0, ancestors=[0], siblings=[1, 2])
    run = told(root, child, place(1.0, 2, 0, (0, 0, 0), 1.0, ancestors=[0], siblings=[1]))
    assert notes.colours_per_tree(run) == 2
    assert notes.wrong_regional_caches(run) == 0
    assert notes.wrong_regional_caches(told(root, child)) == 1  # a sibling that is gone


def test_a_strategy_out_of_turn_is_seen() -> None:
    left = {"R": 0, "D": 2, "G": 1, "M": 1}
    asks = note(1.0, "asks", 1, 2, search=1.0, cause="lost", by="G", left=left)
    assert notes.out_of_sequence(told(asks)) == 1
    assert notes.most_entries(told(asks), "D") == 2
    assert notes.most_retries(told(asks, asks, asks)) == 2


def test_an_answer_against_the_rules_is_seen() -> None:
    before = {"colour": ROOT, "depth": 3.0, "above": 1.0, "parent": 0, "root": False}
    before |= {"degree": 2, "children": [4]}

    def answered(answer: str, lowered: float) -> Run:
        more = {"forced": [False, False], "named": [], "lowered": lowered}
        return told(
            note(1.0, "answer", 1, 2, colour=ROOT, depth=2.0, before=before, answer=answer, **more)
        )

    assert notes.answers_against(answered("accepted", 1.5), "deeper") == 0
    assert notes.answers_against(answered("accepted", 1.0), "deeper") == 1
    assert notes.answers_against(answered("colour", 3.0), "deeper") == 1
    assert notes.answers_against(answered("accepted", 1.5), "shallower") is None


def test_depths_drift_towards_the_root() -> None:
    rows = [place(0.0, 0, -1, ROOT, 0.0, root=True)]
    rows += [place(1800.0 * n, 1, 0, ROOT, 5.0 - n) for n in range(1, 4)]
    assert notes.depth_drift(told(*rows)) == pytest.approx(-2.0)
    assert notes.depth_drift(told(*rows[:2])) is None
