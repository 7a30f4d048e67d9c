"""The notebook runs from top to bottom, and shows what it shows now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "first-simulation.ipynb"


def test_every_cell_runs_and_was_executed() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {}
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    shown = "".join("".join(output.get("text", "")) for cell in code for output in cell["outputs"])
    for name, run in names["runs"].items():
        assert f"{name:10} {run.summary().delivery:.1%} delivered" in shown
    assert any("image/png" in output.get("data", {}) for c in code for output in c["outputs"])
