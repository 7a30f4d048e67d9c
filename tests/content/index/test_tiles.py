"""Many events on many groups, a tile at a time: the same as one event after the other."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.content.index import MatchIndex, batches, fields
from shoal.content.index.events import Events
from shoal.content.normal import Conjunction, NormalForm, Number, Predicate, Text, Truth
from shoal.simulation.contents import WORKLOADS, General

Forms = dict[int, NormalForm]


def held_to_the_reference(index: MatchIndex, forms: Forms, batch: Any) -> None:
    assert sum(len(s.groups) for s in index.segments) >= batches.TILED_GROUPS
    rows = list(zip(batch.to_pylist(), index.match_batch(batch).lists(), strict=True))
    for event, found in rows:
        assert found == sorted(index.match(event))
    for event, found in rows[::20]:
        assert found == [handle for handle, form in forms.items() if form.matches(event)]


@pytest.mark.parametrize("cuts", [24, 32_764])  # few: codes are shared, exact bounds looked at
@pytest.mark.parametrize("waiting", [False, True])  # some lanes are in no segment yet
def test_tiles_of_events_find_what_single_events_do(
    cuts: int, waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fields, "MAX_CUTS", cuts)
    workload, index = WORKLOADS["W4"], MatchIndex()
    forms = Forms(enumerate(workload.forms(6_000)))
    index.insert_many(forms.values())
    index.compact()
    for handle in range(0, 6_000, 7):
        index.remove(handle)
        del forms[handle]
    if waiting:
        for form in list(workload.forms(6_100))[6_000:]:
            forms[index.insert(form)] = form
    held_to_the_reference(index, forms, workload.events(2 * fields.TILE + 77))


def test_blocks_that_most_events_fall_into() -> None:
    workload, index = General(attributes=10, present=0.95, range=0.5), MatchIndex()
    forms = Forms(enumerate(workload.forms(8_000)))
    index.insert_many(forms.values())
    held_to_the_reference(index, forms, workload.events(fields.TILE + 9))


FRAGMENTS = ("ab", "b", "ca", "aab", "x", "")


def containing(chance: random.Random, fragments: tuple[str, ...]) -> NormalForm:
    """Filters with fragments among their keys, beside them, and more than a block has room for."""
    predicates: list[Predicate] = [Truth("t", chance.random() < 0.5)]
    for name in chance.sample("uvwxyz", chance.randint(1, 6)):
        if chance.random() < 0.2:
            predicates.append(Number(name, 0, chance.randint(1, 9)))
        else:
            predicates.append(Text(name, contains=(chance.choice(fragments),)))
    return NormalForm((Conjunction(tuple(predicates)),))


def test_fragments_are_found_wherever_a_filter_asks_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "TILED_GROUPS", 8)
    chance, index, forms = random.Random(5), MatchIndex(), Forms()

    def text() -> str | None:
        return None if chance.random() < 0.2 else "".join(chance.choices("abcx", k=6))

    def events(count: int) -> Any:
        texts = {name: [text() for _ in range(count)] for name in "uvwxyz"}
        return pa.record_batch({"t": [chance.random() < 0.5 for _ in range(count)], **texts})

    for fragments in (FRAGMENTS[:3], FRAGMENTS):  # the second time there are new ones to learn
        new = [containing(chance, fragments) for _ in range(5_000)]
        forms.update(zip(index.insert_many(new), new, strict=True))
        for _ in range(40):
            form = containing(chance, fragments)
            forms[index.insert(form)] = form
        held_to_the_reference(index, forms, events(fields.TILE + 30))


def test_events_that_have_the_same_attributes_become_neighbours() -> None:
    workload, index = replace(WORKLOADS["W4"], seed=3), MatchIndex()
    index.insert_many(workload.forms(3_000))
    batch = workload.events(20_000)
    order = Events(batch, index.vocabulary).by_presence(batches._uses(index))
    assert sorted(order.tolist()) == list(range(20_000))
    there = {name: np.asarray(batch.column(name).is_valid())[order] for name in ("a00", "a01")}
    runs = len(list(groupby(zip(*(there[name].tolist() for name in there), strict=True))))
    assert runs <= 2 * 2 * 2 * 32  # two stretches, sorted by seven attributes; 15,000 unsorted
