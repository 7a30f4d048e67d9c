"""Worked examples and invariants of the thesis: simulated, recorded, measured, judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLAIMS = ("T2.4-a", "T2.4-c", "T3.3-b", "T5.2-c", "T5.2-j", "T5.2-l", "T5.2-m", "T6.1-b", "T6.3-b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("claims") / "out"
    named = [word for claim in CLAIMS for word in ("--claim", claim)]
    command = [sys.executable, "-m", "shoal", "reproduce", "frey-routing", *named]
    done = subprocess.run(
        [*command, "--master", "local[2]", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.spark
def test_they_come_out_as_the_thesis_says(folder: Path) -> None:
    found = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    assert {claim["id"]: claim["verdict"] for claim in found} == dict.fromkeys(CLAIMS, "reproduced")
    assert set(found[0]) == {"id", "verdict", "value", "low", "high", "expected", "seeds"}


@pytest.mark.spark
def test_the_report_is_beside_them(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(claim in page for claim in CLAIMS)
