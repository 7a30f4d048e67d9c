"""The parts of an expression: plain data, compared by value.

``AND`` and ``OR`` hold any number of operands, since long chains are common and associative;
everything else nests, at most :data:`~shoal.content.language.limits.MAX_DEPTH`
deep. ``x NOT LIKE p`` is ``Not(Like(x, p))``, likewise ``NOT IN`` and ``NOT BETWEEN``.
"""

from __future__ import annotations

from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

ComparisonOperator: TypeAlias = OneOf["=", "!=", "<", "<=", ">", ">="]
ArithmeticOperator: TypeAlias = OneOf["+", "-", "*", "/", "%"]


class Literal(msgspec.Struct, frozen=True, eq=False):
    """A constant: text, integer, decimal or boolean. ``1``, ``1.0`` and ``TRUE`` are different."""

    value: bool | int | float | str

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __ne__(self, other: object) -> bool:  # msgspec's would compare identities
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self.value).__name__, self.value))


class Attribute(msgspec.Struct, frozen=True):
    """The value of an event's attribute."""

    name: str


class Exists(msgspec.Struct, frozen=True):
    """Whether the event has the attribute."""

    name: str


class Not(msgspec.Struct, frozen=True):
    """The negation of a condition."""

    operand: Expression


class Negate(msgspec.Struct, frozen=True):
    """A number with its sign changed."""

    operand: Expression


class And(msgspec.Struct, frozen=True):
    """All operands hold; evaluated from the left up to the first that does not."""

    operands: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True):
    """Some operand holds; evaluated from the left up to the first that does."""

    operands: tuple[Expression, ...]


class Xor(msgspec.Struct, frozen=True):
    """Exactly one operand holds."""

    left: Expression
    right: Expression


class Comparison(msgspec.Struct, frozen=True):
    """Two values compared."""

    operator: ComparisonOperator
    left: Expression
    right: Expression


class Arithmetic(msgspec.Struct, frozen=True):
    """A number made from two."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


class Like(msgspec.Struct, frozen=True):
    """Text against a pattern of ``%`` and ``_``."""

    operand: Expression
    pattern: str


class In(msgspec.Struct, frozen=True):
    """Equality with one of a list."""

    operand: Expression
    elements: tuple[Expression, ...]


class Between(msgspec.Struct, frozen=True):
    """A number within two bounds, both included."""

    operand: Expression
    low: Expression
    high: Expression


class Call(msgspec.Struct, frozen=True):
    """A function applied; the name is in upper case."""

    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Literal
    | Attribute
    | Exists
    | Not
    | Negate
    | And
    | Or
    | Xor
    | Comparison
    | Arithmetic
    | Like
    | In
    | Between
    | Call
)
