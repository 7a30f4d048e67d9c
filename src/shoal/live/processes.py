"""Brokers as processes of their own, on this machine: for tests of faults and ``shoal chaos``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.live.errors import LiveError

FIRST_PORT, LAST_PORT = 22_000, 32_000


def free_port() -> int:
    """A port that nobody uses just now and that no outgoing connection is given.

    Such a connection could hold the port of a broker that is killed when that one starts again.
    """
    try:
        given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        last = int(given[0])
    except (OSError, ValueError, IndexError):
        last = LAST_PORT
    for _ in range(1000):
        port = random.randrange(max(1024, last - 10_000), last)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise LiveError("no free port was found on 127.0.0.1; stop what uses them")


def as_arguments(settings: dict[str, Any], section: str = "") -> list[str]:
    """Settings as options of ``shoal broker``."""
    found: list[str] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found += as_arguments(value, f"{section}{name}.")
        else:
            found.append(f"--set={section}{name}={json.dumps(value)}")
    return found


class BrokerProcess:
    """A broker in a process of its own, which can be stopped, killed and started again."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        host: str = "127.0.0.1",
        *,
        prefix: Sequence[str] = (),
        address: str = "",
    ) -> None:
        self.name = name
        self.address = address or f"{host}:{free_port()}"
        self.command = [*prefix, sys.executable, "-m", "shoal", "broker", "--name", name]
        self.command += [*arguments, "--listen", self.address]
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `close`
        """Standard error of the process."""
        paths = [path for path in sys.path if path]
        self.environment = {**os.environ, "PYTHONPATH": ":".join(paths), "PYTHONUNBUFFERED": "1"}
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        self.process = subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.PIPE, stderr=self.said, text=True
        )

    def listens(self) -> None:
        """Wait until it does."""
        assert self.process.stdout is not None
        if " listens on " not in self.process.stdout.readline():
            raise LiveError(f"broker '{self.name}' does not start: {self.words().strip()}")

    async def listening(self) -> None:
        """Wait until it listens, while other tasks go on."""
        await asyncio.to_thread(self.listens)

    async def ended(self, seconds: float) -> None:
        """Wait until it has ended, while other tasks go on."""
        await asyncio.to_thread(self.process.wait, seconds)

    def words(self) -> str:
        """Text on standard error so far."""
        self.said.seek(0)
        return self.said.read()

    @property
    def running(self) -> bool:
        """Whether the process is there, also if it is stopped."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; a killed one is gone when this returns."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(10)

    def descriptors(self) -> int:
        """Files and sockets that it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        """Bytes of resident memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise LiveError(f"broker '{self.name}' is gone")

    def close(self) -> None:
        """Kill it if it still runs, and let go of everything."""
        if self.running:
            self.signal(signal.SIGKILL)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.said.close()
