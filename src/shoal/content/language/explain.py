"""Why a filter does not match: which part, on what value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from shoal.content import values
from shoal.content.language.evaluate import evaluate
from shoal.content.language.functions import Failure
from shoal.content.language.printer import show, show_literal, show_name
from shoal.content.language.syntax import And, Expression, Not, Or, Xor
from shoal.content.language.walk import names


class Explanation(msgspec.Struct, frozen=True):
    """Whether a filter matched, and a line for each part that decided so."""

    matched: bool
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        head = "matches" if self.matched else "does not match"
        return "\n".join((head, *(f"  {reason}" for reason in self.reasons)))


def explain(expression: Expression, attributes: Mapping[str, object]) -> Explanation:
    """Which parts of a filter decide whether it matches."""
    matched = evaluate(expression, attributes) is True
    reasons = dict.fromkeys(_reasons(expression, attributes))
    return Explanation(matched, tuple(reasons))


def _reasons(expression: Expression, attributes: Mapping[str, object]) -> Iterable[str]:
    outcome = evaluate(expression, attributes)
    match expression:
        case And(operands) | Or(operands):
            yield from _deciding(operands, isinstance(expression, Or), attributes)
        case Not(operand) if isinstance(operand, And | Or | Xor | Not):
            yield from _reasons(operand, attributes)
        case Xor(left, right):
            yield from _reasons(left, attributes)
            if not isinstance(evaluate(left, attributes), Failure):
                yield from _reasons(right, attributes)
        case _:
            what = show(expression)
            if isinstance(outcome, Failure):
                yield f"{what} fails: {outcome.reason}{_hint(expression, attributes)}"
            else:
                seen = ", ".join(_values(expression, attributes))
                yield f"{what} is {_word(outcome)}" + (f": {seen}" if seen else "")


def _deciding(
    operands: tuple[Expression, ...], decided: bool, attributes: Mapping[str, object]
) -> Iterable[str]:
    """The operand that stops AND or OR, or all of them if none does."""
    evaluated: list[Expression] = []
    for operand in operands:
        outcome = evaluate(operand, attributes)
        truth = None if isinstance(outcome, Failure) else values.truth(outcome)
        if truth is None or truth is decided:
            yield from _reasons(operand, attributes)
            return
        evaluated.append(operand)
    for operand in evaluated:
        yield from _reasons(operand, attributes)


def _word(outcome: object) -> str:
    if isinstance(outcome, bool):
        return "true" if outcome else "false"
    if isinstance(outcome, int | float | str):
        return f"{show_literal(outcome)}, not a truth value"
    return ""


def _values(expression: Expression, attributes: Mapping[str, object]) -> Iterable[str]:
    for name in dict.fromkeys(names(expression)):
        value = values.native(attributes.get(name))
        yield f"{show_name(name)} is " + ("absent" if value is None else show_literal(value))


def _hint(expression: Expression, attributes: Mapping[str, object]) -> str:
    """An attribute of nearly the missing name, if there is one."""
    for name in names(expression):
        if values.native(attributes.get(name)) is None:
            folded = {other.lower(): other for other in attributes}
            near = [folded[name.lower()]] if name.lower() in folded else []
            near = near or get_close_matches(name, list(attributes), 1)
            if near and near[0] != name:
                return f" (there is {show_name(near[0])})"
    return ""
