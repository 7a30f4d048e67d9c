"""Decide claims from measured values: reproduced, order only, not reproduced, or not run.

The rules are written down for readers in ``docs/claims.md``; in short:

* An invariant or worked example must hold in every run, to the letter of its tolerance.
* Anything else is a figure computed from means over seeds, with a 95% interval (see
  :mod:`shoal.pipeline.judge.statistics`). A value must lie within its tolerance; an order or a sign
  must be significant, that is, the interval of the paired difference lies on the right side of
  zero.
* *Order only*: the direction is right but the figure is not, or the direction is not significant.
* A claim with several checks is as good as its worst one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from shoal.pipeline.judge.claims import EVERY_RUN, Check, Claim, Term, accepted, expectations
from shoal.pipeline.judge.curves import compare, reduce
from shoal.pipeline.judge.samples import NotMeasured, Sample, Samples
from shoal.pipeline.judge.statistics import Estimate, Floats, Mask, jackknife, rank_correlation

Verdict: TypeAlias = Literal["reproduced", "order only", "not reproduced", "not run"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "order only", "not reproduced", "not run")

Number: TypeAlias = Callable[[Mask], float]
"""A figure as a function of which seeds are kept."""

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
    """How far from failing; among parts that fared alike the one with the least decides."""
    why: str = ""


@dataclass(frozen=True)
class Judgement:
    """A claim decided."""

    claim: Claim
    verdict: Verdict
    expected: float | str | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    why: str = ""
    parts: tuple[Part, ...] = field(default=(), repr=False)

    def row(self) -> dict[str, Any]:
        """As it stands in ``claims.json``."""
        return {
            "id": self.claim.id,
            "verdict": self.verdict,
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "expected": self.expected,
            "seeds": self.seeds,
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def judge(
    claims: Iterable[Claim],
    samples: Samples,
    failed: Mapping[tuple[str, str], int] | None = None,
    missing: Mapping[tuple[str, str], str] | None = None,
) -> list[Judgement]:
    """Decide claims from samples.

    By experiment and variant, ``failed`` counts the runs that ended in an error and ``missing``
    says why there are none at all.
    """
    court = _Court(samples, failed or {}, missing or {})
    return [court.judge(claim) for claim in claims]


class _Court:
    def __init__(
        self,
        samples: Samples,
        failed: Mapping[tuple[str, str], int],
        missing: Mapping[tuple[str, str], str],
    ) -> None:
        self.samples = samples
        self.failed = failed
        self.missing = missing

    def judge(self, claim: Claim) -> Judgement:
        expected = expectations(claim)
        if not claim.checks:
            return Judgement(claim, "not run", expected, why=claim.pending)
        parts: list[Part] = []
        try:
            for check in claim.checks:
                parts += self._every_run(check) if claim.kind in EVERY_RUN else self._figures(check)
        except NotMeasured as reason:
            return Judgement(claim, "not run", expected, why=str(reason))
        verdict = max((part.verdict for part in parts), key=VERDICTS.index)
        decisive = min((p for p in parts if p.verdict == verdict), key=lambda part: part.margin)
        return Judgement(
            claim,
            verdict,
            expected,
            decisive.value,
            decisive.low,
            decisive.high,
            min(part.seeds for part in parts),
            decisive.why or (decisive.label if len(parts) > 1 else ""),
            tuple(parts),
        )

    # Finding the values

    def _find(self, check: Check, term: Term, everywhere: bool = False) -> Sample:
        """The values of a term at the points it speaks of (or at all of them)."""
        experiment, variant = term.experiment or check.experiment, term.variant or ""
        if (experiment, variant) in self.missing:
            raise NotMeasured(self.missing[experiment, variant])
        measure = term.measure or check.measure
        sample = self.samples.find(measure, check.parameters, experiment, variant)
        if not everywhere:
            sample = sample.select(check.x if term.x is None else term.x)
        if not len(sample.x):
            raise NotMeasured(f"no runs of '{experiment}' at the points it speaks of")
        return sample

    def _reference(self, check: Check, term: Term, like: Sample) -> Sample | None:
        """What a term is set against, at the same points."""
        if check.relative_to is None:
            return None
        other = Term(variant=check.relative_to, experiment=term.experiment, measure=term.measure)
        return self._find(check, other, everywhere=True).at_points(like.x)

    def _curves(self, check: Check, terms: Sequence[Term]) -> list[_Curve]:
        """The curves of some terms over the seeds that all of them have."""
        samples = [self._find(check, term) for term in terms]
        references = [self._reference(check, t, s) for t, s in zip(terms, samples, strict=True)]
        every = [*samples, *(r for r in references if r is not None)]
        seeds = tuple(sorted(set.intersection(*(sample.whole_seeds() for sample in every))))
        if not seeds:
            raise NotMeasured(f"no seed has all the runs compared in '{check.experiment}'")
        return [
            _Curve(t, s.of_seeds(seeds), None if r is None else r.of_seeds(seeds), check)
            for t, s, r in zip(terms, samples, references, strict=True)
        ]

    # Every run

    def _every_run(self, check: Check) -> Iterator[Part]:
        """The relation must hold in each single run; failed runs count against it."""
        for variant in check.variants:
            term = Term(variant=variant)
            failures = self.failed.get((check.experiment, variant), 0)
            if failures:
                runs = "1 run" if failures == 1 else f"{failures} runs"
                yield Part(variant, "not reproduced", why=f"{variant}: {runs} failed")
            sample = self._find(check, term)
            reference = self._reference(check, term, sample)
            values = sample.values
            if reference is not None:
                seeds = tuple(seed for seed in sample.seeds if seed in reference.seeds)
                there = reference.of_seeds(seeds).values
                values = compare(check.as_, sample.of_seeds(seeds).values, there)
            values = values[~np.isnan(values)]
            if len(values):
                yield _every_value(check, variant, values, len(sample.seeds))
            elif not failures:
                raise NotMeasured(
                    f"nothing of the kind happens to {variant} in '{check.experiment}'"
                )

    # Figures with intervals

    def _figures(self, check: Check) -> Iterator[Part]:
        if check.relation == "ordering":
            yield from self._ordering(check)
        elif check.relation == "trend":
            for variant in check.variants:
                (curve,) = self._curves(check, [Term(variant=variant)])
                yield _trend(check, curve)
        else:
            for label, number, seeds in self._numbers(check):
                yield _value(check, label, jackknife(number, seeds), seeds)

    def _numbers(self, check: Check) -> Iterator[tuple[str, Number, int]]:
        """The numbers a check speaks of: one per variant and point, per variant, or one in all."""
        terms = [Term(variant=variant) for variant in check.variants]
        count = len(terms)
        if check.less is not None:
            terms += [check.less.of(variant) for variant in check.variants]
        curves = self._curves(check, terms)
        if check.across != "each":
            number = _across(check, curves[:count])
            if check.less is not None:
                number = _minus(number, _across(check, curves[count:]))
            yield check.across, number, curves[0].seeds
            return
        for i, curve in enumerate(curves[:count]):
            taken_off = dict(_points(check, curves[count + i])) if check.less is not None else {}
            for point, number in _points(check, curve):
                if check.less is not None:
                    number = _minus(number, taken_off[point])
                yield f"{curve.term.label()}{point}", number, curve.seeds

    def _ordering(self, check: Check) -> Iterator[Part]:
        """Each term of a tier is below each of the next: paired differences, all of them."""
        for variant in check.variants or ("",):
            tiers = [[term.of(variant) for term in tier] for tier in check.tiers()]
            for lower_tier, upper_tier in itertools.pairwise(tiers):
                for lower in lower_tier:
                    for upper in upper_tier:
                        low, high = self._curves(check, [lower, upper])
                        yield from _below(check, low, high)


class _Curve:
    """A term's means over seeds along the axis, set against the reference if there is one."""

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


