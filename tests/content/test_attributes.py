"""Filters over attributes as a content model: on the wire, in tables."""

from __future__ import annotations

import msgspec
import pytest

from shoal.content import AnyFilter, AttributeFilter, Attributes, Event, Pattern, Patterns

EVENT = Event(1, 2, Attributes({"room": "lab", "t": 21.5, "n": 7, "on": True, "gone": None}), b"x")


@pytest.mark.parametrize("wire", [msgspec.json, msgspec.msgpack])
def test_events_and_filters_travel(wire: object) -> None:
    encode, decode = wire.encode, wire.decode  # type: ignore[attr-defined]  # json and msgpack
    assert decode(encode(EVENT), type=Event) == EVENT
    filter = AttributeFilter("t > 20 AND room = 'lab'")
    back = decode(encode(filter), type=AnyFilter)
    assert back == filter
    assert back.matches(EVENT.content)
    assert decode(encode(Pattern(3)), type=AnyFilter) == Pattern(3)


def test_a_bad_filter_is_refused_on_arrival() -> None:
    with pytest.raises(msgspec.ValidationError, match="character 5: expected a value"):
        msgspec.json.decode(b'["cesql","x = "]', type=AnyFilter)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'["attributes",{"n":99999999999999999999}]', type=Attributes)


def test_models_do_not_mix() -> None:
    assert not AttributeFilter("TRUE").matches(Patterns((1,)))
    assert not AttributeFilter("TRUE").covers(Pattern(1))
    assert not AttributeFilter("TRUE").overlaps(Pattern(1))
    assert not Pattern(1).matches(EVENT.content)


def test_filters_are_keys_of_tables() -> None:
    table = AttributeFilter("TRUE").table()
    table.insert(4, AttributeFilter("t > 20"))
    table.insert(4, AttributeFilter("t  >  20"))
    table.insert(5, AttributeFilter("t > 22"))
    assert table.match(EVENT.content) == [4]
    table.remove(4, AttributeFilter("(t > 20)"))
    assert table.match(EVENT.content) == []


def test_an_attribute_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="the attribute name 5 is no text"):
        AttributeFilter("TRUE").matches({5: 6})  # type: ignore[dict-item]  # the point
