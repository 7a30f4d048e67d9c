"""Covering, overlap and merging of filters.

Answers are sound: that a filter covers another, or does not overlap it, is never wrong. They are
complete for conjunctions of interval, set, prefix and equality predicates, if each attribute is
read in one way (:mod:`.sets` says what is left open). A disjunction is found to cover another if
each conjunction of the other lies within *one* of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from shoal.content.conjunctions import conjoin, merge_alike, within
from shoal.content.language import syntax
from shoal.content.language.syntax import Attribute, Comparison, Expression, Literal
from shoal.content.normal import Absent, Conjunction, NormalForm, Number, Predicate, Text, Truth
from shoal.content.sets import excluding
from shoal.content.values import number, spellings, truth


def covers(a: NormalForm, b: NormalForm) -> bool:
    """True only if every event that ``b`` matches, ``a`` matches too."""
    return all(any(within(theirs, mine) for mine in a.disjuncts) for theirs in b.disjuncts)


def overlaps(a: NormalForm, b: NormalForm) -> bool:
    """False only if no event can match both."""
    return any(conjoin(mine, theirs) is not None for mine in a.disjuncts for theirs in b.disjuncts)


def merge(forms: Sequence[NormalForm]) -> NormalForm:
    """The union of several normal forms, in few conjunctions.

    Conjunctions that others contain are dropped; those that differ in one predicate are united
    where the union is a predicate again (touching intervals, sets).
    """
    disjuncts = list(dict.fromkeys(one for form in forms for one in form.disjuncts))
    disjuncts = merge_alike(disjuncts)
    if len(disjuncts) <= 512:  # quadratic: more stay unmerged
        disjuncts = _maximal(disjuncts)
    return NormalForm(tuple(disjuncts))


def _maximal(disjuncts: list[Conjunction]) -> list[Conjunction]:
    kept: list[Conjunction] = []
    for at, one in enumerate(disjuncts):
        if not any(within(one, other) for other in (*kept, *disjuncts[at + 1 :])):
            kept.append(one)
    return kept


# Back to the language


def expression_of_conjunction(conjunction: Conjunction) -> Expression:
    """A filter that matches exactly what the conjunction does."""
    if any(isinstance(e, Attribute) for e in conjunction.residue):
        return conjunction.residue[0]  # only the filter that is a bare attribute has such a residue
    parts = [part for p in conjunction.predicates for part in _parts(p)] + [*conjunction.residue]
    if not parts:
        return Literal(True)
    if len(parts) == 1:
        return parts[0]
    return syntax.And(
        tuple(e for p in parts for e in (p.operands if isinstance(p, syntax.And) else (p,)))
    )


def _parts(predicate: Predicate) -> Iterable[Expression]:
    attribute = Attribute(predicate.attribute)
    match predicate:
        case Number():
            yield from _number(attribute, predicate)
        case Text():
            yield from _text(attribute, predicate)
        case Truth(_, value):
            yes, no = (Comparison("=", attribute, Literal(truth)) for truth in (True, False))
            yield syntax.Or((yes, no)) if value is None else yes if value else no
        case Absent(name):
            yield syntax.Not(syntax.Exists(name))
        case _:
            yield syntax.Exists(predicate.attribute)


def _number(attribute: Attribute, wanted: Number) -> Iterable[Expression]:
    low, high = wanted.low, wanted.high
    if low == high:
        yield Comparison("=", attribute, Literal(low))
        return
    if -inf < low and high < inf and not wanted.low_open and not wanted.high_open:
        yield syntax.Between(attribute, Literal(low), Literal(high))
    else:
        if low > -inf:
            yield Comparison(">" if wanted.low_open else ">=", attribute, Literal(low))
        if high < inf:
            yield Comparison("<" if wanted.high_open else "<=", attribute, Literal(high))
    for hole in wanted.holes:
        yield Comparison("!=", attribute, Literal(hole))
    if low == -inf and high == inf and not wanted.holes:  # it is a number, any number
        zero = Literal(0)
        yield syntax.Or((Comparison("<=", attribute, zero), Comparison(">", attribute, zero)))


def _text(attribute: Attribute, wanted: Text) -> Iterable[Expression]:
    if wanted.among is not None:
        equalities = tuple(Comparison("=", attribute, Literal(text)) for text in wanted.among)
        if len(equalities) == 1:
            yield equalities[0]
        elif all(_says_itself(text) for text in wanted.among):
            yield syntax.In(attribute, tuple(Literal(text) for text in wanted.among))
        else:
            yield syntax.Or(equalities)
        return
    patterns = list(wanted.like)
    for function, part, pattern in (
        ("STARTS_WITH", wanted.prefix, excluding(prefix=wanted.prefix) if wanted.prefix else None),
        ("ENDS_WITH", wanted.suffix, excluding(suffix=wanted.suffix) if wanted.suffix else None),
        *(("CONTAINS", part, excluding(part=part)) for part in wanted.contains),
    ):
        if pattern is not None:
            patterns.append(pattern)
        elif part:
            yield syntax.Call(function, (attribute, Literal(part)))
    for pattern in patterns:
        yield syntax.Like(attribute, pattern)
    for pattern in wanted.unlike:
        yield syntax.Not(syntax.Like(attribute, pattern))
    for hole in wanted.holes:
        yield Comparison("!=", attribute, Literal(hole))


def _says_itself(text: str) -> bool:
    """Whether IN with this constant means equality with this text, for values of any type."""
    spelt_otherwise = len(spellings(text)) == 1
    return not (spelt_otherwise and (number(text) is not None or truth(text) is not None))
