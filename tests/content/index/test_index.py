"""The index gives exactly what the reference gives, whatever was inserted, removed and merged."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filter_strategies import PAIRS, conditions
from shoal.content import AttributeFilter, Attributes
from shoal.content.index import IndexTable, MatchIndex, fields, levels, single, vocabulary
from shoal.content.index import index as index_module
from shoal.content.index.storage import load, save
from shoal.content.language.evaluate import holds
from shoal.content.normal import (
    Absent,
    Conjunction,
    NormalForm,
    Number,
    Predicate,
    Present,
    Text,
    Truth,
)
from shoal.content.normalise import normalise
from shoal.content.tables import NaiveTable
from shoal.simulation.contents import WORKLOADS

Event = dict[str, Any]
Forms = dict[int, NormalForm]
RELAXED = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["c", "numba"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Single events go through the C extension, where it is built, and through numba."""
    if request.param == "numba":
        monkeypatch.setattr(single, "match", None)
        monkeypatch.setattr(single, "quick", None)
    elif single.match is None:
        pytest.skip("the extension is not built")
    return str(request.param)


def wanted(forms: Forms, event: Event) -> list[int]:
    return [handle for handle, form in forms.items() if form.matches(event)]


# Any filter of the language


@RELAXED
@given(st.lists(conditions, min_size=1, max_size=12), st.lists(st.sampled_from(PAIRS), max_size=6))
def test_any_filters_on_any_events(expressions: list[Any], events: list[Event]) -> None:
    index = MatchIndex()
    handles = [index.insert(normalise(expression)) for expression in expressions]
    for event in events:
        expected = [h for h, e in zip(handles, expressions, strict=True) if holds(e, event)]
        assert sorted(index.match(event)) == expected
        assert index.matches(event) == bool(expected)
    index.compact()
    for event in events:
        expected = [h for h, e in zip(handles, expressions, strict=True) if holds(e, event)]
        assert sorted(index.match(event)) == expected


# Long histories: segments, merges, tombstones, new cuts

NAMES = tuple("abcde")
TEXTS = ("x", "xy", "yx", "abc", "abx", "5", "7.5", "true", "")
LARGE = [2**53 + n for n in range(-2, 4)] + [2**62, 2**62 + 1, -(2**53) - 1]


def some_value(chance: random.Random) -> Any:
    kind = chance.randrange(7)
    if kind == 0:
        return chance.choice(LARGE)
    if kind == 1:
        return chance.choice([float("inf"), float("-inf"), 1e300, float("nan"), None, 10**30])
    if kind == 2:
        return chance.random() < 0.5
    if kind <= 4:
        return chance.choice(TEXTS)
    return chance.choice([chance.randint(0, 20), round(chance.random() * 20, 1)])


def some_predicate(chance: random.Random, name: str) -> Predicate:
    def number() -> int | float:
        return chance.choice([chance.randint(0, 20), round(chance.random() * 20, 1), *LARGE[:3]])

    kind = chance.random()
    if kind < 0.5:
        low, high = sorted([number(), number()])
        ends = chance.random()
        holes = tuple(sorted({number() for _ in range(chance.choice([0, 0, 1, 2]))}))
        if ends < 0.2:
            return Number(name, low, high=low, holes=holes)
        return Number(
            name,
            float("-inf") if ends < 0.4 else low,
            float("inf") if 0.3 < ends < 0.5 else high,
            low < high and chance.random() < 0.3,
            low < high and chance.random() < 0.3,
            holes,
        )
    if kind < 0.8:
        text = chance.random()
        if text < 0.4:
            return Text(name, tuple(sorted(set(chance.choices(TEXTS, k=chance.randint(1, 3))))))
        if text < 0.6:
            return Text(name, prefix=chance.choice(["x", "ab"]), suffix=chance.choice(["", "y"]))
        if text < 0.8:
            return Text(name, contains=(chance.choice(["x", "b", "bc"]),))
        return Text(name, holes=("x",), unlike=("%b%",) if chance.random() < 0.3 else ())
    others: list[Predicate] = [
        Truth(name, True),
        Truth(name, False),
        Truth(name),
        Present(name),
        Absent(name),
    ]
    return chance.choice(others)


def some_form(chance: random.Random) -> NormalForm:
    return NormalForm(
        tuple(
            Conjunction(
                tuple(
                    some_predicate(chance, name)
                    for name in sorted(chance.sample(NAMES, chance.randint(0, 4)))
                )
            )
            for _ in range(chance.choice([1, 1, 1, 2, 3]))
        )
    )


