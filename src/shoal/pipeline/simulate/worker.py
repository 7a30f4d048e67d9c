"""A Spark task: simulates the runs of its bin, and stores each as soon as it is done."""

from __future__ import annotations

import shlex
import socket
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from shoal.pipeline.spark.garbage import settle
from shoal.pipeline.tables.store import Store
from shoal.simulation import InvariantViolation, RunConfig, RunResult, parse_config, simulate
from shoal.simulation.config import code_version
from shoal.simulation.run import run_row
from shoal.stack import StackError

Runner: TypeAlias = Callable[[RunConfig], RunResult]

ATTEMPTS = 2
"""Attempts at a run before it is taken to be what kills its worker.

Once is not enough: a worker that is lost for another reason looks the same.
"""

MANIFEST = pa.schema([pa.field("run_id", pa.string()), pa.field("status", pa.string())])

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
    done = []
    for row in rows:
        if store.token() != task.token:  # stopped, or another sweep has taken over
            break
        status = "done"
        if not store.is_done(row["run_id"]):  # an earlier attempt at this bin may have got so far
            status = simulate_run(store, task.run, row["run_id"], row["configuration"])
        done.append({"run_id": row["run_id"], "status": status})
    yield pa.RecordBatch.from_pylist(done, schema=MANIFEST)


def simulate_run(store: Store, run: Runner, run_id: str, configuration: str) -> str:
    """Simulate one run and keep it; whatever goes wrong in it becomes its row."""
    before = store.begin(run_id)
    if before >= ATTEMPTS:
        error = f"crashed: {before} times the process that ran it died"
        store.write_failure(run_id, _failure(store, run_id, configuration, error, "crashed"))
        store.end(run_id)
        return "crashed"
    result, error = None, ""
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
        if result is not None and not error:
            store.write(run_id, result.tables, row)
        else:
            store.write_failure(run_id, _failure(store, run_id, configuration, error, "error"))
    except OSError as full:
        raise WorkerError(
            f"cannot write to {store.out} on {socket.gethostname()}: {full.strerror or full}",
            "make room there or choose another --out folder",
        ) from full
    finally:
        store.end(run_id)
    return "error" if error else "done"


def _failure(
    store: Store, run_id: str, configuration: str, error: str, status: str
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
