"""The routing table of filters over attributes answers as the reference does, small and large."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_strategies import PAIRS, conditions
from shoal.content import AttributeFilter, Attributes, NaiveTable, attribute_table
from shoal.content.attribute_table import AttributeTable
from shoal.content.attributes import of
from shoal.content.index import IndexTable, single
from shoal.content.index import index as index_module
from shoal.content.index import table as table_module
from shoal.simulation.contents import WORKLOADS


def usable(expression: object) -> AttributeFilter | None:
    try:
        return of(expression)  # type: ignore[arg-type]  # the strategies are untyped
    except ValueError:
        return None


steps = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "remove", "match"]),
        st.integers(0, 4),
        conditions.map(usable).filter(lambda found: found is not None),
        st.sampled_from(PAIRS),
    ),
    max_size=60,
)


@pytest.mark.parametrize("small", [0, 4, 1_000])
@pytest.mark.parametrize("extension", [True, False])
@settings(max_examples=60, deadline=None)
@given(steps)
def test_any_history(
    small: int, extension: bool, history: list[tuple[str, int, object, dict[str, Any]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute_table, "SMALL", small)
        patch.setattr(attribute_table, "SMALL_UNCOMPILED", small)
        if not extension:
            patch.setattr(single, "match", None)
        table, naive = AttributeTable(), NaiveTable()
        for act, source, filter, event in history:
            assert isinstance(filter, AttributeFilter)
            if act == "insert":
                table.insert(source, filter)
                naive.insert(source, filter)
            elif act == "remove":
                table.remove(source, filter)
                naive.remove(source, filter)
            content = Attributes(event)
            assert table.match(content) == naive.match(content)


def test_many_filters_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments, merges that events pay for, and a source that leaves and comes back last."""
    monkeypatch.setattr(index_module, "RECENT", 64)
    monkeypatch.setattr(index_module, "FLUSH_COST", 500)
    monkeypatch.setattr(index_module, "MERGE_COST", 2)
    chance, workload = random.Random(6), WORKLOADS["W4"]
    filters = [AttributeFilter(text) for text in workload.texts(400)]
    events = [Attributes(event) for event in workload.contents(60)]
    table, naive = AttributeFilter("a = 1").table(), NaiveTable()
    assert isinstance(table, AttributeTable)
    held: dict[tuple[int, AttributeFilter], None] = {}
    for _ in range(1_500):
        act = chance.random()
        if act < 0.5:
            entry = (chance.randrange(12), chance.choice(filters))
            held[entry] = None
            table.insert(*entry)
            naive.insert(*entry)
        elif act < 0.7 and held:
            entry = chance.choice(list(held))
            del held[entry]
            table.remove(*entry)
            naive.remove(*entry)
        else:
            event = chance.choice(events)
            assert table.match(event) == naive.match(event)
    assert isinstance(table._table, IndexTable)
    assert table._table._index.segments


def test_sources_keep_their_order_when_a_table_grows() -> None:
    filters = [AttributeFilter(f"x > {number}") for number in range(40)]
    tables = filters[0].table(), NaiveTable()
    for table in tables:
        for source, number in ((1, 0), (2, 0), (1, 1)):
            table.insert(source, filters[number])
        table.remove(1, filters[0])  # its first filter goes, the source was there before all
        for number in range(40):
            table.insert(3 + number % 3, filters[number])
        assert table.match(Attributes({"x": 50})) == [1, 2, 3, 4, 5]


def test_an_index_that_is_asked_becomes_compact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "RECENT", 64)
    table = IndexTable()
    for number in range(500):
        table.insert(number, AttributeFilter(f"x BETWEEN {number} AND {number + 1}"))
    index = table._index
    assert len(index.segments) > 1
    monkeypatch.setattr(index_module, "FLUSH_COST", 5_000)
    monkeypatch.setattr(index_module, "MERGE_COST", 20)
    for number in range(2_000):
        assert table.match(Attributes({"x": number % 499 + 1})) == [number % 499, number % 499 + 1]
    assert len(index.segments) == 1
    assert index.lanes == index.settled == len(index.segments[0].ids.ravel())


def test_a_table_outlives_the_handles_of_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "ID_MASK", 50)
    table = IndexTable()
    for number in range(500):
        table.insert(number, AttributeFilter(f"x = {number}"))
        if number >= 20:
            table.remove(number - 20, AttributeFilter(f"x = {number - 20}"))
        assert table.match(Attributes({"x": number})) == [number]
        assert table.match(Attributes({"x": number - 20})) == []
        assert table.match(Attributes({"x": number - 5})) == ([number - 5] if number >= 5 else [])


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_importing_content_loads_no_compiler() -> None:
    found = run("import sys, shoal.content; print('numba' in sys.modules, 'numpy' in sys.modules)")
    assert found.split() == ["False", "False"]


def test_a_thousand_filters_load_no_compiler() -> None:
    if single.match is None:
        pytest.skip("the extension is not built")
    found = run(
        "import sys\n"
        "from shoal.content import AttributeFilter, Attributes\n"
        "table = AttributeFilter('x = 1').table()\n"
        "for n in range(1000): table.insert(n, AttributeFilter(f'x = {n}'))\n"
        "for n in range(1000): assert table.match(Attributes({'x': n})) == [n]\n"
        "print('numba' in sys.modules)"
    )
    assert found.strip() == "False"
