"""Labels: what a filter joins by, and which label includes which (section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.content import AttributeFilter, Attributes, Pattern, Patterns
from shoal.routing.dps.labels import (
    EVERYTHING,
    ROOT,
    Label,
    LabelError,
    exact,
    label,
    labels_of,
    trees_of,
)


def texts(filter: str) -> list[list[tuple[str, str]]]:
    return [
        [(one.attribute, one.text) for one in some] for some in labels_of(AttributeFilter(filter))
    ]


def test_a_label_is_all_that_a_conjunction_says_of_one_attribute() -> None:
    assert texts("x > 2 AND x < 8 AND y = 1") == [[("x", "x > 2 AND x < 8"), ("y", "y = 1")]]


def test_a_disjunction_joins_once_per_disjunct() -> None:
    assert texts("x > 2 OR name = 'a'") == [[("x", "x > 2")], [("name", "name = 'a'")]]


@pytest.mark.parametrize("filter", ["TRUE", "NOT EXISTS x"])
def test_what_no_attribute_can_label_joins_the_tree_of_everything(filter: str) -> None:
    assert texts(filter) == [[(EVERYTHING, ROOT)]]


def test_a_residue_joins_by_the_rest() -> None:
    assert texts("x = y AND z > 1") == [[("z", "z > 1")]]
    assert texts("x = y") == [[("x", ROOT), ("y", ROOT)]]


def test_a_filter_that_never_matches_joins_nothing() -> None:
    assert texts("FALSE") == []
    assert texts("x > 3 AND x < 2") == []


def test_an_attribute_that_need_only_be_there_joins_its_root() -> None:
    assert texts("EXISTS x") == [[("x", ROOT)]]


def test_a_pattern_is_the_root_of_its_own_tree() -> None:
    assert [one.attribute for one in labels_of(Pattern(7))[0]] == ["#7"]
    assert trees_of(Patterns((7, 9, 7))) == [EVERYTHING, "#7", "#9"]


def test_an_event_enters_the_trees_of_the_attributes_that_it_has() -> None:
    assert trees_of(Attributes({"x": 1, "y": None, "name": ""})) == [EVERYTHING, "x", "name"]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x > 2", "x > 3"),
        ("x > 2", "x = 3"),
        ("x < 20", "x < 11"),
        ("x >= 2 AND x < 8", "x > 2 AND x < 8"),
        ("name LIKE 'a%'", "name LIKE 'ab%'"),
        ("name LIKE '%b'", "name LIKE '%ab'"),
        ("name LIKE '%b%'", "name = 'abc'"),
        ("name LIKE '%b%'", "name LIKE 'ab%'"),
    ],
)
def test_inclusion(wide: str, narrow: str) -> None:
    attribute = wide.split()[0]
    assert label(attribute, wide).precedes(label(attribute, narrow))
    assert not label(attribute, narrow).covers(label(attribute, wide))
    assert label(attribute, ROOT).precedes(label(attribute, wide))


def test_labels_of_different_types_are_apart() -> None:
    number, text = label("x", "x > 3"), label("x", "x LIKE 'a%'")
    assert not number.covers(text)
    assert not text.covers(number)


@pytest.mark.parametrize("text", ["x >", "y > 3", "x > 3 OR y > 3", "x = y", "EXISTS x", "TRUE"])
def test_a_text_that_labels_no_group_is_refused(text: str) -> None:
    with pytest.raises(LabelError, match="labels no group"):
        label("x", text)


numbers = st.integers(-3, 6)


@st.composite
def labels(draw: st.DrawFn) -> Label:
    kind = draw(st.sampled_from([">", "<", "=", ">=", "between", "open"]))
    low = draw(numbers)
    if kind == "between":
        text = f"x BETWEEN {low} AND {low + draw(st.integers(1, 4))}"
    elif kind == "open":
        text = f"x > {low} AND x < {low + draw(st.integers(1, 4))}"
    else:
        text = f"x {kind} {low}"
    return labels_of(AttributeFilter(text))[0][0]


@given(labels(), labels(), st.one_of(numbers, st.floats(-4, 7)))
def test_inclusion_agrees_with_matching(a: Label, b: Label, value: float) -> None:
    content = Attributes({"x": value})
    assert a.matches(content) == AttributeFilter(a.text).matches(content)
    if a.covers(b) and b.matches(content):
        assert a.matches(content)
    assert a.covers(b) == AttributeFilter(a.text).covers(AttributeFilter(b.text))
    if a.covers(b) and b.covers(a):
        assert a.text == b.text


FILTERS = (
    *("x > 2 AND y < 5", "x > 2 OR y = 1", "x IN (1, 2) AND y = 'a'", "x = 3", "x = '3'"),
    *(
        "EXISTS x AND y > 1",
        "x != 2 AND y <= 4.0",
        "x = y AND x > 1",
        "NOT EXISTS x",
        "x LIKE '1%'",
    ),
)
VALUES = st.one_of(st.none(), st.integers(0, 6), st.sampled_from([2.0, 4.5, "3", "a", "12", True]))


@given(filter=st.sampled_from(FILTERS), x=VALUES, y=VALUES)
def test_labels_that_say_all_match_as_the_filter_does(filter: str, x: object, y: object) -> None:
    wanted = AttributeFilter(filter)
    if exact(wanted):
        event = Attributes({"x": x, "y": y})  # type: ignore[dict-item]  # of the values above
        found = any(all(one.matches(event) for one in some) for some in labels_of(wanted))
        assert found == wanted.matches(event)


def test_labels_say_all_of_plain_conjunctions_only() -> None:
    assert exact(AttributeFilter("x > 2 AND y < 5"))
    assert not any(exact(AttributeFilter(f)) for f in ("x = y AND z > 1", "EXISTS x"))
    assert not exact(Pattern(7))
