"""Compiles what workers will need before they start, so that they all find it on disk."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from shoal.pipeline.plan.experiment import PlannedRun, events
from shoal.simulation import parse_config, simulate
from shoal.simulation.run import WORTH_ARRAYS
from shoal.stack import StackError

FEW = {"nodes": 12, "duration": 0.5, "data_plane": "arrays", "invariants": False}
"""A run that takes no time once its kernel is compiled."""


def prepare_kernels(runs: Iterable[PlannedRun]) -> None:
    """Compile the kernels of all routings that will run on arrays: each simulates a tiny network.

    One that arrays cannot forward is left out: its runs compile nothing.
    """
    tried: set[str] = set()
    for run in runs:
        raw = msgspec.json.decode(run.configuration)
        config = parse_config(raw)
        stack = f"{raw['routing']} {raw['topology']['name']}"
        if stack in tried or events(config) * config.nodes < WORTH_ARRAYS:
            continue
        tried.add(stack)
        try:
            simulate(parse_config({**raw, **FEW}))
        except (StackError, ValueError):
            continue  # too small a network for this topology, or no arrays for this routing
