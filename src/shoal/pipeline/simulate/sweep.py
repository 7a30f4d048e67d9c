"""Simulates a plan's runs on Spark, each once, and keeps going whatever happens to one of them.

A run that is done is never done again; a sweep that was stopped goes on where it was. Runs are put
into bins of a few seconds of estimated work, longest first, and each bin is one Spark task. A run
that fails leaves a row with its error and the command that replays it.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.errors import PipelineError, SweepInterrupted, python_error
from shoal.pipeline.plan.experiment import PlannedRun, unique
from shoal.pipeline.progress import ConsoleProgress, Progress, stage
from shoal.pipeline.simulate.estimates import Remaining, refined
from shoal.pipeline.simulate.kernels import prepare_kernels
from shoal.pipeline.simulate.worker import COMPLAINT, Runner, Task, simulate_bin
from shoal.pipeline.tables.fold import fold
from shoal.pipeline.tables.store import FAILED, Inventory, Store
from shoal.record import SCHEMAS, columns
from shoal.simulation import simulate
from shoal.simulation.config import code_version

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

BIN_SECONDS = 2.0
"""Estimated work of a task: a task costs Spark some 25 ms."""
BINS_PER_CORE = 3
"""Bins per core in a sweep too short for such bins, so that all cores end together."""
POLL_SECONDS = 0.5
PATIENCE = 10.0
"""Seconds that a cancelled job is given to end."""
KILL_SECONDS = 3.0
"""Seconds after which Spark has killed the workers of a cancelled job."""

_BIN_SCHEMA = pa.schema(columns("bin int32, position int32, run_id string, configuration string"))


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    run_id: str
    error: str
    """Error in one line."""
    replay: str
    """The command that runs it again, here and now."""


@dataclass
class SweepOutcome:
    """Outcome of a sweep."""

    simulated: int = 0
    reused: int = 0
    """Runs that were there already."""
    failures: list[Failure] = field(default_factory=list)
    """All runs of the plan that failed, in this sweep or an earlier one."""
    seconds: float = 0.0


def sweep(
    spark: SparkSession,
    runs: Sequence[PlannedRun],
    out: Path,
    *,
    run: Runner = simulate,
    retry: bool = False,
    progress: Progress | None = None,
) -> SweepOutcome:
    """Simulate every run of the plan that is not in ``out`` yet.

    Runs that failed are left as they are unless ``retry`` is given (with changed code they are
    other runs). Stopped with Ctrl-C it raises :class:`SweepInterrupted`; the tables are whole.
    """
    started = time.perf_counter()
    progress = progress if progress is not None else ConsoleProgress()
    store = Store(out)
    store.prepare()
    wanted = unique(runs)
    with store.lock():
        found = _take_stock(store, wanted, progress)
        known = found.done | (set() if retry else found.failed)
        pending = [w for w in wanted if w.run_id not in known]
        outcome = SweepOutcome(reused=len(wanted) - len(pending))
        if pending:
            estimates = refined(pending, store, found)
            for run_id in found.failed & estimates.keys():  # to be tried again
                store.path("runs", run_id, FAILED).unlink()
            if run is simulate and str(spark.sparkContext.master).startswith("local"):
                with stage(progress, "Preparing kernels, which are compiled once per machine"):
                    prepare_kernels(pending)
            try:
                _Sweep(spark, store, run, progress, estimates, pending).simulate()
            finally:
                found = store.inventory()
                store.clean(found)
            outcome.simulated = len(pending)
        fold(store, found, order=[w.run_id for w in wanted])
        outcome.failures = failures(store, found, {w.run_id for w in wanted})
    outcome.seconds = time.perf_counter() - started
    return outcome


def _take_stock(store: Store, wanted: Sequence[PlannedRun], progress: Progress) -> Inventory:
    """Runs that are done already; remains of killed runs are removed and reported."""
    expected = {
        w.run_id: tuple(t for t in msgspec.json.decode(w.configuration)["record"] if t != "runs")
        for w in wanted
    }
    found = store.inventory(expected)
    if found.unfinished:
        progress.note(
            f"removed the remains of {_count(len(found.unfinished), 'run')} cut short "
            "by the end of an earlier sweep"
        )
    if found.damaged:
        names = ", ".join(sorted(found.damaged)[:3]) + (", …" if len(found.damaged) > 3 else "")
        progress.note(
            f"removed {_count(len(found.damaged), 'damaged run')} ({names}): "
            "a table was incomplete; simulated again where the plan has it"
        )
    store.clean(found)
    return found


def bins(estimates: dict[str, float], cores: int) -> list[list[str]]:
    """Runs in bins of equal work, longest first: ``BIN_SECONDS`` or more if there is enough."""
    order = sorted(estimates, key=lambda run: (-estimates[run], run))
    size = min(BIN_SECONDS, sum(estimates.values()) / (cores * BINS_PER_CORE))
    made: list[list[str]] = []
    room = 0.0
    for run in order:
        if room <= 0:
            made.append([])
            room = size
        made[-1].append(run)
        room -= estimates[run] * (1 + 1e-9)
    return made


class _Sweep:
    """One sweep under way."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        run: Runner,
        progress: Progress,
        estimates: dict[str, float],
        pending: list[PlannedRun],
    ) -> None:
        self.spark = spark
        self.store = store
        self.progress = progress
        self.estimates = estimates
        self.pending = pending
        self.remaining = Remaining(pending, estimates, store)
        self.task = Task(str(store.out), uuid.uuid4().hex, code_version(), run)

    def simulate(self) -> None:
        """Simulate all, in as many rounds as it takes.

        A job ends early when one of its tasks has failed too often; each round gets further, if
        only by counting a run that kills its worker once more. One that does not is an error.
        """
        self.store.set_token(self.task.token)
        cores = self.spark.sparkContext.defaultParallelism
        self.progress.start(len(self.pending), sum(self.estimates.values()), cores)
        left = self.pending
        try:
            while left:
                before = self.store.attempts()
                error = self._round(left, cores)
                done, failed = self._over()
                still_left = [p for p in left if p.run_id not in done | failed]
                if len(still_left) == len(left) and self.store.attempts() == before:
                    raise _explained(error, self.store.out)
                left = still_left
        finally:
            self.store.set_token(None)
            self._report(idle=False)  # what was done since the last look
            self.progress.finish()

    def _over(self) -> tuple[set[str], set[str]]:
        """The runs of this sweep that are done, and those that failed."""
        done, failed = self.store.finished()
        return done & self.estimates.keys(), failed & self.estimates.keys()

    def _round(self, left: list[PlannedRun], cores: int) -> Exception | None:
        """Run one Spark job over the runs that are left; the error that ended it early, if any."""
        context = self.spark.sparkContext
        group = f"shoal-sweep-{uuid.uuid4().hex}"
        failure: list[Exception] = []
        job = partial(self._job, left, cores, group, failure)
        thread = threading.Thread(target=job, name=group, daemon=True)
        tracker = context.statusTracker()
        try:
            thread.start()
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                self._report(_is_idle(tracker, group))
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            self._wait_for_workers(thread)
            done, failed = self._over()
            self._report(idle=False)
            raise SweepInterrupted(
                f"stopped: {len(done | failed):,} of {_count(len(self.estimates), 'run')} "
                f"simulated and kept in {self.store.out}; the same command goes on from there"
            ) from None
        return failure[0] if failure else None

    def _wait_for_workers(self, thread: threading.Thread) -> None:
        """Wait until no worker writes any more: it ends with its run, or is killed soon after."""
        self.store.set_token(None)
        thread.join(PATIENCE)
        until = time.monotonic() + KILL_SECONDS
        while self.store.attempts() and time.monotonic() < until:
            time.sleep(0.1)

    def _job(
        self, left: list[PlannedRun], cores: int, group: str, failure: list[Exception]
    ) -> None:
        simulate_here = partial(simulate_bin, self.task)
        by_id = {p.run_id: p for p in left}
        packed = bins({run: self.estimates[run] for run in by_id}, cores)
        table = pa.Table.from_pylist(
            [
                {
                    "bin": number,
                    "position": position,
                    "run_id": run,
                    "configuration": by_id[run].configuration,
                }
                for number, runs in enumerate(packed)
                for position, run in enumerate(runs)
            ],
            schema=_BIN_SCHEMA,
        )
        try:
            self.spark.sparkContext.setJobGroup(group, "simulate", interruptOnCancel=True)
            frame = self.spark.createDataFrame(table).repartitionById(len(packed), "bin")
            frame.mapInArrow(simulate_here, "run_id string, status string").toArrow()
        except Exception as error:  # judged in the main thread
            failure.append(error)

    def _report(self, idle: bool) -> None:
        done, failed = self._over()
        left = self.remaining.without(done | failed)
        self.progress.update(len(done), len(failed), left, idle)


