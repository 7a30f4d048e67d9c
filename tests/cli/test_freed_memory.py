"""What a broker's index no longer needs goes back to the operating system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys
from shoal.cli.broker import _return_freed_memory

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024

if sys.argv[1] == "yes":
    _return_freed_memory()
large = bytearray(16 << 20)  # once freed, the C library would no longer map anything smaller
del large
before = resident()
arrays, pins = [], []
for _ in range(1024):  # arrays come and go between things that stay
    arrays.append(bytearray(1 << 16))
    arrays[-1][::4096] = bytes(16)
    pins.append(ctypes.create_string_buffer(2000))
assert resident() - before > 48 << 20
arrays.clear()
print(resident() - before)
"""


def kept(asked: str) -> int:
    """Bytes that a process still has after it has freed 64 MiB."""
    command = [sys.executable, "-c", PROGRAM, asked]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that keeps memory")
def test_freed_arrays_are_returned() -> None:
    assert kept("yes") < 8 << 20
    assert kept("no") > 32 << 20, "without being told, the C library keeps it"
