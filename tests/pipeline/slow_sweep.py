"""A sweep of slow runs in a process of its own, to be interrupted: OUT MASTER RUNS SECONDS."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from shoal.pipeline.errors import PipelineError, SweepInterrupted
from shoal.pipeline.plan.experiment import Experiment, PlannedRun, plan, write_plan
from shoal.pipeline.simulate.sweep import sweep
from shoal.pipeline.simulate.worker import Runner
from shoal.pipeline.spark.session import spark_session
from shoal.simulation import RunConfig, RunResult, simulate


def small_plan(seeds: int) -> list[PlannedRun]:
    """Runs of a few milliseconds, the same for all who ask."""
    base = {"nodes": 8, "duration": 1.0, "routing": {"name": "event-forwarding"}}
    return plan([Experiment("small", "Small", base, {"EF": {}}, seeds=seeds)])


def slowly(seconds: float) -> Runner:
    def run(config: RunConfig) -> RunResult:
        result = simulate(config)
        time.sleep(seconds)
        return result

    return run


def home(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker has its Shoal from."""
    import shoal

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"home": [shoal.__file__]})


def main(out: Path, master: str, seeds: int, seconds: float) -> int:
    try:
        with spark_session(master, out) as spark:
            runs = small_plan(seeds)
            write_plan(runs, out)
            outcome = sweep(spark, runs, out, run=slowly(seconds))
            print(f"simulated {outcome.simulated}, reused {outcome.reused}")
            print(spark.range(1, numPartitions=1).mapInArrow(home, "home string").collect()[0].home)
    except PipelineError as error:
        print(error, file=sys.stderr)
        return 2
    except SweepInterrupted as stopped:
        print(stopped, file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
