"""The operands of an expression, and the attributes that it names or needs."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.content.language import syntax
from shoal.content.language.syntax import Expression


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in the order they are evaluated."""
    match expression:
        case syntax.Literal() | syntax.Attribute() | syntax.Exists():
            return ()
        case syntax.Not(operand) | syntax.Negate(operand) | syntax.Like(operand):
            return (operand,)
        case syntax.And(operands) | syntax.Or(operands) | syntax.Call(_, operands):
            return operands
        case (
            syntax.Xor(left, right)
            | syntax.Comparison(_, left, right)
            | syntax.Arithmetic(_, left, right)
        ):
            return (left, right)
        case syntax.In(operand, elements):
            return (operand, *elements)
        case syntax.Between(operand, low, high):
            return (operand, low, high)


def names(expression: Expression) -> Iterator[str]:
    """Every attribute that an expression names, once per mention."""
    if isinstance(expression, syntax.Attribute | syntax.Exists):
        yield expression.name
    for part in parts(expression):
        yield from names(part)


def needed(expression: Expression) -> Iterator[str]:
    """Attributes without which an expression surely fails."""
    if isinstance(expression, syntax.Attribute):
        yield expression.name
    operands = parts(expression)
    for part in operands[:1] if isinstance(expression, syntax.And | syntax.Or) else operands:
        yield from needed(part)  # AND and OR may stop after their first operand
