"""CloudEvents in and out: context attributes are an event's attributes, the data its body.

*Structured*: one JSON object with everything. *Binary*: the attributes as headers (``ce-type``),
the data as it is. Attributes that are no CloudEvents go out under their own names as extensions.
"""

from __future__ import annotations

import base64
import json
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


def from_structured(text: str | bytes) -> tuple[dict[str, Value | None], bytes]:
    """Attributes and body of a CloudEvent in JSON."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise LiveError(f"no CloudEvent: not JSON ({error})") from None
    if not isinstance(raw, dict):
        raise LiveError("no CloudEvent: a JSON object is wanted")
    values: dict[str, Value | None] = {}
    body = b""
    for name, value in raw.items():
        if name == "data":
            body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            if not isinstance(value, str):
                values.setdefault("datacontenttype", "application/json")
        elif name == "data_base64":
            try:
                body = base64.b64decode(value, validate=True)
            except (ValueError, TypeError):
                raise LiveError("no CloudEvent: data_base64 is not base 64") from None
        elif value is None or isinstance(value, bool | int | float | str):
            values[name] = value
        else:
            raise LiveError(
                f"no CloudEvent: attribute '{name}' is neither text, number nor boolean"
            )
    _check(values)
    return values, body


def to_structured(values: Mapping[str, Value | None], body: bytes) -> dict[str, Any]:
    """A CloudEvent as a JSON object; data that is JSON or text stays readable."""
    _check(values)
    found: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if not body:
        return found
    kind = str(values.get("datacontenttype") or "application/json")
    try:
        text = body.decode()
        found["data"] = json.loads(text) if kind.partition(";")[0].endswith("json") else text
    except ValueError:
        found["data_base64"] = base64.b64encode(body).decode()
    return found


def from_binary(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Value | None], bytes]:
    """Attributes and body of a CloudEvent with its attributes in headers."""
    values: dict[str, Value | None] = {}
    for name, text in headers.items():
        lower = name.lower()
        if lower.startswith(_PREFIX):
            values[lower.removeprefix(_PREFIX)] = unquote(text)
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
        if name == "datacontenttype":
            headers["content-type"] = text
        else:
            headers[_PREFIX + name] = quote(text, _PLAIN)
    return headers, body


def _check(values: Mapping[str, Value | None]) -> None:
    missing = [name for name in REQUIRED if not values.get(name)]
    if missing:
        raise LiveError(f"no CloudEvent: {', '.join(missing)} missing")
    if values["specversion"] != "1.0":
        raise LiveError(f"a CloudEvent of version {values['specversion']}; 1.0 is understood")
