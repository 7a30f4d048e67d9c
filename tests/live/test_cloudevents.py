"""CloudEvents in and out."""

from __future__ import annotations

import json

import pytest

from shoal.live.cloudevents import from_binary, from_structured, to_binary, to_structured
from shoal.live.errors import LiveError

BASE = {"specversion": "1.0", "id": "1", "source": "/a", "type": "t"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"data": {"a": [1, 2]}, "datacontenttype": "application/json"},
        {"data": "plain text", "datacontenttype": "text/plain"},
        {"data_base64": "AP8=", "datacontenttype": "application/octet-stream"},
        {"comexampleext": 5, "flag": True, "subject": "grün"},
    ],
)
def test_structured_there_and_back(more: dict[str, object]) -> None:
    event = {**BASE, **more}
    assert to_structured(*from_structured(json.dumps(event))) == event


def test_binary_there_and_back() -> None:
    values = {**BASE, "datacontenttype": "text/plain", "subject": 'grün "x" 100%', "n": "5"}
    headers, body = to_binary(values, b"\x00\xff")
    assert headers["ce-type"] == "t"
    assert headers["content-type"] == "text/plain"
    assert headers["ce-subject"] == "gr%C3%BCn%20%22x%22%20100%25"
    assert from_binary(headers, body) == (values, b"\x00\xff")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON object is wanted"),
        ('{"id": "1"}', "specversion, source, type missing"),
        (json.dumps({**BASE, "specversion": "0.3"}), "of version 0.3"),
        (json.dumps({**BASE, "ext": {}}), "attribute 'ext' is neither"),
        (json.dumps({**BASE, "data_base64": "?"}), "not base 64"),
    ],
)
def test_what_is_no_cloudevent(text: str, said: str) -> None:
    with pytest.raises(LiveError, match=said):
        from_structured(text)
