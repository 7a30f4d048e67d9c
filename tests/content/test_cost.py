"""A filter's cost: what takes too long is refused before it sees an event."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import AttributeFilter, FilterError
from shoal.content.index import MatchIndex, vocabulary
from shoal.content.language import EVENT_BYTES, MAX_COST, evaluate, like
from shoal.content.language.like import like as matches_like
from shoal.content.language.parser import parse
from shoal.content.normalise import normalise


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"x LIKE '%{n}%'" for n in range(1399)),
        f"LENGTH(CONCAT({', '.join('x' * 1000)})) > 5",
        "LENGTH(CONCAT(CONCAT(CONCAT(x, x, x, x), x, x, x), {0}, {0}, {0}, {0})) > 5".format(
            "CONCAT(CONCAT_WS(x, x, x, x, x), CONCAT_WS(x, x, x, x, x), UPPER(UPPER(x)))"
        ),
        " OR ".join(["LOWER(x) = 'a'"] * 40),
        " OR ".join(f"x LIKE '%abcdefghijklmnop_{n}%'" for n in range(40)),
    ],
)
def test_what_may_take_too_long_is_refused_with_its_cost(text: str) -> None:
    with pytest.raises(FilterError, match=r"may take [\d,]+ million steps .* 500 million are"):
        AttributeFilter(text)


@pytest.mark.parametrize(
    "text",
    [
        "x LIKE '%" + "_" * 15_000 + "b%'",
        "LOWER(x) LIKE '%abc%' AND LOWER(y) LIKE '%abc%' AND LOWER(z) = 'a'",
        "x LIKE '%error_code: disk_full%'",
        "x IN (" + ", ".join(f"'{n}'" for n in range(3000)) + ")",
        " OR ".join(f"a{n} > {n}" for n in range(2000)),
        " OR ".join(f"x LIKE 'a{n}%'" for n in range(1500)),
        " OR ".join(f"x LIKE '%{n}%'" for n in range(60)),
        " AND ".join(f"(a{n} = b{n} OR LEFT(x, 20) = 'a{n}')" for n in range(500)),
    ],
)
def test_what_people_write_is_accepted(text: str) -> None:
    assert AttributeFilter(text).cost() <= MAX_COST


def test_a_cost_grows_with_the_event_and_attributes_share_it() -> None:
    one = AttributeFilter("LOWER(x) LIKE '%abc%'")
    assert one.cost(2 * EVENT_BYTES) > 1.9 * one.cost(EVENT_BYTES)
    both = AttributeFilter("LOWER(x) LIKE '%abc%' OR LOWER(y) LIKE '%abc%'")
    twice = AttributeFilter("LOWER(x) LIKE '%abc%' OR LOWER(x) LIKE '%abd%'")
    assert both.cost() < 1.1 * one.cost()
    assert twice.cost() > 1.9 * one.cost()
    one.check_cost(1 << 16, 10_000_000)
    with pytest.raises(FilterError, match="65,536 bytes; 1 million are allowed"):
        one.check_cost(1 << 16, 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        f"LENGTH(CONCAT({', '.join('x' * 50)})) < 0",
        "LENGTH(CONCAT(UPPER(x), CONCAT_WS(x, x, x, x), CONCAT(x, LEFT(x, 500000)))) < 0",
        "LENGTH(UPPER(UPPER(x))) < 0",
        " OR ".join(["x LIKE '%abcdefg_x%'"] * 8),
    ],
)
@pytest.mark.parametrize("character", ["a", "\u0390", "\U0001f600"])
def test_an_accepted_filter_takes_no_more_memory_than_its_cost_says(
    text: str, character: str
) -> None:
    size = EVENT_BYTES // 8
    wanted = AttributeFilter(text)
    event: dict[str, object] = {"x": character * (size // len(character.encode()))}
    wanted.matches(event)
    tracemalloc.start()
    wanted.matches(event)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= wanted.cost(size) / 2 + 100_000


def as_regex(pattern: str) -> str:
    found, at = "", 0
    while at < len(pattern):
        if pattern[at] == "\\" and pattern[at + 1 : at + 2] in ("%", "_"):
            at += 1
            found += re.escape(pattern[at])
        else:
            found += {"%": ".*", "_": "."}.get(pattern[at], re.escape(pattern[at]))
        at += 1
    return found


@settings(deadline=None, max_examples=400)
@given(
    st.text("ab?%_\\é世\0\U0001f600", max_size=12),
    st.text("ab?é世\0\x01\U0001f600", max_size=30),
    st.sampled_from([1, 3, 1024]),
)
def test_like_is_what_a_regular_expression_says(pattern: str, text: str, stretch: int) -> None:
    before, like.STRETCH = like.STRETCH, stretch  # type: ignore[misc]  # short texts, long ways
    try:
        for given_text in (text, 40 * text):
            wanted = re.fullmatch(as_regex(pattern), given_text, re.DOTALL) is not None
            assert matches_like(pattern, given_text) is wanted
    finally:
        like.STRETCH = before  # type: ignore[misc]  # as above


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The patterns that are asked about, in the order in which they are."""
    import sys

    found: list[str] = []

    def counted(pattern: str, text: str) -> bool:
        found.append(pattern)
        return matches_like(pattern, text)

    monkeypatch.setattr(sys.modules["shoal.content.language.evaluate"], "like", counted)
    monkeypatch.setattr("shoal.content.normal.like", counted)
    return found


@pytest.mark.parametrize("join", [" OR ", " XOR "])
def test_the_index_asks_each_part_of_a_filter_once(calls: list[str], join: str) -> None:
    text = join.join(f"(LOWER(x) LIKE '%{n}_%' OR y > {n})" for n in range(5))
    index = MatchIndex()
    handle = index.insert(text)
    event: dict[str, Any] = {"x": "abc", "y": 0.5}
    found = index.match(event)
    assert found == ([handle] if AttributeFilter(text).matches(event) else [])
    assert len(calls) <= 2 * 5  # once by the index, once by the filter


def test_the_normal_form_and_the_filter_itself_agree() -> None:
    form = normalise(parse("LOWER(x) LIKE 'a_b%' OR x > 5"))
    assert form.source is not None
    assert normalise(parse("x > 5 OR y LIKE 'a%'")).source is None
    for x in ("a1b", "A1Bc", "a", 6, True, None):
        assert form.decide({"x": x}) == form.matches({"x": x})


def test_an_index_does_not_keep_long_texts() -> None:
    index = MatchIndex()
    index.insert("x LIKE '%abc%'")
    for n in range(20):
        assert index.match({"x": f"{n}" * 10_000 + "abc"}) == [0]
        assert index.match({"x": f"{n}"}) == []
    memory = index.vocabulary.attributes["x"].memory
    assert max(map(len, map(str, memory))) <= vocabulary.MEMORISED


def test_few_and_many_fragments_of_a_length() -> None:
    index = MatchIndex()
    for count in (vocabulary.FEW_FRAGMENTS, 3 * vocabulary.FEW_FRAGMENTS):
        while len(index) < count:
            index.insert(f"x LIKE '%<{len(index):02}>%'")
        for wanted in ([], [3], [0, count - 1]):
            text = "".join(f"ab<{n:02}>c" for n in wanted)
            assert sorted(index.match({"x": text})) == wanted


def test_a_failure_shows_the_beginning_of_a_long_text() -> None:
    found = evaluate(parse("x > 5"), {"x": "a" * 1_000_000})
    assert len(str(found)) < 300
