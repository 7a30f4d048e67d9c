"""DPS after any faults and a quiet time: structure and delivery are as they must be."""

from __future__ import annotations

import os

import pytest

from shoal.simulation.dps_chaos import VARIANTS, failure, replay, shrink, trial

ONCE_WRONG = (610,)
"""Seeds of faults that were found and mended."""
SEEDS = int(os.environ.get("SHOAL_CHAOS_EXAMPLES", "25"))


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_everything_is_in_order_after_any_faults(variant: tuple[str, str]) -> None:
    for seed in (*range(SEEDS), *ONCE_WRONG):
        chaos = trial(variant, seed)
        found = failure(chaos)
        if found is not None:
            log = "\n".join(shrink(chaos))
            pytest.fail(f"{variant}, seed {seed}, {chaos.nodes} nodes: {found}\n{log}")


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
        chaos = replay((traversal, "leader"), 8, 1, lines)
        assert failure(chaos) is None
        assert (
            max(
                routing.owned["x"].term
                for routing in chaos.routings().values()
                if "x" in routing.owned
            )
            > 1
        )


def test_a_fault_that_heals_nothing_is_found() -> None:
    """The check can fail: a member that its leader has forgotten, and that no longer beats."""
    chaos = replay(("root", "leader"), 4, 1, ["subscribe 0 x > 0", "subscribe 1 x > 0", "wait 2"])
    routing = chaos.routings()[1]
    routing.healing.round = lambda: None  # type: ignore[method-assign]  # the fault
    found = failure(chaos)
    assert found is not None
    assert "in the group 'x > 0' it knows []" in found
