"""What an index takes: filters and events in the forms in which users have them."""

from __future__ import annotations

import decimal
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from shoal.content import AttributeFilter, Attributes, F, FilterError, Pattern, Patterns
from shoal.content.index import IndexTable, MatchIndex, single
from shoal.content.index.storage import load, save


@pytest.fixture(params=["c", "numba"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numba":
        monkeypatch.setattr(single, "match", None)
        monkeypatch.setattr(single, "quick", None)
    elif single.match is None:
        pytest.skip("the extension is not built")


def test_filters_as_text_as_filters_and_in_normal_form() -> None:
    index = MatchIndex()
    handles = [
        index.insert("x > 5"),
        index.insert(AttributeFilter("x > 5")),
        index.insert(F.x > 5),
        index.insert(AttributeFilter("x > 5").normal),
        *index.insert_many(["x > 5", AttributeFilter("x > 5")]),
    ]
    assert sorted(index.match({"x": 6})) == handles
    with pytest.raises(FilterError):
        index.insert("x >")
    for wrong in (5, None, Pattern(3), {"x": 5}):
        with pytest.raises(TypeError, match="no filter over attributes"):
            index.insert(wrong)  # type: ignore[arg-type]  # that is the point
    assert len(index) == 6


def test_events_as_dicts_attributes_and_mappings() -> None:
    index = MatchIndex()
    handle = index.insert("x > 5 AND name = 'a'")
    assert index.match_ids({"x": 6, "name": "a"}).tolist() == [handle]  # the first question
    for event in (
        {"x": 6, "name": "a"},
        Attributes({"x": 6, "name": "a"}),
        MappingProxyType({"x": 6, "name": "a"}),
    ):
        assert index.match(event) == [handle]
        assert index.matches(event)
        assert index.match_ids(event).tolist() == [handle]
    assert index.match(Patterns((3,))) == []
    for wrong in (5, "x", None, [("x", 6)]):
        with pytest.raises(TypeError, match="is no event"):
            index.match(wrong)
        with pytest.raises(TypeError, match="is no event"):
            index.matches(wrong)  # type: ignore[arg-type]  # that is the point


def test_a_filter_matches_a_plain_dict() -> None:
    hot = AttributeFilter("temperature > 30")
    assert hot.matches({"temperature": 31})
    assert not hot.matches({"temperature": 29})
    assert hot.explain({"temperature": 31}).matched
    assert hot.evaluate({"temperature": 31}) is True
    assert not hot.matches(Patterns((3,)))
    with pytest.raises(TypeError, match="a list is no event"):
        hot.matches([31])  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    "six", [np.int64(6), np.uint8(6), np.float32(6), np.float64(6), np.str_("6")]
)
def test_numbers_of_numpy(six: object) -> None:
    index = MatchIndex()
    number, text = index.insert("x > 5"), index.insert("x = '6'")
    assert sorted(index.match({"x": six})) == [number, text]
    assert AttributeFilter("x > 5").matches({"x": six})


def test_booleans_of_numpy_and_what_is_none() -> None:
    index = MatchIndex()
    on = index.insert("x = TRUE")
    assert index.match({"x": np.bool_(True)}) == [on]
    assert index.match({"x": np.float64("nan")}) == []
    for wrong in (np.array([1]), np.datetime64("2020-01-01"), decimal.Decimal(1), [1], b"x"):
        with pytest.raises(TypeError, match="an attribute holds a"):
            index.match({"x": wrong})
        with pytest.raises(TypeError, match="an attribute holds a"):
            AttributeFilter("x = TRUE").matches({"x": wrong})


def test_tables_of_arrow_and_pandas() -> None:
    index = MatchIndex()
    a, b = index.insert("x > 5"), index.insert("name LIKE 'b%'")
    columns = {"x": [6, 1, None, 9], "name": ["a", "b1", "b2", "b3"]}
    wanted = [[a], [b], [b], [a, b]]
    table = pa.table(columns)
    frame = pd.DataFrame(columns, index=["p", "q", "r", "s"])
    assert index.match(table) == wanted
    assert index.match(pa.record_batch(columns)) == wanted
    assert index.match(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == wanted
    assert index.match(frame) == wanted
    assert index.match_batch(frame).lists() == wanted
    assert index.match_batch(table).lists() == wanted
    with pytest.raises(TypeError, match="holds many events"):
        index.matches(frame)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="no table of events"):
        index.match_batch([{"x": 6}])
    with pytest.raises(TypeError, match="cannot be read"):
        index.match(pd.DataFrame({"x": [1, "a"], "name": ["a", "b"]}))


def test_a_filter_that_can_never_match_comes_and_goes(tmp_path: Path) -> None:
    index = MatchIndex()
    never = [index.insert("FALSE"), index.insert("x > 5 AND x < 3")]
    assert len(index) == 2
    assert index.match({"x": 4}) == []
    save(index, tmp_path / "only")
    loaded = load(tmp_path / "only")
    assert len(loaded) == 2
    assert loaded.match({"x": 4}) == []
    for one in (index, loaded):
        assert one.remove(never[0])
        assert not one.remove(never[0])
        assert len(one) == 1
        assert one.match({"x": one.insert("x >= 0")}) == [2]
    assert loaded.remove(never[1])
    save(loaded, tmp_path / "both")
    again = load(tmp_path / "both")
    assert len(again) == 1
    assert again.match({"x": 4}) == [2]


def test_a_routing_table_takes_any_content() -> None:
    table = IndexTable()
    table.insert(1, AttributeFilter("x > 5"))
    assert table.match(Attributes({"x": 6})) == [1]
    assert table.match(Patterns((6,))) == []
