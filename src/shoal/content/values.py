"""The values an event carries, and the three ways a filter may read one.

CESQL casts silently: ``sequence = 5`` reads the text ``'5'`` as a number, ``code = '5'`` reads the
number 5 as text. A filter therefore never asks what a value *is*, only what it is *read as*:

========== =================== ============================ ====================
the value  read as a number    read as text                 read as a condition
========== =================== ============================ ====================
number     itself              its digits: ``5``, ``2.5``   cannot be
text       if it spells one    itself                       ``true``, ``false`` (any case)
boolean    1 or 0              ``true`` or ``false``        itself
========== =================== ============================ ====================

A number is the same number however it is stored: 1, 1.0 and numpy's ``int64(1)`` read alike in all
three ways. A null and a NaN are absent attributes. An integer beyond 64 bits is read as a decimal.
A text spells a finite number, with at most :data:`MAX_DIGITS` characters; ``'inf'`` spells none.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

import msgspec

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
MAX_DIGITS: Final = 1024
"""Characters of a text that may spell a number: every decimal of 64 bits has fewer."""

Number: TypeAlias = int | float
Value: TypeAlias = bool | Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)] | float | str
"""What an attribute may hold."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")


def native(value: object) -> bool | int | float | str | None:
    """The value as filters see it, or None where the attribute counts as absent."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value  # type: ignore[return-value]  # the types were just looked at
    if isinstance(value, int) and kind is not bool:
        if INT_MIN <= value <= INT_MAX:
            return value if kind is int else int(value)
        return float("inf" if value > 0 else "-inf") if abs(value) >= 2**1023 else float(value)
    if isinstance(value, float):
        # numpy's float64 is a float, whose comparisons give no bool.
        return None if value != value else value if kind is float else float(value)
    if isinstance(value, str):
        return str(value)
    if kind.__module__ == "numpy" and getattr(value, "ndim", -1) == 0:  # a scalar of numpy's
        plain = value.item()  # type: ignore[attr-defined]  # they all have it
        if isinstance(plain, bool | int | float | str):
            return native(plain)
    raise TypeError(
        f"an attribute holds a {kind.__name__}; give text, a number, a boolean or nothing"
    )


def number(value: bool | int | float | str) -> Number | None:
    """Read as a number, or None where it cannot be."""
    if isinstance(value, str):
        return parse_number(value)
    return int(value) if isinstance(value, bool) else value


def text(value: bool | int | float | str) -> str:
    """Read as text: always possible."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def truth(value: bool | int | float | str) -> bool | None:
    """Read as a condition, or None where it cannot be.

    A number is none, unless made one by ``BOOL(x)``: the conformance cases want ``NOT 10`` to fail.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 5:
        lower = value.lower()
        return True if lower == "true" else False if lower == "false" else None
    return None


def parse_integer(spelt: str) -> int | None:
    """The 64-bit integer a text spells, or None."""
    if len(spelt) > MAX_DIGITS or _INTEGER.fullmatch(spelt) is None:
        return None
    if len(spelt) > 20:  # leading zeros are fine, a long number is not
        sign, digits = ("-", spelt[1:]) if spelt[0] == "-" else ("", spelt.lstrip("+"))
        spelt = sign + (digits.lstrip("0") or "0")
        if len(spelt) > 20:
            return None
    found = int(spelt)
    return found if INT_MIN <= found <= INT_MAX else None


def parse_number(spelt: str) -> Number | None:
    """The number a text spells, ``5`` or ``-2.5e3``, or None."""
    if not spelt or spelt[-1] not in "0123456789." or len(spelt) > MAX_DIGITS:  # most text
        return None
    found = parse_integer(spelt)
    if found is None and (_INTEGER.fullmatch(spelt) or _DECIMAL.fullmatch(spelt)):
        decimal = float(spelt)
        return decimal if abs(decimal) != float("inf") else None
    return found


def spellings(wanted: str) -> list[bool | int | float | str]:
    """Every value whose text is ``wanted``: that text, and the number or boolean it spells."""
    if wanted == "true" or wanted == "false":
        return [wanted, wanted == "true"]
    if wanted == "inf" or wanted == "-inf":  # what an infinite number reads as
        return [wanted, float(wanted)]
    spelt = parse_number(wanted)
    return [wanted] if spelt is None or text(spelt) != wanted else [wanted, spelt]
