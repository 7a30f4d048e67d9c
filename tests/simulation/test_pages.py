"""Python's objects lie in large pages while networks are simulated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.content.native import extension

SCRIPT = """
import shoal.simulation
kept = [(n, str(n)) for n in range(500_000)]
flags = [line for line in open("/proc/self/smaps") if line.startswith("VmFlags:")]
assert any(" hg" in line for line in flags)
assert [text for _, text in kept] == [str(n) for n in range(500_000)]
del kept
assert sum(len(text) for text in [str(n) for n in range(1_000_000)]) == 5_888_890
"""


@pytest.mark.skipif(
    extension("simulation._pages") is None or not Path("/proc/self/smaps").exists(),
    reason="the extension is not built, or this is not Linux",
)
def test_objects_lie_in_large_pages_and_are_freed() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
