"""Expressions back to text, in one spelling: ``parse(show(e)) == e``.

Parentheses are written wherever the next reader might doubt, not only where the grammar needs them.
"""

from __future__ import annotations

import re

from shoal.content.language import syntax
from shoal.content.language.syntax import Expression

# Names that are, or look like, numbers need backquotes.
_BARE = re.compile(r"(?![0-9]+(?:e[0-9]*|x[0-9a-f]*|_[0-9_]*)?\Z)[a-z0-9_]+\Z")
_KEYWORDS = frozenset(("and", "or", "xor", "not", "like", "in", "exists", "true", "false"))
_PRIMARY = (syntax.Literal, syntax.Attribute, syntax.Call)


def show(expression: Expression) -> str:
    """The expression in the language."""
    match expression:
        case syntax.Literal(value):
            return show_literal(value)
        case syntax.Attribute(name):
            return show_name(name)
        case syntax.Exists(name):
            return f"EXISTS {show_name(name)}"
        case syntax.Not(syntax.Exists(name)):
            return f"NOT EXISTS {show_name(name)}"
        case syntax.Not(syntax.Like(operand, pattern)):
            return f"{_inner(operand)} NOT LIKE {show_text(pattern)}"
        case syntax.Not(syntax.In(operand, elements)):
            return f"{_inner(operand)} NOT IN ({', '.join(map(show, elements))})"
        case syntax.Not(syntax.Between(operand, low, high)):
            return f"{_inner(operand)} NOT BETWEEN {_inner(low)} AND {_inner(high)}"
        case syntax.Not(operand):
            return f"NOT {_inner(operand)}"
        case syntax.Negate(operand):
            plain = isinstance(operand, syntax.Literal) or not isinstance(operand, _PRIMARY)
            return f"-({show(operand)})" if plain else f"-{show(operand)}"
        case syntax.And(operands):
            return " AND ".join(map(_operand, operands))
        case syntax.Or(operands):
            return " OR ".join(map(_operand, operands))
        case syntax.Xor(left, right):
            return f"{_operand(left)} XOR {_operand(right)}"
        case syntax.Comparison(operator, left, right) | syntax.Arithmetic(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case syntax.Like(operand, pattern):
            return f"{_inner(operand)} LIKE {show_text(pattern)}"
        case syntax.In(operand, elements):
            return f"{_inner(operand)} IN ({', '.join(map(show, elements))})"
        case syntax.Between(operand, low, high):
            return f"{_inner(operand)} BETWEEN {_inner(low)} AND {_inner(high)}"
        case syntax.Call(name, arguments):
            return f"{name}({', '.join(map(show, arguments))})"


def _inner(operand: Expression) -> str:
    """An operand of a tight operator."""
    return show(operand) if isinstance(operand, _PRIMARY) else f"({show(operand)})"


def _operand(operand: Expression) -> str:
    """An operand of AND, OR or XOR: only another of these needs parentheses."""
    return (
        f"({show(operand)})"
        if isinstance(operand, syntax.And | syntax.Or | syntax.Xor)
        else show(operand)
    )


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
