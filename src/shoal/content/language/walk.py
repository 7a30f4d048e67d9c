"""Which attributes an expression depends on."""

from __future__ import annotations

from collections.abc import Iterator

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


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in the order they are evaluated."""
    match expression:
        case Literal() | Attribute() | Exists():
            return ()
        case Not(operand) | Negate(operand) | Like(operand):
            return (operand,)
        case And(operands) | Or(operands) | Call(_, operands):
            return operands
        case Xor(left, right) | Comparison(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case In(operand, elements):
            return (operand, *elements)
        case Between(operand, low, high):
            return (operand, low, high)


def names(expression: Expression) -> Iterator[str]:
    """Every attribute an expression names, as often as it does."""
    if isinstance(expression, Attribute | Exists):
        yield expression.name
    for part in parts(expression):
        yield from names(part)


def needed(expression: Expression) -> Iterator[str]:
    """Attributes without which an expression surely fails."""
    if isinstance(expression, Attribute):
        yield expression.name
    operands = parts(expression)
    for part in operands[:1] if isinstance(expression, And | Or) else operands:
        yield from needed(part)  # AND and OR may stop after their first operand
