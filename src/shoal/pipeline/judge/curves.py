"""Summaries of curves: a claim's words about a figure as arithmetic on means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from shoal.pipeline.judge.claims import Check, Comparison, Over, Term
from shoal.pipeline.judge.samples import Sample
from shoal.pipeline.judge.statistics import Floats, Mask, linear_correlation

Number: TypeAlias = Callable[[Mask], float]
"""A figure as a function of which seeds are kept."""


def compare(how: Comparison, values: Floats, reference: Floats) -> Floats:
    """Values set against a reference, one by one; a ratio to 0 is NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if how == "improvement":
            result = 100 * (1 - values / reference)
        elif how == "reduction":
            result = 1 - values / reference
        elif how == "ratio":
            result = values / reference
        elif how == "saving":
            result = reference - values
        else:
            result = values - reference
    return np.where(np.isinf(result), np.nan, result)


def _largest_drop_at(x: Floats, y: Floats) -> float:
    """The middle of the step between neighbouring points over which the curve falls most."""
    i = int(np.argmin(np.diff(y)))
    return float((x[i] + x[i + 1]) / 2)


_REDUCTIONS: Mapping[Over, Callable[[Floats, Floats], float]] = {
    "mean": lambda x, y: float(y.mean()),
    "max": lambda x, y: float(y.max()),
    "min": lambda x, y: float(y.min()),
    "spread": lambda x, y: float(np.ptp(y)),
    "relative_spread": lambda x, y: float(np.ptp(y) / y.mean()),
    "max_over_min": lambda x, y: float(y.max() / y.min()),
    "change": lambda x, y: float(y[-1] - y[0]),
    "fall": lambda x, y: float(y[0] - y[-1]),
    "rise": lambda x, y: float(y.max() / y[0] - 1),
    "fall_from_peak": lambda x, y: float(y.max() - y[-1]),
    "hump": lambda x, y: float(1 - (y[0] + y[-1]) / 2 / y.max()),
    "peak_at": lambda x, y: float(x[int(np.argmax(y))]),
    "largest_drop_at": _largest_drop_at,
    "linearity": linear_correlation,
}


def reduce(over: Over, x: Floats, y: Floats) -> float:
    """One number from a curve of means."""
    return _REDUCTIONS[over](x, y)


class Curve:
    """A term's means over seeds along the axis, compared with the reference if there is one."""

    def __init__(self, term: Term, sample: Sample, reference: Sample | None, check: Check) -> None:
        self.term = term
        self.x = sample.x
        self.seeds = len(sample.seeds)
        self._sample = sample
        self._reference = reference
        self._as = check.as_

    def at(self, kept: Mask) -> Floats:
        """The curve from the kept seeds."""
        means = self._sample.curve(kept)
        if self._reference is None:
            return means
        return compare(self._as, means, self._reference.curve(kept))

    def point(self, i: int) -> Number:
        """One of its points."""
        return lambda kept: float(self.at(kept)[i])


def points(check: Check, curve: Curve) -> Iterator[tuple[str, Number]]:
    """The numbers of one curve, each with the point it stands for ('' if for all)."""
    if check.over != "each":
        yield "", lambda kept: reduce(check.over, curve.x, curve.at(kept))
        return
    for i, x in enumerate(curve.x):
        yield "" if math.isnan(x) or curve.term.x else f" at {x:g}", curve.point(i)


def across(check: Check, curves: Sequence[Curve]) -> Number:
    """One number from the numbers of several variants."""

    def number(kept: Mask) -> float:
        numbers = [reduce(check.over, curve.x, curve.at(kept)) for curve in curves]
        if check.across == "max":
            return max(numbers)
        if check.across == "mean":
            return sum(numbers) / len(numbers)
        return min(numbers) if check.across == "min" else max(numbers) - min(numbers)

    return number


def minus(high: Number, low: Number, factor: float = 1.0) -> Number:
    """The difference of two numbers, the lower taken ``factor`` times."""
    return lambda kept: high(kept) - factor * low(kept)


def ratio(number: Number, by: Number) -> Number:
    """The ratio of two numbers; NaN to zero."""

    def quotient(kept: Mask) -> float:
        divisor = by(kept)
        return number(kept) / divisor if divisor else math.nan

    return quotient