def _is_idle(tracker: StatusTracker, group: str) -> bool:
    """Whether a job of this group waits without a single task at work."""
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    ]
    return bool(stages) and not any(s is not None and s.numActiveTasks for s in stages)


def _explained(error: Exception | None, out: Path) -> PipelineError:
    """Why a sweep cannot go on, in a user's words."""
    text = str(error) if error is not None else "the workers did nothing"
    log = f"see {out / 'spark.log'}"
    own = re.search(rf"{COMPLAINT}(.*); (.*)", text)
    if own:
        return PipelineError(own[1], own[2])
    lacking = re.search(r"ModuleNotFoundError: (No module named .*)", text)
    if lacking:
        return PipelineError(
            f"a Python worker cannot start: {lacking[1]}",
            "install Shoal's dependencies there, or set PYSPARK_PYTHON to a Python that has them",
        )
    last = python_error(text) or text.splitlines()[-1]
    return PipelineError(f"Spark gave up: {last}", log)


def failures(store: Store, found: Inventory, wanted: set[str]) -> list[Failure]:
    """Failed runs among some, with the error and replay command of their rows."""
    lost = []
    for run in sorted(found.failed & wanted):
        row = pq.read_table(store.path("runs", run, FAILED), schema=SCHEMAS["runs"]).to_pylist()[0]
        lost.append(Failure(run, (row["error"] or "").partition("\n")[0], row["replay"]))
    return lost


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
