"""A Spark task: simulates the runs of its bin, and stores each as soon as it is done.

Brief runs share files: a file takes longer to write than some of them to simulate. They are stored
together every :data:`TOGETHER` runs, under a name made of these runs, so that a bin that is tried
again finds them.
"""

from __future__ import annotations

import hashlib
import shlex
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from shoal.pipeline.spark.workers import settle
from shoal.pipeline.tables.store import PART, Kept, Store
from shoal.record import columns
from shoal.simulation import InvariantViolation, RunConfig, RunResult, parse_config, simulate
from shoal.simulation.config import code_version
from shoal.simulation.result import run_row
from shoal.stack import StackError

Runner: TypeAlias = Callable[[RunConfig], RunResult]
Status: TypeAlias = Literal["done", "error", "crashed"]
"""Outcome of a run, as its row in ``runs`` has it; ``crashed``: its process died."""

ATTEMPTS = 2
"""Attempts at a run before it is taken to be what kills its worker.

Once is not enough: a worker that is lost for another reason looks the same.
"""

TOGETHER = 128
"""Runs of a bin whose brief ones share files."""
FEWEST = 16
"""Runs of a bin from which on files are shared."""
BRIEF = 0.1
"""Seconds below which a run is brief: no more than these are lost with a worker, per run."""

MANIFEST = pa.schema(columns("run_id string, status string"))

COMPLAINT = "shoal-worker: "
"""Begins the message of an error that is the worker's, not a run's."""


class WorkerError(Exception):
    """This worker cannot take part in the sweep."""

    def __init__(self, cause: str, cure: str) -> None:
        super().__init__(f"{COMPLAINT}{cause}; {cure}")


@dataclass(frozen=True)
class Task:
    """Settings that a worker needs beside its runs."""

    out: str
    token: str
    """Written to the folder by the driver, so that a worker can tell that it sees the same one."""
    code: str
    run: Runner = simulate


def simulate_bin(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Simulate the runs of one bin, in the order given; one row for each in return."""
    store = Store(Path(task.out))
    _check(task, store)
    settle()
    rows = [row for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: row["position"])
    done: list[dict[str, str]] = []
    with _explaining(store):
        for start in range(0, len(rows), TOGETHER):
            done += _simulate_together(task, store, rows[start : start + TOGETHER])
    yield pa.RecordBatch.from_pylist(done, schema=MANIFEST)


def _simulate_together(
    task: Task, store: Store, rows: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """Simulate some runs; the brief ones share files if the runs are many."""
    names = "".join(row["run_id"] for row in rows)
    part = PART + hashlib.blake2b(names.encode(), digest_size=6).hexdigest()
    if store.is_done(part):  # an earlier attempt at this bin got so far
        return [{"run_id": row["run_id"], "status": "done"} for row in rows]
    brief: list[Kept] | None = [] if len(rows) >= FEWEST else None
    done: list[dict[str, str]] = []
    for row in rows:
        if store.token() != task.token:  # stopped, or another sweep has taken over
            return done
        status: Status = "done"
        if not store.is_done(row["run_id"]):
            status = simulate_run(store, task.run, row["run_id"], row["configuration"], brief)
        done.append({"run_id": row["run_id"], "status": status})
    if brief:
        store.write_part(part, brief)
    return done


def simulate_run(
    store: Store, run: Runner, run_id: str, configuration: str, brief: list[Kept] | None = None
) -> Status:
    """Simulate one run and keep it; whatever goes wrong in it becomes its row.

    A brief one is added to ``brief``, if given, in place of being stored.
    """
    before = store.begin(run_id)
    if before >= ATTEMPTS:
        error = f"crashed: {before} times the process that ran it died"
        store.write_failure(run_id, _failure(store, run_id, configuration, error, "crashed"))
        store.end(run_id)
        return "crashed"
    result, error = None, ""
    started = time.perf_counter()
    try:
        config = parse_config(msgspec.json.decode(configuration))
        result = run(config)
        if result.run_id != run_id:
            raise StackError("its modules have changed since the sweep began; start again")
        row = {**run_row(config, result, None), "run_id": run_id}
    except (InvariantViolation, StackError) as violation:
        error = f"{type(violation).__name__}: {violation}"
    except (Exception, SystemExit) as bug:  # a run must not end the sweep
        error = f"{type(bug).__name__}: {bug}\n{traceback.format_exc()}"
    try:
        if result is None or error:
            store.write_failure(run_id, _failure(store, run_id, configuration, error, "error"))
        elif brief is not None and time.perf_counter() - started < BRIEF:
            brief.append((result.tables, row))
        else:
            store.write(run_id, result.tables, row)
    finally:
        store.end(run_id)
    return "error" if error else "done"


@contextmanager
def _explaining(store: Store) -> Iterator[None]:
    """An error of the file system in a user's words."""
    try:
        yield
    except OSError as full:
        raise WorkerError(
            f"cannot write to {store.out} on {socket.gethostname()}: {full.strerror or full}",
            "make room there or choose another --out folder",
        ) from full


def _failure(
    store: Store, run_id: str, configuration: str, error: str, status: Status
) -> dict[str, Any]:
    raw = msgspec.json.decode(configuration)
    return {
        "run_id": run_id,
        "seed": raw["seed"],
        "configuration": configuration,
        "code": code_version(),
        "status": status,
        "error": error,
        "replay": f"shoal simulate --replay {run_id} --out {shlex.quote(str(store.out))}",
        "nodes": raw["nodes"],
    }


def _check(task: Task, store: Store) -> None:
    here = socket.gethostname()
    if store.token() != task.token:
        raise WorkerError(
            f"the worker on {here} does not see the folder {task.out}",
            "put --out on storage that all machines share",
        )
    if code_version() != task.code:
        raise WorkerError(
            f"the worker on {here} has other sources of Shoal than this sweep began with",
            "start again; if it lasts, install the same version there",
        )
