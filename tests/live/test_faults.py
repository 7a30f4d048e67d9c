"""Trouble for real: processes killed, stopped and cut apart under load, judged by their logs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from live_world import graph_tables, links_of, run, tables_of, tree_tables, until

import shoal
from shoal.live.client import Bus
from shoal.live.status import Status
from shoal.pipeline.live_logs import gather
from shoal.testing import QUICK

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}
BROKERS = 21
FAST = [
    f"--set={key}={list(value) if isinstance(value, tuple) else value}"
    for key, value in {**QUICK, "heartbeat": 0.4, "forget": 6.0, "rotate": 0.5}.items()
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
            self.process.wait(10)

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

    async def quiet(self, numbers: list[int], base: int) -> None:
        """Publish when all is quiet: everybody who wants an event gets it exactly once.

        On a machine that is short of time a link may be given up meanwhile: then it was not quiet,
        and is tried again.
        """
        for attempt in range(4):
            began = time.monotonic()
            first = base + 100 * attempt
            for i, number in enumerate(numbers):
                await self.buses[number].publish(n=first + i, kind=i % 5)
            events = range(len(numbers))
            wanted = {n: {first + i for i in events if i % 5 == n % 5} for n in numbers}
            try:
                await until(partial(self._has, wanted), "what was published in quiet is there", 6)
            except AssertionError:
                elapsed = time.monotonic() - began
                states = await self.states(numbers)
                if attempt < 3 and any(li.since < elapsed for s in states for li in s.links):
                    await asyncio.sleep(2)
                    continue
                raise
            await asyncio.sleep(0.3)
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
                process.process.wait(10)
            except subprocess.TimeoutExpired:
                process.process.kill()
            process.said.close()


def _attributes(event: Any) -> Any:
    from shoal.content import Attributes

    return Attributes(dict(event.attributes))


async def tables_are_right(fleet: Fleet, numbers: list[int], horizon: int) -> None:
    """Until every table is the oracle's for the links there are."""
    wrong = ""

    async def right() -> bool:
        nonlocal wrong
        states = await fleet.states(numbers)
        try:
            links = links_of(states)
        except AssertionError as error:
            wrong = str(error)
            return False
        wants = {n: {f"kind = {n % 5}"} for n in numbers}
        expected = graph_tables(links, wants, horizon) if horizon else tree_tables(links, wants)
        found = tables_of(states)
        wrong = str([n for n in numbers if found[n] != expected[n]])
        return found == expected

    try:
        await until(right, "tables are the oracle's", 40)
    except AssertionError as error:
        raise AssertionError(f"{error}: {wrong}") from None


async def degrees_are_near(fleet: Fleet, numbers: list[int], degree: int) -> None:
    """Until everybody has ``degree`` neighbours, give or take one.

    A broker that makes room for another one leaves a third with a neighbour less for a while.
    """
    found: dict[int, int] = {}

    async def near() -> bool:
        states = await fleet.states(numbers)
        found.update((state.node, len(state.links)) for state in states)
        return all(abs(number - degree) <= 1 for number in found.values())

    try:
        await until(near, "degrees are near the one asked for", 30)
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None


def logs_are_right(logs: Path, out: Path) -> None:
    """From the recordings alone: nobody got what he did not want, nor anything twice."""
    gather([logs], out)
    deliveries = ds.dataset(out / "tables" / "deliveries").to_table().to_pylist()
    assert deliveries
    twice = Counter((d["publisher"], d["sequence"], d["node"]) for d in deliveries)
    assert max(twice.values()) == 1
    contents: dict[tuple[int, int], int] = {}
    import json

    for note in ds.dataset(out / "tables" / "notes").to_table().to_pylist():
        if note["what"] == "published":
            sequence, content = json.loads(note["value"])
            contents[note["node"], sequence] = content[1]["kind"]
    for d in deliveries:
        kind = contents.get((d["publisher"], d["sequence"]))
        assert kind is None or kind == d["node"] % 5, d


