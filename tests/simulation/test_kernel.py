"""Time goes forward, things happen in the order of scheduling, timers can be cancelled."""

from __future__ import annotations

import gc
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.simulation.kernel import Clock, Kernel, SimTimer, to_ns


@given(times=st.lists(st.integers(0, 5), max_size=30), background=st.booleans())
def test_by_instant_and_then_in_the_order_of_scheduling(times: list[int], background: bool) -> None:
    kernel = Kernel()
    happened: list[tuple[int, int]] = []
    for number, at in enumerate(times):

        def happen(number: int = number) -> None:
            happened.append((kernel.now, number))

        kernel.call_at(at, happen, background)
    kernel.run(10)
    assert happened == sorted((at, number) for number, at in enumerate(times))
    assert kernel.now == 10


MOMENTS = st.one_of(
    st.integers(0, 5),
    st.integers(0, 1 << 23),
    st.integers(0, 1 << 33),
    st.sampled_from([1 << 21, 1 << 22, (1 << 31) - 1, 1 << 31, 1 << 32]),
)


@given(
    first=st.lists(st.tuples(MOMENTS, st.lists(MOMENTS, max_size=4)), max_size=20),
    stops=st.lists(MOMENTS, max_size=4),
)
def test_near_and_far_things_happen_in_the_same_order(
    first: list[tuple[int, list[int]]], stops: list[int]
) -> None:
    """Some schedule others, over any distance; and the run is stopped now and then."""
    kernel = Kernel()
    scheduled: list[tuple[int, int]] = []
    happened: list[tuple[int, int]] = []

    def plan(at: int, then: list[int]) -> None:
        number = len(scheduled)
        scheduled.append((at, number))

        def happen() -> None:
            happened.append((kernel.now, number))
            for delay in then:
                plan(kernel.now + delay, [])

        kernel.call_at(at, happen)

    for at, then in first:
        plan(at, then)
    for stop in sorted(stops):
        kernel.run(stop)
        plan(kernel.now, [])
    kernel.run(1 << 35)
    assert happened == sorted(scheduled)
    assert kernel.next_instant() == -1


@given(
    times=st.lists(st.integers(0, 5), min_size=1, max_size=20),
    cancelled=st.sets(st.integers(0, 19)),
    twice=st.booleans(),
)
def test_a_cancelled_timer_does_not_fire(
    times: list[int], cancelled: set[int], twice: bool
) -> None:
    kernel = Kernel()
    happened: list[int] = []
    timers = [kernel.call_at(at, partial(happened.append, n)) for n, at in enumerate(times)]
    for number, timer in enumerate(timers):
        if number in cancelled:
            for _ in range(1 + twice):
                timer.cancel()
    assert kernel.armed == len([n for n in range(len(times)) if n not in cancelled])
    kernel.run(5)
    assert sorted(happened) == [n for n in range(len(times)) if n not in cancelled]
    assert kernel.at_rest()
    for timer in timers:
        timer.cancel()  # harmless afterwards
    assert kernel.armed == 0


def test_what_is_scheduled_for_now_still_happens_now_and_last() -> None:
    kernel = Kernel()
    happened: list[str] = []

    def first() -> None:
        happened.append("first")
        kernel.call_at(kernel.now, lambda: happened.append("added"))

    kernel.call_at(3, first)
    kernel.call_at(3, lambda: happened.append("second"))
    kernel.call_at(4, lambda: happened.append("later"))
    kernel.run(3)
    assert happened == ["first", "second", "added"]


def test_a_timer_may_cancel_another_at_the_same_instant() -> None:
    kernel = Kernel()
    happened: list[str] = []
    victims: list[SimTimer] = []
    kernel.call_at(1, lambda: victims[0].cancel())
    victims.append(kernel.call_at(1, lambda: happened.append("too late")))
    kernel.run(1)
    assert happened == []
    assert kernel.at_rest()


def test_the_past_is_closed() -> None:
    kernel = Kernel()
    kernel.run(10)
    with pytest.raises(ValueError, match="9 ns is in the past; it is 10 ns"):
        kernel.call_at(9, lambda: None)
    kernel.run(5)
    assert kernel.now == 10


@pytest.mark.parametrize("period", [0.0, -1.0])
def test_a_timer_that_would_hold_time_still_is_refused(period: float) -> None:
    with pytest.raises(ValueError, match="simulated time would never pass"):
        Clock(Kernel()).every(period, lambda: None, 1.0)


def test_rest_comes_when_only_background_timers_are_left() -> None:
    kernel = Kernel()
    ticks: list[int] = []

    def tick() -> None:
        ticks.append(kernel.now)
        kernel.call_at(kernel.now + 10, tick, background=True)

    kernel.call_at(0, tick, background=True)
    kernel.call_at(35, lambda: None)
    assert kernel.run_to_rest(1000)
    assert ticks == [0, 10, 20, 30]
    assert not kernel.armed


def test_no_rest_before_the_limit() -> None:
    kernel = Kernel()
    kernel.call_at(50, lambda: None)
    assert not kernel.run_to_rest(49)
    assert kernel.run_to_rest(50)


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_left_as_it_was_found(collecting: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        kernel = Kernel()
        inside: list[bool] = []
        kernel.call_at(1, lambda: inside.append(gc.isenabled()))
        kernel.call_at(2, partial(divmod, 1, 0))
        with pytest.raises(ZeroDivisionError):
            kernel.run(3)
        assert inside == [False]
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()


@given(st.floats(0, 1e6))
def test_nanoseconds(seconds: float) -> None:
    assert abs(to_ns(seconds) - seconds * 1e9) <= 0.5 + seconds * 1e-6