def some_event(chance: random.Random) -> Event:
    return {name: some_value(chance) for name in NAMES if chance.random() < 0.7}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("recent", [16, 80])
def test_a_long_history(seed: int, recent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "RECENT", recent)
    monkeypatch.setattr(levels, "RECENT", recent)
    for paid in ("INSERTION", "REMOVAL"):  # merges must come round in a short test
        monkeypatch.setattr(index_module, paid, 4_000)
    monkeypatch.setattr(fields, "MAX_CUTS", 24 if seed % 2 else 32_764)  # odd seeds: lossy codes
    chance, index, forms = random.Random(seed), MatchIndex(), Forms()
    merged = 0
    for _ in range(1_500):
        act = chance.random()
        if act < 0.55:
            form = some_form(chance)
            forms[index.insert(form)] = form
        elif act < 0.75 and forms:
            handle = chance.choice(list(forms))
            assert index.remove(handle)
            assert not index.remove(handle)
            del forms[handle]
        else:
            event = some_event(chance)
            assert sorted(index.match(event)) == wanted(forms, event)
        merged = max(merged, max((len(s.handles) for s in index.segments), default=0))
        assert len(index) == len(forms)
    assert merged > 2 * recent
    index.compact()
    for _ in range(20):
        event = some_event(chance)
        assert sorted(index.match(event)) == wanted(forms, event)
    for handle in list(forms):
        assert index.remove(handle)
    assert index.match(some_event(chance)) == []
    index.compact()
    assert index.match({"a": 1}) == []


def test_changes_during_a_merge_are_seen() -> None:
    chance, index, forms = random.Random(3), MatchIndex(), Forms()
    for _ in range(6_000):
        form = some_form(chance)
        forms[index.insert(form)] = form
    while not index._levels.merges:  # insert until one is under way
        form = some_form(chance)
        forms[index.insert(form)] = form
    for handle in chance.sample(sorted(forms), 500):
        index.remove(handle)
        del forms[handle]
    events = [some_event(chance) for _ in range(5)]
    for event in events:
        assert sorted(index.match(event)) == wanted(forms, event)
    index.settle()
    for event in events:
        assert sorted(index.match(event)) == wanted(forms, event)


# Workloads, in batches and one by one


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_workload(name: str) -> None:
    workload, index = WORKLOADS[name], MatchIndex()
    forms = dict(enumerate(workload.forms(3_000)))
    assert index.insert_many(forms.values()) == range(3_000)
    batch, contents = workload.events(40), workload.contents(40)
    found = index.match_batch(batch).lists()
    for event, handles in zip(contents, found, strict=True):
        assert handles == wanted(forms, event)
        assert sorted(index.match(event)) == handles


def test_batches_of_all_types() -> None:
    chance, index, forms = random.Random(5), MatchIndex(), Forms()
    for _ in range(2_000):
        form = some_form(chance)
        forms[index.insert(form)] = form

    def column(make: Any) -> list[Any]:
        return [make() if chance.random() < 0.8 else None for _ in range(120)]

    batch = pa.record_batch(
        {
            "a": pa.array(column(lambda: chance.choice([*range(20), *LARGE])), pa.int64()),
            "b": pa.array(column(lambda: chance.choice([1.5, float("nan"), float("inf"), 7.0]))),
            "c": pa.array(column(lambda: chance.choice(TEXTS))),
            "d": pa.array(column(lambda: chance.random() < 0.5)),
            "e": pa.array(column(lambda: chance.choice(TEXTS))).dictionary_encode(),
            "unused": pa.array([None] * 120),
        }
    )
    for _ in range(2):
        found = index.match_batch(batch).lists()
        for event, handles in zip(batch.to_pylist(), found, strict=True):
            assert handles == wanted(forms, event)
        index.compact()
    rows, ids = index.match_batch(batch).pairs()
    assert len(rows) == len(ids) == sum(map(len, found))


def test_a_large_batch_lays_out_the_newest_filters() -> None:
    workload, index = WORKLOADS["W1"], MatchIndex()
    forms = Forms()
    for form in workload.forms(700):
        forms[index.insert(form)] = form
    index.match_batch(workload.events(10))
    assert not index.segments
    batch = workload.events(2_000)
    found = index.match_batch(batch).lists()
    assert index.segments
    for event, handles in list(zip(batch.to_pylist(), found, strict=True))[::100]:
        assert handles == wanted(forms, event)


def test_an_empty_index_and_an_empty_batch() -> None:
    index = MatchIndex()
    assert index.match({"a": 1}) == []
    assert index.match_batch(pa.record_batch({"a": [1, 2]})).lists() == [[], []]
    index.insert(NormalForm((Conjunction(),)))
    assert index.match({}) == [0]
    assert len(index.match_batch(pa.record_batch({"a": pa.array([], pa.int64())})).ids) == 0


