"""A dispatcher's table, read by filter, by source and by event."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.content import AttributeFilter, Attributes, Pattern, Patterns
from shoal.routing.table import SubscriptionTable
from shoal.stack import LOCAL

sources = st.integers(LOCAL, 4)
numbers = st.integers(0, 4)


class Model(RuleBasedStateMachine):
    """The table is a set of (source, filter), and remembers the order in which entries came."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SubscriptionTable()
        self.model: list[tuple[int, Pattern]] = []

    @rule(source=sources, number=numbers)
    def add(self, source: int, number: int) -> None:
        entry = (source, Pattern(number))
        assert self.table.add(*entry) == (entry not in self.model)
        if entry not in self.model:
            self.model.append(entry)

    @rule(source=sources, number=numbers)
    def remove(self, source: int, number: int) -> None:
        entry = (source, Pattern(number))
        assert self.table.remove(*entry) == (entry in self.model)
        if entry in self.model:
            self.model.remove(entry)

    @invariant()
    def every_reading_agrees(self) -> None:
        assert self.table.entries() == set(self.model)
        assert set(self.table.filters()) == {filter for _, filter in self.model}
        for number in range(5):
            filter = Pattern(number)
            wanting = [s for s, f in self.model if f == filter]
            assert self.table.sources(filter) == wanting
            assert set(self.table.match(Patterns((number,)))) == set(wanting)
            for source in range(LOCAL, 5):
                assert self.table.has(source, filter) == (source in wanting)
                others = [s for s in wanting if s != source]
                assert self.table.wanted_beside(filter, source) == bool(others)
        for source in range(LOCAL, 5):
            assert self.table.filters_of(source) == [f for s, f in self.model if s == source]


TestModel = Model.TestCase


def test_an_empty_table_matches_nothing() -> None:
    assert list(SubscriptionTable().match(Patterns((1,)))) == []


def test_a_table_takes_its_content_model_from_the_filters() -> None:
    table = SubscriptionTable()
    table.add(3, AttributeFilter("x > 2"))
    assert list(table.match(Attributes({"x": 3}))) == [3]
    assert list(table.match(Attributes({"x": 2}))) == []


def test_a_source_that_changes_its_mind_often_keeps_a_short_list_in_order() -> None:
    table = SubscriptionTable()
    table.add(1, Pattern(1000))
    for number in range(300):
        table.add(1, Pattern(number))
        if number >= 3:
            table.remove(1, Pattern(number - 3))
    assert len(table._filters[1]) <= 2 * 4 + 17
    assert table.filters_of(1) == [Pattern(1000), *(Pattern(n) for n in (297, 298, 299))]
    table.remove(1, Pattern(1000))
    table.add(1, Pattern(1000))
    assert table.filters_of(1)[-1] == Pattern(1000)
    assert len(table) == 4
