"""LSTree on real brokers: leaf, inner node and root are killed, one is stopped; one tree again."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path

from fleet import Fleet
from live_world import run, until
from test_faults import logs_are_right, tables_are_right

from shoal.live.status import Status
from shoal.stack import LOCAL
from shoal.stack.layer import shown_parent

BROKERS = 8
ROOT = shown_parent(LOCAL, True)


def parents(states: list[Status]) -> dict[int, object]:
    """Per broker its parent, or that it is the root, as an operator sees it."""
    return {state.node: (state.overlay or {})["parent"] for state in states}


async def one_tree(fleet: Fleet, numbers: list[int]) -> dict[int, object]:
    """Until these brokers are one tree; who is whose parent."""
    found: dict[int, object] = {}

    async def whole() -> bool:
        found.clear()
        found.update(parents(await fleet.states(numbers)))
        above = list(found.values())
        return above.count(ROOT) == 1 and all(p == ROOT or p in found for p in above)

    try:
        await until(whole, "there is one tree")
    except AssertionError as error:
        raise AssertionError(f"{error}: {found}") from None
    return found


def test_leaves_inner_nodes_and_roots_are_killed_and_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        fleet = Fleet()
        arguments = ["--overlay", "lstree", "--set", "overlay.max_degree=3"]
        arguments += ["--reconfiguration", "timed", "--record", str(tmp_path / "logs")]
        try:
            for n in range(BROKERS):
                join = ["--join", fleet.processes[0].address] if n else []
                fleet.add([*arguments, *join])
            for process in fleet.processes:
                process.listens()
            everybody = list(range(BROKERS))
            for n in everybody:
                await fleet.follow(n, f"kind = {n % 5}")
            right = partial(tables_are_right, fleet, everybody, horizon=0)
            above = await one_tree(fleet, everybody)
            await fleet.quiet(everybody, 1000, right)
            load = asyncio.create_task(fleet.load([2, 4, 6]))
            root = next(n for n in everybody if above[n] == ROOT)
            inner = next(n for n in everybody if n != root and n in above.values())
            leaf, still = [n for n in everybody if n != root and n not in above.values()][:2]
            for victim in (leaf, inner, root):
                fleet.processes[victim].signal(signal.SIGKILL)
                away = {victim}
                if victim == inner:
                    fleet.processes[still].signal(signal.SIGSTOP)
                    away.add(still)
                rest = [n for n in everybody if n not in away]
                await one_tree(fleet, rest)
                fleet.processes[still].signal(signal.SIGCONT)
                fleet.processes[victim].start()
                fleet.processes[victim].listens()
                await one_tree(fleet, everybody)
            load.cancel()
            await fleet.quiet(everybody, 2000, right)
        finally:
            await fleet.close()

    run(story())
    logs_are_right(tmp_path / "logs", tmp_path / "out")
