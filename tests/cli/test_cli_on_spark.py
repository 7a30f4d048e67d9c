"""``shoal advise`` and ``shoal report``: results on standard output, progress on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shoal.cli.main import run
from shoal.pipeline.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCENARIO = """\
nodes = 10
duration = 2.0
topology = {name = "full-mesh", joining = 0.2}
overlay = {name = "lstree"}
"""


@pytest.fixture(autouse=True)
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands use the session that all tests share."""

    @contextmanager
    def session(master: str) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("shoal.pipeline.spark.session.spark_session", session)


def test_advise_says_what_it_does_and_recommends(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    command = ["advise", str(file), "--seeds", "2", "--out", str(out)]
    assert run(command) == 0
    first = capsys.readouterr()
    starting, kernels, planned, simulated, measuring = first.err.splitlines()
    assert starting == "Starting Spark …"
    assert kernels.startswith("Preparing kernels")
    assert planned.startswith(f"{simulated.partition(' of')[0]} runs to simulate")
    assert measuring == "Measuring …"
    assert run([*command, "--json"]) == 0
    again = capsys.readouterr()
    assert again.err.splitlines() == ["Starting Spark …", "Measuring …"]  # all was there
    found = json.loads(again.out)
    title, head, *rows, recommended = first.out.splitlines()
    assert title.startswith("Candidates, best first (mean of 2 seeds ± 95%)")
    assert head.split()[:2] == ["stack", "delivery"]
    assert [row.partition("  ")[0] for row in rows] == [c["name"] for c in found["candidates"]]
    assert recommended.startswith(f"Recommended: {found['recommended']}")
    assert found["seeds"] == 2


def test_what_failed_is_reproduced_again_if_asked(
    out: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    monkeypatch.setattr("shoal.pipeline.reproduce.spark_session", lambda *_: nullcontext(spark))
    command = ["reproduce", "dps", "--claim", "D-INV-GROUP-EX", "--out", str(out)]
    assert run(command) == 0
    whole, *_ = (out / "tables" / "runs").glob("*.parquet")
    (row,) = pq.read_table(whole).to_pylist()
    Store(out).write_failure(row["run_id"], {**row, "status": "error", "error": "odd"})
    whole.unlink()
    capsys.readouterr()
    assert run(command) == 0
    assert "1 runs failed; the report lists how to replay them, --retry" in capsys.readouterr().err
    assert run([*command, "--retry", "--check"]) == 0
    assert "failed" not in capsys.readouterr().err


def test_report_says_what_it_measures(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = tmp_path / "numbers.json"
    assert run(["simulate", "--nodes", "10", "--duration", "2", "--out", str(out)]) == 0
    capsys.readouterr()
    asked = ["--measure", "delivery", "--measure", "recovery_delay"]
    assert run(["report", str(out), *asked, "--json", str(numbers)]) == 0
    said = capsys.readouterr()
    starting, *measuring = said.err.splitlines()
    assert starting == "Starting Spark …"
    assert measuring
    assert all(line.startswith("Measuring: ") for line in measuring)
    (row,) = json.loads(numbers.read_text())
    title, head, shown = said.out.splitlines()
    assert title.split() == ["What", "happened"]
    assert head.split() == ["run", "stack", "delivery", "recovery_delay"]
    # A measure that does not apply is a dash, and no number in the file.
    assert shown.split()[0] == row["run"]
    assert shown.split()[-2:] == [f"{row['delivery']:.4g}", "–"]
    assert "recovery_delay" not in row
