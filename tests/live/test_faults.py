"""Trouble for real: processes killed, stopped and cut apart under load, judged by their logs."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from fleet import Fleet
from live_world import graph_tables, links_of, run, tables_of, tree_tables, until

from shoal.live import DisconnectedError
from shoal.pipeline.tables.live import gather

BROKERS = 21


async def tables_are_right(fleet: Fleet, numbers: list[int], horizon: int) -> None:
    """Until every table is the oracle's for the links there are."""
    wrong = ""

    async def right() -> bool:
        nonlocal wrong
        try:
            states = await fleet.states(numbers)
            links = links_of(states)
        except (AssertionError, DisconnectedError) as error:  # a client may have lost patience
            wrong = str(error)
            return False
        wants = {n: {f"kind = {n % 5}"} for n in numbers}
        expected = graph_tables(links, wants, horizon) if horizon else tree_tables(links, wants)
        found = tables_of(states)
        wrong = str([n for n in numbers if found[n] != expected[n]])
        return found == expected

    try:
        await until(right, "tables are the oracle's")
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
        await until(near, "degrees are near the one asked for")
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
        arguments = ["--overlay", "links", "--record", str(tmp_path / "logs")]
        try:
            for n in range(BROKERS):
                parent = [] if not n else ["--link", fleet.processes[(n - 1) // 2].address]
                fleet.add([*arguments, *parent])
            for process in fleet.processes:
                process.listens()
            everybody = list(range(BROKERS))
            for n in everybody:
                await fleet.follow(n, f"kind = {n % 5}")
            right = partial(tables_are_right, fleet, everybody, horizon=0)
            await fleet.quiet(everybody, 1000, right)
            before = [p.descriptors() for p in fleet.processes]
            load = asyncio.create_task(fleet.load([0, 7, 12, 20]))
            for victim, other in ((3, 8), (1, 9)):
                fleet.processes[other].signal(signal.SIGSTOP)
                fleet.processes[victim].signal(signal.SIGKILL)
            away = {1, 3, 8, 9}
            rest = [n for n in everybody if n not in away]

            async def noticed() -> bool:
                return not any(end in away for _, end in await fleet.links(rest))

            await until(noticed, "nobody is linked to who is killed or stopped")
            for stopped in (8, 9):
                fleet.processes[stopped].signal(signal.SIGCONT)
            for victim in (3, 1):
                fleet.processes[victim].start()
            for victim in (3, 1):
                fleet.processes[victim].listens()
            load.cancel()
            await fleet.quiet(everybody, 2000, right)
            pairs = list(zip(fleet.processes, before, strict=True))
            await until(
                lambda: all(process.descriptors() <= then for process, then in pairs),
                "descriptors are back where they were",
            )
        finally:
            await fleet.close()

    run(story())
    logs_are_right(tmp_path / "logs", tmp_path / "out")


BRIDGE = f"shoal{os.getpid() % 10_000}"


def free_subnet() -> str:
    """Three bytes of addresses that no interface here has.

    Another run of this test, or the bridge of one that was killed, would answer in place of ours.
    """
    shown = subprocess.run(["ip", "-o", "addr"], check=True, capture_output=True, text=True).stdout
    return next(s for s in (f"10.213.{n}" for n in range(256)) if f" {s}." not in shown)


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
            subnet = free_subnet()
            ip("link", "add", BRIDGE, "type", "bridge")
            made.append(["link", "del", BRIDGE])
            ip("addr", "add", f"{subnet}.1/24", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            found = []
            for side in (1, 2):
                name, port, inner = f"{BRIDGE}n{side}", f"{BRIDGE}p{side}", f"{BRIDGE}i{side}"
                address = f"{subnet}.{10 + side}"
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
        arguments = ["--overlay", "graph", "--record", str(tmp_path / "logs"), "--degree", "4"]
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
            await fleet.quiet(everybody, 1000, partial(tables_are_right, fleet, everybody, 3))
            load = asyncio.create_task(fleet.load([0, 7, 12, 19]))
            recorded = tmp_path / "logs" / "tables" / "deliveries"
            await until(
                lambda: len({p.name.split("-")[0] for p in recorded.glob("[!.]*")}) == BROKERS,
                "all have recorded something, and loaded what that takes",
            )
            started = time.monotonic()
            memory = [p.memory() for p in fleet.processes]
            isolate(True)
            fleet.processes[4].signal(signal.SIGKILL)
            fleet.processes[5].signal(signal.SIGKILL)
            rest = [n for n in everybody if n not in (4, 5)]

            async def cut() -> bool:
                links = await fleet.links(rest)
                return all(end in rest and (node - end) % 2 == 0 for node, end in links)

            await until(cut, "no link crosses the cut or leads to who is killed")
            isolate(False)
            await asyncio.sleep(1)
            load.cancel()
            for gone in (4, 5):
                await fleet.buses.pop(gone).close()

            async def whole() -> bool:
                states = await fleet.states(rest)
                return any(link.node % 2 != s.node % 2 for s in states for link in s.links)

            await until(whole, "the two sides have found each other")
            await degrees_are_near(fleet, rest, 4)
            await fleet.quiet(rest, 2000, partial(tables_are_right, fleet, rest, 3))
            states = await fleet.states(rest)
            assert all(not {4, 5} & {link.node for link in s.links} for s in states)
            grown = [fleet.processes[n].memory() - memory[n] for n in rest]
            assert max(grown) < 16 << 20, f"{grown} after {time.monotonic() - started:.0f} s"
        finally:
            isolate(False)
            await fleet.close()

    run(story())
    logs_are_right(tmp_path / "logs", tmp_path / "out")
