"""The pipeline beside a bare process pool and a default Spark session, in the same run.

* A sweep on Spark ``local[2]`` against a process pool of two that does the same runs and keeps them
  in the same way. A run burns a given CPU time and leaves a small run's tables. The Spark side also
  takes stock, packs bins and folds its files; neither side's start is counted.
* Start to the first result computed by Python: Shoal's session against PySpark's defaults, each in
  a process of its own, from its first line on.
* Rows of a trace (the ``deliveries`` of a run) written per second as Parquet, from the recorder's
  memory to whole files, by two processes.

The two sides take turns, and medians are shown.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.pipeline.plan.experiment import PlannedRun
from shoal.pipeline.simulate.worker import simulate_run
from shoal.pipeline.tables.store import Store
from shoal.simulation import RunConfig, RunResult, parse_config, simulate
from shoal.simulation.config import canonical_json, run_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
TRACE_ROWS = 2_000_000


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """All measurements and the ratios that matter."""
    rounds = 1 if quick else 3
    yield start_times(rounds)
    yield _apart("sweeps", rounds, 16 if quick else 64, 1.0)
    yield _apart("sweeps", rounds, 160 if quick else 640, 0.1)
    yield _apart("traces", rounds)


def _apart(what: str, *arguments: float) -> dict[str, float]:
    """A measurement in a process of its own, whose children can import this file."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,  # else a default session finds no pyarrow
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    command = [sys.executable, __file__, what, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {done.stderr}")
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


# A sweep


def sweeps(rounds: int, runs: int, seconds: float) -> dict[str, float]:
    """Seconds that a sweep of equal runs takes on Spark and in a pool, and their ratio."""
    from shoal.pipeline.spark.session import spark_session

    planned = _planned(runs, seconds)
    burn_ = partial(burn, seconds)
    spark_times, pool_times = [], []
    scratch = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    try:
        with (
            spark_session(f"local[{CORES}]") as spark,
            ProcessPoolExecutor(CORES, get_context("spawn")) as pool,
        ):
            _spark_sweep(spark, _planned(2 * CORES, 0.0), partial(burn, 0.0), scratch / "warm")
            _pool_sweep(pool, _planned(2 * CORES, 0.0), partial(burn, 0.0), scratch / "warm-pool")
            for number in range(rounds):
                sides = [
                    lambda n=number: spark_times.append(
                        _spark_sweep(spark, planned, burn_, scratch / f"spark-{n}")
                    ),
                    lambda n=number: pool_times.append(
                        _pool_sweep(pool, planned, burn_, scratch / f"pool-{n}")
                    ),
                ]
                for side in sides if number % 2 else reversed(sides):
                    side()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    name = f"sweep_of_{runs}_runs_of_{seconds:g}_s".replace(".", "_")
    ratios = [s / p for s, p in zip(spark_times, pool_times, strict=True)]
    return {
        f"{name}_spark_seconds": median(spark_times),
        f"{name}_pool_seconds": median(pool_times),
        f"{name}_spark_over_pool": median(ratios),
    }


def burn(seconds: float, config: RunConfig) -> RunResult:
    """A small run, and as much computing as makes it last so many CPU-seconds."""
    until = time.thread_time() + seconds
    result = simulate(config)
    while time.thread_time() < until:
        for _ in range(1000):
            pass
    return result


def _planned(runs: int, seconds: float) -> list[PlannedRun]:
    raw = {"nodes": 5, "duration": 1.0, "routing": {"name": "event-forwarding"}}
    planned = []
    for seed in range(runs):
        config = parse_config({**raw, "seed": seed})
        text = canonical_json(config)
        planned.append(PlannedRun(run_id(config), "b", "b", None, "{}", seed, text, seconds))
    return planned


def _spark_sweep(
    spark: SparkSession, runs: list[PlannedRun], work: partial[RunResult], out: Path
) -> float:
    from shoal.pipeline.progress import Progress
    from shoal.pipeline.simulate.sweep import sweep

    started = time.perf_counter()
    outcome = sweep(spark, runs, out, run=work, progress=Progress())
    took = time.perf_counter() - started
    if outcome.simulated != len(runs) or outcome.failures:
        raise RuntimeError(f"the sweep on Spark failed: {outcome}")
    return took


def _pool_sweep(
    pool: ProcessPoolExecutor, runs: list[PlannedRun], work: partial[RunResult], out: Path
) -> float:
    store = Store(out)
    started = time.perf_counter()
    store.prepare()
    jobs = [pool.submit(simulate_run, store, work, r.run_id, r.configuration) for r in runs]
    if any(job.result() != "done" for job in jobs):
        raise RuntimeError("the sweep in the pool failed")
    return time.perf_counter() - started


# A session


def start_times(rounds: int) -> dict[str, float]:
    """Seconds to the first Python result of Shoal's session and of a default one."""
    _apart("shoal_session")  # leaves the class data that later ones start from
    ours, default = [], []
    for _ in range(rounds):
        default.append(_apart("default_session")["seconds"])
        ours.append(_apart("shoal_session")["seconds"])
    return {
        "session_start_seconds": median(ours),
        "default_session_start_seconds": median(default),
        "session_start_over_default": median(o / d for o, d in zip(ours, default, strict=True)),
    }


def default_session() -> dict[str, float]:
    """Seconds to the first Python result with PySpark's defaults."""
    began = time.perf_counter()
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master(f"local[{CORES}]").getOrCreate()
    took = _first_result(spark, began)
    spark.stop()
    return {"seconds": took}


def shoal_session() -> dict[str, float]:
    """Seconds to the first Python result with Shoal's settings."""
    began = time.perf_counter()
    from shoal.pipeline.spark.session import spark_session

    with spark_session(f"local[{CORES}]") as spark:
        return {"seconds": _first_result(spark, began)}


def _first_result(spark: SparkSession, began: float) -> float:
    rows = spark.range(CORES).mapInArrow(_same, "id long").collect()
    if len(rows) != CORES:
        raise RuntimeError(f"wrong answer: {rows}")
    return time.perf_counter() - began


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


# Traces


def traces(rounds: int) -> dict[str, float]:
    """Rows per second from the recorder's memory to whole Parquet files, on two cores."""
    rates = []
    scratch = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    try:
        with ProcessPoolExecutor(CORES, get_context("spawn")) as pool:
            for _ in range(rounds):
                jobs = [pool.submit(write_trace, scratch, f"run-{n}") for n in range(CORES)]
                took = [job.result() for job in jobs]
                rates.append(sum(TRACE_ROWS / seconds for seconds in took))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"trace_rows_written_per_second": median(rates)}


def write_trace(out: Path, name: str) -> float:
    """Seconds to write a long trace that a recorder holds."""
    from shoal.simulation.columns import to_tables
    from shoal.simulation.kernel import Kernel
    from shoal.simulation.recorder import Recorder

    recorder = Recorder(Kernel(), 1000, 1, ["deliveries"])
    for i in range(TRACE_ROWS):  # events published in turn, each reaching a hundred nodes
        event, k = divmod(i, 100)
        values = (event % 1000, event // 1000, k * 7 % 1000, i * 9973, k % 12, 1, 0)
        recorder.deliveries.extend(values)
    store = Store(out)
    store.prepare()
    started = time.perf_counter()
    tables = to_tables(recorder, name, ["deliveries"])
    store.write(name, tables, {"run_id": name, "status": "done"})
    took = time.perf_counter() - started
    if tables["deliveries"].num_rows != TRACE_ROWS:
        raise RuntimeError("rows were lost")
    return took


if __name__ == "__main__":
    measurement = globals()[sys.argv[1]]
    print(json.dumps(measurement(*(json.loads(argument) for argument in sys.argv[2:]))))
