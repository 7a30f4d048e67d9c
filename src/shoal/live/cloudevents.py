"""CloudEvents in and out: context attributes are an event's attributes, the data its body.

*Structured*: one JSON object with everything. *Binary*: the attributes as headers (``ce-type``),
the data as it is. Attributes that are no CloudEvents go out under their own names as extensions.
"""

from __future__ import annotations

import base64
import json
import math
import string
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from shoal.content import Value
from shoal.live.errors import LiveError

REQUIRED: Final = ("specversion", "id", "source", "type")
_PREFIX: Final = "ce-"
_PLAIN: Final = string.punctuation.translate({ord('"'): None, ord("%"): None})
"""What a header shows as it is, beside letters and digits: all ASCII but space, quote, percent."""
_TOKEN: Final = "!#$&'*+-.^_`|~"
"""Characters of a header's name, beside letters and digits."""


def from_structured(text: str | bytes) -> tuple[dict[str, Value | None], bytes]:
    """Attributes and body of a CloudEvent in JSON."""
    try:
        raw = json.loads(text, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise LiveError(f"no CloudEvent: not JSON ({error})") from None
    if not isinstance(raw, dict):
        raise LiveError("no CloudEvent: a JSON object is wanted")
    values = {name: value for name, value in raw.items() if name not in ("data", "data_base64")}
    for name, value in values.items():
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise LiveError(
                f"no CloudEvent: attribute '{name}' is neither text, number nor boolean"
            )
    _check(values)
    if "data_base64" in raw:
        try:
            return values, base64.b64decode(raw["data_base64"], validate=True)
        except (ValueError, TypeError):
            raise LiveError("no CloudEvent: data_base64 is not base 64") from None
    if "data" not in raw:
        return values, b""
    data = raw["data"]
    if isinstance(data, str) and not _is_json(values):
        try:
            return values, data.encode()
        except UnicodeEncodeError:
            raise LiveError("no CloudEvent: data has half a surrogate pair") from None
    values.setdefault("datacontenttype", "application/json")
    return values, json.dumps(data).encode()


def to_structured(values: Mapping[str, Value | None], body: bytes) -> dict[str, Any]:
    """A CloudEvent as a JSON object; data that is JSON or text stays readable."""
    _check(values)
    found: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if not body:
        return found
    try:
        text = body.decode()
        found["data"] = (
            text
            if not _is_json(values)
            else json.loads(text, parse_constant=_finite, parse_float=_finite)
        )
    except (ValueError, RecursionError):
        found["data_base64"] = base64.b64encode(body).decode()
    return found


def from_binary(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Value | None], bytes]:
    """Attributes and body of a CloudEvent with its attributes in headers."""
    values: dict[str, Value | None] = {}
    for name, text in headers.items():
        lower = name.lower()
        if lower.startswith(_PREFIX):
            values[unquote(lower.removeprefix(_PREFIX))] = unquote(text)
        elif lower == "content-type":
            values["datacontenttype"] = text
    _check(values)
    return values, body


def to_binary(values: Mapping[str, Value | None], body: bytes) -> tuple[dict[str, str], bytes]:
    """A CloudEvent as headers and data."""
    _check(values)
    headers = {}
    for name, value in values.items():
        if value is None:
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name != "datacontenttype":
            headers[_PREFIX + quote(name, _TOKEN)] = quote(text, _PLAIN)
        elif text.isascii() and text.isprintable():
            headers["content-type"] = text
        else:
            raise LiveError(f"no CloudEvent: datacontenttype {text!a:.80} is no type of content")
    return headers, body


def _is_json(values: Mapping[str, Value | None]) -> bool:
    """Whether the data is JSON, as it also is where nothing else is said."""
    kind = str(values.get("datacontenttype") or "application/json")
    return kind.partition(";")[0].strip().lower().endswith("json")


def _finite(text: str) -> float:
    """A number that JSON can hold."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON")
    return number


def _check(values: Mapping[str, Value | None]) -> None:
    missing = [name for name in REQUIRED if not values.get(name)]
    if missing:
        raise LiveError(f"no CloudEvent: {', '.join(missing)} missing")
    if values["specversion"] != "1.0":
        raise LiveError(f"a CloudEvent of version {values['specversion']}; 1.0 is understood")
