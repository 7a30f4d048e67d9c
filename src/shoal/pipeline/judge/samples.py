"""Measured values as the judge sees them: one matrix of points × seeds per measure and variant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from shoal.pipeline.judge.statistics import Floats, Mask

Row: TypeAlias = tuple[str, str, str, float | None, int, float | None]
"""Measure key, experiment, variant, x, seed, value."""

_NEAR = 1e-9


class NotMeasured(Exception):  # noqa: N818  # a finding, not a fault
    """There are no values to judge by; the message says of what."""


def measure_key(name: str, parameters: Mapping[str, Any]) -> str:
    """A measure with its parameters as one word."""
    if not parameters:
        return name
    return f"{name} {json.dumps(parameters, sort_keys=True, separators=(',', ':'))}"


def within(x: float, between: tuple[float, float] | None) -> bool:
    """Whether a point lies within a range, both ends included; everything does if none is given."""
    return between is None or between[0] - _NEAR <= x <= between[1] + _NEAR


@dataclass(frozen=True)
class Sample:
    """The values of one measure for one variant of one experiment."""

    x: Floats
    """The points; a single NaN where there is no axis."""
    seeds: tuple[int, ...]
    values: Floats
    """Points × seeds; NaN where a run failed or the measure does not apply."""

    def select(self, between: tuple[float, float] | None) -> Sample:
        """This sample at the points within a range, both ends included."""
        if between is None:
            return self
        kept = np.array([within(x, between) for x in self.x])
        return Sample(self.x[kept], self.seeds, self.values[kept])

    def of_seeds(self, seeds: tuple[int, ...]) -> Sample:
        """This sample with only these seeds, in this order."""
        at = [self.seeds.index(seed) for seed in seeds]
        return Sample(self.x, seeds, self.values[:, at])

    def at_points(self, x: Floats) -> Sample:
        """This sample at these points; one without an axis has the same values at all of them."""
        if len(self.x) == 1 and math.isnan(self.x[0]):
            return Sample(x, self.seeds, np.repeat(self.values, len(x), axis=0))
        where = {round(float(v), 9): i for i, v in enumerate(self.x)}
        rows = [
            self.values[where[key]] if (key := round(float(v), 9)) in where else None for v in x
        ]
        missing = np.full(len(self.seeds), np.nan)
        return Sample(x, self.seeds, np.array([missing if r is None else r for r in rows]))

    def whole_seeds(self) -> set[int]:
        """The seeds that have a value at every point."""
        gaps = np.isnan(self.values)
        return {seed for i, seed in enumerate(self.seeds) if not gaps[:, i].any()}

    def curve(self, kept: Mask) -> Floats:
        """Means over the kept seeds, point by point."""
        means: Floats = self.values[:, kept].mean(axis=1)
        return means


class Samples:
    """All that was measured."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._cells: dict[tuple[str, str, str], dict[tuple[float, int], float]] = {}
        for key, experiment, variant, x, seed, value in rows:
            cells = self._cells.setdefault((key, experiment, variant), {})
            point = math.inf if x is None else float(x)  # NaN would not find itself again
            cells[point, int(seed)] = math.nan if value is None else float(value)
        self._samples: dict[tuple[str, str, str], Sample] = {}

    def find(
        self, measure: str, parameters: Mapping[str, Any], experiment: str, variant: str
    ) -> Sample:
        """The sample of that name; :class:`NotMeasured` if there is none."""
        key = (measure_key(measure, parameters), experiment, variant)
        if key not in self._cells:
            raise NotMeasured(f"no runs of {variant} in experiment '{experiment}'")
        if key not in self._samples:
            self._samples[key] = _sample(self._cells[key])
        return self._samples[key]


def _sample(cells: dict[tuple[float, int], float]) -> Sample:
    points = sorted({point for point, _ in cells})
    seeds = tuple(sorted({seed for _, seed in cells}))
    values = np.array(
        [[cells.get((point, seed), math.nan) for seed in seeds] for point in points], np.float64
    )
    x = np.array([math.nan if math.isinf(point) else point for point in points])
    return Sample(x, seeds, values)
