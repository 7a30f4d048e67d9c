"""Typed attributes, and filters over them in the filter language.

An attribute holds text, a number or a boolean. A null and a NaN count as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property, lru_cache

import msgspec

from shoal.content import covering
from shoal.content.attribute_table import AttributeTable
from shoal.content.language.check import check
from shoal.content.language.cost import check_cost, cost
from shoal.content.language.evaluate import Outcome, evaluate, holds
from shoal.content.language.explain import Explanation, explain
from shoal.content.language.limits import (
    EVENT_BYTES,
    MAX_COST,
    MAX_DISJUNCTS,
    MAX_LENGTH,
    REMEMBERED,
    FilterError,
)
from shoal.content.language.parser import parse
from shoal.content.language.printer import show
from shoal.content.language.syntax import And, Expression, Not, Or, Xor
from shoal.content.model import Content, Filter
from shoal.content.normal import NormalForm, Text
from shoal.content.normalise import normalise, normalise_operands
from shoal.content.tables import FilterTable
from shoal.content.values import Value

MAX_COMPARED = MAX_DISJUNCTS**2
"""Most pairs of conjunctions that are compared to see whether filters cover or overlap."""
PREDICATE_BYTES = 32
"""Bytes that a predicate of a normal form counts for in a filter's size."""
MAX_TEXTS = 8_192
"""Most characters of two filters, together, that are compared operand by operand."""


class Attributes(Content, frozen=True, tag="attributes"):
    """An event's attributes by name."""

    values: dict[str, Value | None]


def values_of(content: object) -> Mapping[str, object] | None:
    """The attributes of an event, given as such or as a plain mapping; None for other content."""
    if isinstance(content, Attributes):
        return content.values
    if isinstance(content, Mapping):
        for name in content:
            if not isinstance(name, str):
                raise TypeError(f"the attribute name {name!r} is no text; names are text")
        return content
    if isinstance(content, Content):
        return None
    raise TypeError(
        f"a {type(content).__name__} is no event; give its attributes, as in {{'temperature': 31}}"
    )


class AttributeFilter(Filter, frozen=True, dict=True, tag="cesql"):
    """A filter in the filter language: ``AttributeFilter("temperature > 30")``.

    On the wire it is its text. The text is kept in one spelling, so filters that differ in spaces,
    case of keywords or needless parentheses are equal. A filter that cannot be used raises
    :class:`~shoal.content.language.FilterError` when it is made.
    """

    text: str

    def __post_init__(self) -> None:
        expression, text = _read(self.text)
        self.__dict__["expression"] = expression
        if text != self.text:
            msgspec.structs.force_setattr(self, "text", text)

    @cached_property
    def expression(self) -> Expression:
        """The filter's syntax tree."""
        return _read(self.text)[0]

    @cached_property
    def normal(self) -> NormalForm:
        """The filter as a disjunction of conjunctions: the form that indexes work on."""
        return normalise(self.expression)

    def normalised(self) -> NormalForm:
        """As :attr:`normal`, but not cached if it is not cached already."""
        known = self.__dict__
        if "normal" in known:
            return self.normal
        return normalise(known["expression"] if "expression" in known else _read(self.text)[0])

    def slim(self) -> AttributeFilter:
        """A copy without its cached forms, for tables that keep very many filters."""
        return copy(self)

    def matches(self, content: Content | Mapping[str, object]) -> bool:
        """Whether the filter is true of the attributes; an error of evaluation is "no"."""
        values = content.values if isinstance(content, Attributes) else values_of(content)
        return values is not None and holds(self.expression, values)

    def evaluate(self, content: Attributes | Mapping[str, object]) -> Outcome:
        """The value of the filter as CESQL defines it, or the error."""
        return evaluate(self.expression, values_of(content) or {})

    def explain(self, content: Attributes | Mapping[str, object]) -> Explanation:
        """Whether the filter matches and, part by part, why not."""
        return explain(self.expression, values_of(content) or {})

    def cost(self, size: int = EVENT_BYTES) -> int:
        """Steps that matching takes at most on an event of so many bytes."""
        return cost(self.expression, size)

    def check_cost(self, size: int = EVENT_BYTES, budget: int = MAX_COST) -> None:
        """Raise :class:`FilterError` if matching may take more steps than that."""
        check_cost(self.expression, size, budget)

    def cost_alone(self, size: int = EVENT_BYTES, normal: NormalForm | None = None) -> int:
        """Steps that an index cannot share with other filters: 0 without functions and the like.

        ``normal`` is the normal form, where it is at hand.
        """
        if "(" not in self.text and "LIKE" not in self.text:
            return 0
        form = self.normalised() if normal is None else normal
        alone = any(
            conjunction.residue
            or any(isinstance(p, Text) and (p.like or p.unlike) for p in conjunction.predicates)
            for conjunction in form.disjuncts
        )
        return cost(self.expression, size) if alone else 0

    def covers(self, other: Filter) -> bool:
        """Whether this filter covers another; long conjunctions are compared operand by operand."""
        if self == other:
            return True
        if not isinstance(other, AttributeFilter):
            return False
        if covering.covers(self.normal, other.normal):
            return True
        if not _by_operand(self, other):
            return False
        mine, theirs = _forms(self), _forms(other)
        return _pairs(mine, theirs) <= MAX_COMPARED and all(
            any(covering.covers(a, b) for b in theirs) for a in mine
        )

    def overlaps(self, other: Filter) -> bool:
        """Whether an event may match both filters; long conjunctions as for covering."""
        if not isinstance(other, AttributeFilter):
            return False
        if not covering.overlaps(self.normal, other.normal):
            return False
        if not _by_operand(self, other):
            return True
        mine, theirs = _forms(self), _forms(other)
        return _pairs(mine, theirs) > MAX_COMPARED or all(
            covering.overlaps(a, b) for a in mine for b in theirs
        )

    def size(self) -> int:
        """Bytes that the filter takes: those of its text, or more if a short text unfolds."""
        length = len(self.text)
        if "(" not in self.text and "XOR" not in self.text:
            return length
        unfolded = sum(len(one.predicates) for one in self.normalised().disjuncts)
        return max(length, PREDICATE_BYTES * unfolded)

    def everything(self) -> Filter:
        return EVERYTHING

    def table(self) -> FilterTable:
        return AttributeTable()

    def __and__(self, other: AttributeFilter) -> AttributeFilter:
        return of(And((*_operands(self, And), *_operands(other, And))))

    def __or__(self, other: AttributeFilter) -> AttributeFilter:
        return of(Or((*_operands(self, Or), *_operands(other, Or))))

    def __xor__(self, other: AttributeFilter) -> AttributeFilter:
        return of(Xor(self.expression, other.expression))

    def __invert__(self) -> AttributeFilter:
        return of(Not(self.expression))

    def __bool__(self) -> bool:
        raise TypeError("a filter is not a truth value: combine filters with &, | and ~")

    def __str__(self) -> str:
        return self.text


