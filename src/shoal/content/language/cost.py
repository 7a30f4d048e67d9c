"""The most that evaluating a filter can cost, known before it ever sees an event.

Filters come from strangers, and one that takes seconds stops a broker. So the work that evaluation
does is bounded, part by part, by a linear form in the sizes of the attributes:

    steps <= constant + a1 size(x1) + a2 size(x2) + ...

All attributes of an event together are no larger than the event, so on an event of ``size`` bytes
the work is at most ``constant + max(a1, a2, ...) * size``. A step is about a nanosecond; the rates
below are what the slowest texts take, rounded up (``shoal bench filters`` measures them). Texts
that are made on the way are charged eight steps a byte: their memory is bounded as well, to half a
byte a step.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeAlias

from shoal.content import values
from shoal.content.language import like, syntax
from shoal.content.language.limits import EVENT_BYTES, MAX_COST, FilterError
from shoal.content.language.syntax import Expression
from shoal.content.language.walk import parts

Size: TypeAlias = dict[str, float]
"""Bytes of a text: so many per byte of each attribute; under the empty name, regardless of any."""

PART: Final = 1_000  # steps to evaluate any part of a filter
CAST: Final = 8_000  # to read a value as a number or as text
PATTERN: Final = 200  # per character of a LIKE pattern
WRITE: Final = 8  # per byte of a text that is made
FOLD: Final = 32  # per byte, to LOWER or UPPER
TRIM: Final = 12  # per byte
SEARCH: Final = 7  # per byte, to find a text in another
SHORT_SEARCH: Final = 16 * 30_000  # and once: short texts are searched in a simpler way
COMPARE: Final = 0.25  # per byte
NUMERAL: Final = 400  # bytes of a number written out


def cost(expression: Expression, size: int = EVENT_BYTES) -> int:
    """Steps that evaluating the expression takes at most on an event of so many bytes."""
    meter = _Meter()
    meter.evaluate(expression)
    constant = meter.steps.pop("", 0.0)
    return int(constant + max(meter.steps.values(), default=0.0) * size)


def check_cost(expression: Expression, size: int = EVENT_BYTES, budget: int = MAX_COST) -> None:
    """Raise :class:`FilterError` if evaluating the expression may take more steps than allowed."""
    found = cost(expression, size)
    if found > budget:
        raise FilterError(
            f"the filter may take {found / 1e6:,.0f} million steps on an event of {size:,} bytes; "
            f"{budget / 1e6:,.0f} million are allowed",
            0,
            "say it in several filters, or with fewer LIKEs and functions on text",
        )


class _Meter:
    def __init__(self) -> None:
        self.steps: Size = defaultdict(float)

    def spend(self, rate: float, size: Size) -> None:
        for name, bytes_ in size.items():
            self.steps[name] += rate * bytes_

    def evaluate(self, expression: Expression) -> Size:
        """Charge for an expression; the size of its value as text."""
        self.steps[""] += PART
        match expression:
            case syntax.Literal(value):
                text = values.text(value)
                return {"": float(len(text) if text.isascii() else 4 * len(text))}
            case syntax.Attribute(name):
                self.steps[""] += CAST
                return {name: 1.0, "": NUMERAL}
            case syntax.Exists():
                return {"": 5.0}
        operands = [self.evaluate(part) for part in parts(expression)]
        match expression:
            case syntax.Call(name):
                return self.call(name, expression, operands)
            case syntax.Like(_, pattern):
                self.search(pattern, operands[0])
            case syntax.Comparison("=" | "!=", left, right):
                self.steps[""] += CAST
                # As far as the shorter one goes: a constant bounds it.
                shorter = operands[0] if isinstance(left, syntax.Literal) else operands[1]
                if not isinstance(left, syntax.Literal) and not isinstance(right, syntax.Literal):
                    shorter = operands[0]
                self.spend(COMPARE, shorter)
            case syntax.In(_, elements):
                for element, size in zip(elements, operands[1:], strict=True):
                    if not isinstance(element, syntax.Literal):
                        self.steps[""] += CAST
                    self.spend(COMPARE, size)
            case syntax.Comparison() | syntax.Between() | syntax.Arithmetic():
                self.steps[""] += CAST * len(operands)
        return {"": NUMERAL}

    def search(self, pattern: str, text: Size) -> None:
        """LIKE: its segments are found one after the other, each in what the last left over."""
        rate, constant = like.work(pattern)
        self.steps[""] += constant + PATTERN * len(pattern) + (SHORT_SEARCH if rate else 0)
        self.spend(rate, text)

    def call(self, name: str, expression: syntax.Call, operands: list[Size]) -> Size:
        """Charge for a function; the size of its result."""
        self.steps[""] += CAST
        match name:
            case "CONCAT" | "CONCAT_WS":
                written: Size = defaultdict(float)
                between = operands.pop(0) if name == "CONCAT_WS" else {}
                for operand in (*operands, _times(between, max(0, len(operands) - 1))):
                    for attribute, bytes_ in operand.items():
                        written[attribute] += bytes_
                self.spend(WRITE, written)
                return written
            case "LOWER" | "UPPER":
                self.spend(FOLD, operands[0])
                grown = _times(operands[0], 1.5 if name == "LOWER" else 3.0)
                self.spend(WRITE, grown)
                return grown
            case "TRIM":
                self.spend(TRIM, operands[0])
                self.spend(WRITE, operands[0])
                return operands[0]
            case "LEFT" | "RIGHT" | "SUBSTRING":
                counted = name != "SUBSTRING" or len(operands) == 3
                count = expression.arguments[-1] if counted else None
                cut = operands[0]
                if isinstance(count, syntax.Literal) and isinstance(count.value, int):
                    cut = {"": 4.0 * max(0, count.value)}  # bytes of so many characters
                self.spend(WRITE, cut)
                return cut
            case "STRING":
                return operands[0]
            case "CONTAINS":
                self.steps[""] += SHORT_SEARCH
                self.spend(SEARCH, operands[0])
                self.spend(SEARCH, operands[1])
            case "STARTS_WITH" | "ENDS_WITH":
                self.spend(COMPARE, operands[1])
            case _:
                self.steps[""] += CAST * len(operands)
        return {"": NUMERAL}


def _times(size: Size, factor: float) -> Size:
    return {name: factor * bytes_ for name, bytes_ in size.items()}
