"""The filter language: what it says, what it refuses, and what a hostile filter can cost."""

from __future__ import annotations

import inspect
import sys
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import AttributeFilter, Attributes, F, FilterError, within, within_box
from shoal.content.language import Failure, FilterWarning, evaluate, parse
from shoal.content.language.evaluate import holds
from shoal.content.language.like import like
from shoal.content.language.limits import MAX_DEPTH, MAX_ELEMENTS, MAX_LENGTH
from shoal.content.language.places import boxes, distance
from shoal.content.normalise import normalise


def matches(filter: str, **values: bool | int | float | str | None) -> bool:
    return AttributeFilter(filter).matches(Attributes(dict(values)))


# What it says


@pytest.mark.parametrize(
    ("filter", "same"),
    [
        ("a = 1 OR b = 2 AND c = 3", "(a = 1 OR b = 2) AND c = 3"),  # one level, from the left
        ("NOT a = b", "(NOT a) = b"),
        ("a + b * c > 5", "(a + (b * c)) > 5"),
        ("-a LIKE 'x' ", "(-a) LIKE 'x'"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a<>1", "a != 1"),
        ("not exists A", "NOT EXISTS a"),
        ("within(45, 9.5, 100)", "WITHIN(latitude, longitude, 45, 9.5, 100)"),
        ("((a)) = ((1))", "a = 1"),
        ('a = "it\'s"', "a = 'it\\'s'"),
    ],
)
def test_one_spelling(filter: str, same: str) -> None:
    assert AttributeFilter(filter) == AttributeFilter(same)
    assert hash(AttributeFilter(filter)) == hash(AttributeFilter(same))


def test_decimals() -> None:
    assert matches("t > 30.5", t=30.75)
    assert matches("t = 1.5e3", t="1500")
    assert matches("t / 2.0 = 1.5", t=3)
    assert matches("t / 2 = 1", t=3)  # integers divide to integers, as CESQL has it
    assert matches("t = 9007199254740993", t=9007199254740993)
    assert not matches("t = 9007199254740993", t=9007199254740992.0)  # exact beyond 2**53


def test_numbers_read_alike_however_stored() -> None:
    for value in (2, 2.0, "2"):
        assert matches("x IN (1, 2)", x=value)
        assert matches("x = '2'", x=value)
        assert matches("x BETWEEN 2 AND 2", x=value)


def test_null_and_nan_are_absent() -> None:
    for nothing in (None, float("nan")):
        assert not matches("EXISTS x", x=nothing)
        assert not matches("x = 1 OR x != 1", x=nothing)
        assert matches("NOT EXISTS x", x=nothing)
    assert matches("x > 1", x=float("inf"))


def test_a_filter_must_be_true_itself() -> None:
    assert matches("x", x=True)
    assert not matches("x", x="true")
    assert matches("x AND TRUE", x="true")  # an operand is cast
    assert not matches("x", x=1)


def test_names() -> None:
    assert matches("Temperature > 1", temperature=2)
    assert AttributeFilter("`Room 1` > 1").matches(Attributes({"Room 1": 2}))
    assert AttributeFilter("`and` = 1 AND between = 2").matches(
        Attributes({"and": 1, "between": 2})
    )


def test_an_odd_value_names_its_type() -> None:
    with pytest.raises(TypeError, match="holds a list"):
        holds(parse("x > 1"), {"x": [1]})


def test_places() -> None:
    rome, milan = (41.9, 12.5), (45.46, 9.19)
    assert distance(*rome, *milan) == pytest.approx(477_000, rel=0.01)
    near = AttributeFilter("WITHIN(lat, lon, 45.46, 9.19, 10000)")
    assert near.matches(Attributes({"lat": 45.5, "lon": 9.2}))
    assert not near.matches(Attributes({"lat": 41.9, "lon": 12.5}))
    assert not near.matches(Attributes({"lat": 91, "lon": 9.2}))
    fiji = AttributeFilter("WITHIN_BOX(lat, lon, -20, 177, -15, -178)")
    assert fiji.matches(Attributes({"lat": -17, "lon": 179.9}))
    assert fiji.matches(Attributes({"lat": -17, "lon": -179.9}))
    assert not fiji.matches(Attributes({"lat": -17, "lon": 0}))


@settings(max_examples=300, deadline=None)
@given(
    st.floats(-90, 90), st.floats(-180, 180), st.floats(-90, 90), st.floats(-180, 180),
    st.floats(0, 2.1e7),
)  # fmt: skip
def test_boxes_hold_their_circle(
    latitude: float, longitude: float, y: float, x: float, radius: float
) -> None:
    for reach in (radius, distance(latitude, longitude, y, x)):
        if distance(latitude, longitude, y, x) <= reach:
            assert any(
                south <= y <= north and west <= x <= east
                for south, west, north, east in boxes(latitude, longitude, reach)
            )


# The builder


def test_the_builder_gives_the_same_objects() -> None:
    assert (F.temperature > 30) & F.room.like("lab%") == AttributeFilter(
        "temperature > 30 AND room LIKE 'lab%'"
    )
    assert (F.a == "x") | ~(F.b.between(1, 2.5)) == AttributeFilter(
        "a = 'x' OR b NOT BETWEEN 1 AND 2.5"
    )
    assert F.s.is_in("a", "b") == AttributeFilter("s IN ('a', 'b')")
    assert F["Room 1"].starts_with("x") == AttributeFilter("STARTS_WITH(`Room 1`, 'x')")
    assert ((F.x + 1) * 2 >= -F.y) == AttributeFilter("(x + 1) * 2 >= -y")
    assert (F.call("length", F.s) > 3) == AttributeFilter("LENGTH(s) > 3")
    assert F.x.exists() == AttributeFilter("EXISTS x")
    assert F.on.is_true() == AttributeFilter("on = TRUE")
    assert within(1, 2, 3.5) == AttributeFilter("WITHIN(1, 2, 3.5)")
    assert within_box(1, 2, 3, 4, at=(F.y, F.x)) == AttributeFilter("WITHIN_BOX(y, x, 1, 2, 3, 4)")


def test_the_builder_refuses_what_cannot_be_said() -> None:
    for wrong in (float("nan"), float("inf"), None, [1]):
        with pytest.raises(FilterError):
            F.x > wrong  # type: ignore[operator]  # noqa: B015  # that is the test
    with pytest.raises(FilterError):
        F["a`b"].exists()
    with pytest.raises(TypeError, match="combine filters"):
        bool(F.x == 1)


# What it refuses


@pytest.mark.parametrize(
    ("filter", "position", "says"),
    [
        ("", 1, "expected a value, found the end"),
        ("x >", 4, "expected a value"),
        ("(x = 1", 7, "to close the parenthesis"),
        ("x = 1)", 6, "expected an operator or the end"),
        ("x = 'a", 5, "must end with the quote"),
        ("x == 1", 4, "a single ="),
        ("x = 1 && y = 2", 7, "write AND"),
        ("LENGHT(x) > 1", 1, "did you mean LENGTH"),
        ("LEFT(x) = 'a'", 1, "it takes 2"),
        ("x LIKE 5", 8, "a pattern in quotes"),
        ("x IN ()", 8, "never empty"),
        ("x BETWEEN 1", 12, "between the two bounds"),
        ("x = 9223372036854775808", 5, "too large"),
        ("x = 1.0e999", 5, "too large"),
        ("and = 1", 1, "write `and`"),
        ("x < 'm'", 1, "order is for numbers"),
        ("LENGTH(x)", 1, "not a condition"),
        ("'text'", 1, "not a condition"),
        ("EXISTS 5", 8, "the name of an attribute"),
    ],
)
def test_errors_say_where_and_what(filter: str, position: int, says: str) -> None:
    with pytest.raises(FilterError, match=f"character {position}: ") as caught:
        AttributeFilter(filter)
    assert says in str(caught.value)
    assert caught.value.position == position - 1
    assert "\n" not in str(caught.value)


def test_explanations_name_the_part_that_failed() -> None:
    filter = AttributeFilter("temperature > 30 AND room LIKE 'lab%'")
    said = filter.explain(Attributes({"temperature": 21, "room": "lab 1"}))
    assert (said.matched, said.reasons) == (
        False,
        ("temperature > 30 is false: temperature is 21",),
    )
    said = filter.explain(Attributes({"Temperature": 21}))
    assert said.reasons == (
        "temperature > 30 fails: there is no attribute temperature (there is `Temperature`)",
    )
    assert filter.explain(Attributes({"temperature": "31", "room": "lab 1"})).matched
    either = AttributeFilter("x = 1 OR y = 2").explain(Attributes({"x": 0, "y": 0}))
    assert either.reasons == ("x = 1 is false: x is 0", "y = 2 is false: y is 0")


# What it can cost


def test_limits() -> None:
    with pytest.raises(FilterError, match="too many"):
        parse("x = 1 OR " * MAX_LENGTH + "TRUE")
    with pytest.raises(FilterError, match="levels of nesting"):
        parse("(" * 4000 + "x" + ")" * 4000)
    for nest in ("NOT ", "-", "ABS("):
        with pytest.raises(FilterError, match="levels of nesting"):
            parse(nest * 4000 + "x")
    with pytest.raises(FilterError, match="levels of nesting"):
        parse("x" + " + 1" * MAX_DEPTH + " > 0")
    with pytest.raises(FilterError, match="elements"):
        parse(f"x IN ({','.join('1' * (MAX_ELEMENTS + 1))})")
    assert len(parse(" OR ".join(["x"] * 5000)).operands) == 5000  # type: ignore[union-attr]  # Or


def test_the_deepest_filter_survives_its_own_spelling() -> None:
    deepest = AttributeFilter("x" + " + 1" * (MAX_DEPTH - 2) + " > 0")
    assert AttributeFilter(deepest.text) == deepest
    assert deepest.normal.matches({"x": 1})
    nested = AttributeFilter("NOT " * (MAX_DEPTH - 1) + "x")
    assert AttributeFilter(nested.text) == nested
    assert nested.matches(Attributes({"x": False}))
    assert nested.normal.matches({"x": False})


def test_deep_filters_need_little_stack() -> None:
    deepest = "ABS(" * (MAX_DEPTH - 2) + "x" + ")" * (MAX_DEPTH - 2) + " > 0"
    limit = sys.getrecursionlimit()
    depth = len(inspect.stack())
    try:
        sys.setrecursionlimit(depth + 600)
        assert AttributeFilter(deepest).normal.matches({"x": -1})
    finally:
        sys.setrecursionlimit(limit)


def cpu(text: str, value: str) -> float:
    expression = parse(text)
    evaluate(expression, {"x": value})
    started = time.process_time()
    evaluate(expression, {"x": value})
    return time.process_time() - started


@pytest.mark.parametrize(
    "pattern",
    ["%a" * 400 + "b", "%_a" * 300 + "b", "%" + "a_" * 400 + "b%", "a%" * 400 + "_b"],
)
def test_like_is_linear_in_the_text(pattern: str) -> None:
    short, long = "a" * 20_000, "a" * 160_000
    filter = f"x LIKE '{pattern}'"
    times = min(cpu(filter, short) for _ in range(5)), min(cpu(filter, long) for _ in range(5))
    assert times[1] < 8 * 4 * max(times[0], 0.002), "eight times the text; its square is 64"


@pytest.mark.parametrize(
    "hostile",
    [
        " AND ".join(f"(a{i} = 1 OR b{i} = 2 OR c{i} = 3)" for i in range(500)),
        " OR ".join(f"(a{i} = 1 AND b{i} = 2)" for i in range(900)),
        " OR ".join(f"a{i} > {i}" for i in range(1500)),
        " XOR ".join(f"a{i} = 1" for i in range(40)),
        " AND ".join(f"x != {i}" for i in range(2000)),
        " AND ".join(f"x NOT LIKE '%{i}%'" for i in range(60)),
        f"x IN ({','.join(str(i) for i in range(MAX_ELEMENTS))})",
        "NOT (" + " AND ".join(f"(a{i} OR b{i})" for i in range(60)) + ")",
    ],
)
def test_normalising_a_hostile_filter_is_bounded(hostile: str) -> None:
    form = normalise(parse(hostile))
    assert len(form.disjuncts) <= 128


def slow_like(pattern: str, text: str) -> bool:
    """LIKE by dynamic programming over the pattern's characters."""
    signs: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == "\\" and pattern[at + 1 : at + 2] in ("%", "_"):
            signs.append(("is", pattern[at + 1]))
            at += 1
        else:
            signs.append((pattern[at] if pattern[at] in "%_" else "is", pattern[at]))
        at += 1
    reachable = {0}
    for kind, character in signs:
        if kind == "%":
            reachable = set(range(min(reachable), len(text) + 1)) if reachable else set()
        else:
            reachable = {
                i + 1 for i in reachable if i < len(text) and (kind == "_" or text[i] == character)
            }
    return len(text) in reachable


@settings(max_examples=2000, deadline=None)
@given(st.text("ab%_\\", max_size=8), st.text("ab%\\", max_size=10))
def test_like_agrees_with_dynamic_programming(pattern: str, text: str) -> None:
    assert like(pattern, text) == slow_like(pattern, text)


# Anything at all

WORDS = st.sampled_from(
    [
        "x", "y", "AND", "OR", "XOR", "NOT", "IN", "LIKE", "EXISTS", "BETWEEN", "TRUE", "(", ")",
        ",", "=", "!=", "<", ">=", "+", "-", "*", "/", "%", "1", "2.5", "'a%'", "''", "`n`",
        "LENGTH", "LEFT", "WITHIN", "ABS", "9223372036854775808", "\\", "'", ".", "1.", "_",
    ]
)  # fmt: skip


@settings(max_examples=2000, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=24).map(" ".join)))
def test_any_text_is_a_filter_or_an_error_with_a_place(text: str) -> None:
    refused: FilterError | None = None
    try:
        filter = AttributeFilter(text)
    except FilterError as error:
        refused = error
    if refused is not None:
        assert 0 <= refused.position <= len(text)
        return
    assert AttributeFilter(filter.text) == filter
    for value in (None, 1, -2.5, True, "a", "1"):
        event = {"x": value, "y": 2, "n": "a"}
        outcome = evaluate(filter.expression, event)
        assert isinstance(outcome, bool | int | float | str | Failure)
        assert filter.normal.matches(event) == holds(filter.expression, event)


