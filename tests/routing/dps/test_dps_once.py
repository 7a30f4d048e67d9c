"""Section 5.2.1: with leaders, "all events are received by the … recipients only once"."""

from __future__ import annotations

import pytest

from shoal.experiments.dps_scenarios import FOUR, LISTED
from shoal.pipeline.measure.dps_traces import repeated_copies
from shoal.pipeline.measure.run_view import Run
from shoal.pipeline.plan.experiment import merge
from shoal.simulation import parse_config, simulate

TRACED = LISTED["traced"]


@pytest.mark.parametrize("seed", [0, 8, 13])
def test_no_leader_gets_an_event_twice_while_groups_are_created(seed: int) -> None:
    """Groups are ceded to new ones meanwhile, also by the node that asks for it (seed 0).

    Requests for a ceded group are on the way to its old place (seeds 8 and 13).
    """
    config = merge(TRACED.base, FOUR["root leader"], {"seed": seed})
    messages = simulate(parse_config(config)).tables["messages"].to_pylist()
    assert repeated_copies(Run(config, {"messages": messages})) == 0
