"""Expressions back to text, in one spelling: ``parse(show(e)) == e``.

Parentheses are written wherever the next reader might doubt, not only where the grammar needs them.
"""

from __future__ import annotations

import re

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

# Names that are, or look like, numbers need backquotes.
_BARE = re.compile(r"(?![0-9]+(?:e[0-9]*|x[0-9a-f]*|_[0-9_]*)?\Z)[a-z0-9_]+\Z")
_KEYWORDS = frozenset(("and", "or", "xor", "not", "like", "in", "exists", "true", "false"))
_PRIMARY = (Literal, Attribute, Call)


def show(expression: Expression) -> str:
    """The expression in the language."""
    match expression:
        case Literal(value):
            return show_literal(value)
        case Attribute(name):
            return show_name(name)
        case Exists(name):
            return f"EXISTS {show_name(name)}"
        case Not(Exists(name)):
            return f"NOT EXISTS {show_name(name)}"
        case Not(Like(operand, pattern)):
            return f"{_inner(operand)} NOT LIKE {show_text(pattern)}"
        case Not(In(operand, elements)):
            return f"{_inner(operand)} NOT IN ({', '.join(map(show, elements))})"
        case Not(Between(operand, low, high)):
            return f"{_inner(operand)} NOT BETWEEN {_inner(low)} AND {_inner(high)}"
        case Not(operand):
            return f"NOT {_inner(operand)}"
        case Negate(operand):
            plain = isinstance(operand, Literal) or not isinstance(operand, _PRIMARY)
            return f"-({show(operand)})" if plain else f"-{show(operand)}"
        case And(operands):
            return " AND ".join(map(_operand, operands))
        case Or(operands):
            return " OR ".join(map(_operand, operands))
        case Xor(left, right):
            return f"{_operand(left)} XOR {_operand(right)}"
        case Comparison(operator, left, right) | Arithmetic(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case Like(operand, pattern):
            return f"{_inner(operand)} LIKE {show_text(pattern)}"
        case In(operand, elements):
            return f"{_inner(operand)} IN ({', '.join(map(show, elements))})"
        case Between(operand, low, high):
            return f"{_inner(operand)} BETWEEN {_inner(low)} AND {_inner(high)}"
        case Call(name, arguments):
            return f"{name}({', '.join(map(show, arguments))})"


def _inner(operand: Expression) -> str:
    """An operand of a tight operator."""
    return show(operand) if isinstance(operand, _PRIMARY) else f"({show(operand)})"


def _operand(operand: Expression) -> str:
    """An operand of AND, OR or XOR: only another of these needs parentheses."""
    return f"({show(operand)})" if isinstance(operand, And | Or | Xor) else show(operand)


def show_name(name: str) -> str:
    """An attribute's name, in backquotes where it needs them."""
    return name if _BARE.match(name) and name not in _KEYWORDS else f"`{name}`"


def show_text(text: str) -> str:
    """A text in quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def show_literal(value: bool | int | float | str) -> str:
    """A constant."""
    if isinstance(value, str):
        return show_text(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{exponent}{power}"
    return str(value)