def test_an_unreadable_column_is_named() -> None:
    index = MatchIndex()
    index.insert(NormalForm((Conjunction((Number("at", 1, 2),)),)))
    batch = pa.record_batch({"at": pa.array([0], pa.timestamp("us")), "other": pa.array([[1]])})
    with pytest.raises(TypeError, match="column 'at' holds timestamp"):
        index.match_batch(batch)
    with pytest.raises(TypeError, match="an attribute holds a list"):
        index.match({"at": [1]})
    assert index.match({"other": [1], "at": 1}) == [0]


def test_more_attributes_than_bits_in_a_word() -> None:
    index, forms = MatchIndex(), Forms()
    for number in range(300):
        names = (f"n{number:03d}", f"n{(number + 7) % 300:03d}")
        predicates = tuple(Number(name, number, number + 5) for name in sorted(names))
        forms[index.insert(NormalForm((Conjunction(predicates),)))] = NormalForm(
            (Conjunction(predicates),)
        )
    index.compact()
    event = {f"n{number:03d}": number + 3 for number in range(300)}
    assert sorted(index.match(event)) == wanted(forms, event)


def test_more_texts_than_codes() -> None:
    index = MatchIndex()
    index.insert_many(
        NormalForm((Conjunction((Text("page", (f"page {number}",)),)),)) for number in range(40_000)
    )
    assert index.match({"page": "page 39999"}) == [39_999]
    assert index.match({"page": "page 40000"}) == []
    batch = pa.record_batch({"page": [f"page {number}" for number in range(0, 41_000, 100)]})
    assert index.match_batch(batch).lists() == [
        [number] if number < 40_000 else [] for number in range(0, 41_000, 100)
    ]


def test_more_columns_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "MAX_COLUMNS", 4)
    monkeypatch.setattr(vocabulary, "MAX_LENGTHS", 1)
    test_a_long_history(2, 16, monkeypatch)


# Storage and the routing table


def test_an_index_stored_by_another_version_is_refused(tmp_path: Path) -> None:
    index = MatchIndex()
    index.insert(NormalForm((Conjunction((Number("a", 1, 2),)),)))
    save(index, tmp_path)
    about = pickle.loads((tmp_path / "about.pickle").read_bytes())
    (tmp_path / "about.pickle").write_bytes(pickle.dumps({**about, "layout": fields.LAYOUT - 1}))
    with pytest.raises(ValueError, match="another version of Shoal; store it again"):
        load(tmp_path)


@pytest.mark.skipif(single.match is None, reason="the extension is not built")
def test_an_extension_of_another_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "LAYOUT", fields.LAYOUT + 1)
    with pytest.warns(UserWarning, match="install Shoal again"):
        assert single._load() is None


def test_a_stored_index_answers_the_same(tmp_path: Path) -> None:
    chance, index, forms = random.Random(8), MatchIndex(), Forms()
    for _ in range(3_000):
        form = some_form(chance)
        forms[index.insert(form)] = form
    for handle in range(0, 3_000, 7):
        index.remove(handle)
        del forms[handle]
    save(index, tmp_path)
    stored = load(tmp_path)
    assert len(stored) == len(forms)
    stored.remove(1)
    del forms[1]
    forms[stored.insert(NormalForm((Conjunction((Number("a", 3, 4),)),)))] = NormalForm(
        (Conjunction((Number("a", 3, 4),)),)
    )
    for _ in range(20):
        event = some_event(chance)
        assert sorted(stored.match(event)) == wanted(forms, event)
    assert np.load(tmp_path / "alive.npy").sum() != stored.segments[0].alive.sum()
    save(MatchIndex(), tmp_path / "empty")
    assert load(tmp_path / "empty").match({"a": 1}) == []


def test_the_table_agrees_with_the_reference_table() -> None:
    chance = random.Random(4)
    table, naive = IndexTable(), NaiveTable()
    filters = [
        AttributeFilter(text)
        for text in ("a > 3", "a > 3 AND b = 'x'", "b LIKE 'x%' OR a = 2", "EXISTS c", "a + 1 = 4")
    ]
    for _ in range(600):
        source, one = chance.randrange(6), chance.choice(filters)
        if chance.random() < 0.5:
            table.insert(source, one)
            naive.insert(source, one)
        else:
            table.remove(source, one)
            naive.remove(source, one)
        content = Attributes({"a": chance.randint(0, 6), "b": chance.choice(["x", "xy", "z"])})
        assert table.match(content) == naive.match(content)
