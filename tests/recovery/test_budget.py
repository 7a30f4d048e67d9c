"""What gossip may cost, and how its period follows what there is to do."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shoal.recovery.budget import BURST, Budget, Pace


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000)), max_size=80))
def test_a_node_never_sends_more_than_its_rate_and_what_was_saved_up(
    wishes: list[tuple[float, int]],
) -> None:
    budget = Budget(100.0)
    now, sent, largest = 0.0, 0, 0
    for pause, size in wishes:
        now += pause
        if budget.spend(size, now):
            sent += size
            largest = max(largest, size)
        assert sent <= 100.0 * (now + BURST) + largest


def test_events_that_come_by_pay_for_gossip() -> None:
    budget = Budget(1.0, share=0.5)
    assert budget.spend(10, 0.0)
    assert not budget.spend(8, 0.0)
    budget.earn(16)
    assert budget.spend(8, 0.0)


def test_what_had_to_be_sent_is_saved_later() -> None:
    budget = Budget(10.0)
    budget.charge(150)
    assert not budget.spend(1, 4.0)
    assert budget.spend(1, 6.0)


def test_some_leave_a_part_of_what_is_saved_up_for_others() -> None:
    budget = Budget(10.0)
    assert budget.allows(200, 0.0, 0.5)  # nothing is owed
    assert budget.spend(10, 0.0)
    assert budget.allows(40, 0.0, 0.5)
    assert not budget.allows(41, 0.0, 0.5)
    assert budget.allows(41, 0.0)


def test_rounds_become_rarer_until_there_is_something_to_do() -> None:
    pace = Pace(0.1, 1.0)
    due = []
    for tick in range(60):
        now = tick * 0.1
        if pace.comes(now):
            due.append(tick)
            pace.in_vain()
        if tick == 50:
            pace.busy(now)
    assert due[:4] == [0, 1, 3, 7]
    assert 51 in due
    assert max(b - a for a, b in pairwise(due)) <= 10
