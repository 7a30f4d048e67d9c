"""The normal form is exact: every evaluator says the same, on every kind of value."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from filter_strategies import PAIRS, conditions
from shoal.content.language.evaluate import holds
from shoal.content.language.parser import parse
from shoal.content.language.printer import show
from shoal.content.language.syntax import Expression
from shoal.content.normal import Absent, Conjunction, Number, Present, Text, Truth
from shoal.content.normalise import normalise
from shoal.content.sets import ORDER


@settings(max_examples=200, deadline=None)
@given(conditions)
def test_the_normal_form_matches_what_the_filter_matches(expression: Expression) -> None:
    form = normalise(expression)
    for event in PAIRS:
        assert form.matches(event) == holds(expression, event), event


@settings(max_examples=200, deadline=None)
@given(conditions)
def test_conjunctions_keep_their_shape(expression: Expression) -> None:
    for conjunction in normalise(expression).disjuncts:
        keys = [(p.attribute, ORDER[type(p)]) for p in conjunction.predicates]
        assert keys == sorted(set(keys))
        for predicate in conjunction.predicates:
            if isinstance(predicate, Present | Absent):
                assert [p.attribute for p in conjunction.predicates].count(predicate.attribute) == 1
            if isinstance(predicate, Text) and predicate.among is not None:
                assert predicate == Text(predicate.attribute, predicate.among)
                assert predicate.among == tuple(sorted(set(predicate.among)))
            if isinstance(predicate, Text):
                assert predicate != Text(predicate.attribute)


@settings(max_examples=200, deadline=None)
@given(conditions)
def test_filters_print_back_to_the_language(expression: Expression) -> None:
    assert parse(show(expression)) == expression


def forms(filter: str) -> tuple[Conjunction, ...]:
    return normalise(parse(filter)).disjuncts


def test_or_guards_its_right_side() -> None:
    # An event without x fails to evaluate x > 5, and so the whole OR.
    assert forms("x > 5 OR y = 'a'") == (
        Conjunction((Number("x", low=5, low_open=True),)),
        Conjunction((Number("x"), Text("y", ("a",)))),
    )


def test_exists_is_the_guard_one_writes() -> None:
    assert forms("EXISTS x AND x > 5") == forms("x > 5")
    assert forms("NOT EXISTS x OR x > 5") == (
        Conjunction((Absent("x"),)),
        Conjunction((Number("x", low=5, low_open=True),)),
    )


def test_one_attribute_may_be_read_in_several_ways() -> None:
    assert forms("x = 5") == (Conjunction((Number("x", 5, 5),)),)
    assert forms("x = '5'") == (Conjunction((Text("x", ("5",)),)),)
    assert forms("x AND x = 'TRUE'") == (Conjunction((Text("x", ("TRUE",)),)),)
    assert forms("x AND y") == (Conjunction((Truth("x", True), Truth("y", True))),)


def test_equalities_on_one_attribute_become_a_set() -> None:
    many = " OR ".join(f"x = 'v{i:04}'" for i in range(2000))
    (only,) = forms(many)
    assert only == Conjunction((Text("x", tuple(f"v{i:04}" for i in range(2000))),))


def test_expansion_is_bounded_and_stays_exact() -> None:
    # 3**12 conjunctions if written out.
    wide = " AND ".join(f"(a{i} = 1 OR b{i} = 2 OR c{i} = 3)" for i in range(12))
    form = normalise(parse(wide))
    assert len(form.disjuncts) <= 128
    assert any(one.residue for one in form.disjuncts)
    event: dict[str, Any] = {f"{n}{i}": 0 for n in "abc" for i in range(12)}
    assert not form.matches(event)
    event |= {f"b{i}": 2 for i in range(12)}
    assert form.matches(event)
