"""Values that an event may carry over a network, checked where it is published."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from shoal.content import Value
from shoal.content.values import INT_MAX, INT_MIN
from shoal.live.errors import ValueRangeError, ValueTypeError

_PLAIN: Final = frozenset({bool, float, NoneType})


def checked(values: Mapping[str, Any], body: Any) -> dict[str, Value | None]:
    """The attributes as they travel; what cannot is a ``TypeError`` or ``ValueError``."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ValueTypeError(f"the body is a {type(body).__name__}; give bytes")
    attributes = dict(values)
    for name, value in attributes.items():
        if type(name) is not str:
            raise ValueTypeError(f"the attribute name {name!r} is no text; names are text")
        if not name.isascii():
            _check_text(name, name)
        kind = type(value)
        if kind is str:
            if not value.isascii():
                _check_text(name, value)
        elif kind is int:
            _check_integer(name, value)
        elif kind not in _PLAIN:
            attributes[name] = _as_plain(name, value)
    return attributes


def _as_plain(name: str, value: Any) -> Value:
    """A value of a type that is derived from one that travels, as that type."""
    if isinstance(value, str):
        text = str.__str__(value)
        _check_text(name, text)
        return text
    if isinstance(value, int):
        _check_integer(name, value)
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise ValueTypeError(
        f"attribute '{name}' is a {type(value).__name__}, which cannot be sent; give text, a "
        "number, a boolean or nothing, or put it into the body"
    )


def _check_integer(name: str, value: int) -> None:
    if not INT_MIN <= value <= INT_MAX:
        raise ValueRangeError(
            f"attribute '{name}' is {value if abs(value) < 10**30 else 'a huge number'}, which "
            "cannot be sent; integers have 64 bits with a sign: give a float or text"
        )


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueRangeError(
            f"attribute {name!a} cannot be sent: its text has half a surrogate pair at character "
            f"{error.start + 1}; give valid Unicode"
        ) from None
