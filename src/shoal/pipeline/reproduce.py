"""The main job: plan, simulate, measure, judge, report.

Everything lands in one folder: the recorded tables, ``plan.parquet``, ``measures-PAPER.parquet``,
``claims.json`` and ``report.html``. Run again, it does only what is not there yet: runs are found
by their identity, measures by the runs and questions they answer. When nothing is left to compute,
Spark is not even started.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.errors import PipelineError, writing
from shoal.pipeline.judge.samples import Samples
from shoal.pipeline.judge.verdicts import Judgement, judge
from shoal.pipeline.measure.compute import measure_all, questions, to_rows
from shoal.pipeline.measure.registry import Question
from shoal.pipeline.paper import Paper, runnable
from shoal.pipeline.plan.experiment import PlannedRun, Tier, plan, plan_frame, write_plan
from shoal.pipeline.progress import ConsoleProgress, Progress, stage
from shoal.pipeline.report.page import Reproduced, write_report
from shoal.pipeline.simulate.sweep import SweepOutcome, failures, sweep
from shoal.pipeline.spark.session import check_master, spark_session
from shoal.pipeline.tables.dataframes import Tables
from shoal.pipeline.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = b"shoal.answers"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a reproduction."""

    judgements: list[Judgement]
    sweep: SweepOutcome
    report: Path
    claims: Path


def reproduce(
    papers: Sequence[Paper],
    claims: Sequence[str] = (),
    tier: Tier = "quick",
    out: Path = Path("out"),
    *,
    master: str = "local[*]",
    seeds: int | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Reproduce papers, or only some of their claims, into a folder."""
    progress = progress if progress is not None else ConsoleProgress()
    chosen = select(papers, claims)
    check_master(master)
    prepared = [runnable(paper.experiments, tier) for paper in chosen]
    runs = [plan(able, tier, seeds) for able, _ in prepared]
    every = [run for these in runs for run in these]
    if not every:
        raise PipelineError("none of these claims can be run", "choose others, or --full")
    store = Store(out)
    store.prepare()
    with store.lock():  # the plan of a sweep under way stays
        write_plan(every, out)
    with ExitStack() as stack:
        engine = _Engine(stack, master, out, progress)
        swept = engine.sweep(every, retry)
        failed_ids = {failure.run_id for failure in swept.failures}
        results = []
        for paper, (_, missing), these in zip(chosen, prepared, runs, strict=True):
            asked = questions(paper.claims, paper.figures)
            samples = Samples(to_rows(engine.answers(paper.name, these, asked, failed_ids)))
            failed = tally(run for run in these if run.run_id in failed_ids)
            judgements = judge(paper.claims, samples, tally(these), failed, missing)
            mine = {run.run_id for run in these}
            lost = [failure for failure in swept.failures if failure.run_id in mine]
            own = SweepOutcome(swept.simulated, swept.reused, lost, swept.seconds)
            results.append(Reproduced(paper, tier, judgements, samples, these, own))
    every_judgement = [judgement for result in results for judgement in result.judgements]
    with stage(progress, "Drawing the figures"):
        report = write_report(results, out)
    return Outcome(every_judgement, swept, report, write_claims(every_judgement, out))


def tally(runs: Iterable[PlannedRun]) -> dict[tuple[str, str], Counter[float | None]]:
    """Numbers of runs by experiment and variant, and by the point of the axis."""
    counts: defaultdict[tuple[str, str], Counter[float | None]] = defaultdict(Counter)
    for run in runs:
        counts[run.experiment, run.variant][run.x] += 1
    return dict(counts)


class _Engine:
    """Spark, started when there is something to compute."""

    def __init__(self, stack: ExitStack, master: str, out: Path, progress: Progress) -> None:
        self._progress = progress
        self._stack = stack
        self._master = master
        self._out = out
        self._spark: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            with stage(self._progress, "Starting Spark"):
                self._spark = self._stack.enter_context(spark_session(self._master, self._out))
        return self._spark

    def sweep(self, runs: Sequence[PlannedRun], retry: bool) -> SweepOutcome:
        """Simulate the runs that are not in the folder yet, or failed and are to be tried again."""
        store = Store(self._out)
        found = store.inventory()
        wanted = {run.run_id for run in runs}
        known = found.done if retry else found.done | found.failed
        if wanted <= known and not found.damaged:
            return SweepOutcome(reused=len(wanted), failures=failures(store, found, wanted))
        return sweep(self.spark, runs, self._out, retry=retry, progress=self._progress)

    def answers(
        self, name: str, runs: Sequence[PlannedRun], asked: Sequence[Question], failed: set[str]
    ) -> pa.Table:
        """Answers to the questions, cached for the next time."""
        path = self._out / f"measures-{name}.parquet"
        key = _key(runs, asked, failed)
        try:
            kept = pq.read_table(path)
            if (kept.schema.metadata or {}).get(_KEY) == key:
                return kept
        except (OSError, pa.ArrowException):
            pass  # not there, or not whole: measure again
        tables = Tables(self.spark, self._out)
        values = measure_all(plan_frame(self.spark, runs), tables, asked, self._progress)
        draft = path.with_name(f".{path.name}")
        pq.write_table(values.replace_schema_metadata({_KEY: key}), draft, compression="zstd")
        draft.replace(path)
        return values


def _key(runs: Sequence[PlannedRun], asked: Sequence[Question], failed: set[str]) -> bytes:
    """Key of cached answers: the plan, the failed runs, the questions and the measuring code."""
    digest = hashlib.blake2b(digest_size=16)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    for run in runs:
        text = f"{run.run_id}{run.experiment}{run.variant}{run.x}{run.run_id in failed};"
        digest.update(text.encode())
    for question in asked:
        digest.update(f"{question.key}{sorted(question.experiments)};".encode())
    return digest.hexdigest().encode()


def select(papers: Sequence[Paper], claims: Sequence[str]) -> list[Paper]:
    """The papers with only the named claims (all if none is named); an unknown one is an error."""
    if not claims:
        return list(papers)
    known = [claim.id for paper in papers for claim in paper.claims]
    for name in sorted(set(claims) - set(known)):
        near = get_close_matches(name, known, n=3)
        raise PipelineError(
            f"{', '.join(paper.name for paper in papers)}: no claim '{name}'",
            f"did you mean {', '.join(near)}?" if near else f"ids look like {known[0]}",
        )
    narrowed = []
    for paper in papers:
        mine = [claim.id for claim in paper.claims if claim.id in claims]
        if mine:
            narrowed.append(paper.only(mine))
    return narrowed


def write_claims(judgements: Iterable[Judgement], out: Path) -> Path:
    """``claims.json``: one object per claim."""
    path = out / "claims.json"
    text = json.dumps([judgement.row() for judgement in judgements], indent=1, ensure_ascii=False)
    with writing(str(path)):
        path.write_text(text + "\n", encoding="utf-8")
    return path
