"""Decide claims from measured values.

The rules are written down for readers in ``docs/claims.md``; in short:

* An invariant or worked example must hold in every run, to the letter of its tolerance.
* Anything else is a figure computed from means over seeds, with a 95% interval (see
  :mod:`shoal.pipeline.judge.statistics`), decided by :mod:`shoal.pipeline.judge.decisions`. All
  runs that it is computed from must be there, else the claim is *not run*.
* A claim with several checks is as good as its worst one.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from msgspec import structs

from shoal.pipeline.judge.claims import EVERY_RUN, Check, Claim, Term, expectations
from shoal.pipeline.judge.curves import Curve, Number, across, compare, minus, points, ratio
from shoal.pipeline.judge.decisions import (
    VERDICTS,
    Part,
    Verdict,
    decide_order,
    decide_runs,
    decide_same_order,
    decide_trend,
    decide_value,
)
from shoal.pipeline.judge.samples import NotMeasured, Sample, Samples, within
from shoal.pipeline.judge.statistics import jackknife

Runs: TypeAlias = Mapping[tuple[str, str], Counter[float | None]]
"""Numbers of runs by experiment and variant, and by the point of the axis."""


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
    means_only: bool = False
    """Whether some of the figures behind the verdict were decided by their means alone."""
    parts: tuple[Part, ...] = field(default=(), repr=False)
    others: tuple[tuple[str, Judgement], ...] = ()
    """The same claim decided in the other readings of the text, each with its name."""

    def row(self) -> dict[str, Any]:
        """Row of ``claims.json``."""
        return {"id": self.claim.id, **self._found(), **self._readings()}

    def _found(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "expected": self.expected,
            "seeds": self.seeds,
            "means_only": self.means_only,
            "why": self.why,
        }

    def _readings(self) -> dict[str, Any]:
        """Readings of the text, where the work has several."""
        if not self.claim.readings:
            return {}
        others = [{"reading": name, **other._found()} for name, other in self.others]
        return {"readings": list(self.claim.readings), "others": others}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def judge(
    claims: Iterable[Claim],
    samples: Samples,
    planned: Runs | None = None,
    failed: Runs | None = None,
    missing: Mapping[tuple[str, str], str] | None = None,
) -> list[Judgement]:
    """Decide claims from samples.

    ``planned`` and ``failed`` count the runs that there should be and those that ended in an error;
    ``missing`` says, by experiment and variant, why none were planned.
    """
    decider = _Judge(samples, planned or {}, failed or {}, missing or {})
    return [decider.judge(claim) for claim in claims]


class _Judge:
    """The samples, and how many runs there should be behind them."""

    def __init__(
        self, samples: Samples, planned: Runs, failed: Runs, missing: Mapping[tuple[str, str], str]
    ) -> None:
        self.samples = samples
        self.planned = planned
        self.failed = failed
        self.missing = missing

    def judge(self, claim: Claim) -> Judgement:
        """Decide a claim, and beside it the same claim in other readings of the text."""
        others = tuple(
            (reading.name, self._decide(structs.replace(claim, checks=reading.checks)))
            for reading in claim.others
        )
        return replace(self._decide(claim), others=others)

    def _decide(self, claim: Claim) -> Judgement:
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
            any(part.means_only for part in parts if part.verdict == verdict),
            tuple(parts),
        )

    # Finding the values

    def _find(self, check: Check, term: Term, everywhere: bool = False) -> Sample:
        """The values of a term at the points it speaks of (or at all of them)."""
        experiment, variant = _place(check, term)
        if (experiment, variant) in self.missing:
            raise NotMeasured(self.missing[experiment, variant])
        measure = term.measure or check.measure
        sample = self.samples.find(measure, check.parameters, experiment, variant)
        if not everywhere:
            sample = sample.select(_range(check, term))
        if not len(sample.x):
            raise NotMeasured(f"no runs of '{experiment}' at the points it speaks of")
        return sample

    def _reference(self, check: Check, term: Term, like: Sample) -> Sample | None:
        """Sample that a term is compared with, at the same points."""
        if check.relative_to is None:
            return None
        return self._find(check, _other(check, term), everywhere=True).at_points(like.x)

    def _lost(self, check: Check, term: Term) -> tuple[int, int]:
        """Number of failed and of planned runs behind a term."""
        place, between = _place(check, term), _range(check, term)
        return _count(self.failed.get(place), between), _count(self.planned.get(place), between)

    def _whole(self, check: Check, term: Term, sample: Sample) -> set[int]:
        """The seeds of a sample; :class:`NotMeasured` if one of them lacks a value."""
        experiment, variant = _place(check, term)
        lost, runs = self._lost(check, term)
        if lost:
            raise NotMeasured(f"{lost} of {runs} runs of {variant} in '{experiment}' failed")
        planned = self.planned.get((experiment, variant), Counter())
        wanted = max(planned.values(), default=len(sample.seeds))
        whole = sample.whole_seeds()
        if len(whole) < wanted:
            raise NotMeasured(
                f"{len(whole)} of {wanted} seeds of {variant} in '{experiment}' have a value at "
                f"every point"
            )
        return whole

    def _curves(self, check: Check, terms: Sequence[Term]) -> list[Curve]:
        """The curves of some terms over the seeds that all of them have."""
        samples = [self._find(check, term) for term in terms]
        references = [self._reference(check, t, s) for t, s in zip(terms, samples, strict=True)]
        whole = [self._whole(check, t, s) for t, s in zip(terms, samples, strict=True)]
        for term, reference in zip(terms, references, strict=True):
            if reference is not None:
                whole.append(self._whole(check, _other(check, term), reference))
        seeds = tuple(sorted(set.intersection(*whole)))
        if not seeds:
            raise NotMeasured(f"no seed has all the runs compared in '{check.experiment}'")
        return [
            Curve(t, s.of_seeds(seeds), None if r is None else r.of_seeds(seeds), check)
            for t, s, r in zip(terms, samples, references, strict=True)
        ]

    # Every run

    def _every_run(self, check: Check) -> Iterator[Part]:
        """The relation must hold in each single run; failed runs count against it."""
        for variant in check.variants:
            term = Term(variant=variant)
            failures, runs = self._lost(check, term)
            if failures:
                why = f"{variant}: {failures} of {runs} runs failed"
                yield Part(variant, "not reproduced", why=why)
            sample = self._find(check, term)
            reference = self._reference(check, term, sample)
            values = sample.values
            if reference is not None:
                seeds = tuple(seed for seed in sample.seeds if seed in reference.seeds)
                there = reference.of_seeds(seeds).values
                values = compare(check.as_, sample.of_seeds(seeds).values, there)
            values = values[~np.isnan(values)]
            if len(values):
                yield decide_runs(check, variant, values, len(sample.seeds))
            elif not failures:
                raise NotMeasured(
                    f"nothing of the kind happens to {variant} in '{check.experiment}'"
                )

    # Figures with intervals

    def _figures(self, check: Check) -> Iterator[Part]:
        if check.relation == "ordering":
            yield from self._ordering(check)
        elif check.relation == "same order":
            curves = self._curves(check, [Term(variant=variant) for variant in check.variants])
            for one, other in itertools.combinations(curves, 2):
                yield decide_same_order(check, one, other)
        elif check.relation == "trend":
            for variant in check.variants:
                (curve,) = self._curves(check, [Term(variant=variant)])
                yield decide_trend(check, curve)
        else:
            for label, number, seeds in self._numbers(check):
                yield decide_value(check, label, jackknife(number, seeds), seeds)

    def _numbers(self, check: Check) -> Iterator[tuple[str, Number, int]]:
        """The numbers a check speaks of: one per variant and point, per variant, or one in all."""
        terms = [Term(variant=variant) for variant in check.variants]
        count = len(terms)
        other = check.less or check.ratio_to
        combine = minus if check.less is not None else ratio
        if other is not None:
            terms += [other.of(variant) for variant in check.variants]
        curves = self._curves(check, terms)
        if check.across != "each":
            number = across(check, curves[:count])
            if other is not None:
                number = combine(number, across(check, curves[count:]))
            yield check.across, number, curves[0].seeds
            return
        for i, curve in enumerate(curves[:count]):
            beside = dict(points(check, curves[count + i])) if other is not None else {}
            for point, number in points(check, curve):
                if other is not None:
                    number = combine(number, beside[point])
                yield f"{curve.term.label()}{point}", number, curve.seeds

    def _ordering(self, check: Check) -> Iterator[Part]:
        """Each term of a tier is below each of the next: paired differences, all of them."""
        for variant in check.variants or ("",):
            tiers = [[term.of(variant) for term in tier] for tier in check.tiers()]
            for lower_tier, upper_tier in itertools.pairwise(tiers):
                for lower in lower_tier:
                    for upper in upper_tier:
                        low, high = self._curves(check, [lower, upper])
                        yield from decide_order(check, low, high)


def _place(check: Check, term: Term) -> tuple[str, str]:
    """The experiment and variant of a term."""
    return term.experiment or check.experiment, term.variant or ""


def _range(check: Check, term: Term) -> tuple[float, float] | None:
    """The points of the axis that a term speaks of."""
    return check.x if term.x is None else term.x


def _other(check: Check, term: Term) -> Term:
    """Term that a term is compared with."""
    return structs.replace(term, variant=check.relative_to)


def _count(runs: Counter[float | None] | None, between: tuple[float, float] | None) -> int:
    """Number of runs within a range; a run without an axis counts everywhere."""
    return sum(n for x, n in (runs or {}).items() if x is None or within(x, between))
