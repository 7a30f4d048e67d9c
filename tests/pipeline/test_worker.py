"""Brief runs of a task share files; a task that is tried again neither repeats nor doubles one."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from slow_sweep import slowly, small_plan

from shoal.pipeline.plan.experiment import PlannedRun
from shoal.pipeline.simulate import worker
from shoal.pipeline.simulate.worker import Runner, Task, WorkerError, simulate_bin
from shoal.pipeline.tables.store import Store
from shoal.simulation import RunConfig, RunResult, simulate
from shoal.simulation.config import code_version

RUNS = small_plan(20)


class Lost(BaseException):
    """The worker dies."""


@pytest.fixture
def store(out: Path) -> Store:
    store = Store(out)
    store.prepare()
    store.set_token("now")
    return store


def work(store: Store, run: Runner = simulate, runs: list[PlannedRun] = RUNS) -> None:
    """One task with these runs."""
    rows = [
        {"position": place, "run_id": planned.run_id, "configuration": planned.configuration}
        for place, planned in enumerate(runs)
    ]
    for _ in simulate_bin(Task(str(store.out), "now", code_version(), run), batch(rows)):
        pass


def batch(rows: list[dict[str, object]]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist(rows)


def files(store: Store, table: str = "runs") -> list[Path]:
    return sorted((store.tables / table).glob("*.parquet"))


def kept(store: Store, table: str = "runs") -> Counter[str]:
    found = store.inventory()
    paths = store.files(found, table)
    return Counter(r for p in paths for r in pq.read_table(p)["run_id"].to_pylist())


def test_brief_runs_share_files_and_are_known(store: Store) -> None:
    work(store)
    assert len(files(store)) == len(files(store, "traffic")) == 1
    wanted = {run.run_id for run in RUNS}
    assert kept(store) == Counter(wanted)
    assert store.finished() == (wanted, set())
    assert store.inventory().done == wanted
    assert set(kept(store, "publications")) == wanted


def test_a_disk_that_is_full_when_a_run_begins_is_named_with_the_cure(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Store, "begin", full)
    with pytest.raises(WorkerError, match="No space left on device; make room there or choose"):
        work(store)


def test_a_task_that_is_tried_again_finds_what_it_did(store: Store) -> None:
    work(store)
    before = files(store)[0].stat().st_mtime_ns

    def never(config: RunConfig) -> RunResult:
        raise AssertionError("simulated again")

    work(store, never)
    assert [path.stat().st_mtime_ns for path in files(store)] == [before]


def test_a_worker_lost_on_the_way_doubles_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "TOGETHER", 16)
    monkeypatch.setattr(worker, "FEWEST", 2)

    def dying(config: RunConfig) -> RunResult:
        if config.seed == 18:
            raise Lost
        return simulate(config)

    with pytest.raises(Lost):
        work(store, dying)
    assert len(store.finished()[0]) == 16
    work(store)
    assert kept(store) == Counter(run.run_id for run in RUNS)


def test_a_run_that_takes_long_is_stored_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "BRIEF", 0.0)
    work(store, slowly(0.0))
    assert len(files(store)) == len(RUNS)


def test_a_failed_run_does_not_hold_up_those_beside_it(store: Store) -> None:
    def failing(config: RunConfig) -> RunResult:
        if config.seed == 3:
            raise ValueError("no")
        return simulate(config)

    work(store, failing)
    done, failed = store.finished()
    assert failed == {RUNS[3].run_id}
    assert done == {run.run_id for run in RUNS} - failed