# Names that look like numbers, texts that do not


@pytest.mark.parametrize("word", ["1e300", "1E5", "0x1F", "1_000"])
def test_a_name_that_looks_like_a_number_gives_a_warning(word: str) -> None:
    with pytest.warns(FilterWarning, match=f"character 5: {word} is read as an attribute's name"):
        found = AttributeFilter(f"x > {word}")
    assert str(found) == f"x > `{word.lower()}`"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert AttributeFilter(str(found)) == found  # as a broker reads it
        AttributeFilter("x > 1.0e300 AND e1 = 2 AND 5th = 1")


def test_the_text_inf_is_no_number() -> None:
    for text in ("inf", "-inf", "Infinity", "nan", "1e400", "9" * 2000):
        assert not matches("x > 0 OR x <= 0", x=text), text
        assert not AttributeFilter("x > 0").normal.matches({"x": text})
    assert matches("x = 'inf'", x=float("inf"))
    assert AttributeFilter("x = 'inf'").normal.matches({"x": float("inf")})
    assert matches("x > 1", x="1" * 300)


def test_expressions_compare_by_what_they_say() -> None:
    for text in ("TRUE", "1", "'a'", "x", "x = TRUE"):
        assert parse(text) == parse(text)
        assert not parse(text) != parse(text)  # noqa: SIM202  # the operator is what is tested
    assert parse("1") != parse("TRUE")