def test_a_tree_of_21_processes_killed_and_stopped_under_load(tmp_path: Path) -> None:
    async def story() -> None:
        fleet = Fleet()
        arguments = ["--routing", "subscription-forwarding", "--record", str(tmp_path / "logs")]
        try:
            for n in range(BROKERS):
                parent = [] if not n else ["--link", fleet.processes[(n - 1) // 2].address]
                fleet.add([*arguments, *parent])
            for process in fleet.processes:
                process.listens()
            everybody = list(range(BROKERS))
            for n in everybody:
                await fleet.follow(n, f"kind = {n % 5}")
            await tables_are_right(fleet, everybody, horizon=0)
            await fleet.quiet(everybody, 1000)
            before = [p.descriptors() for p in fleet.processes]
            load = asyncio.create_task(fleet.load([0, 7, 12, 20]))
            for victim, other in ((3, 8), (1, 9)):
                fleet.processes[other].signal(signal.SIGSTOP)
                fleet.processes[victim].signal(signal.SIGKILL)
            await asyncio.sleep(3)
            for victim, other in ((3, 8), (1, 9)):
                fleet.processes[victim].start()
                fleet.processes[victim].listens()
                fleet.processes[other].signal(signal.SIGCONT)
            load.cancel()
            await tables_are_right(fleet, everybody, horizon=0)
            await fleet.quiet(everybody, 2000)
            pairs = list(zip(fleet.processes, before, strict=True))
            await until(
                lambda: all(process.descriptors() <= then for process, then in pairs),
                "descriptors are back where they were",
            )
        finally:
            await fleet.close()

    run(story(), 150)
    logs_are_right(tmp_path / "logs", tmp_path / "out")


BRIDGE = f"shoal{os.getpid() % 10_000}"


@pytest.fixture
def cut_network() -> Iterator[list[tuple[str, str]]]:
    """Two network namespaces on a bridge: (name, address) each; skipped where there are none."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("bridge") is None:
        pytest.skip("network namespaces need root and iproute2")
    made: list[list[str]] = []
    try:
        try:
            ip("link", "add", BRIDGE, "type", "bridge")
            made.append(["link", "del", BRIDGE])
            ip("addr", "add", "10.213.77.1/24", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            found = []
            for side in (1, 2):
                name, port, inner = f"{BRIDGE}n{side}", f"{BRIDGE}p{side}", f"{BRIDGE}i{side}"
                address = f"10.213.77.{10 + side}"
                ip("netns", "add", name)
                made.append(["netns", "del", name])
                ip("link", "add", port, "type", "veth", "peer", "name", inner)
                ip("link", "set", inner, "netns", name)
                ip("link", "set", port, "master", BRIDGE, "up")
                ip("-n", name, "addr", "add", f"{address}/24", "dev", inner)
                ip("-n", name, "link", "set", inner, "up")
                ip("-n", name, "link", "set", "lo", "up")
                found.append((name, address))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield found
    finally:
        for words in reversed(made):
            subprocess.run(["ip", *words], check=False, capture_output=True)


def isolate(yes: bool) -> None:
    """Cut the two sides apart; both still reach the test."""
    for side in (1, 2):
        words = ["link", "set", "dev", f"{BRIDGE}p{side}", "isolated", "on" if yes else "off"]
        subprocess.run(["bridge", *words], check=True, capture_output=True)


def test_a_graph_of_21_processes_cut_apart_and_killed_under_load(
    tmp_path: Path, cut_network: list[tuple[str, str]]
) -> None:
    async def story() -> None:
        fleet = Fleet()
        arguments = ["--record", str(tmp_path / "logs"), "--degree", "4"]
        arguments += ["--set", "routing.name=semi-probabilistic", "--set", "routing.horizon=3"]
        arguments += ["--set", "routing.threshold=1.0"]
        try:
            for n in range(BROKERS):
                name, host = cut_network[n % 2]
                join = [] if not n else ["--join", fleet.processes[0].address]
                fleet.add([*arguments, *join], host, name)
            for process in fleet.processes:
                process.listens()
            everybody = list(range(BROKERS))
            for n in everybody:
                await fleet.follow(n, f"kind = {n % 5}")
            await tables_are_right(fleet, everybody, horizon=3)
            await fleet.quiet(everybody, 1000)
            load = asyncio.create_task(fleet.load([0, 7, 12, 19]))
            recorded = tmp_path / "logs" / "tables" / "deliveries"
            await until(
                lambda: len({p.name.split("-")[0] for p in recorded.glob("[!.]*")}) == BROKERS,
                "all have recorded something, and loaded what that takes",
                20,
            )
            started = time.monotonic()
            memory = [p.memory() for p in fleet.processes]
            isolate(True)
            fleet.processes[4].signal(signal.SIGKILL)
            fleet.processes[5].signal(signal.SIGKILL)
            await asyncio.sleep(5)
            states = await fleet.states([n for n in everybody if n not in (4, 5)])
            sides = {state.node: state.node % 2 for state in states}
            for state in states:  # really cut
                assert all(sides.get(link.node) == state.node % 2 for link in state.links), state
            isolate(False)
            await asyncio.sleep(1)
            load.cancel()
            rest = [n for n in everybody if n not in (4, 5)]
            for gone in (4, 5):
                await fleet.buses.pop(gone).close()

            async def whole() -> bool:
                states = await fleet.states(rest)
                return any(link.node % 2 != s.node % 2 for s in states for link in s.links)

            await until(whole, "the two sides have found each other", 20)
            await degrees_are_near(fleet, rest, 4)
            await tables_are_right(fleet, rest, horizon=3)
            await fleet.quiet(rest, 2000)
            states = await fleet.states(rest)
            assert all(not {4, 5} & {link.node for link in s.links} for s in states)
            grown = [fleet.processes[n].memory() - memory[n] for n in rest]
            assert max(grown) < 16 << 20, f"{grown} after {time.monotonic() - started:.0f} s"
        finally:
            isolate(False)
            await fleet.close()

    run(story(), 150)
    logs_are_right(tmp_path / "logs", tmp_path / "out")
