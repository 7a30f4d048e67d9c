"""Each run once, whatever happens to it, to its neighbours or to the sweep."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from slow_sweep import small_plan

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.plan.experiment import Experiment, PlannedRun, plan, plan_frame, write_plan
from shoal.pipeline.progress import Progress
from shoal.pipeline.simulate.estimates import Remaining, refined
from shoal.pipeline.simulate.sweep import bins, sweep
from shoal.pipeline.tables.dataframes import Tables, find_configuration
from shoal.pipeline.tables.store import Store
from shoal.record import SCHEMAS, TABLES
from shoal.simulation import InvariantViolation, RunConfig, RunResult, parse_config, simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Workers do not have the tests: what they run of them travels with the task.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # untyped there


class Heard(Progress):
    """Keeps what a sweep says."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.updates: list[tuple[int, int, float]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def update(self, done: int, failed: int, left: float, waiting: bool) -> None:
        self.updates.append((done, failed, left))


def run_ids(spark: SparkSession, out: Path, table: str = "runs") -> Counter[str]:
    return Counter(row.run_id for row in Tables(spark, out)[table].select("run_id").collect())


def stamps(out: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (out / "tables" / "runs").glob("*.parquet")}


def test_a_plan_becomes_tables(spark: SparkSession, out: Path) -> None:
    base = {"nodes": 12, "duration": 2.0, "topology": {"rate": 2.0, "window": [0.5, 1.5]}}
    variants: dict[str, Any] = {
        "SM": {"reconfiguration": {"name": "strawman"}},
        "EF": {"routing": {"name": "event-forwarding"}},
    }
    experiment = Experiment("e", "E", base, variants, axis="nodes", values=(10, 12), seeds=2)
    runs = plan([experiment])
    heard = Heard()
    outcome = sweep(spark, runs, out, progress=heard)
    assert (outcome.simulated, outcome.reused, outcome.failures) == (8, 0, [])
    assert heard.updates[-1][:2] == (8, 0)

    tables = Tables(spark, out)
    joined = plan_frame(spark, runs).join(tables["runs"], "run_id")
    assert {(r.variant, r.x) for r in joined.collect()} == {
        (v, x) for v in ("SM", "EF") for x in (10.0, 12.0)
    }
    # What Spark reads is what the simulator said, run by run.
    for run in runs[:3]:
        config = find_configuration(out, run.run_id[:10])
        direct = simulate(config)
        for name, table in direct.tables.items():
            order = [(column, "ascending") for column in SCHEMAS[name].names]
            read = tables[name].where(f"run_id = '{run.run_id}'").toArrow()
            assert read.sort_by(order).to_pylist() == table.sort_by(order).to_pylist()


def test_tables_that_nobody_wrote_are_empty_with_their_columns(
    spark: SparkSession, out: Path
) -> None:
    tables = Tables(spark, out)
    assert list(tables) == list(TABLES)
    for name in tables:
        assert tables[name].columns == SCHEMAS[name].names
        assert tables[name].count() == 0
    with pytest.raises(KeyError, match="did you mean 'traffic'"):
        tables["trafic"]


def test_adding_seeds_or_points_reruns_nothing(spark: SparkSession, out: Path) -> None:
    first = sweep(spark, small_plan(4), out, progress=Progress())
    assert (first.simulated, first.reused) == (4, 0)
    before = stamps(out)
    again = sweep(spark, small_plan(4), out, progress=Progress())
    assert (again.simulated, again.reused) == (0, 4)
    more = sweep(spark, small_plan(7), out, progress=Progress())
    assert (more.simulated, more.reused) == (3, 4)
    assert {name: stamps(out)[name] for name in before} == before
    assert run_ids(spark, out) == Counter(run.run_id for run in small_plan(7))


def test_a_run_wanted_by_two_experiments_is_simulated_once(spark: SparkSession, out: Path) -> None:
    outcome = sweep(spark, small_plan(3) + small_plan(3), out, progress=Progress())
    assert outcome.simulated == 3
    assert set(run_ids(spark, out).values()) == {1}


