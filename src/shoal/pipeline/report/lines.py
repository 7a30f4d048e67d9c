"""The curves of a figure: one line per variant, from the measured samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.pipeline.judge.claims import Claim
from shoal.pipeline.judge.curves import compare
from shoal.pipeline.judge.samples import NotMeasured, Sample, Samples
from shoal.pipeline.judge.statistics import Estimate, Floats, Mask, jackknife
from shoal.pipeline.paper import Panel


@dataclass(frozen=True)
class Line:
    """One variant's curve: means and intervals."""

    variant: str
    x: Floats
    estimates: tuple[Estimate, ...]
    seeds: int


@dataclass(frozen=True)
class Printed:
    """A value that the paper prints: a point of one variant's curve."""

    variant: str
    x: float
    y: float


def lines_of(panel: Panel, samples: Samples, variants: Sequence[str]) -> list[Line]:
    """The curves of a panel; variants without runs are left out."""
    lines = []
    for variant in panel.variants or variants:
        try:
            lines.append(_line(panel, samples, variant))
        except NotMeasured:
            continue
    return lines


def _line(panel: Panel, samples: Samples, variant: str) -> Line:
    found = samples.find(panel.measure, panel.parameters, panel.experiment, variant)
    reference = None
    if panel.relative_to is not None:
        other = samples.find(panel.measure, panel.parameters, panel.experiment, panel.relative_to)
        reference = other.at_points(found.x)
    estimates = [_estimate(panel, found, reference, i) for i in range(len(found.x))]
    kept = [i for i, estimate in enumerate(estimates) if estimate is not None]
    if not kept:
        raise NotMeasured(f"no values of {variant}")
    kept_estimates = tuple(e for e in estimates if e is not None)
    return Line(variant, found.x[kept], kept_estimates, len(found.seeds))


def _estimate(panel: Panel, found: Sample, reference: Sample | None, i: int) -> Estimate | None:
    """One point: over the seeds that have a value there (and in the reference, if there is one)."""
    values = found.values[i]
    if reference is None:
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        return jackknife(lambda kept: float(values[kept].mean()), len(values))
    seeds = [seed for seed in found.seeds if seed in reference.seeds]
    mine, theirs = (
        found.of_seeds(tuple(seeds)).values[i],
        reference.of_seeds(tuple(seeds)).values[i],
    )
    whole = ~(np.isnan(mine) | np.isnan(theirs))
    mine, theirs = mine[whole], theirs[whole]
    if not len(mine):
        return None

    def compared(kept: Mask) -> float:
        means = np.array([mine[kept].mean()]), np.array([theirs[kept].mean()])
        return float(compare(panel.as_, *means)[0])

    return jackknife(compared, len(mine))


def printed_in(panel: Panel, claims: Iterable[Claim]) -> list[Printed]:
    """The values for single points of this panel's curves that claims quote from the paper."""
    found = []
    for check in (check for claim in claims for check in claim.every_check()):
        same = (check.measure, check.experiment, check.parameters, check.relative_to)
        if same != (panel.measure, panel.experiment, panel.parameters, panel.relative_to):
            continue
        if panel.relative_to is not None and check.as_ != panel.as_:
            continue
        plain = check.over == "each" and check.less is None and check.ratio_to is None
        point = check.x is not None and check.x[0] == check.x[1]
        if plain and point and check.x and check.relation in ("about", "equals"):
            found += [Printed(v, check.x[0], float(check.expected)) for v in check.variants]
    return found


def without_axis(lines: Sequence[Line]) -> bool:
    """Whether there is one value per variant: bars are drawn, each with its name beside it."""
    return all(len(line.x) == 1 and math.isnan(line.x[0]) for line in lines)
