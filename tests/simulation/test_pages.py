"""Python's objects lie in large pages while large networks are simulated, and only then."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = """
from shoal.simulation import garbage

def large():
    flags = [line for line in open("/proc/self/smaps") if line.startswith("VmFlags:")]
    return any(" hg" in line for line in flags)

garbage.large_pages(garbage.MANY - 1)
kept = [(n, str(n)) for n in range(500_000)]
assert not large()
garbage.large_pages(garbage.MANY)
kept = [(n, str(n)) for n in range(500_000)]
assert large()
assert [text for _, text in kept] == [str(n) for n in range(500_000)]
del kept
assert sum(len(text) for text in [str(n) for n in range(1_000_000)]) == 5_888_890
"""


@pytest.mark.skipif(
    find_spec("shoal.simulation._pages") is None or not Path("/proc/self/smaps").exists(),
    reason="the extension is not built, or this is not Linux",
)
def test_objects_lie_in_large_pages_and_are_freed() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
