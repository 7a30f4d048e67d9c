"""The covering poset, against a table that compares every filter with every other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_strategies import conditions, simple_conjunctions
from shoal.content import AttributeFilter, poset
from shoal.content.attributes import of
from shoal.content.boxes import BoxIndex
from shoal.content.poset import CoveringPoset


def filters(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[AttributeFilter]:
    def usable(expression: object) -> AttributeFilter | None:
        try:
            return of(expression)  # type: ignore[arg-type]  # the strategies are untyped
        except ValueError:
            return None

    return strategy.map(usable).filter(lambda found: found is not None)  # type: ignore[return-value]  # just filtered


changes = st.lists(
    st.tuples(st.booleans(), filters(st.one_of(simple_conjunctions, conditions))), max_size=24
)


def check(found: CoveringPoset, held: list[AttributeFilter]) -> None:
    """Every filter is covered by a maximal one, and no maximal one by another."""
    maximal = found.maximal()
    assert set(found) == set(held)
    assert len(set(maximal)) == len(maximal)
    for filter in held:
        assert any(root.covers(filter) for root in maximal)
        assert found.is_maximal(filter) == (filter in maximal)
        above = found.covering(filter)
        assert above in maximal
        assert above.covers(filter)
    for one in maximal:
        assert not any(other.covers(one) for other in maximal if other != one)


@pytest.mark.parametrize("small", [0, 48])
@settings(max_examples=150, deadline=None)
@given(changes)
def test_the_poset_keeps_the_maximal_filters(
    small: int, steps: list[tuple[bool, AttributeFilter]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poset, "SMALL", small)
        found = CoveringPoset()
        held: list[AttributeFilter] = []
        for adding, filter in steps:
            before = set(found.maximal())
            if adding:
                joined, left = found.insert(filter)
                held += [filter] if filter not in held else []
            else:
                filter = held.pop(0) if held else filter
                joined, left = found.remove(filter)
            assert set(found.maximal()) == (before | set(joined)) - set(left)
            check(found, held)


@settings(max_examples=200, deadline=None)
@given(st.lists(filters(st.one_of(simple_conjunctions, conditions)), min_size=2, max_size=6))
def test_boxes_never_miss_a_cover(some: list[AttributeFilter]) -> None:
    index: BoxIndex[AttributeFilter] = BoxIndex()
    rows: list[list[int]] = [[] for _ in some]
    boxes = [[index.box(one) for one in filter.normal.disjuncts] for filter in some]
    for filter, place, those in zip(some, rows, boxes, strict=True):
        index.add(filter, place, those)
    for filter, those in zip(some, boxes, strict=True):
        if not those:
            continue
        around = index.around(those[0])
        inside = index.inside(those)
        for other in some:
            if other.normal.disjuncts and other.covers(filter):
                assert other in around
            if other.normal.disjuncts and filter.covers(other):
                assert other in inside


def test_many_filters_split_and_shrink() -> None:
    # A grid of boxes of one size: no one covers another, until the large one comes.
    grid = [
        AttributeFilter(f"x BETWEEN {x} AND {x + 3} AND y BETWEEN {y} AND {y + 3}")
        for x in range(40)
        for y in range(40)
    ]
    found = CoveringPoset(grid)
    assert found.maximal() == grid
    large = AttributeFilter("x BETWEEN 0 AND 20 AND y BETWEEN 0 AND 20")
    joined, left = found.insert(large)
    assert joined == [large]
    assert len(left) == 18 * 18
    joined, left = found.remove(large)
    assert (len(joined), left) == (18 * 18, [large])
    assert set(found.maximal()) == set(grid)
    for filter in grid:
        found.remove(filter)
    assert found.maximal() == []
    assert len(found) == 0


def test_alike_filters_fill_more_than_a_block() -> None:
    # One conjunction each with the same box: only the residue tells them apart.
    alike = [AttributeFilter(f"x > 5 AND x + y > {i}") for i in range(200)]
    found = CoveringPoset(alike)
    assert found.maximal() == alike
    above = AttributeFilter("x > 4")
    assert found.insert(above) == ([above], alike)
    assert found.remove(above) == (alike, [above])
