"""Expressions, filters and events for property tests: small domains with all the traps in them."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import strategies as st

from shoal.content.language.syntax import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Comparison,
    Exists,
    Expression,
    In,
    Like,
    Literal,
    Negate,
    Not,
    Or,
    Xor,
)

NAMES = ("a", "b")
ABSENT = object()

# Every reading of a value, and texts that read as something else: numbers, booleans, neither.
VALUES: tuple[Any, ...] = (
    ABSENT,
    None,
    float("nan"),
    True,
    False,
    -1,
    0,
    0.5,
    1,
    2,
    2.5,
    3,
    float("inf"),
    float("-inf"),
    "",
    "0",
    "1",
    "01",
    "1.0",
    "+2",
    "2.5",
    "1e999",
    "inf",
    "true",
    "TRUE",
    "false",
    "x",
    "xy",
    "xyz",
    "yx",
    "x%",
    "x\\",
)
SINGLES = [{} if value is ABSENT else {"a": value} for value in VALUES]
_SOME = (ABSENT, True, 0, 1, 2.5, "1", "01", "TRUE", "xy", "x")
PAIRS = [
    {name: value for name, value in zip(NAMES, pair, strict=True) if value is not ABSENT}
    for pair in product(VALUES, _SOME)
]

constants = st.sampled_from(
    [True, False, 0, 1, 2, -1, 1.0, 2.5, "", "1", "01", "2.5", "x", "xy", "true", "TRUE", "y"]
)
patterns = st.sampled_from(
    ["", "%", "x", "x%", "%y", "%x%", "x%y", "_", "x_", "_y%", "%%", "1%", "x\\%", "tr%", "%_%"]
)
attributes = st.sampled_from([Attribute(name) for name in NAMES])
literals: st.SearchStrategy[Any] = st.builds(Literal, constants)
places = st.sampled_from([0, 1, 2, -1, 170.0, -170.0])


def _terms(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        # The parser reads a minus before a constant as its sign.
        st.builds(Negate, inner.filter(lambda e: not isinstance(e, Literal))),
        st.builds(lambda e: Call("LOWER", (e,)), inner),
        st.builds(lambda e: Call("LENGTH", (e,)), inner),
        st.builds(lambda e, f: Call("CONCAT", (e, f)), inner, inner),
        st.builds(lambda e, n: Call("LEFT", (e, Literal(n))), inner, st.integers(-1, 2)),
    )


terms: st.SearchStrategy[Any] = st.recursive(st.one_of(attributes, literals), _terms, max_leaves=3)
operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def _conditions(operand: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> Any:
    return st.one_of(
        st.builds(Comparison, operators, operand, other),
        st.builds(Comparison, operators, other, operand),
        st.builds(Like, operand, patterns),
        st.builds(In, operand, st.lists(other, min_size=1, max_size=3).map(tuple)),
        st.builds(Between, operand, other, other),
        st.builds(
            lambda f, e, t: Call(f, (e, t)),
            st.sampled_from(["STARTS_WITH", "ENDS_WITH", "CONTAINS"]),
            operand,
            other,
        ),
    )


simple_conditions = st.one_of(
    _conditions(attributes, literals),
    _conditions(attributes, literals),
    st.builds(Exists, st.sampled_from(NAMES)),
    attributes,
)
odd_conditions = st.one_of(
    _conditions(terms, terms),
    literals,
    st.builds(
        lambda s, w, n, e: Call(
            "WITHIN_BOX", (Attribute("a"), Attribute("b"), *map(Literal, (s, w, n, e)))
        ),
        places,
        places,
        places,
        places,
    ),
    st.builds(
        lambda y, x, r: Call(
            "WITHIN", (Attribute("a"), Attribute("b"), *map(Literal, (y, x, r * 111_000)))
        ),
        places,
        places,
        st.sampled_from([0, 1, 2.5, 200]),
    ),
)


def _chain(make: Any) -> Any:
    def build(operands: list[Expression]) -> Expression:
        flat: list[Expression] = []
        for operand in operands:  # as the parser does
            flat.extend(operand.operands if isinstance(operand, make) else (operand,))
        return make(tuple(flat))  # type: ignore[no-any-return]  # And or Or

    return build


def logical(conditions: st.SearchStrategy[Any], leaves: int) -> st.SearchStrategy[Any]:
    return st.recursive(
        conditions,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=3).map(_chain(And)),
            st.lists(inner, min_size=2, max_size=3).map(_chain(Or)),
            st.builds(Xor, inner, inner),
        ),
        max_leaves=leaves,
    )


conditions = logical(st.one_of(simple_conditions, simple_conditions, odd_conditions), 8)
"""Anything that can be a condition."""

# What covering promises to be complete for.
numbers = st.sampled_from([0, 1, 2, 2.5])
texts = st.sampled_from(["x", "xy", "xyz", "y", "1"])


def _interval(name: str, bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    attribute, number = st.just(Attribute(name)), bounds.map(Literal)
    return st.one_of(
        st.builds(Comparison, st.sampled_from(["=", "<", "<=", ">", ">="]), attribute, number),
        st.builds(Between, attribute, number, number),
    )


def _set(name: str) -> st.SearchStrategy[Any]:
    attribute, text = st.just(Attribute(name)), texts.map(Literal)
    return st.one_of(
        st.builds(Comparison, st.just("="), attribute, text),
        st.builds(In, attribute, st.lists(text, min_size=1, max_size=3).map(tuple)),
        st.builds(Like, attribute, st.sampled_from(["x%", "xy%", "y%", "xyz", "%"])),
    )


simple_conjunctions = st.lists(
    st.one_of(_interval("a", numbers), _set("a"), _interval("b", st.sampled_from([0, 1]))),
    min_size=1,
    max_size=4,
).map(lambda parts: And(tuple(parts)) if len(parts) > 1 else parts[0])
"""Intervals, sets, prefixes and equalities; ``a`` may be read both ways."""
