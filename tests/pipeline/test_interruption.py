"""A sweep that is stopped, politely or not, goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from slow_sweep import small_plan

from patience import CONDITION, STORY
from shoal.cli.main import run
from shoal.pipeline.plan.experiment import write_plan
from shoal.pipeline.progress import Progress
from shoal.pipeline.simulate.sweep import sweep
from shoal.pipeline.tables.dataframes import Tables
from shoal.pipeline.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("slow_sweep.py")
RUNS = 40


def start(out: Path, seconds: float, master: str = "local[2]") -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, SCRIPT, out, master, str(RUNS), str(seconds)]
    return subprocess.Popen(
        [str(word) for word in command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], store: Store, runs: int) -> None:
    """Until so many runs are done."""
    until = time.monotonic() + CONDITION
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.fail(f"the sweep ended by itself: {process.communicate()}")
        if (store.tables / "runs").exists() and len(store.finished()[0]) >= runs:
            return
        time.sleep(0.05)
    process.kill()
    pytest.fail("the sweep did not get going")


def test_a_killed_sweep_loses_only_the_runs_in_flight(spark: SparkSession, out: Path) -> None:
    store = Store(out)
    process = start(out, 0.2)
    wait_for(process, store, 6)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=CONDITION)
    assert not alive, "its workers notice"
    kept = store.inventory()
    assert 6 <= len(kept.done) < RUNS
    assert not kept.damaged
    outcome = sweep(spark, small_plan(RUNS), out, progress=Progress())
    assert outcome.reused == len(kept.done)
    assert outcome.simulated == RUNS - len(kept.done)
    rows = Tables(spark, out)["runs"].select("run_id").collect()
    assert Counter(row.run_id for row in rows) == Counter(r.run_id for r in small_plan(RUNS))


def test_ctrl_c_leaves_whole_tables_and_says_how_to_go_on(spark: SparkSession, out: Path) -> None:
    store = Store(out)
    process = start(out, 0.2)
    wait_for(process, store, 4)
    process.send_signal(signal.SIGINT)
    said, complained = process.communicate(timeout=STORY)
    assert process.returncode == 130
    assert said == ""
    last = complained.splitlines()[-1]
    assert last.startswith("stopped: ")
    assert str(out) in last
    assert "the same command goes on from there" in last
    assert "Traceback" not in complained
    assert "WARN" not in complained

    kept = store.inventory()
    assert f"stopped: {len(kept.done)} of {RUNS} runs" in last
    assert not kept.rubbish
    assert not kept.damaged
    assert not kept.unfinished
    assert store.attempts() == {}
    # Each run that is there is whole.
    tables = Tables(spark, out)
    per_run = Counter(row.run_id for row in tables["publications"].select("run_id").collect())
    assert set(per_run) == kept.done
    assert set(per_run.values()) == {8}
    outcome = sweep(spark, small_plan(RUNS), out, progress=Progress())
    assert (outcome.reused, outcome.simulated) == (len(kept.done), RUNS - len(kept.done))


def test_a_second_sweep_in_the_same_folder_waits_its_turn(spark: SparkSession, out: Path) -> None:
    store = Store(out)
    store.prepare()
    with store.lock():
        process = start(out, 0.0, "local[1]")
        _, complained = process.communicate(timeout=STORY)
    assert process.returncode == 2
    assert complained.splitlines()[-1].startswith("another sweep is writing to")


def test_the_plan_of_a_sweep_under_way_stays(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(out)
    store.prepare()
    write_plan(small_plan(1), out)
    planned = (out / "plan.parquet").read_bytes()
    file = tmp_path / "sizes.toml"
    file.write_text("[experiment]\nname = 'x'\n[sweep]\nnodes = [10]\n[variants.A]\n")
    with store.lock():
        for command in (["reproduce", "frey-routing"], ["sweep", str(file)]):
            assert run([*command, "--out", str(out)]) == 2
            assert "another sweep is writing to" in capsys.readouterr().err
    assert (out / "plan.parquet").read_bytes() == planned
