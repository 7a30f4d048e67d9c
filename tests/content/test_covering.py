"""Covering, overlap and merging against brute force over small domains."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_strategies import ABSENT, NAMES, PAIRS, conditions, simple_conjunctions
from shoal.content import AttributeFilter, Attributes, merge
from shoal.content.attributes import of
from shoal.content.covering import covers, expression_of_conjunction, overlaps
from shoal.content.language.evaluate import holds
from shoal.content.language.syntax import Expression
from shoal.content.normal import NormalForm
from shoal.content.normalise import normalise

# Enough values that two different simple conjunctions differ on one of them.
_WITNESSES = (
    ABSENT, True, False, -1, 0, 0.5, 1, 1.5, 2, 2.2, 2.5, 3, "0", "01", "1", "+1", "02", "2.50",
    "1.5", "0.5", "-1", "3", "", "x", "xx", "xy", "xyy", "xyz", "xyzz", "y", "yy", "z", "1x", "11",
    "2", "2.2", "10",
)  # fmt: skip
WITNESSES = [
    {name: value for name, value in zip(NAMES, (a, b), strict=True) if value is not ABSENT}
    for a in _WITNESSES
    for b in (ABSENT, -1, 0, 0.5, 1, 2, "x")
]


def matched(expression: Expression, events: list[dict[str, object]]) -> list[bool]:
    return [holds(expression, event) for event in events]


@settings(max_examples=200, deadline=None)
@given(conditions, conditions)
def test_no_cover_is_claimed_that_is_not(a: Expression, b: Expression) -> None:
    if covers(normalise(a), normalise(b)):
        for event in PAIRS:
            assert holds(a, event) or not holds(b, event), event


@settings(max_examples=200, deadline=None)
@given(conditions, conditions)
def test_no_disjointness_is_claimed_that_is_not(a: Expression, b: Expression) -> None:
    if not overlaps(normalise(a), normalise(b)):
        for event in PAIRS:
            assert not (holds(a, event) and holds(b, event)), event


@settings(max_examples=200, deadline=None)
@given(simple_conjunctions, simple_conjunctions)
def test_simple_conjunctions_are_decided(a: Expression, b: Expression) -> None:
    of_a, of_b = matched(a, WITNESSES), matched(b, WITNESSES)
    covered = all(mine or not theirs for mine, theirs in zip(of_a, of_b, strict=True))
    assert covers(normalise(a), normalise(b)) == covered
    both = any(mine and theirs for mine, theirs in zip(of_a, of_b, strict=True))
    assert overlaps(normalise(a), normalise(b)) == both


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(simple_conjunctions, conditions), min_size=1, max_size=4))
def test_merging_neither_gains_nor_loses_an_event(expressions: list[Expression]) -> None:
    filters: list[AttributeFilter] = []
    for expression in expressions:
        try:
            filters.append(of(expression))
        except ValueError:  # not a condition
            continue
    merged = merge(filters)
    assert len(merged) <= len(filters)
    for event in PAIRS:
        content = Attributes(event)
        assert any(f.matches(content) for f in merged) == any(f.matches(content) for f in filters)


@settings(max_examples=200, deadline=None)
@given(conditions)
def test_a_conjunction_can_be_said_in_the_language(expression: Expression) -> None:
    for one in normalise(expression).disjuncts:
        said = expression_of_conjunction(one)
        again = normalise(said)
        for event in PAIRS:
            assert again.matches(event) == NormalForm((one,)).matches(event), (event, said)


def f(text: str) -> AttributeFilter:
    return AttributeFilter(text)


def test_covering_reads_like_arithmetic() -> None:
    assert f("x > 5").covers(f("x > 7 AND y = 'a'"))
    assert not f("x > 5").covers(f("x >= 5"))
    assert f("x BETWEEN 1 AND 9").covers(f("x > 1 AND x < 9"))
    assert f("s LIKE 'ab%'").covers(f("s IN ('abc', 'abd')"))
    assert f("s IN ('a', 'b', 'c')").covers(f("s = 'b'"))
    assert f("x > 0").covers(f("x IN (5, 6)"))
    assert not f("x IN (5, 6)").covers(f("x = 5"))  # x = 5 matches the text '05', too
    assert f("EXISTS x").covers(f("x = 5"))
    assert f("x != 5").covers(f("x < 5"))
    assert f("s NOT LIKE 'a%'").covers(f("s LIKE 'b%'"))
    assert f("x > 5 OR y > 5").covers(f("x > 6"))
    assert not f("x > 5 OR y > 5").covers(f("y > 6"))  # without x the OR fails


def test_overlap_sees_contradictions() -> None:
    assert not f("x > 5").overlaps(f("x < 5"))
    assert f("x >= 5").overlaps(f("x <= 5"))
    assert not f("s LIKE 'a%'").overlaps(f("s LIKE 'b%'"))
    assert f("s LIKE 'a%'").overlaps(f("s LIKE '%b'"))
    assert not f("s IN ('a', 'b')").overlaps(f("s = 'c'"))
    assert not f("EXISTS x").overlaps(f("NOT EXISTS x"))
    assert not f("s = 'abc'").overlaps(f("s > 5"))
    assert f("x + 1 > 5").overlaps(f("x < 0"))  # not known, so not denied


def test_merging_unites_what_touches() -> None:
    assert merge([f("x > 5 AND x < 7"), f("x >= 7 AND x <= 9"), f("x = 8")]) == [
        f("x > 5 AND x <= 9")
    ]
    assert merge([f("s = 'a' AND x > 5"), f("s = 'b' AND x > 5")]) == [
        f("s IN ('a', 'b') AND x > 5")
    ]
    assert merge([f("x > 5"), f("y > 5")]) == [f("x > 5"), f("y > 5")]


@pytest.mark.parametrize("clauses", [6, 7, 12, 40])
def test_long_conjunctions_of_disjunctions_are_compared_by_operand(clauses: int) -> None:
    def either(bound: int) -> AttributeFilter:
        parts = (f"(a{n} > {bound} OR b{n} > {bound})" for n in range(clauses))
        return AttributeFilter(" AND ".join(parts))

    assert either(5).covers(either(6))
    assert not either(6).covers(either(5))
    assert either(5).overlaps(either(6))
    assert AttributeFilter("a3 > 2 OR b3 > 3").covers(either(6))
    never = AttributeFilter(f"{either(5)} AND c > 5")
    assert not never.overlaps(AttributeFilter("c < 4"))
    assert AttributeFilter(f"{either(5)} AND 'true'").overlaps(either(6))
    assert not AttributeFilter("d = 1").covers(AttributeFilter(f"{either(5)} AND 'true'"))
