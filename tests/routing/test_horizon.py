"""The table of distances against a plain model of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.content import Pattern, Patterns
from shoal.routing.horizon import HorizonTable

change = st.tuples(st.integers(-1, 3), st.integers(0, 4), st.none() | st.integers(0, 3))


@given(st.lists(change, max_size=60))
def test_filters_that_are_wanted_alike_do_not_change_each_other(
    changes: list[tuple[int, int, int | None]],
) -> None:
    table = HorizonTable()
    model: dict[tuple[int, Pattern], int] = {}
    for source, number, distance in changes:
        key = (source, Pattern(number))
        if distance is None:
            assert table.remove(*key) == (key in model)
            model.pop(key, None)
        else:
            assert table.put(*key, distance) == (model.get(key) != distance)
            model[key] = distance
        assert table.entries() == model
        assert len(table) == len(model)
    for number in range(5):
        mine = sorted(d for (_, filter), d in model.items() if filter.number == number)
        _, near, next_near = table.nearest(Pattern(number), 4)
        assert (near, next_near) == tuple([*mine, -1, -1][:2])
        for distance in range(4):
            found = table.match(Patterns((number,)), distance)
            assert sorted(found) == sorted(
                s for (s, filter), d in model.items() if filter.number == number and d == distance
            )
