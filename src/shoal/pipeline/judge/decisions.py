"""Decide single figures: from an estimate and what a check accepts to a verdict.

An estimate decides by its interval. An interval within what is accepted is a *reproduced* figure,
an interval outside it is not. An interval that reaches over the edge decides nothing, with two
exceptions: a band of accepted values (70 ± 8) at least as wide as the interval, and a check that
speaks of means only. There the mean decides, and the part says so (``means_only``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from shoal.pipeline.judge.claims import Check, accepted
from shoal.pipeline.judge.curves import Curve, Number, minus, points
from shoal.pipeline.judge.samples import NotMeasured
from shoal.pipeline.judge.statistics import Estimate, Floats, jackknife, rank_correlation

Verdict: TypeAlias = Literal["reproduced", "order only", "undecided", "not reproduced", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""Verdicts from best to worst; a claim is as good as its worst figure."""

_EXACT = 1e-9


@dataclass(frozen=True)
class Part:
    """One figure that a check looked at."""

    label: str
    verdict: Verdict
    value: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    margin: float = -math.inf
    """Distance from failing; among equal verdicts the part with the least distance decides."""
    why: str = ""
    means_only: bool = False
    """Whether the mean decided alone, because the interval decides nothing."""


def decide_runs(check: Check, variant: str, values: Floats, seeds: int) -> Part:
    """An invariant or worked example: the values of all runs."""
    low, high = accepted(check)
    off = (values < low - _EXACT) | (values > high + _EXACT)
    worst = values[np.argmax(np.maximum(low - values, values - high))]
    bad = int(off.sum())
    why = f"{variant}: {bad} of {len(values)} values off" if bad else ""
    extremes = float(values.min()), float(values.max())
    verdict: Verdict = "not reproduced" if bad else "reproduced"
    return Part(variant, verdict, float(worst), *extremes, seeds, -bad, why)


def decide_value(check: Check, label: str, estimate: Estimate, seeds: int) -> Part:
    """Equals, about, at_least, at_most."""
    _require_number(label, estimate.value)
    low, high = accepted(check)
    lowest, highest = low - _EXACT, high + _EXACT
    clear = estimate.within(lowest, highest) or estimate.outside(lowest, highest)
    narrow = high - low < math.inf and estimate.width <= highest - lowest
    mean_decides = _of_means(check, estimate) or (check.significant is None and narrow)
    verdict: Verdict
    if not clear and not mean_decides:
        verdict, why = "undecided", _undecided(estimate)
    elif lowest <= estimate.value <= highest:
        verdict, why = "reproduced", ""
    else:
        verdict, why = "not reproduced", f"{estimate.value:.4g}"
        if check.neutral is not None and _same_side(check.expected, check.neutral, estimate):
            verdict = "order only"
    margin = min(estimate.value - low, high - estimate.value)
    reason = f"{label}: {why}" if why else ""
    means_only = mean_decides and not clear
    return Part(label, verdict, *estimate, seeds, margin, reason, means_only)


def _same_side(expected: float, neutral: float, estimate: Estimate) -> bool:
    """Whether a value lies significantly on the side of ``neutral`` where it is expected."""
    return estimate.above(neutral) if expected > neutral else estimate.below(neutral)


def decide_order(check: Check, low: Curve, high: Curve) -> Iterator[Part]:
    """One curve below another, point by point or as numbers."""
    lows = dict(points(check, low))
    times = "" if check.factor == 1 else f"{check.factor:g} × "
    for point, number in points(check, high):
        if point not in lows:
            continue
        estimate = jackknife(minus(number, lows[point], check.factor), low.seeds)
        label = f"{high.term.label()} − {times}{low.term.label()}{point}"
        _require_number(label, estimate.value)
        clear = estimate.above(0) or estimate.at_most(0)
        verdict: Verdict
        if not clear and not _of_means(check, estimate):
            verdict, why = "undecided", _undecided(estimate)
        elif estimate.value > 0:
            verdict, why = "reproduced", ""
        else:
            verdict, why = "not reproduced", "not above zero"
            if check.factor != 1 and jackknife(minus(number, lows[point]), low.seeds).above(0):
                verdict = "order only"
        # By how many half-widths it clears zero, so that differences of unlike size compare.
        margin = estimate.value / (estimate.value - estimate.low + _EXACT) if estimate.low else 0.0
        reason = f"{label}: {why}" if why else ""
        means_only = not clear and verdict != "undecided"
        yield Part(label, verdict, *estimate, low.seeds, margin, reason, means_only)


