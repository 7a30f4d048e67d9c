"""Errors of a filter that are known before it ever sees an event."""

from __future__ import annotations

from shoal.content import values
from shoal.content.language import syntax
from shoal.content.language.functions import FUNCTIONS
from shoal.content.language.limits import FilterError
from shoal.content.language.printer import show
from shoal.content.language.syntax import Expression


def check(expression: Expression) -> None:
    """Raise :class:`FilterError` if the expression cannot be a filter, or can never match."""
    kind = other_than_condition(expression)
    if kind:
        raise FilterError(
            f"{_short(expression)} is {kind}, not a condition", 0, "compare it: x > 5"
        )
    _check_order(expression)


def other_than_condition(expression: Expression) -> str:
    """Name of what the expression is if it is no condition; empty if it is one."""
    if isinstance(expression, syntax.Literal) and not isinstance(expression.value, bool):
        return "text" if isinstance(expression.value, str) else "a number"
    if isinstance(expression, syntax.Arithmetic | syntax.Negate):
        return "a number"
    if isinstance(expression, syntax.Call):
        returns = FUNCTIONS[expression.name].returns
        return {"text": "text", "condition": ""}.get(returns, "a number")
    return ""


def _check_order(expression: Expression) -> None:
    """Order is for numbers: ``name < 'M'`` would fail on every event, silently."""
    match expression:
        case syntax.And(operands) | syntax.Or(operands):
            for operand in operands:
                _check_order(operand)
        case syntax.Not(operand):
            _check_order(operand)
        case syntax.Xor(left, right):
            _check_order(left)
            _check_order(right)
        case syntax.Comparison("<" | "<=" | ">" | ">=", left, right):
            for side in (left, right):
                if isinstance(side, syntax.Literal) and values.number(side.value) is None:
                    raise FilterError(
                        f"{_short(expression)} compares the order of text",
                        0,
                        "order is for numbers; compare text with =, IN or LIKE",
                    )


def _short(expression: Expression) -> str:
    text = show(expression)
    return text if len(text) <= 60 else text[:57] + "..."
