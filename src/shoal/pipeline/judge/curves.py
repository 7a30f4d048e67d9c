"""From curves to numbers: how a claim's words about a figure become arithmetic on means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from shoal.pipeline.judge.claims import Comparison, Over
from shoal.pipeline.judge.statistics import Floats, linear_correlation


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


def _relative_spread(x: Floats, y: Floats) -> float:
    return float(np.ptp(y) / y.mean())


def _largest_drop_at(x: Floats, y: Floats) -> float:
    """The middle of the step between neighbouring points over which the curve falls most."""
    i = int(np.argmin(np.diff(y)))
    return float((x[i] + x[i + 1]) / 2)


_REDUCTIONS: Mapping[Over, Callable[[Floats, Floats], float]] = {
    "mean": lambda x, y: float(y.mean()),
    "max": lambda x, y: float(y.max()),
    "min": lambda x, y: float(y.min()),
    "spread": lambda x, y: float(np.ptp(y)),
    "relative_spread": _relative_spread,
    "max_over_min": lambda x, y: float(y.max() / y.min()),
    "change": lambda x, y: float(y[-1] - y[0]),
    "fall": lambda x, y: float(y[0] - y[-1]),
    "rise": lambda x, y: float(y.max() / y[0] - 1),
    "fall_from_peak": lambda x, y: float(y.max() - y[-1]),
    "peak_at": lambda x, y: float(x[int(np.argmax(y))]),
    "largest_drop_at": _largest_drop_at,
    "linearity": linear_correlation,
}


def reduce(over: Over, x: Floats, y: Floats) -> float:
    """One number from a curve of means."""
    return _REDUCTIONS[over](x, y)