def decide_same_order(check: Check, one: Curve, other: Curve) -> Part:
    """One of two curves is above the other at every point."""
    ones = dict(points(check, one))
    found = [
        (point, jackknife(minus(number, ones[point]), one.seeds))
        for point, number in points(check, other)
    ]
    above = all(estimate.above(0) for _, estimate in found)
    below = all(estimate.below(0) for _, estimate in found)
    verdict: Verdict = "reproduced" if above or below else "undecided"
    if any(e.above(0) for _, e in found) and any(e.below(0) for _, e in found):
        verdict = "not reproduced"
    point, least = min(found, key=lambda pair: abs(pair[1].value))
    name = f"{other.term.label()} − {one.term.label()}"
    why = {"undecided": f"{name}{point}: {_undecided(least)}", "reproduced": ""}
    reason = why.get(verdict, f"{name} changes its sign")
    return Part(name, verdict, *least, one.seeds, abs(least.value), reason)


def decide_trend(check: Check, curve: Curve) -> Part:
    """Up or down along the axis."""
    if len(curve.x) < 2:
        raise NotMeasured(f"experiment '{check.experiment}' has a single point here: no trend")
    up = 1.0 if check.expected in ("increasing", "not decreasing") else -1.0
    first, last = curve.point(0), curve.point(len(curve.x) - 1)
    # Turned so that a change in the direction of the trend is above zero.
    change = jackknife(lambda kept: up * (last(kept) - first(kept)), curve.seeds)
    tolerance = float(check.tolerance) if isinstance(check.tolerance, int | float) else 0.0
    means = curve.at(np.ones(curve.seeds, np.bool_))
    name, shown = curve.term.label(), jackknife(minus(last, first), curve.seeds)
    _require_number(name, float(means.sum()))
    verdict: Verdict
    if change.low is None:
        verdict, why = "undecided", ""
    elif check.test == "correlation":
        correlation = rank_correlation(curve.x, means)
        verdict = _graded(up * correlation >= tolerance - _EXACT, change)
        why = f"rank correlation {correlation:+.2f}"
    elif check.test == "monotone":
        verdict, why = _monotone(check, curve, up, change, tolerance)
    elif change.above(0) or change.at_most(0):
        verdict = _graded(change.value >= max(tolerance * abs(means[0]), _EXACT), change)
        why = f"from {means[0]:.4g} by {shown.value:+.4g}"
    else:
        verdict, why = "undecided", ""
    if verdict == "undecided":
        why = f"last − first: {_undecided(shown)}"
    reason = "" if verdict == "reproduced" else f"{name}: {why}"
    means_only = check.test == "correlation" and verdict != "undecided"
    label = f"{name}: last − first"
    return Part(label, verdict, *shown, curve.seeds, change.value, reason, means_only)


def _graded(holds: bool, change: Estimate) -> Verdict:
    if holds:
        return "reproduced"
    return "order only" if change.above(0) else "not reproduced"


def _monotone(
    check: Check, curve: Curve, up: float, change: Estimate, tolerance: float
) -> tuple[Verdict, str]:
    """Step by step: no significant step the other way, and what the direction asks for besides.

    "Increasing": a significant change from first to last, and at most ``tolerance`` steps back.
    "Not decreasing": a fall from first to last can be excluded (one by ``tolerance`` times the
    first point is no fall), and no step back has an interval as wide as the whole change.
    """
    steps = [jackknife(_step(curve, i, up), curve.seeds) for i in range(len(curve.x) - 1)]
    back = [step for step in steps if step.value < 0]
    significant = sum(step.below(0) for step in back)
    why = f"{len(back)} steps the other way, {significant} of them significant"
    if check.expected in ("increasing", "decreasing"):
        if not significant and not change.above(0) and not change.at_most(0):
            return "undecided", why
        holds = change.above(0) and not significant and len(back) <= tolerance
        return _graded(holds, change), why
    allowance = tolerance * abs(float(curve.at(np.ones(curve.seeds, np.bool_))[0]))
    if significant or change.below(-allowance):
        return "not reproduced", why
    narrow = all(step.width <= abs(change.value) + allowance for step in back)
    if narrow and change.at_least(-allowance):
        return "reproduced", why
    return "undecided", why


def _step(curve: Curve, i: int, up: float) -> Number:
    """The step from a point to the next, above zero if it follows the trend."""
    here, there = curve.point(i), curve.point(i + 1)
    return lambda kept: up * (there(kept) - here(kept))


def _of_means(check: Check, estimate: Estimate) -> bool:
    """Whether a check speaks of means and this value is a mean of more than one seed."""
    return check.significant is False and estimate.low is not None


def _require_number(label: str, value: float) -> None:
    if math.isnan(value):
        raise NotMeasured(f"{label}: set against zero")


def _undecided(estimate: Estimate) -> str:
    if estimate.low is None:
        return f"{estimate.value:.4g}, and one seed gives no interval"
    return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}] leaves it open"
