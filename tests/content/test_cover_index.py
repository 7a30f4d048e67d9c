"""The cover index, against asking every filter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_strategies import conditions, simple_conjunctions
from shoal.content import AttributeFilter, Filter, Pattern, cover_index
from shoal.content.attributes import of
from shoal.content.cover_index import CoverIndex


def filters(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[AttributeFilter]:
    def usable(expression: object) -> AttributeFilter | None:
        try:
            return of(expression)  # type: ignore[arg-type]  # the strategies are untyped
        except ValueError:
            return None

    return strategy.map(usable).filter(lambda found: found is not None)  # type: ignore[return-value]  # just filtered


some = st.one_of(
    filters(st.one_of(simple_conjunctions, conditions)), st.integers(0, 3).map(Pattern)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), some), min_size=2, max_size=24))
def test_no_cover_is_missed_while_filters_come_and_go(steps: list[tuple[bool, Filter]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover_index, "SMALL", 1)
        index = CoverIndex()
        held: dict[Filter, None] = {}
        for adding, filter in steps:
            if adding or not held:
                held.pop(filter, None)
                held[filter] = None
                index.add(filter)
            else:
                filter = next(iter(held))
                del held[filter]
                index.discard(filter)
            assert len(index) == len(held)
            assert all(filter in index for filter in held)
            for query in (filter, *held):
                above, below = list(index.above(query)), list(index.below(query))
                assert [f for f in above if f.covers(query)] == [f for f in held if f.covers(query)]
                assert [f for f in below if query.covers(f)] == [f for f in held if query.covers(f)]


def test_few_of_many_filters_are_candidates() -> None:
    grid = [
        AttributeFilter(f"x BETWEEN {x} AND {x + 3} AND y BETWEEN {y} AND {y + 3}")
        for x in range(40)
        for y in range(40)
    ]
    index = CoverIndex()
    for filter in grid:
        index.add(filter)
    inner = AttributeFilter("x BETWEEN 7 AND 8 AND y BETWEEN 7 AND 8 AND z = 1")
    assert len(list(index.above(inner))) == 3 * 3
    large = AttributeFilter("x BETWEEN 0 AND 20 AND y BETWEEN 0 AND 20")
    assert len(list(index.below(large))) == 18 * 18
    for filter in grid[:-1]:
        index.discard(filter)
    assert list(index.below(AttributeFilter("TRUE"))) == grid[-1:]
    assert len(index._filters) < 100, "what was discarded is let go"


def test_texts_are_told_apart() -> None:
    index = CoverIndex()
    for n in range(200):
        index.add(AttributeFilter(f"symbol = 'S{n}' AND price > {n % 7}"))
    assert len(list(index.above(AttributeFilter("symbol = 'S17' AND price > 100")))) == 1
    assert len(list(index.below(AttributeFilter("symbol LIKE 'S1%'")))) == 111
