"""Estimates with 95% confidence intervals over seeds, by one method for all of them.

Every figure a claim speaks of is a function of means over seeds: a mean, a ratio of means, a
difference, the spread of a curve. Its interval comes from the jackknife: the figure is computed
again with each seed left out in turn, and Student's t is applied to the pseudo-values. For a mean
this is exactly the usual t interval, for a difference of two variants exactly the paired one (the
same seed is left out of both), and for ratios and spreads it needs no further assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A figure and its confidence interval (no interval from a single seed)."""

    value: float
    low: float | None
    high: float | None

    @property
    def width(self) -> float:
        """The width of the interval; infinite without one."""
        return math.inf if self.low is None or self.high is None else self.high - self.low

    def above(self, bound: float) -> bool:
        """Whether the whole interval lies above a bound."""
        return self.low is not None and self.low > bound

    def below(self, bound: float) -> bool:
        """Whether the whole interval lies below a bound."""
        return self.high is not None and self.high < bound

    def at_least(self, bound: float) -> bool:
        """Whether no part of the interval lies below a bound."""
        return self.low is not None and self.low >= bound

    def at_most(self, bound: float) -> bool:
        """Whether no part of the interval lies above a bound."""
        return self.high is not None and self.high <= bound

    def within(self, low: float, high: float) -> bool:
        """Whether the whole interval lies between two bounds."""
        return self.at_least(low) and self.at_most(high)

    def outside(self, low: float, high: float) -> bool:
        """Whether no part of the interval lies between two bounds."""
        return self.below(low) or self.above(high)


def jackknife(statistic: Callable[[Mask], float], seeds: int) -> Estimate:
    """Estimate ``statistic(kept)``, a function of which seeds are kept, over all of them."""
    everything = np.ones(seeds, np.bool_)
    value = statistic(everything)
    if seeds < 2:
        return Estimate(value, None, None)
    pseudo = np.empty(seeds)
    for left_out in range(seeds):
        everything[left_out] = False
        pseudo[left_out] = seeds * value - (seeds - 1) * statistic(everything)
        everything[left_out] = True
    half = half_width(pseudo)
    # Centred on the estimate itself: for means the two centres are the same.
    return Estimate(value, value - half, value + half)


def half_width(values: Floats) -> float:
    """Half the 95% interval of the mean of a sample of at least two."""
    n = len(values)
    student = stdtrit(n - 1, (1 + CONFIDENCE) / 2)  # the quantile of Student's t
    return float(student * values.std(ddof=1) / np.sqrt(n))


def rank_correlation(x: Floats, y: Floats) -> float:
    """Spearman's correlation; 0 where all values are equal."""
    if len(x) < 2 or np.ptp(y) == 0:
        return 0.0
    from scipy.stats import spearmanr  # half a second to import, and seldom needed

    return float(spearmanr(x, y).statistic)


def linear_correlation(x: Floats, y: Floats) -> float:
    """Pearson's correlation; 0 where all values are equal."""
    if len(x) < 2 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
