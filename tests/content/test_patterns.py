"""The papers' synthetic content, and its table against the one that asks every filter."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.content import Event, NaiveTable, Pattern, Patterns, PatternTable
from shoal.content.tables import FilterTable

numbers = st.integers(0, 9)


@given(number=numbers, content=st.lists(numbers, max_size=5))
def test_a_pattern_matches_the_events_that_contain_it(number: int, content: list[int]) -> None:
    assert Pattern(number).matches(Patterns(tuple(content))) == (number in content)


def test_patterns_cover_themselves_alone_and_overlap_with_all() -> None:
    assert Pattern(3).covers(Pattern(3))
    assert not Pattern(3).covers(Pattern(4))
    assert Pattern(3).overlaps(Pattern(4))
    assert str(Pattern(3)) == "pattern 3"


def test_patterns_are_values() -> None:
    assert Pattern(3) == Pattern(3)
    assert len({Pattern(3), Pattern(3), Pattern(4)}) == 2
    event = Event(1, 2, Patterns((3, 3, 5)))
    assert event.id == (1, 2)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event


@pytest.mark.parametrize("number", [-1, 65_536, 2**40])
def test_numbers_from_a_wire_are_bounded(number: int) -> None:
    """A table is as long as its highest number: a stranger must not choose how long."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type":"pattern","number":%d}' % number, type=Pattern)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type":"patterns","numbers":[1,%d]}' % number, type=Patterns)


class Tables(RuleBasedStateMachine):
    """Two tables under the same insertions and removals give the same answers in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.naive: FilterTable = NaiveTable()
        self.fast: FilterTable = PatternTable()

    @rule(source=st.integers(-1, 6), number=numbers)
    def insert(self, source: int, number: int) -> None:
        for table in (self.naive, self.fast):
            table.insert(source, Pattern(number))

    @rule(source=st.integers(-1, 6), number=numbers)
    def remove(self, source: int, number: int) -> None:
        for table in (self.naive, self.fast):
            table.remove(source, Pattern(number))

    @rule(source=st.integers(-1, 6))
    def remove_all(self, source: int) -> None:
        for number in range(10):
            self.remove(source, number)

    @rule(content=st.lists(st.integers(0, 12), max_size=5))
    def match(self, content: list[int]) -> None:
        event = Patterns(tuple(content))
        assert self.fast.match(event) == self.naive.match(event)

    @invariant()
    def every_number_alone(self) -> None:
        for number in range(10):
            event = Patterns((number,))
            assert self.fast.match(event) == self.naive.match(event)


TestTables = Tables.TestCase


def test_sources_that_come_and_go_do_not_make_a_table_grow() -> None:
    table = PatternTable()
    table.insert(0, Pattern(1))
    for source in range(1, 1000):
        table.insert(source, Pattern(1))
        table.remove(source, Pattern(1))
        table.insert(0, Pattern(2))
    assert table.match(Patterns((1,))) == [0]
    assert len(table._ranked) < 20
