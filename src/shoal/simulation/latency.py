"""Latency: how long a message takes between two nodes of a network in which all reach each other.

Each pair of nodes has a delay of its own, the same both ways and for the whole run, drawn from a
distribution or looked up in a matrix of measured round trips.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.simulation.importers import read_text
from shoal.simulation.kernel import NANOSECONDS
from shoal.stack import Chance, StackError

Delay = Annotated[float, msgspec.Meta(gt=0, le=1e3)]

LEAST = 1e-4
"""Delay in seconds between two nodes at the same place of a matrix."""


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="model"):
    """Base of all models."""


class Uniform(_Model, frozen=True, tag="uniform"):
    """Delays in seconds, each as likely, between two bounds."""

    low: Delay = 0.02
    high: Delay = 0.1

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise StackError(
                f"latency: low ({self.low:g}) lies above high ({self.high:g}); exchange them"
            )


class Lognormal(_Model, frozen=True, tag="lognormal"):
    """Delays in seconds with a median and a spread of their logarithm."""

    median: Delay = 0.05
    sigma: Annotated[float, msgspec.Meta(ge=0, le=3)] = 0.5


class Matrix(_Model, frozen=True, tag="matrix"):
    """Measured round trips: a file of numbers, one row per place; half of one is a delay.

    Nodes are put at places at random. Pairs that were not measured (0 or NaN) get the mean.
    """

    file: str
    unit: Delay = 0.001
    """Seconds in one unit of the file."""


Latency: TypeAlias = Uniform | Lognormal | Matrix


class Delays:
    """The delay of every pair of nodes, in nanoseconds."""

    def __init__(self, latency: Latency, seed: int) -> None:
        self.latency = latency
        self.chance = Chance(seed, "latency")
        self.matrix = read_matrix(latency) if isinstance(latency, Matrix) else None
        self._places: dict[int, int] = {}

    def between(self, a: int, b: int) -> int:
        """Nanoseconds from one node to another."""
        return max(1, round(self._seconds(min(a, b), max(a, b)) * NANOSECONDS))

    def _seconds(self, a: int, b: int) -> float:
        latency = self.latency
        if self.matrix is not None:
            return float(self.matrix[self._place(a), self._place(b)])
        uniform = self.chance.uniform(a, b)
        if isinstance(latency, Uniform):
            return latency.low + uniform * (latency.high - latency.low)
        assert isinstance(latency, Lognormal)
        normal = NormalDist().inv_cdf(min(max(uniform, 1e-15), 1 - 1e-15))
        return latency.median * math.exp(latency.sigma * normal)

    def _place(self, node: int) -> int:
        assert self.matrix is not None
        place = self._places.get(node)
        if place is None:
            place = self._places[node] = self.chance.below(len(self.matrix), node)
        return place


def read_matrix(latency: Matrix) -> npt.NDArray[np.float64]:
    """One-way delays in seconds, from a square matrix of round trips."""
    path = Path(latency.file)
    expected = "a square matrix of round trips, numbers separated by blanks or tabs"
    lines = read_text(path).splitlines()
    try:
        rows = [[float(word) for word in line.split()] for line in lines if line.strip()]
    except ValueError as error:
        raise StackError(f"{path}: expected {expected}; {error}") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise StackError(
                f"{path}, row {number}: expected {expected}, found {len(row)} numbers in one of "
                f"{len(rows)} rows"
            )
    trips = np.array(rows, np.float64).reshape(len(rows), len(rows))
    measured = np.isfinite(trips) & (trips > 0)
    np.fill_diagonal(measured, False)
    if not measured.any():
        raise StackError(f"{path}: expected {expected}, found none above 0")
    filled = np.where(measured, trips, trips[measured].mean())
    delays: npt.NDArray[np.float64] = (filled + filled.T) / 4 * latency.unit  # half of the mean
    np.fill_diagonal(delays, LEAST)
    return delays