def of(expression: Expression) -> AttributeFilter:
    """The filter of an expression."""
    return AttributeFilter(show(expression))


def merge(filters: Iterable[AttributeFilter]) -> list[AttributeFilter]:
    """Fewer filters that together match exactly what these do: perfect merging.

    The result is in the order of the first filter that went into each. Events are neither gained
    nor lost; where nothing can be merged the filters come back as they were.
    """
    given = list(dict.fromkeys(filters))
    merged = covering.merge([one.normal for one in given])
    if len(merged.disjuncts) >= len(given):
        return given
    try:
        return [of(covering.expression_of_conjunction(one)) for one in merged.disjuncts]
    except FilterError:  # the union is longer than a filter may be
        return given


def _by_operand(a: AttributeFilter, b: AttributeFilter) -> bool:
    """Whether to compare operand by operand: one filter is a conjunction too long to expand."""
    return len(a.text) + len(b.text) <= MAX_TEXTS and any(
        isinstance(e, And) for f in (a, b) for one in f.normal.disjuncts for e in one.residue
    )


def _forms(one: AttributeFilter) -> list[NormalForm]:
    """The normal forms of a conjunction's operands: all of them hold where the filter does."""
    if not isinstance(one.expression, And):
        return [one.normal]
    return normalise_operands(one.expression.operands)


def _pairs(a: list[NormalForm], b: list[NormalForm]) -> int:
    """Conjunctions of the one times conjunctions of the other."""
    return sum(len(form.disjuncts) for form in a) * sum(len(form.disjuncts) for form in b)


def _operands(one: AttributeFilter, kind: type[And] | type[Or]) -> tuple[Expression, ...]:
    expression = one.expression
    return expression.operands if isinstance(expression, kind) else (expression,)


def _read(text: str) -> tuple[Expression, str]:
    """A filter's expression and its one spelling."""
    if not isinstance(text, str):
        raise TypeError(f"a filter is text, such as 'temperature > 30', and not {text!r:.80}")
    return _remembered(text) if len(text) <= REMEMBERED else _parsed(text)


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[Expression, str]:
    """A cached parse: the same filters arrive often. Long texts are not cached, to bound memory."""
    return _parsed(text)


def _parsed(text: str) -> tuple[Expression, str]:
    expression = parse(text)
    check(expression)
    check_cost(expression)
    spelt = show(expression)
    if len(spelt) > MAX_LENGTH:  # or the next node could not read it
        raise FilterError(
            f"written out, the filter has {len(spelt)} characters", 0, f"at most {MAX_LENGTH}"
        )
    return expression, spelt


EVERYTHING = AttributeFilter("TRUE")
