"""Live and simulated runs on one page, each measure of all of them in one figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from shoal.pipeline.judge.claims import Claim
from shoal.pipeline.judge.samples import Samples
from shoal.pipeline.judge.verdicts import Judgement, judge
from shoal.pipeline.measure.compute import figures_of
from shoal.pipeline.measure.live import BESIDE, Measured
from shoal.pipeline.paper import Paper
from shoal.pipeline.plan.experiment import Experiment
from shoal.pipeline.report.page import Reproduced, write_report
from shoal.pipeline.simulate.sweep import SweepOutcome

BUILT: Final = ("lstree", "lstree-observed")
"""Overlays that the claims on trees are about."""
OVER_TIME: Final = ("delivery_over_time", "traffic_over_time")
"""Measures that the page shows beside those asked for."""


def judged(rows: Sequence[Measured], claims: Sequence[Claim]) -> list[Judgement]:
    """Verdicts on these claims, by the runs of the overlay that they are about."""
    variants = tuple(row.planned.variant for row in rows if _overlay(row) in BUILT)
    if not variants:
        return []
    samples = Samples(answer for row in rows for answer in row.answers)
    return judge((about(claim, variants) for claim in claims), samples)


def about(claim: Claim, variants: tuple[str, ...]) -> Claim:
    """A claim whose checks are about these runs."""
    checks = tuple(structs.replace(check, variants=variants) for check in claim.checks)
    return structs.replace(claim, checks=checks)


def _overlay(row: Measured) -> str:
    """Name of the overlay of a run."""
    overlay = json.loads(row.planned.configuration).get("overlay") or {}
    return str(overlay.get("name", ""))


def side_by_side(
    rows: Sequence[Measured],
    measures: Sequence[str],
    out: Path,
    command: Sequence[str],
    judgements: Sequence[Judgement] = (),
) -> Path:
    """``report.html`` in a folder, with a figure for each measure that some run has."""
    answered = {answer[0] for row in rows for answer in row.answers}
    figures = figures_of(BESIDE, (name for name in measures if name in answered))
    variants = {row.planned.variant: json.loads(row.planned.configuration) for row in rows}
    experiment = Experiment(BESIDE, "Runs side by side", {}, variants, axis_label="seconds")
    names = dict.fromkeys(variants, "")
    claims = tuple(judgement.claim for judgement in judgements)
    paper = Paper(BESIDE, "Runs side by side", "", (experiment,), claims, figures, names)
    samples = Samples(answer for row in rows for answer in row.answers)
    runs = [row.planned for row in rows]
    return write_report(
        [Reproduced(paper, "full", judgements, samples, runs, SweepOutcome(), tuple(command))], out
    )
