"""The functions of the language: CESQL's, and Shoal's for text ends and places.

Each is linear in its arguments. A function that fails still has a value, as CESQL asks; a filter in
which anything fails does not match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from shoal.content import values
from shoal.content.language.places import distance

Plain: TypeAlias = bool | int | float | str
FailureKind: TypeAlias = Literal[
    "math", "cast", "missingAttribute", "missingFunction", "functionEvaluation"
]
Type: TypeAlias = Literal["text", "number", "integer", "condition", "any"]

ZERO: Final[dict[Type, Plain]] = {
    "text": "",
    "number": 0,
    "integer": 0,
    "condition": False,
    "any": False,
}


class Failure(msgspec.Struct, frozen=True):
    """An evaluation that went wrong: the kind of error, the reason, and CESQL's value for it."""

    kind: FailureKind
    reason: str
    value: Plain


class Function(msgspec.Struct, frozen=True):
    """A function: types of its parameters, of further arguments if any, and of its result."""

    parameters: tuple[Type, ...]
    returns: Type
    apply: Callable[..., Plain | Failure]
    optional: int = 0
    rest: Type | None = None

    @property
    def takes(self) -> str:
        """Number of arguments, in words."""
        most = len(self.parameters)
        if self.rest is not None:
            return f"{most} or more arguments"
        return f"{most - self.optional} or {most}" if self.optional else f"{most}"

    def types(self, count: int) -> tuple[Type, ...] | None:
        """The types of ``count`` arguments, or None if it does not take so many."""
        most = len(self.parameters)
        if most - self.optional <= count <= most:
            return self.parameters[:count]
        if count > most and self.rest is not None:
            return self.parameters + (self.rest,) * (count - most)
        return None


def shown(value: Plain) -> str:
    """A value in an error's reason: the beginning of a long text."""
    return repr(value if not isinstance(value, str) or len(value) <= 80 else value[:77] + "...")


# What Unicode calls white space; str.strip() would take some control characters as well.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def _left(text: str, count: int) -> Plain | Failure:
    if count < 0:
        return Failure("functionEvaluation", f"LEFT of {count} characters", text)
    return text[:count]


def _right(text: str, count: int) -> Plain | Failure:
    if count < 0:
        return Failure("functionEvaluation", f"RIGHT of {count} characters", text)
    return text[max(len(text) - count, 0) :]


def _substring(text: str, start: int, count: int | None = None) -> Plain | Failure:
    if abs(start) > len(text):
        return Failure("functionEvaluation", f"SUBSTRING from {start} of {len(text)}", "")
    if count is not None and count < 0:
        return Failure("functionEvaluation", f"SUBSTRING of {count} characters", "")
    if start == 0:
        return ""
    first = start - 1 if start > 0 else len(text) + start
    return text[first:] if count is None else text[first : first + count]


def _absolute(number: int | float) -> Plain | Failure:
    if number == -(2**31) and isinstance(number, int):  # CESQL's own limit, kept for conformance
        return Failure("math", "ABS(-2147483648) does not fit 32 bits", 2**31 - 1)
    if number == values.INT_MIN:
        return Failure("math", "ABS does not fit 64 bits", values.INT_MAX)
    return abs(number)


def _integer(value: Plain) -> Plain | Failure:
    if isinstance(value, str):
        found = values.parse_integer(value)
    elif isinstance(value, float):
        found = int(value) if values.INT_MIN <= value < 2.0**63 else None
    else:
        found = int(value)
    return found if found is not None else Failure("cast", f"{shown(value)} is not an integer", 0)


def _decimal(value: Plain) -> Plain | Failure:
    found = values.number(value)
    return (
        Failure("cast", f"{shown(value)} is not a number", 0.0) if found is None else float(found)
    )


def _boolean(value: Plain) -> Plain | Failure:
    found = values.truth(value) if isinstance(value, str) else bool(value)
    return (
        Failure("cast", f"{shown(value)} is not true or false", False) if found is None else found
    )


def _within(
    latitude: float,
    longitude: float,
    centre_latitude: float,
    centre_longitude: float,
    radius: float,
) -> bool:
    return distance(latitude, longitude, centre_latitude, centre_longitude) <= radius


def _within_box(
    latitude: float, longitude: float, south: float, west: float, north: float, east: float
) -> bool:
    if not south <= latitude <= north:
        return False
    if west <= east:
        return west <= longitude <= east
    return longitude >= west or longitude <= east  # across the 180th meridian


FUNCTIONS: Final[dict[str, Function]] = {
    "LENGTH": Function(("text",), "integer", len),
    "CONCAT": Function((), "text", lambda *parts: "".join(parts), rest="text"),
    "CONCAT_WS": Function(("text",), "text", lambda by, *parts: by.join(parts), rest="text"),
    "LOWER": Function(("text",), "text", str.lower),
    "UPPER": Function(("text",), "text", str.upper),
    "TRIM": Function(("text",), "text", lambda text: text.strip(_SPACE)),
    "LEFT": Function(("text", "integer"), "text", _left),
    "RIGHT": Function(("text", "integer"), "text", _right),
    "SUBSTRING": Function(("text", "integer", "integer"), "text", _substring, optional=1),
    "ABS": Function(("number",), "number", _absolute),
    "INT": Function(("any",), "integer", _integer),
    "DECIMAL": Function(("any",), "number", _decimal),
    "BOOL": Function(("any",), "condition", _boolean),
    "STRING": Function(("any",), "text", values.text),
    "STARTS_WITH": Function(("text", "text"), "condition", str.startswith),
    "ENDS_WITH": Function(("text", "text"), "condition", str.endswith),
    "CONTAINS": Function(("text", "text"), "condition", str.__contains__),
    # Three arguments are shorthand for the attributes `latitude` and `longitude` (the parser).
    "WITHIN": Function(("number",) * 5, "condition", _within, optional=2),
    "WITHIN_BOX": Function(("number",) * 6, "condition", _within_box),
}


def signature(name: str, count: int) -> tuple[Type, ...] | None:
    """The types of a function's arguments, or None if there is no such function of so many."""
    function = FUNCTIONS.get(name)
    if function is None or (name == "WITHIN" and count == 4):
        return None
    return function.types(count)
