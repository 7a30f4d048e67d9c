"""The main job: plan, simulate, measure, judge, report.

Everything lands in one folder: the recorded tables, ``plan.parquet``, ``measures-PAPER.parquet``,
``claims.json`` and ``report.html``. Run again, it simulates only what is not there yet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge import Judgement, judge
from shoal.pipeline.measured import measure_all, questions, to_rows, write_values
from shoal.pipeline.paper import Paper, runnable
from shoal.pipeline.plan import PlannedRun, Tier, plan, plan_frame, write_plan
from shoal.pipeline.progress import Progress
from shoal.pipeline.report import Reproduced, write_report
from shoal.pipeline.samples import Samples
from shoal.pipeline.sweep import SweepOutcome, sweep
from shoal.pipeline.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    """What came of a reproduction."""

    judgements: list[Judgement]
    sweep: SweepOutcome
    report: Path
    claims: Path

    def verdicts(self) -> Counter[str]:
        """How many claims fared how."""
        return Counter(judgement.verdict for judgement in self.judgements)


def reproduce(
    spark: SparkSession,
    papers: Sequence[Paper],
    claims: Sequence[str] = (),
    tier: Tier = "quick",
    out: Path = Path("out"),
    *,
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Reproduce papers, or only some of their claims, into a folder."""
    chosen = select(papers, claims)
    prepared = [runnable(paper.experiments, tier) for paper in chosen]
    runs = [plan(able, tier, seeds) for able, _ in prepared]
    every = [run for these in runs for run in these]
    write_plan(every, out)
    swept = sweep(spark, every, out, progress=progress)
    failed_ids = {failure.run_id for failure in swept.failures}
    results = []
    for paper, (_, missing), these in zip(chosen, prepared, runs, strict=True):
        asked = questions(paper.claims, paper.figures)
        values = measure_all(plan_frame(spark, these), Tables(spark, out), asked)
        write_values(values, out, paper.name)
        samples = Samples(to_rows(values))
        failed = Counter((r.experiment, r.variant) for r in these if r.run_id in failed_ids)
        judgements = judge(paper.claims, samples, failed, missing)
        results.append(Reproduced(paper, tier, judgements, samples, these, _own(swept, these)))
    judgements = [judgement for result in results for judgement in result.judgements]
    return Outcome(
        judgements, swept, write_report(results, out), write_claims(judgements, out)
    )


def select(papers: Sequence[Paper], claims: Sequence[str]) -> list[Paper]:
    """The papers with only the named claims (all if none is named); an unknown claim is an error."""
    if not claims:
        return list(papers)
    unknown = set(claims) - {claim.id for paper in papers for claim in paper.claims}
    if unknown and papers:
        papers[0].only(sorted(unknown))  # raises, with the nearest ids
    narrowed = []
    for paper in papers:
        mine = [claim.id for claim in paper.claims if claim.id in claims]
        if mine:
            narrowed.append(paper.only(mine))
    return narrowed


def _own(swept: SweepOutcome, runs: Iterable[PlannedRun]) -> SweepOutcome:
    """The part of a sweep's failures that concerns some runs."""
    mine = {run.run_id for run in runs}
    failures = [failure for failure in swept.failures if failure.run_id in mine]
    return SweepOutcome(swept.simulated, swept.reused, failures, swept.seconds)


def write_claims(judgements: Iterable[Judgement], out: Path) -> Path:
    """``claims.json``: one object per claim."""
    path = out / "claims.json"
    text = json.dumps([judgement.row() for judgement in judgements], indent=1, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise PipelineError(
            f"cannot write {path}: {error.strerror or error}", "choose another --out folder"
        ) from None
    return path
