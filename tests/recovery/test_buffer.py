"""Buffers stay within their bounds and give up what they say they give up."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.content import Attributes, Event, Pattern, Patterns
from shoal.recovery.buffer import EventBuffer, size_of
from shoal.recovery.delivered import Delivered
from shoal.routing import Forward


def event(publisher: int, sequence: int, body: bytes = b"") -> Event:
    return Event(publisher, sequence, Patterns((sequence % 3,)), body)


ADDED = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.binary(max_size=40), st.booleans()),
    max_size=60,
)


@given(ADDED, st.integers(1, 8), st.integers(60, 400), st.booleans())
def test_it_never_holds_more_than_it_may_and_finds_what_it_holds(
    added: list[tuple[int, int, bytes, bool]], most: int, size: int, least_spread: bool
) -> None:
    buffer = EventBuffer(most, size, 1e9, least_spread)
    for time, (publisher, sequence, body, spread) in enumerate(added):
        new = event(publisher, sequence, body)
        known = new.id in buffer
        assert buffer.add(new, time) == (not known and size_of(new) <= size)
        if spread:
            buffer.elsewhere(new.id)
        held = [kept.event for kept in buffer.events()]
        assert len(held) == len(buffer) <= most
        assert sum(size_of(one) for one in held) == buffer.bytes <= size
        for low, high in ((-1, 31), (3, 9), (9, 3)):
            found = [kept.event.sequence for kept in buffer.between(publisher, low, high)]
            assert found == sorted(
                one.sequence
                for one in held
                if one.publisher == publisher and low < one.sequence < high
            )
        assert [kept.event for kept in buffer.matching(Pattern(1))] == [
            one
            for one in held
            if 1 in one.content.numbers  # type: ignore[union-attr]
        ]


def test_first_in_first_out() -> None:
    buffer = EventBuffer(2, 10**6, 1e9)
    for sequence in range(4):
        buffer.add(event(0, sequence), sequence)
    assert [kept.event.sequence for kept in buffer.events()] == [2, 3]


def test_least_spread_first_keeps_what_fewest_others_have() -> None:
    buffer = EventBuffer(3, 10**6, 1e9, keeps_least_spread=True)
    for sequence in range(3):
        buffer.add(event(0, sequence), sequence)
    buffer.elsewhere((0, 1))
    buffer.elsewhere((0, 2))
    buffer.elsewhere((0, 2))
    buffer.add(event(0, 3), 3)
    assert [kept.event.sequence for kept in buffer.events()] == [0, 1, 3]
    buffer.add(event(0, 4), 4)
    assert [kept.event.sequence for kept in buffer.events()] == [0, 3, 4]


def test_old_events_go() -> None:
    buffer = EventBuffer(10, 10**6, 5.0, own=7)
    for time in range(4):
        buffer.add(event(7, time), time)
    buffer.forget_old(6.5)
    assert [kept.event.sequence for kept in buffer.events()] == [2, 3]
    assert buffer.dropped == 1


def test_it_says_when_the_latest_event_was_published_that_it_does_not_hold() -> None:
    """Whoever comes later and lacks that event will not get it here, and has to be told."""
    buffer = EventBuffer(2, 1000, 5.0)
    buffer.add(event(0, 7), 1.0)
    buffer.add(event(0, 6), 0.5)
    assert buffer.left == {}
    buffer.add(event(1, 0), 2.0)
    buffer.add(event(1, 1), 3.0)
    assert buffer.left == {0: 1.0}, "for want of room; an older one left later"
    buffer.forget_old(7.0)
    assert buffer.left == {0: 1.0, 1: 2.0}, "of age"
    assert not buffer.add(event(2, 0, bytes(1000)), 4.0)
    assert buffer.left == {0: 1.0, 1: 2.0, 2: 4.0}, "larger than the buffer"
    buffer.forget_old(100.0)
    assert list(buffer.events()) == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=200), st.integers(1, 20))
def test_nothing_counts_as_new_twice_however_little_is_remembered(
    ids: list[tuple[int, int]], generation: int
) -> None:
    delivered = Delivered(generation)
    accepted = [key for key in ids if delivered.first(*key)]
    assert len(accepted) == len(set(accepted))
    if len(set(ids)) <= generation:
        assert set(accepted) == set(ids)


def test_what_was_named_often_enough_is_left_out_until_somebody_lacks_it() -> None:
    buffer = EventBuffer(10, 10**6, 1e9)
    for sequence in range(3):
        buffer.add(event(0, sequence), sequence)
    buffer.elsewhere((0, 1))
    buffer.named((0, 1))
    buffer.named((0, 2))
    assert [kept.sequence for kept in buffer.untold(2)] == [0, 2]
    buffer.unnamed((0, 1))
    assert [kept.sequence for kept in buffer.untold(1)] == [0, 1]


@pytest.mark.parametrize("hops", [None, 1, 200])
def test_an_event_that_its_host_packed_is_given_as_it_was(hops: int | None) -> None:
    """Alone, or in the message that carried it."""
    buffer = EventBuffer(10, 10**6, 1e9)
    new = Event(1, 7, Attributes({"n": 1, "text": "ü"}), b"body", b"x" * 12)
    packed = msgspec.msgpack.encode(new if hops is None else Forward(new, hops))
    buffer.add(new, 0.0, packed)
    kept = buffer.get((1, 7))
    assert kept is not None
    assert kept.event == new
    assert buffer.bytes == len(packed)
