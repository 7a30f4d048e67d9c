"""Broker processes for the tests of faults, each perhaps in a network namespace, with a client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from live_world import until

import shoal
from patience import CONDITION
from shoal.live.client import Bus
from shoal.live.status import Status
from shoal.testing import QUICK

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}
FAST = [
    f"--set={key}={list(value) if isinstance(value, tuple) else value}"
    for key, value in {**QUICK, "heartbeat": 1.0, "forget": 6.0, "rotate": 0.5}.items()
]


def free_port() -> int:
    """A port that nobody uses just now and that no outgoing connection is given.

    Such a connection could hold the port of a broker that is killed when that one starts again.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(first - 10_000, first)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Process:
    """A broker in a process of its own, perhaps in a network namespace."""

    def __init__(self, number: int, arguments: list[str], host: str, namespace: str) -> None:
        self.number = number
        self.namespace = namespace
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.command = [*inside, sys.executable, "-m", "shoal", "broker", "--name", str(number)]
        self.command += [*arguments, *FAST]
        if namespace:
            self.command.append("--insecure")
        self.address = f"{host}:{free_port()}"
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the fleet)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self.command, "--listen", self.address],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )

    def listens(self) -> None:
        """Wait until it does."""
        assert self.process.stdout is not None
        if " listens on " not in self.process.stdout.readline():
            self.said.seek(0)
            raise AssertionError(f"{self.command}: {self.said.read()}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(CONDITION)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError(self.process.pid)


class Fleet:
    """Many broker processes and a client of each."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.buses: dict[int, Bus] = {}
        self.got: dict[int, Counter[int]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def add(self, arguments: list[str], host: str = "127.0.0.1", namespace: str = "") -> Process:
        process = Process(len(self.processes), arguments, host, namespace)
        self.processes.append(process)
        return process

    async def follow(self, number: int, filter: str) -> None:
        """A client at a broker that counts what it gets."""
        bus = await shoal.connect(self.processes[number].address, reconnect=(0.05, 0.3))
        self.buses[number] = bus
        got = self.got[number] = Counter()
        subscription = await bus.subscribe(filter).start()

        async def count() -> None:
            async for event in subscription:
                assert subscription.filter.matches(_attributes(event))
                got[int(event["n"])] += 1

        self.tasks.append(asyncio.create_task(count()))

    async def load(self, publishers: list[int]) -> None:
        """Publish without pause, from several brokers, events that nobody counts on."""
        n = 1_000_000
        while True:
            for number in publishers:
                n += 1
                try:
                    async with asyncio.timeout(0.5):
                        await self.buses[number].publish(n=n, kind=n % 5)
                except (shoal.live.LiveError, TimeoutError):  # killed or stopped just now
                    pass
            await asyncio.sleep(0.01)

    async def states(self, numbers: list[int]) -> list[Status]:
        return await asyncio.gather(*(self.buses[n].inspect(tables=True) for n in numbers))

    async def links(self, numbers: list[int]) -> dict[tuple[int, int], float]:
        """The links of these brokers and, for each, when it came up."""
        return {
            (state.node, link.node): state.time - link.since
            for state in await self.states(numbers)
            for link in state.links
        }

    async def unchanged(self, numbers: list[int], before: dict[tuple[int, int], float]) -> bool:
        """Whether the links are the very ones they were."""
        now = await self.links(numbers)
        return now.keys() == before.keys() and all(now[k] - before[k] < 0.5 for k in now)

    async def quiet(
        self, numbers: list[int], base: int, settled: Callable[[], Awaitable[None]]
    ) -> None:
        """Publish when all is quiet: everybody who wants an event gets it exactly once.

        On a machine that is short of time a link may be given up meanwhile: then it was not quiet,
        and is tried again once the network has settled.
        """
        for first in itertools.count(base, 100):
            await settled()
            before = await self.links(numbers)
            for i, number in enumerate(numbers):
                await self.buses[number].publish(n=first + i, kind=i % 5)
            events = range(len(numbers))
            wanted = {n: {first + i for i in events if i % 5 == n % 5} for n in numbers}

            async def decided(
                wanted: dict[int, set[int]] = wanted,
                before: dict[tuple[int, int], float] = before,
            ) -> bool:
                return self._has(wanted) or not await self.unchanged(numbers, before)

            await until(decided, "what was published in quiet is there")
            if self._has(wanted):
                for number, w in wanted.items():
                    assert all(self.got[number][n] == 1 for n in w), number
                return

    def _has(self, wanted: dict[int, set[int]]) -> bool:
        return all(events <= set(self.got[number]) for number, events in wanted.items())

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        for process in self.processes:
            if process.process.poll() is None:
                process.signal(signal.SIGCONT)
        await asyncio.gather(*(bus.close() for bus in self.buses.values()))
        for process in self.processes:
            process.process.terminate()
        for process in self.processes:
            try:
                process.process.wait(CONDITION)
            except subprocess.TimeoutExpired:
                process.process.kill()
            process.said.close()


def _attributes(event: Any) -> Any:
    from shoal.content import Attributes

    return Attributes(dict(event.attributes))
