"""LSTree on real brokers: leaf, inner node and root are killed, one is stopped; one tree again."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from pathlib import Path

from fleet import Fleet
from live_world import run, until
from test_faults import logs_are_right, tables_are_right

from shoal.live.errors import LiveError
from shoal.live.status import Status
from shoal.stack import LOCAL
from shoal.stack.layer import shown_parent

BROKERS = 24
ROOT = shown_parent(LOCAL, True)


def parents(states: list[Status]) -> dict[int, object]:
    """Per broker its parent, or that it is the root, as an operator sees it."""
    return {state.node: (state.overlay or {})["parent"] for state in states}


async def one_tree(fleet: Fleet, numbers: list[int]) -> dict[int, object]:
    """Until these brokers are one tree; who is whose parent."""
    found: dict[int, object] = {}

    async def whole() -> bool:
        found.clear()
        try:
            found.update(parents(await fleet.states(numbers)))
        except LiveError:  # a client that has just come back to its broker
            return False
        above = list(found.values())
        return above.count(ROOT) == 1 and all(p == ROOT or p in found for p in above)

    try:
        await until(whole, "there is one tree")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    return found


async def timed(fleet: Fleet, numbers: list[int], what: str) -> dict[int, object]:
    """Until these brokers are one tree; how long that took is shown, and decides nothing."""
    began = time.monotonic()
    above = await one_tree(fleet, numbers)
    print(f"{what}: one tree of {len(numbers)} after {time.monotonic() - began:.2f} s")
    return above


def test_leaves_inner_nodes_and_roots_are_killed_and_stopped(tmp_path: Path) -> None:
    """24 brokers with default timers; then a quarter of them at once."""

    async def story() -> None:
        fleet = Fleet()
        arguments = ["--record", str(tmp_path / "logs")]
        try:
            for n in range(BROKERS):
                join = ["--join", fleet.processes[n // 3].address] if n else []
                fleet.add([*arguments, *join])
            for process in fleet.processes:
                process.listens()
            everybody = list(range(BROKERS))
            for n in everybody:
                await fleet.follow(n, f"kind = {n % 5}")
            right = partial(tables_are_right, fleet, everybody, horizon=0)
            above = await timed(fleet, everybody, "started")
            await fleet.quiet(everybody, 1000, right)
            load = asyncio.create_task(fleet.load([2, 4, 6]))
            root = next(n for n in everybody if above[n] == ROOT)
            inner = next(n for n in everybody if n != root and n in above.values())
            leaves = [n for n in everybody if n != root and n not in above.values()]
            leaf, still, *others = leaves
            quarter = [root, inner, *others][: BROKERS // 4]
            for victims in ([leaf], [inner], [root], quarter):
                for victim in victims:
                    fleet.processes[victim].signal(signal.SIGKILL)
                away = set(victims)
                if victims == [inner]:
                    fleet.processes[still].signal(signal.SIGSTOP)
                    away.add(still)
                rest = [n for n in everybody if n not in away]
                await timed(fleet, rest, f"{len(victims)} killed")
                fleet.processes[still].signal(signal.SIGCONT)
                for victim in victims:
                    fleet.processes[victim].start()
                for victim in victims:
                    fleet.processes[victim].listens()
                await timed(fleet, everybody, "and back")
            load.cancel()
            await fleet.quiet(everybody, 2000, right)
        finally:
            await fleet.close()

    run(story())
    logs_are_right(tmp_path / "logs", tmp_path / "out")
