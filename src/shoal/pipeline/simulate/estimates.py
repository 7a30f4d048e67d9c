"""How long runs take: known from other seeds, estimated, or learnt while a sweep runs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Protocol

from shoal.pipeline.plan.experiment import PlannedRun
from shoal.pipeline.tables.store import Inventory, Store

LEARNT = 16
"""Runs of one variant whose time is looked at; more would teach little and cost a file each."""


def refined(pending: Sequence[PlannedRun], store: Store, found: Inventory) -> dict[str, float]:
    """Estimated seconds of each run: what the same configuration took with other seeds.

    Where that is not known, the plan's own estimate, corrected by how wrong such estimates were.
    """
    took: dict[str, list[float]] = {}
    rows = store.rows(found, ["configuration", "wall_seconds"])
    for text, seconds in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if seconds is not None:
            took.setdefault(_without_seed(text), []).append(seconds)
    mean = {key: statistics.fmean(values) for key, values in took.items()}
    measured = {p.run_id: mean.get(_without_seed(p.configuration)) for p in pending}
    ratios = [m / p.estimate for p in pending if (m := measured[p.run_id]) and p.estimate > 0]
    correction = statistics.median(ratios) if ratios else 1.0
    return {p.run_id: measured[p.run_id] or p.estimate * correction for p in pending}


def _without_seed(configuration: str) -> str:
    return re.sub(r'"seed":-?\d+,?', "", configuration)


class Times(Protocol):
    """What knows how long runs took: a store."""

    def wall_seconds(self, run: str) -> float | None:
        """Seconds that a run took; None if that is not known."""


class Remaining:
    """The work left in a sweep, by estimates that learn from the runs that are done.

    Estimates are wrong by different factors for different protocols, and the runs thought longest
    come first. So each variant of an experiment has a correction of its own; a variant of which no
    run is done yet has its experiment's, and an experiment that of the whole sweep.
    """

    def __init__(
        self, pending: Sequence[PlannedRun], estimates: dict[str, float], times: Times
    ) -> None:
        self._estimates = estimates
        self._times = times
        self._variant = {p.run_id: (p.experiment, p.variant) for p in pending}
        self._left = dict.fromkeys(self._variant)
        self._work: dict[tuple[str, str], float] = {}
        """Estimated seconds of the runs left, by experiment and variant."""
        for run, variant in self._variant.items():
            self._work[variant] = self._work.get(variant, 0.0) + estimates[run]
        self._seen: dict[tuple[str, ...], list[float]] = {}
        """Sums over the runs looked at: number, estimated and real seconds."""

    def without(self, over: set[str]) -> float:
        """Seconds of one core left when these runs are over."""
        for run in [run for run in over if run in self._left]:
            del self._left[run]
            variant = self._variant[run]
            self._work[variant] -= self._estimates[run]
            if self._seen.get(variant, [0.0])[0] < LEARNT:
                took = self._times.wall_seconds(run)
                if took is not None:
                    self._learn(variant, self._estimates[run], took)
        return sum(max(work, 0.0) * self._correction(v) for v, work in self._work.items())

    def _learn(self, variant: tuple[str, str], estimated: float, took: float) -> None:
        for key in (variant, variant[:1], ()):
            seen = self._seen.setdefault(key, [0.0, 0.0, 0.0])
            for i, value in enumerate((1.0, estimated, took)):
                seen[i] += value

    def _correction(self, variant: tuple[str, str]) -> float:
        for key in (variant, variant[:1], ()):
            if (seen := self._seen.get(key)) and seen[1] > 0:
                return seen[2] / seen[1]
        return 1.0