def _points(check: Check, curve: _Curve) -> Iterator[tuple[str, Number]]:
    """The numbers of one curve, each with the point it stands for ('' if for all)."""
    if check.over != "each":
        yield "", lambda kept: reduce(check.over, curve.x, curve.at(kept))
        return
    for i, x in enumerate(curve.x):
        yield "" if math.isnan(x) or curve.term.x else f" at {x:g}", curve.point(i)


def _across(check: Check, curves: Sequence[_Curve]) -> Number:
    """One number from the numbers of several variants."""

    def number(kept: Mask) -> float:
        numbers = [reduce(check.over, curve.x, curve.at(kept)) for curve in curves]
        if check.across == "max":
            return max(numbers)
        return min(numbers) if check.across == "min" else max(numbers) - min(numbers)

    return number


def _minus(high: Number, low: Number, factor: float = 1.0) -> Number:
    return lambda kept: high(kept) - factor * low(kept)


def _every_value(check: Check, variant: str, values: Floats, seeds: int) -> Part:
    low, high = accepted(check)
    off = (values < low - _EXACT) | (values > high + _EXACT)
    worst = values[np.argmax(np.maximum(low - values, values - high))]
    bad = int(off.sum())
    why = f"{variant}: {bad} of {len(values)} values off" if bad else ""
    extremes = float(values.min()), float(values.max())
    verdict: Verdict = "not reproduced" if bad else "reproduced"
    return Part(variant, verdict, float(worst), *extremes, seeds, -bad, why)


