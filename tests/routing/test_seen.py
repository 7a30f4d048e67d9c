"""Events that have been here are told from new ones, in bounded memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.routing.seen import GENERATION, WORDS, Seen, SeenNumbers


def test_an_id_is_remembered_while_a_generation_of_newer_ones_comes() -> None:
    seen = Seen()
    assert seen.first((0, 0))
    assert not seen.first((0, 0))
    for number in range(1, GENERATION + 1):
        assert seen.first((0, number))
    assert not seen.first((0, 0))
    assert not seen.first((0, GENERATION))
    assert (0, 1) in seen
    for number in range(GENERATION + 1, 2 * GENERATION + 1):
        assert seen.first((0, number))
    assert seen.first((0, 0))  # forgotten: more than a generation has come since
    assert not seen.first((0, GENERATION + 1))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200) | st.integers(0, 2**62))))
def test_sequence_numbers_in_any_order_are_remembered(ids: list[tuple[int, int]]) -> None:
    seen, known = SeenNumbers(), set[tuple[int, int]]()
    for publisher, sequence in ids:
        assert seen.has(publisher, sequence) == ((publisher, sequence) in known)
        assert seen.first(publisher, sequence) == ((publisher, sequence) not in known)
        known.add((publisher, sequence))


def test_sequence_numbers_are_forgotten_a_generation_at_a_time() -> None:
    seen = SeenNumbers()
    far_apart = [32 * word for word in range(WORDS + 1)]
    for sequence in far_apart:
        assert seen.first(7, sequence)
    assert not any(seen.first(7, sequence) for sequence in far_apart)
    for sequence in range(1, 32 * WORDS, 32):  # other numbers of the same words
        assert seen.first(8, sequence)
    assert seen.has(8, 1)
    assert seen.first(7, 0)  # forgotten: more than a generation has come since
