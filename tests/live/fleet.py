"""Broker processes for the tests of faults, each perhaps in a network namespace, with a client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from live_world import until

import shoal
from patience import STORY
from shoal.live.client import Bus
from shoal.live.processes import BrokerProcess
from shoal.live.status import Status

FAST = ["--set=heartbeat=1.0", "--set=rotate=0.5"]
GRAPH = ["shuffle=0.1", "heal=0.5", "forget=6.0"]
DPS = ["interval=[2.0, 4.0]", "timeout=1.5", "shuffle=1.0"]
TREE = ["reconnect=[0.02, 0.5]", "look=1.0"]


class Fleet:
    """Many broker processes and a client of each."""

    def __init__(self) -> None:
        self.processes: list[BrokerProcess] = []
        self.buses: dict[int, Bus] = {}
        self.got: dict[int, Counter[int]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def add(
        self, arguments: list[str], host: str = "127.0.0.1", namespace: str = ""
    ) -> BrokerProcess:
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        named = {"links": TREE, "graph": GRAPH}
        parameters = next((named[word] for word in arguments if word in named), [])
        overlay = [f"--set=overlay.{parameter}" for parameter in parameters]
        if "dps" in arguments:  # there is no overlay
            overlay = [f"--set=routing.{parameter}" for parameter in DPS]
        arguments = [*arguments, *FAST, *overlay, *(["--insecure"] if namespace else [])]
        process = BrokerProcess(str(len(self.processes)), arguments, host, prefix=inside)
        self.processes.append(process)
        return process

    async def follow(self, number: int, filter: str) -> None:
        """A client at a broker that counts what it gets."""
        address = self.processes[number].address
        # By its name, so that it waits for its broker rather than turn to another.
        bus = await shoal.connect(address, broker=str(number), reconnect=(0.05, 0.3))
        self.buses[number] = bus
        got = self.got[number] = Counter()
        subscription = await bus.subscribe(filter).start()

        async def count() -> None:
            async for event in subscription:
                assert subscription.filter.matches(_attributes(event))
                got[int(event["n"] or 0)] += 1

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
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.process.wait(STORY)
            process.close()


def _attributes(event: Any) -> Any:
    from shoal.content import Attributes

    return Attributes(dict(event.attributes))
