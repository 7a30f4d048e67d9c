"""Frames: the same whatever way the bytes arrive, and bounded whatever they say."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.content import Attributes, Event
from shoal.live.errors import LiveError, ProtocolError
from shoal.live.identity import ID_LIMIT, first_sequence, new_epoch, node_id
from shoal.live.messages import Delivery, Publish
from shoal.live.outbox import delivery_head
from shoal.live.wire import LENGTH, Splitter, content_of, encode, parse_address, show_address


@given(st.lists(st.binary(max_size=200), max_size=20), st.data())
def test_frames_do_not_depend_on_how_bytes_arrive(
    contents: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(LENGTH.pack(len(c)) + c for c in contents)
    splitter = Splitter(1000)
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += [bytes(frame) for frame in splitter.feed(stream[:size])]
        stream = stream[size:]
    assert found == contents


def test_a_frame_that_is_too_long_is_refused_by_its_length_alone() -> None:
    with pytest.raises(ProtocolError, match="1025 bytes; at most 1024"):
        Splitter(1024).feed(LENGTH.pack(1025))
    splitter = Splitter(1024)
    assert splitter.feed(LENGTH.pack(2**31)[:3]) == []
    with pytest.raises(ProtocolError):
        splitter.feed(LENGTH.pack(2**31)[3:])


def test_bytes_one_by_one_are_not_copied_again_and_again() -> None:
    splitter = Splitter(1 << 20)
    frame = LENGTH.pack(100_000) + bytes(100_000)
    for byte in frame[:-1]:
        assert splitter.feed(bytes([byte])) == []
    (found,) = splitter.feed(frame[-1:])
    assert len(found) == 100_000


@pytest.mark.parametrize("numbers", [[1], [2**31], [1, 2], list(range(40)), [7] * 20])
def test_a_delivery_is_encoded_as_its_struct_says(numbers: list[int]) -> None:
    event = Event(3, 2**40, Attributes({"room": "lab", "t": 21.5, "on": True, "no": None}), b"x")
    raw = content_of(event)
    frame = delivery_head(numbers, len(raw)) + raw
    (content,) = Splitter(1 << 20).feed(frame)
    assert msgspec.msgpack.decode(content, type=Delivery) == Delivery(tuple(numbers), event)


def test_messages_travel() -> None:
    message = Publish(5, {"a": 1, "b": "x", "c": None, "d": 2.5, "e": False}, b"body")
    (content,) = Splitter(1000).feed(encode(message))
    assert msgspec.msgpack.decode(content, type=Publish) == message


def test_addresses() -> None:
    assert parse_address("host:80") == ("host", 80)
    assert parse_address(":80") == ("127.0.0.1", 80)
    assert parse_address("[::1]:80") == ("::1", 80)
    assert show_address(*parse_address("[::1]:80")) == "[::1]:80"
    for bad in ("host", "host:", "host:port", "host:99999", ""):
        with pytest.raises(LiveError, match="HOST:PORT"):
            parse_address(bad)


def test_identities() -> None:
    assert node_id("17") == 17
    assert 0 <= node_id("kitchen") < ID_LIMIT
    assert node_id("kitchen") == node_id("kitchen") != node_id("cellar")
    # A broker that is restarted counts on beyond what a million events a second would have used.
    assert first_sequence(new_epoch() + 1000) > first_sequence(new_epoch()) + 1_000_000