def _value(check: Check, label: str, estimate: Estimate, seeds: int) -> Part:
    """Equals, about, at_least, at_most."""
    low, high = accepted(check)
    inside = low - _EXACT <= estimate.value <= high + _EXACT
    holds = inside
    if inside and check.significant:
        holds = (math.isinf(low) or estimate.above(low)) and (
            math.isinf(high) or estimate.below(high)
        )
    right_way = (inside and not holds) or (
        check.neutral is not None and _same_side(check.expected, check.neutral, estimate)
    )
    verdict: Verdict = "reproduced" if holds else "order only" if right_way else "not reproduced"
    margin = min(estimate.value - low, high - estimate.value)
    why = "" if holds else f"{label}: {estimate.value:.4g}{' is not significant' * inside}"
    return _part(label, verdict, estimate, seeds, margin, why)


def _same_side(expected: float, neutral: float, estimate: Estimate) -> bool:
    """Whether a value lies significantly on the side of ``neutral`` where it is expected."""
    return estimate.above(neutral) if expected > neutral else estimate.below(neutral)


def _below(check: Check, low: _Curve, high: _Curve) -> Iterator[Part]:
    """One curve below another, point by point or as numbers."""
    lows = dict(_points(check, low))
    times = "" if check.factor == 1 else f"{check.factor:g} × "
    for point, number in _points(check, high):
        if point not in lows:
            continue
        estimate = jackknife(_minus(number, lows[point], check.factor), low.seeds)
        right_way = estimate.value > 0
        holds = right_way if check.significant is False else estimate.above(0)
        if not right_way and check.factor != 1:
            right_way = jackknife(_minus(number, lows[point]), low.seeds).above(0)
        verdict: Verdict = (
            "reproduced" if holds else "order only" if right_way else "not reproduced"
        )
        label = f"{high.term.label()} − {times}{low.term.label()}{point}"
        why = "" if holds else f"{label}: {'not significant' if right_way else 'below zero'}"
        # By how many half-widths it clears zero, so that differences of unlike size compare.
        margin = estimate.value / (estimate.value - estimate.low + _EXACT) if estimate.low else 0.0
        yield _part(label, verdict, estimate, low.seeds, margin, why)


def _trend(check: Check, curve: _Curve) -> Part:
    """Up or down along the axis."""
    if len(curve.x) < 2:
        raise NotMeasured(f"experiment '{check.experiment}' has a single point here: no trend")
    up = 1.0 if check.expected in ("increasing", "not decreasing") else -1.0
    means = curve.at(np.ones(curve.seeds, np.bool_))
    change = jackknife(_minus(curve.point(len(curve.x) - 1), curve.point(0)), curve.seeds)
    right_way = change.above(0) if up > 0 else change.below(0)
    tolerance = float(check.tolerance) if isinstance(check.tolerance, int | float) else 0.0
    if check.test == "correlation":
        correlation = rank_correlation(curve.x, means)
        holds = up * correlation >= tolerance
        why = f"rank correlation {correlation:+.2f}"
    elif check.test == "ends":
        holds = right_way and up * change.value >= tolerance * abs(means[0])
        why = f"from {means[0]:.4g} by {change.value:+.4g}"
    else:
        slips, significant = _reversals(curve, up)
        strict = check.expected in ("increasing", "decreasing")
        holds = not significant and (not strict or (slips <= tolerance and right_way))
        why = f"{slips} steps the other way, {significant} of them significant"
    name = curve.term.label()
    verdict: Verdict = "reproduced" if holds else "order only" if right_way else "not reproduced"
    reason = "" if holds else f"{name}: {why}"
    return _part(f"{name}: last − first", verdict, change, curve.seeds, up * change.value, reason)


def _reversals(curve: _Curve, up: float) -> tuple[int, int]:
    """Steps against the trend, and how many of them are significant."""
    slips = significant = 0
    for i in range(len(curve.x) - 1):
        step = jackknife(_minus(curve.point(i + 1), curve.point(i)), curve.seeds)
        if up * step.value < 0:
            slips += 1
            significant += step.below(0) if up > 0 else step.above(0)
    return slips, significant


def _part(
    label: str, verdict: Verdict, estimate: Estimate, seeds: int, margin: float, why: str
) -> Part:
    return Part(label, verdict, estimate.value, estimate.low, estimate.high, seeds, margin, why)
