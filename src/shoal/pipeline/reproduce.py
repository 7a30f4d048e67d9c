<<<<<<< HEAD
"""The whole way for a paper: plan, simulate, measure, judge, report.

What is there already is not done again: runs are found by their identity, and measures are kept with
the runs and questions they answer. When nothing is left to compute, Spark is not even started.
=======
"""The main job: plan, simulate, measure, judge, report.

Everything lands in one folder: the recorded tables, ``plan.parquet``, ``measures-PAPER.parquet``,
``claims.json`` and ``report.html``. Run again, it simulates only what is not there yet.
>>>>>>> main
"""

from __future__ import annotations

<<<<<<< HEAD
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge import Judgement, judge
from shoal.pipeline.measured import Question, measure_all, questions, to_rows
from shoal.pipeline.paper import Paper, runnable
from shoal.pipeline.plan import PlannedRun, Tier, plan, plan_frame, write_plan
from shoal.pipeline.progress import Progress
from shoal.pipeline.report import Chapter, write_report
from shoal.pipeline.samples import Samples
from shoal.pipeline.session import check_master, spark_session
from shoal.pipeline.store import Store
from shoal.pipeline.sweep import Failure, SweepOutcome, failures, sweep
from shoal.pipeline.tables import Tables

_KEY = b"shoal.answers"


@dataclass(frozen=True)
class Reproduction:
    """What came of it."""

    chapters: tuple[Chapter, ...]
    outcome: SweepOutcome
    report: Path
    claims: Path

    @property
    def judgements(self) -> list[Judgement]:
        """Every claim of every paper."""
        return [judgement for chapter in self.chapters for judgement in chapter.judgements]


def reproduce(
    papers: Sequence[Paper],
    *,
    claims: Sequence[str] = (),
    tier: Tier = "quick",
    master: str = "local[*]",
    out: Path = Path("out"),
    seeds: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Simulate what the papers' claims need, judge them and write ``report.html`` and ``claims.json``."""
    chosen = _chosen(papers, claims)
    check_master(master)
    able = {paper.name: runnable(paper.experiments, tier) for paper in chosen}
    by_paper = {
        paper.name: plan(_prefixed(paper, able[paper.name][0]), tier, seeds) for paper in chosen
    }
    runs = [run for planned in by_paper.values() for run in planned]
    if not runs:
        raise PipelineError("none of these claims can be run", "choose others, or --full")
    Store(out).prepare()
    write_plan(runs, out)
    asked = {paper.name: _questions(paper, able[paper.name][1]) for paper in chosen}
    outcome, answers = _answers(runs, asked, master, out, progress)
    chapters = []
    for paper in chosen:
        planned = by_paper[paper.name]
        lost = [f for f in outcome.failures if f.run_id in {run.run_id for run in planned}]
        samples = Samples(
            (measure, experiment.removeprefix(f"{paper.name}/"), *rest)
            for measure, experiment, *rest in to_rows(answers)  # type: ignore[misc]  # six columns
            if experiment.startswith(f"{paper.name}/")
        )
        verdicts = judge(paper.claims, samples, _failed(planned, lost), able[paper.name][1])
        chapters.append(Chapter(paper, verdicts, samples, lost))
    report = write_report(chapters, tier, out)
    path = out / "claims.json"
    rows = [judgement.row() for chapter in chapters for judgement in chapter.judgements]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return Reproduction(tuple(chapters), outcome, report, path)


def _chosen(papers: Sequence[Paper], claims: Sequence[str]) -> list[Paper]:
    """The papers, with only the claims asked for; a claim that none has is an error."""
    if not claims:
        return list(papers)
    known = {claim.id for paper in papers for claim in paper.claims}
    for name in claims:
        if name not in known:
            papers[0].only([name])  # says so, with the nearest name
    mine = [[c for c in claims if c in {claim.id for claim in p.claims}] for p in papers]
    return [paper.only(ids) for paper, ids in zip(papers, mine, strict=True) if ids]


def _prefixed(paper: Paper, experiments: Sequence[object]) -> list:  # type: ignore[type-arg]  # Experiments
    """Experiments of several papers in one plan: their names carry the paper's."""
    return [replace(e, name=f"{paper.name}/{e.name}") for e in experiments]  # type: ignore[type-var,attr-defined]  # Experiments


def _questions(paper: Paper, missing: object) -> list[Question]:
    return [
        replace(q, experiments=frozenset(f"{paper.name}/{name}" for name in q.experiments))
        for q in questions(paper.claims, paper.figures)
    ]


def _answers(
    runs: Sequence[PlannedRun],
    asked: dict[str, list[Question]],
    master: str,
    out: Path,
    progress: Progress | None,
) -> tuple[SweepOutcome, pa.Table]:
    """Simulate what is missing and measure; or, if all has been answered before, only read."""
    everything = [question for questions in asked.values() for question in questions]
    wanted = {run.run_id for run in runs}
    store = Store(out)
    found = store.inventory()
    key = _key(wanted, everything, found.failed & wanted)
    path = out / "measures.parquet"
    if wanted <= found.done | found.failed:
        kept = _kept(path, key)
        if kept is not None:
            lost = failures(store, found, wanted)
            return SweepOutcome(reused=len(wanted), failures=lost), kept
    with spark_session(master) as spark:
        outcome = sweep(spark, runs, out, progress=progress)
        answers = measure_all(plan_frame(spark, runs), Tables(spark, out), everything)
    failed = {failure.run_id for failure in outcome.failures}
    labelled = answers.replace_schema_metadata({_KEY: _key(wanted, everything, failed)})
    pq.write_table(labelled, path, compression="zstd")
    return outcome, answers


def _key(runs: set[str], asked: Sequence[Question], failed: set[str]) -> bytes:
    """What the answers depend on: the runs, which of them failed, the questions and how we answer."""
    digest = hashlib.blake2b(digest_size=16)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    for name in (*sorted(runs), *sorted(failed)):
        digest.update(name.encode())
    for question in asked:
        digest.update(f"{question.key}{sorted(question.experiments)}".encode())
    return digest.hexdigest().encode()


def _kept(path: Path, key: bytes) -> pa.Table | None:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    return table if (table.schema.metadata or {}).get(_KEY) == key else None


def _failed(runs: Sequence[PlannedRun], lost: Sequence[Failure]) -> dict[tuple[str, str], int]:
    """Failed runs by experiment and variant."""
    ids = {failure.run_id for failure in lost}
    counted = Counter((run.experiment, run.variant) for run in runs if run.run_id in ids)
    return {(experiment.partition("/")[2], variant): n for (experiment, variant), n in counted.items()}
=======
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
>>>>>>> main