def test_many_small_runs_are_folded_and_still_known(spark: SparkSession, out: Path) -> None:
    runs = small_plan(70)
    assert sweep(spark, runs, out, progress=Progress()).simulated == 70
    assert len(list((out / "tables" / "traffic").glob("*.parquet"))) == 1
    assert run_ids(spark, out) == Counter(run.run_id for run in runs)
    more = sweep(spark, small_plan(72), out, progress=Progress())
    assert (more.simulated, more.reused) == (2, 70)
    assert run_ids(spark, out) == Counter(run.run_id for run in small_plan(72))


def test_a_failing_run_is_a_row_with_its_replay_command(spark: SparkSession, out: Path) -> None:
    def breaks_on_odd_seeds(config: RunConfig) -> RunResult:
        if config.seed % 2:
            raise ZeroDivisionError("odd")
        return simulate(config)

    runs = small_plan(4)
    outcome = sweep(spark, runs, out, run=breaks_on_odd_seeds, progress=Progress())
    odd = {run.run_id for run in runs if run.seed % 2}
    assert {failure.run_id for failure in outcome.failures} == odd
    rows = {row.run_id: row for row in Tables(spark, out)["runs"].collect()}
    assert Counter(row.status for row in rows.values()) == {"done": 2, "error": 2}
    failure = outcome.failures[0]
    assert failure.error == "ZeroDivisionError: odd"
    assert "breaks_on_odd_seeds" in rows[failure.run_id].error  # where it happened
    words = shlex.split(failure.replay)
    assert words == ["shoal", "simulate", "--replay", failure.run_id, "--out", str(out)]
    assert find_configuration(out, failure.run_id).seed % 2

    # Left alone until asked for, and then done for good.
    again = sweep(spark, runs, out, progress=Progress())
    assert (again.simulated, len(again.failures)) == (0, 2)
    retried = sweep(spark, runs, out, retry=True, progress=Progress())
    assert (retried.simulated, retried.failures) == (2, [])
    assert run_ids(spark, out) == Counter(run.run_id for run in runs)


def test_a_broken_promise_is_a_row_too(spark: SparkSession, out: Path) -> None:
    def breaks_a_promise(config: RunConfig) -> RunResult:
        raise InvariantViolation("event 0/0 delivered twice")

    outcome = sweep(spark, small_plan(1), out, run=breaks_a_promise, progress=Progress())
    row = Tables(spark, out)["runs"].collect()[0]
    assert row.error == "InvariantViolation: event 0/0 delivered twice"
    assert row.replay == outcome.failures[0].replay
    assert parse_config(json.loads(row.configuration)).nodes == row.nodes == 8


