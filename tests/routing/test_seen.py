"""Events that have been here are told from new ones, in bounded memory."""

from __future__ import annotations

from shoal.routing.seen import GENERATION, Seen


def test_an_id_is_remembered_while_a_generation_of_newer_ones_comes() -> None:
    seen = Seen()
    assert seen.first((0, 0))
    assert not seen.first((0, 0))
    for number in range(1, GENERATION + 1):
        assert seen.first((0, number))
    assert not seen.first((0, 0))
    assert not seen.first((0, GENERATION))
    assert seen.has(0, 1)
    for number in range(GENERATION + 1, 2 * GENERATION + 1):
        assert seen.first((0, number))
    assert seen.first((0, 0))  # forgotten: more than a generation has come since
    assert not seen.first((0, GENERATION + 1))
