"""DPS after any faults and a quiet time: structure and delivery are as they must be."""

from __future__ import annotations

import os

import pytest

from shoal.simulation.chaos import Subject, describe, failure, play, shrink, trial
from shoal.simulation.chaos.dps import DpsHistory

SEEDS = int(os.environ.get("SHOAL_CHAOS_EXAMPLES", "25"))
VARIANTS = tuple((t, c) for t in ("root", "generic") for c in ("leader", "epidemic"))


def subject(variant: tuple[str, str]) -> Subject:
    return Subject("", "dps", variant=f"traversal={variant[0]} communication={variant[1]}")


def history(nodes: int, variant: tuple[str, str], *lines: str) -> DpsHistory:
    """A network in which all nodes run, after some steps."""
    starts = [f"start {node}" for node in range(nodes)]
    ground = {"nodes": nodes, "notices": False}
    made = play(subject(variant), ground, [*starts, "wait 0.2", *lines])
    assert isinstance(made, DpsHistory)
    return made


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_everything_is_in_order_after_any_faults(variant: tuple[str, str]) -> None:
    for seed in range(SEEDS):
        made, found = trial(subject(variant), seed)
        if found is not None:
            pytest.fail(f"{variant}, seed {seed}: {found}\n{describe(made, shrink(made))}")


def test_a_whole_group_and_the_staff_of_the_root_may_be_lost_at_once() -> None:
    lines = [
        *(f"subscribe {node} x > 0" for node in (0, 1, 2)),
        *(f"subscribe {node} x > {node - 2}" for node in (3, 4, 5)),
        "wait 5",
        *(f"crash {node}" for node in (0, 1, 2, 3)),
        "wait 1",
        "start 0",
    ]
    for traversal in ("root", "generic"):
        made = history(8, (traversal, "leader"), *lines)
        assert failure(made) is None
        owned = [routing.owned for routing in made.routings().values()]
        assert max(trees["x"].term for trees in owned if "x" in trees) > 1


def test_a_fault_that_heals_nothing_is_found() -> None:
    """The check can fail: a member that its leader has forgotten, and that no longer beats."""
    made = history(4, ("root", "leader"), "subscribe 0 x > 0", "subscribe 1 x > 0", "wait 2")
    timer = made.routings()[1]._round
    assert timer is not None
    timer.cancel()  # the fault
    found = failure(made)
    assert found is not None
    assert "in the group 'x > 0' it knows []" in found
