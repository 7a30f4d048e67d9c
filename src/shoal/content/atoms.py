"""Single conditions as predicates: under which ``x > 5`` is true, is false, is defined.

A condition on one attribute and constants becomes predicates; any other is *opaque*: it stays an
expression in the residue, beside the predicate that its attributes are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from shoal.content import values
from shoal.content.conjunctions import ALWAYS, conjunction
from shoal.content.language import syntax
from shoal.content.language.evaluate import evaluate
from shoal.content.language.functions import FUNCTIONS, Failure, Plain
from shoal.content.language.places import boxes
from shoal.content.language.syntax import Attribute, Comparison, Expression, Literal
from shoal.content.language.walk import names, needed
from shoal.content.normal import Conjunction, Number, Predicate, Present, Text, Truth
from shoal.content.sets import excluding, make_number, of_pattern

Mode: TypeAlias = OneOf["true", "false", "defined"]
Disjuncts: TypeAlias = list[Conjunction]


@dataclass(frozen=True, slots=True)
class Atom:
    """The disjuncts under which a condition is true, is false, and is defined."""

    true: Disjuncts
    false: Disjuncts
    defined: Disjuncts

    def outcome(self, mode: Mode) -> Disjuncts:
        """Those of one outcome."""
        return {"true": self.true, "false": self.false, "defined": self.defined}[mode]


NEVER = Atom([], [], [])
"""A condition that fails on every event."""


def atom(expression: Expression) -> Atom:
    """The disjuncts of a condition without AND, OR, XOR, NOT and EXISTS at its top."""
    if isinstance(expression, syntax.Arithmetic | syntax.Negate):
        return NEVER  # a number is not a condition
    if not any(True for _ in names(expression)):
        found = evaluate(expression, {})
        known = None if isinstance(found, Failure) else values.truth(found)
        return NEVER if known is None else Atom([ALWAYS][:known], [ALWAYS][known:], [ALWAYS])
    match expression:
        case Comparison(operator, Attribute(name), right) if (c := constant(right)) is not None:
            return _compare(name, operator, c)
        case Comparison(operator, left, Attribute(name)) if (c := constant(left)) is not None:
            return _compare_flipped(name, operator, c)
        case syntax.Between(Attribute(name), low, high):
            bounds = constant(low), constant(high)
            return opaque(expression) if None in bounds else _between(name, *bounds)
        case syntax.In(Attribute(name), elements):
            constants = [constant(element) for element in elements]
            return opaque(expression) if None in constants else _among(expression, name, constants)
        case syntax.Like(Attribute(name), pattern):
            return _like(name, pattern)
        case syntax.Call(function, (Attribute(name), argument)) if function in _ENDS:
            wanted = constant(argument)
            return opaque(expression) if wanted is None else _end(expression, name, wanted)
        case syntax.Call("WITHIN" | "WITHIN_BOX", (Attribute(a), Attribute(b), *rest)):
            constants = [constant(part) for part in rest]
            return opaque(expression) if None in constants else _place(expression, a, b, constants)
    return opaque(expression)


# Opaque


def opaque(expression: Expression) -> Atom:
    """A condition left as it is, beside the presence of the attributes that it needs."""
    if isinstance(expression, syntax.Call) and FUNCTIONS[expression.name].returns in (
        "number",
        "integer",
    ):
        return NEVER
    if isinstance(expression, syntax.Call) and FUNCTIONS[expression.name].returns == "text":
        expression = syntax.Not(syntax.Not(expression))  # reads the text as a condition
    either = syntax.Or((expression, syntax.Not(expression)))
    there = [Present(name) for name in sorted(set(needed(expression)))]
    return Atom(_any(there, expression), _any(there, syntax.Not(expression)), _any(there, either))


def constant(expression: Expression) -> Plain | Failure | None:
    """The value of an expression without attributes; None for any other."""
    if isinstance(expression, Literal):
        return expression.value
    if any(True for _ in names(expression)):
        return None
    return evaluate(expression, {})


def _any(predicates: Iterable[Predicate | None], *residue: Expression) -> Disjuncts:
    """One conjunction, or none if it is contradictory."""
    given = list(predicates)
    if None in given:
        return []
    found = conjunction((p for p in given if p is not None), *residue)
    return [] if found is None else [found]


def _atom(true: Predicate | None, false: Iterable[Predicate | None], defined: Predicate) -> Atom:
    return Atom(_any([true]), [one for part in false for one in _any([part])], _any([defined]))


# Comparisons


def _compare(name: str, operator: str, against: Plain | Failure) -> Atom:
    """``name operator constant``."""
    if isinstance(against, Failure):
        return NEVER
    if operator in ("=", "!="):
        found = _equal(name, against)
        return found if operator == "=" else Atom(found.false, found.true, found.defined)
    bound = values.number(against)
    if bound is None:
        return NEVER
    below = make_number(name, high=bound, high_open=operator in ("<", ">="))
    above = make_number(name, low=bound, low_open=operator in (">", "<="))
    true, false = (below, above) if operator in ("<", "<=") else (above, below)
    return _atom(true, [false], Number(name))


def _equal(name: str, against: Plain) -> Atom:
    if isinstance(against, bool):
        return _atom(Truth(name, against), [Truth(name, not against)], Truth(name))
    if isinstance(against, str):
        return _atom(Text(name, (against,)), [Text(name, holes=(against,))], Present(name))
    return _atom(
        Number(name, against, against), [make_number(name, holes=(against,))], Number(name)
    )


def _compare_flipped(name: str, operator: str, against: Plain | Failure) -> Atom:
    """``constant operator name``: order is symmetric; equality casts the constant, as IN does."""
    if isinstance(against, Failure):
        return NEVER
    if operator not in ("=", "!="):
        flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
        return _compare(name, flipped, against)
    found = _among(syntax.In(Attribute(name), (Literal(against),)), name, [against])
    return found if operator == "=" else Atom(found.false, found.true, found.defined)


def _between(name: str, low: Plain | Failure | None, high: Plain | Failure | None) -> Atom:
    if isinstance(low, Failure) or isinstance(high, Failure) or low is None or high is None:
        return NEVER
    least, most = values.number(low), values.number(high)
    if least is None or most is None:
        return NEVER
    if least > most:
        return _atom(None, [Number(name)], Number(name))
    below = make_number(name, high=least, high_open=True)
    above = make_number(name, low=most, low_open=True)
    return _atom(make_number(name, least, most), [below, above], Number(name))


def _among(expression: Expression, name: str, constants: Iterable[Plain | Failure | None]) -> Atom:
    """``name IN (constants)``: each is cast to the type of the attribute's value.

    As text that is one set. Two kinds of value are equal to an element without having its text: a
    number that an element spells in another way (``'02'``, TRUE), and likewise a boolean
    (``'TRUE'``). They get conjunctions of their own, with the condition itself as residue.
    """
    texts: set[str] = set()
    numbers: list[int | float] = []
    truths: set[bool] = set()
    for element in constants:
        if element is None or isinstance(element, Failure):
            return NEVER
        text = values.text(element)
        texts.add(text)
        spelt = values.number(element)
        if spelt is not None and values.text(spelt) != text:
            numbers.append(spelt)
        truth = values.truth(element)
        if truth is not None and values.text(truth) != text:
            truths.add(truth)
    true = _any([Text(name, tuple(sorted(texts)))])
    if numbers:
        true += _any([Number(name, min(numbers), max(numbers))], expression)
    if truths:
        true += _any([Truth(name, None if len(truths) > 1 else truths.pop())], expression)
    left = opaque(expression)
    return Atom(true, left.false, left.defined)


# Text


def _like(name: str, pattern: str) -> Atom:
    true = of_pattern(name, pattern)
    if isinstance(true, Present):
        return _atom(true, [], Present(name))
    if true.among is not None:
        return _equal(name, true.among[0])
    return _atom(true, [Text(name, unlike=(pattern,))], Present(name))


_ENDS = ("STARTS_WITH", "ENDS_WITH", "CONTAINS")


def _end(expression: syntax.Call, name: str, wanted: Plain | Failure) -> Atom:
    """STARTS_WITH, ENDS_WITH, CONTAINS."""
    if isinstance(wanted, Failure):
        return NEVER
    part = values.text(wanted)
    if not part:
        return _atom(Present(name), [], Present(name))
    match expression.name:
        case "STARTS_WITH":
            true, pattern = Text(name, prefix=part), excluding(prefix=part)
        case "ENDS_WITH":
            true, pattern = Text(name, suffix=part), excluding(suffix=part)
        case _:
            true, pattern = Text(name, contains=(part,)), excluding(part=part)
    if pattern is None:
        return Atom(_any([true]), opaque(expression).false, _any([Present(name)]))
    return _atom(true, [Text(name, unlike=(pattern,))], Present(name))


# Places


def _place(
    expression: syntax.Call,
    latitude: str,
    longitude: str,
    constants: Iterable[Plain | Failure | None],
) -> Atom:
    """WITHIN and WITHIN_BOX on two attributes."""
    numbers: list[int | float] = []
    for part in constants:
        found = None if part is None or isinstance(part, Failure) else values.number(part)
        if found is None:
            return NEVER
        numbers.append(found)
    defined = _any([Number(latitude), Number(longitude)])
    circle = expression.name == "WITHIN"
    if circle:
        rectangles: list[tuple[float, float, float, float]] = boxes(*numbers)
    else:
        south, west, north, east = numbers
        rectangles = [(south, west, north, east)]
        if west > east:  # across the 180th meridian
            rectangles = [(south, west, north, float("inf")), (south, float("-inf"), north, east)]
    true = [
        one
        for south, west, north, east in rectangles
        for one in _any(
            [make_number(latitude, south, north), make_number(longitude, west, east)],
            *([expression] if circle else []),
        )
    ]
    false = _any([Number(latitude), Number(longitude)], syntax.Not(expression))
    return Atom(true, false, defined)