def test_a_run_that_kills_its_worker_is_tried_twice_and_then_given_up(
    spark: SparkSession, out: Path, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    tries.mkdir()

    def deadly(config: RunConfig) -> RunResult:
        if config.seed in (1, 2, 4):
            (tries / f"{config.seed}-{time.time_ns()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(config)

    runs = small_plan(6)
    outcome = sweep(spark, runs, out, run=deadly, progress=Progress())
    status = {row.seed: row.status for row in Tables(spark, out)["runs"].collect()}
    assert status == {0: "done", 1: "crashed", 2: "crashed", 3: "done", 4: "crashed", 5: "done"}
    assert Counter(p.name[0] for p in tries.iterdir()) == {"1": 2, "2": 2, "4": 2}
    assert all("the process that ran it died" in f.error for f in outcome.failures)
    assert run_ids(spark, out) == Counter(run.run_id for run in runs)


def test_a_worker_lost_once_is_forgiven(spark: SparkSession, out: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def unlucky(config: RunConfig) -> RunResult:
        if config.seed == 2 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(config)

    outcome = sweep(spark, small_plan(4), out, run=unlucky, progress=Progress())
    assert killed.exists()
    assert (outcome.simulated, outcome.failures) == (4, [])


def test_a_damaged_table_is_removed_simulated_again_and_said(
    spark: SparkSession, out: Path
) -> None:
    runs = small_plan(3)
    sweep(spark, runs, out, progress=Progress())
    store = Store(out)
    hurt = store.path("publications", runs[1].run_id)
    whole = pq.read_table(hurt)
    hurt.write_bytes(hurt.read_bytes()[:100])
    unfinished = store.path("runs", runs[2].run_id)
    unfinished.unlink()
    heard = Heard()
    outcome = sweep(spark, runs, out, progress=heard)
    assert (outcome.simulated, outcome.reused) == (2, 1)
    assert any("1 damaged run" in note and runs[1].run_id in note for note in heard.notes)
    assert any("remains of 1 run cut short" in note for note in heard.notes)
    assert pq.read_table(hurt).equals(whole)
    assert run_ids(spark, out) == Counter(run.run_id for run in runs)


def test_a_worker_that_cannot_write_ends_the_sweep_with_one_line(
    spark: SparkSession, out: Path
) -> None:
    def spoils_the_folder(config: RunConfig) -> RunResult:
        shutil.rmtree(out / "tables" / "links", ignore_errors=True)
        return simulate(config)

    with pytest.raises(PipelineError) as refused:
        sweep(spark, small_plan(2), out, run=spoils_the_folder, progress=Progress())
    assert "cannot write to" in refused.value.cause
    assert "--out" in refused.value.cure
    assert sweep(spark, small_plan(2), out, progress=Progress()).simulated == 2


def test_an_unwritable_folder_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for act in (
        lambda: sweep(spark, small_plan(1), tmp_path / "file", progress=Progress()),
        lambda: write_plan(small_plan(1), tmp_path / "file"),
    ):
        with pytest.raises(PipelineError, match="cannot write to"):
            act()


def test_an_unknown_run_cannot_be_replayed(spark: SparkSession, out: Path) -> None:
    sweep(spark, small_plan(1), out, progress=Progress())
    with pytest.raises(PipelineError, match="no run 'zzz'"):
        find_configuration(out, "zzz")


def test_estimates_follow_what_runs_took(spark: SparkSession, out: Path) -> None:
    def as_if_slow(config: RunConfig) -> RunResult:
        result = simulate(config)
        fields = {name: getattr(result, name) for name in RunResult.__dataclass_fields__}
        return RunResult(**{**fields, "wall_seconds": 5.0})

    sweep(spark, small_plan(2), out, run=as_if_slow, progress=Progress())
    store = Store(out)
    larger = plan(
        [Experiment("l", "L", {"nodes": 16, "routing": {"name": "event-forwarding"}}, {"EF": {}})],
        seeds=1,
    )
    pending = [*small_plan(4)[2:], *larger]
    estimates = refined(pending, store, store.inventory())
    assert estimates[pending[0].run_id] == 5.0
    # The other was never run: its own estimate, as far off as the others were.
    assert estimates[larger[0].run_id] == pytest.approx(
        larger[0].estimate * 5.0 / pending[0].estimate
    )


def test_the_time_left_is_corrected_for_each_variant_by_its_own_runs() -> None:
    def planned(experiment: str, variant: str, seed: int) -> PlannedRun:
        name = f"{experiment}{variant}{seed}"
        return PlannedRun(name, experiment, variant, None, "{}", seed, "{}", 10.0)

    pending = [planned(e, v, seed) for e in "ab" for v in "xy" for seed in range(3)]

    class Clock:
        """A store in which runs of ``ax`` took 1 s, of ``ay`` 40 s, and one failed."""

        def wall_seconds(self, run: str) -> float | None:
            return {"ax": 1.0, "ay": 40.0}.get(run[:2])

    remaining = Remaining(pending, {p.run_id: p.estimate for p in pending}, Clock())
    assert remaining.without(set()) == 120.0
    assert remaining.without({"ax0"}) == pytest.approx(11.0)  # all that is known: a tenth
    # Each variant by its own; those of b by all that is known: 41 s in place of 20.
    assert remaining.without({"ax0", "ay0"}) == pytest.approx(2 + 80 + 60 * 41 / 20)
    assert remaining.without({"ax0", "ay0", "bx0"}) == pytest.approx(2 + 80 + 50 * 41 / 20)
    assert remaining.without({p.run_id for p in pending}) == pytest.approx(0.0)


def test_bins_hold_two_seconds_longest_first() -> None:
    estimates = {f"{i:04}": 0.1 for i in range(640)} | {"long": 30.0}
    made = bins(estimates, cores=2)
    assert made[0] == ["long"]
    assert {len(b) for b in made[1:]} == {20}
    assert sorted(run for b in made for run in b) == sorted(estimates)
    # A short sweep still keeps all cores busy.
    assert len(bins({f"{i}": 0.1 for i in range(12)}, cores=2)) == 6
    assert bins({"only": 0.0}, cores=8) == [["only"]]
