"""Typed attributes, and conjunctions of comparisons over them.

An absent attribute, or one of another type than the constant, satisfies no comparison.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from shoal.content.model import Content, Filter
from shoal.content.tables import FilterTable, NaiveTable

Value: TypeAlias = bool | int | float | str
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


class Attributes(Content, frozen=True, tag="attributes"):
    """An event's attributes by name."""

    values: dict[str, Value]


class Comparison(msgspec.Struct, frozen=True, cache_hash=True):
    """``attribute operator constant``, e.g. ``temperature > 30``."""

    attribute: str
    operator: Operator
    constant: Value

    def holds(self, value: Value | None) -> bool:
        """Whether an attribute's value satisfies the comparison."""
        if value is None or not _comparable(value, self.constant):
            return False
        constant = self.constant
        match self.operator:
            case "=":
                return value == constant
            case "!=":
                return value != constant
            case "<":
                return value < constant  # type: ignore[operator]  # _comparable made the types fit
            case "<=":
                return value <= constant  # type: ignore[operator]  # as above
            case ">":
                return value > constant  # type: ignore[operator]  # as above
            case ">=":
                return value >= constant  # type: ignore[operator]  # as above

    def implies(self, other: Comparison) -> bool:
        """Whether every value that satisfies this one satisfies ``other`` (sound, not complete)."""
        if self == other:
            return True
        if self.attribute != other.attribute or not _comparable(self.constant, other.constant):
            return False
        if self.operator == "=":
            return other.holds(self.constant)
        mine, theirs = self.constant, other.constant
        match (self.operator, other.operator):
            case (">", ">") | (">=", ">=") | (">", ">="):
                return mine >= theirs  # type: ignore[operator]  # _comparable made the types fit
            case (">=", ">") | (">=", "!="):
                return mine > theirs  # type: ignore[operator]  # as above
            case ("<", "<") | ("<=", "<=") | ("<", "<="):
                return mine <= theirs  # type: ignore[operator]  # as above
            case ("<=", "<") | ("<=", "!="):
                return mine < theirs  # type: ignore[operator]  # as above
            case (">", "!="):
                return mine >= theirs  # type: ignore[operator]  # as above
            case ("<", "!="):
                return mine <= theirs  # type: ignore[operator]  # as above
        return False

    def __str__(self) -> str:
        return f"{self.attribute} {self.operator} {self.constant!r}"


class Conjunction(Filter, frozen=True, tag="conjunction"):
    """All of these comparisons hold. The empty conjunction matches every event with attributes."""

    comparisons: tuple[Comparison, ...] = ()

    def matches(self, content: Content) -> bool:
        """See :class:`~shoal.content.model.Filter`."""
        return isinstance(content, Attributes) and all(
            c.holds(content.values.get(c.attribute)) for c in self.comparisons
        )

    def covers(self, other: Filter) -> bool:
        """Each of my comparisons follows from one of the other's."""
        return isinstance(other, Conjunction) and all(
            any(theirs.implies(mine) for theirs in other.comparisons) for mine in self.comparisons
        )

    def overlaps(self, other: Filter) -> bool:
        """False where an equality of one contradicts a comparison of the other."""
        if not isinstance(other, Conjunction):
            return False
        both = self.comparisons + other.comparisons
        return not any(
            a.operator == "=" and a.attribute == b.attribute and not b.holds(a.constant)
            for a in both
            for b in both
        )

    def table(self) -> FilterTable:
        """See :class:`~shoal.content.model.Filter`."""
        return NaiveTable()

    def __str__(self) -> str:
        return " AND ".join(map(str, self.comparisons)) or "TRUE"


def _comparable(a: Value, b: Value) -> bool:
    """Numbers with numbers, strings with strings, booleans with booleans."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool)
    return isinstance(a, str) == isinstance(b, str)
