"""Filters in Python: ``(F.temperature > 30) & F.room.like("lab%")``.

``F.name`` (or ``F["any name"]``) is an attribute; comparing it gives a filter, the very object that
``AttributeFilter("temperature > 30 AND room LIKE 'lab%'")`` is. Combine filters with ``&``, ``|``,
``^`` and ``~``, in parentheses: Python's operators bind tighter than its comparisons.
"""

from __future__ import annotations

from typing import TypeAlias

from shoal.content.attributes import AttributeFilter, of
from shoal.content.language import syntax
from shoal.content.language.functions import FUNCTIONS
from shoal.content.language.limits import FilterError
from shoal.content.language.syntax import Expression

Operand: TypeAlias = "Term | bool | int | float | str"


def _expression(operand: Operand) -> Expression:
    if isinstance(operand, Term):
        return operand.expression
    if not isinstance(operand, bool | int | float | str):
        raise FilterError(
            f"{operand!r} cannot be a constant", 0, "give text, a number or a boolean"
        )
    if isinstance(operand, float) and not abs(operand) < float("inf"):
        raise FilterError(f"{operand!r} cannot be a constant", 0, "only finite numbers can")
    return syntax.Literal(operand)


class Term:
    """A value computed from an event: an attribute, or something made from attributes."""

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # == makes a filter, so a term cannot be a key

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def _compare(self, operator: syntax.ComparisonOperator, other: Operand) -> AttributeFilter:
        return of(syntax.Comparison(operator, self.expression, _expression(other)))

    def __eq__(self, other: Operand) -> AttributeFilter:  # type: ignore[override]  # a filter
        return self._compare("=", other)

    def __ne__(self, other: Operand) -> AttributeFilter:  # type: ignore[override]  # a filter
        return self._compare("!=", other)

    def __lt__(self, other: Operand) -> AttributeFilter:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> AttributeFilter:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> AttributeFilter:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> AttributeFilter:
        return self._compare(">=", other)

    def _arithmetic(self, operator: syntax.ArithmeticOperator, other: Operand) -> Term:
        return Term(syntax.Arithmetic(operator, self.expression, _expression(other)))

    def __add__(self, other: Operand) -> Term:
        return self._arithmetic("+", other)

    def __sub__(self, other: Operand) -> Term:
        return self._arithmetic("-", other)

    def __mul__(self, other: Operand) -> Term:
        return self._arithmetic("*", other)

    def __truediv__(self, other: Operand) -> Term:
        return self._arithmetic("/", other)

    def __mod__(self, other: Operand) -> Term:
        return self._arithmetic("%", other)

    def __neg__(self) -> Term:
        return Term(syntax.Negate(self.expression))

    def like(self, pattern: str) -> AttributeFilter:
        """Text that fits a pattern of ``%`` (anything) and ``_`` (one character)."""
        return of(syntax.Like(self.expression, pattern))

    def is_in(self, *elements: Operand) -> AttributeFilter:
        """Equality with one of these."""
        return of(syntax.In(self.expression, tuple(map(_expression, elements))))

    def between(self, low: Operand, high: Operand) -> AttributeFilter:
        """A number within two bounds, both included."""
        return of(syntax.Between(self.expression, _expression(low), _expression(high)))

    def starts_with(self, text: str) -> AttributeFilter:
        """Text with this beginning."""
        return of(syntax.Call("STARTS_WITH", (self.expression, syntax.Literal(text))))

    def ends_with(self, text: str) -> AttributeFilter:
        """Text with this end."""
        return of(syntax.Call("ENDS_WITH", (self.expression, syntax.Literal(text))))

    def contains(self, text: str) -> AttributeFilter:
        """Text with this somewhere in it."""
        return of(syntax.Call("CONTAINS", (self.expression, syntax.Literal(text))))

    def is_true(self) -> AttributeFilter:
        """A value that reads as true."""
        return self == True  # noqa: E712  # == makes a filter

    def exists(self) -> AttributeFilter:
        """The event has the attribute."""
        if not isinstance(self.expression, syntax.Attribute):
            raise FilterError("only an attribute can exist")
        return of(syntax.Exists(self.expression.name))

    def __getattr__(self, name: str) -> Term:
        raise AttributeError(f"a filter's term has no {name!r}; apply functions with F.call(...)")


class _Attributes:
    """``F``: its attributes are the attributes of events."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Term:
        if not name or "`" in name:
            raise FilterError(f"{name!r} cannot be the name of an attribute")
        return Term(syntax.Attribute(name))

    def call(self, function: str, *arguments: Operand) -> Term:
        """A function of the language applied: ``F.call("LENGTH", F.name) > 3``."""
        if function.upper() not in FUNCTIONS:
            raise FilterError(f"no function {function}", kind="missingFunction")
        return Term(syntax.Call(function.upper(), tuple(map(_expression, arguments))))


F = _Attributes()
"""The attributes of events, to build filters from."""


def within(
    latitude: float, longitude: float, radius: float, *, at: tuple[Term, Term] | None = None
) -> AttributeFilter:
    """At most ``radius`` metres from a place; ``at`` names the two attributes.

    Without ``at`` they are ``latitude`` and ``longitude``, in degrees.
    """
    return _place("WITHIN", at, latitude, longitude, radius)


def within_box(
    south: float, west: float, north: float, east: float, *, at: tuple[Term, Term] | None = None
) -> AttributeFilter:
    """Inside a box of degrees; one with ``west > east`` spans the 180th meridian."""
    return _place("WITHIN_BOX", at, south, west, north, east)


def _place(function: str, at: tuple[Term, Term] | None, *numbers: float) -> AttributeFilter:
    here: tuple[Operand, ...] = at or (F.latitude, F.longitude)
    return of(syntax.Call(function, tuple(map(_expression, here + numbers))))
