"""DPS live: broker processes whose leaders, co-leaders and whole groups are killed."""

from __future__ import annotations

import asyncio
import itertools
import signal

import pytest
from fleet import Fleet
from live_world import run, until

from shoal.routing.dps.dps import HEALING
from shoal.routing.dps.parameters import DpsParameters

KINDS = 5
"""Broker n wants the events of kind n % KINDS."""


async def delivered(fleet: Fleet, numbers: list[int], base: int) -> bool:
    """Whether an event from every broker reaches all who want it before the network gives up."""
    for i, number in enumerate(numbers):
        await fleet.buses[number].publish(n=base + i, kind=i % KINDS)
    wanted = {n: {base + i for i in range(len(numbers)) if i % KINDS == n % KINDS} for n in numbers}

    def there() -> bool:
        return all(events <= set(fleet.got[n]) for n, events in wanted.items())

    for _ in range(100):
        if there():
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize(("communication", "brokers"), [("leader", 20), ("epidemic", 10)])
def test_groups_heal_after_leaders_co_leaders_and_a_whole_group_are_killed(
    communication: str, brokers: int
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        fleet = Fleet()
        try:
            first = fleet.add(["--routing", "dps", f"--set=routing.communication={communication}"])
            for _ in range(1, brokers):
                fleet.add(
                    [
                        *("--routing", "dps", "--join", first.address),
                        f"--set=routing.communication={communication}",
                    ]
                )
            for process in fleet.processes:
                process.listens()
            for number in range(brokers):
                await fleet.follow(number, f"kind = {number % KINDS}")
            everybody = list(range(brokers))
            batches = itertools.count(1000, 1000)

            async def whole(numbers: list[int], since: float) -> None:
                """Until one batch arrives; then the next one does so at once, exactly once each."""

                async def one() -> bool:
                    return await delivered(fleet, numbers, next(batches))

                await until(one, "a whole batch is delivered")
                heartbeats = (loop.time() - since) / DpsParameters().interval[1]
                assert heartbeats <= HEALING, "healed within the stated number of heartbeats"
                base = next(batches)
                complete = await delivered(fleet, numbers, base)
                assert complete or communication == "epidemic"
                for number in numbers:
                    assert all(count == 1 for count in fleet.got[number].values())

            await whole(everybody, loop.time())
            # The owner of the tree, who leads kind 0, and one of its members; all of kind 1.
            victims = [0, 5, *range(1, brokers, KINDS)]
            for number in victims:
                fleet.processes[number].signal(signal.SIGKILL)
            await whole([n for n in everybody if n not in victims], loop.time())
        finally:
            await fleet.close()

    run(story())
