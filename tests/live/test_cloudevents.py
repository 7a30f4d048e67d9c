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


@pytest.mark.parametrize(
    "more",
    [
        {"data": "5", "datacontenttype": "application/json"},
        {"data": "hello", "datacontenttype": "application/json; charset=utf-8"},
        {"datacontenttype": "text/plain", "data": "5"},
        {"data": None, "datacontenttype": "application/json"},
    ],
)
def test_text_stays_text(more: dict[str, object]) -> None:
    event = {**BASE, **more}
    assert to_structured(*from_structured(json.dumps(event))) == event
    assert from_structured(json.dumps({**BASE, "data": "5"}))[1] == b'"5"'


@pytest.mark.parametrize("body", [b"[" * 100_000, b"NaN", b"1e999", b"\xff"])
def test_data_that_is_no_json_is_passed_on_as_it_is(body: bytes) -> None:
    event = to_structured({**BASE, "datacontenttype": "application/json"}, body)
    assert from_structured(json.dumps(event))[1] == body


@pytest.mark.parametrize("text", ["[" * 100_000, '{"id": NaN}'])
def test_what_json_has_not_is_no_cloudevent(text: str) -> None:
    with pytest.raises(LiveError, match="not JSON"):
        from_structured(text)
    with pytest.raises(LiveError, match="half a surrogate pair"):
        from_structured(json.dumps({**BASE, "datacontenttype": "text/plain", "data": "\ud800"}))


def test_no_attribute_adds_a_header_of_its_own() -> None:
    values = {**BASE, "x: 1\r\nEvil": "y\r\nEvil: 2"}
    headers, body = to_binary(values, b"")
    assert not set("\r\n: ") & {sign for name in headers for sign in name}
    assert not set("\r\n") & {sign for value in headers.values() for sign in value}
    assert from_binary(headers, body)[0]["x: 1\r\nevil"] == "y\r\nEvil: 2"
    with pytest.raises(LiveError, match="no type of content"):
        to_binary({**BASE, "datacontenttype": "text/plain\r\nEvil: 3"}, b"")
