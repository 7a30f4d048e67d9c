"""Invariants and exact counts of the papers: simulated, recorded, measured, judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLAIMS = {
    "frey-routing": (
        *("T2.4-a", "T2.4-c", "T3.3-b", "T5.2-c", "T5.2-j", "T5.2-l", "T5.2-m"),
        *("T6.1-b", "T6.2-d", "T6.3-b"),
    ),
    "costa-picco": ("S-F3-01", "S-F7-03"),
    "shopparent": (
        *("P-TAB1-R1", "P-TAB1-R2", "P-TAB1-R3", "P-TAB1-R4", "P-EX2-A", "P-EX2-B"),
        *("P-EX3-METRIC3", "P-EX3-METRIC5", "P-EX3-REPLIES", "P-EX3-CHOICE", "P-EX3-BEST"),
    ),
}


@pytest.fixture(scope="module", params=CLAIMS)
def paper(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(paper: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("claims") / "out"
    named = [word for claim in CLAIMS[paper] for word in ("--claim", claim)]
    command = [sys.executable, "-m", "shoal", "reproduce", paper, *named]
    done = subprocess.run(
        [*command, "--master", "local[2]", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.spark
def test_they_come_out_as_the_paper_says(paper: str, folder: Path) -> None:
    found = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    verdicts = {claim["id"]: claim["verdict"] for claim in found}
    assert verdicts == dict.fromkeys(CLAIMS[paper], "reproduced")
    assert set(found[0]) == {
        *("id", "verdict", "value", "low", "high", "expected", "seeds", "means_only", "why"),
        *(("readings", "others") if paper == "shopparent" else ()),
    }


@pytest.mark.spark
def test_the_report_is_beside_them(paper: str, folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(claim in page for claim in CLAIMS[paper])
