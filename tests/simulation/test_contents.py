"""Workloads: the same from a seed, the same in every spelling, as selective as they say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from shoal.content import AttributeFilter
from shoal.content.normal import NormalForm
from shoal.simulation.contents import WORKLOADS, Stock, dictionary_word, dps, shuffled


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_text_of_a_filter_means_the_filter(name: str) -> None:
    workload = WORKLOADS[name]
    events = workload.contents(50)
    for form, text in zip(workload.forms(200), workload.texts(200), strict=True):
        spelt = AttributeFilter(text).normal
        assert [spelt.matches(e) for e in events] == [form.matches(e) for e in events], text


def test_a_seed_gives_the_same_filters_however_many_are_asked_for() -> None:
    workload = WORKLOADS["W4"]
    assert list(workload.forms(12_000))[:500] == list(workload.forms(500))
    assert workload.events(10).equals(workload.events(50).slice(0, 10))


def share(forms: list[NormalForm], events: list[dict[str, object]]) -> float:
    hits = sum(form.matches(event) for form in forms for event in events)
    return hits / (len(forms) * len(events))


@pytest.mark.parametrize(("workload", "expected"), [(2, 0.25), (3, 0.0041)])
def test_dps_matches_the_share_that_independent_predicates_give(
    workload: int, expected: float
) -> None:
    shares = []
    for seed in range(12 if workload == 3 else 2):
        drawn = dps(workload, seed=seed)
        shares.append(share(list(drawn.forms(300)), drawn.contents(100)))
    assert sum(shares) / len(shares) == pytest.approx(expected, rel=0.5)


def test_words_are_distinct_and_spelt_with_common_letters() -> None:
    words = [dictionary_word(number) for number in range(20_000)]
    assert len(set(words)) == len(words)
    letters = Counter("".join(words))
    assert len(letters) == 26
    assert 0.1 < letters["e"] / letters.total() < 0.16
    assert letters["z"] / letters.total() < 0.01


def test_a_filter_asks_for_a_letter_of_a_popular_word() -> None:
    """Letters are drawn from the words that filters favour, so they are as uneven as these."""
    (text,) = (a for a in dps(1).attributes if a.name == "text")
    drawn = dps(1, attributes=(replace(text, equality=0.0, filter_zipf=3.0),))
    letters = Counter(str(form) for form in drawn.forms(2_000))
    favourite = dictionary_word(int(shuffled(500, 1, "filters text")[0]))
    assert sum(count for _, count in letters.most_common(len(set(favourite)))) > 1_600


def test_selectivity_and_overlap_are_parameters() -> None:
    narrow, wide = Stock(volume_range=0.1), Stock(volume_range=0.8)
    assert share(list(narrow.forms(2_000)), narrow.contents(60)) < share(
        list(wide.forms(2_000)), wide.contents(60)
    )
    alike = dps(2, overlap=0.9)
    assert len(set(alike.forms(2_000))) < 0.3 * len(set(dps(2).forms(2_000)))


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ValueError, match="take 1, 2 or 3"):
        dps(4)
