"""``shoal chaos --live``: the table tells the truth, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from test_commands import shoal

from shoal.live.chaos import LiveChaos
from shoal.live.chaos_table import Listener, Outcome, Publication, Told, outcome
from shoal.live.messages import Promise
from shoal.live.virtual import VirtualLoop


def table(*listeners: Listener, events: dict[int, Publication]) -> Outcome:
    return outcome(events, list(listeners), {1, 3})


def test_the_table_counts_what_became_of_every_event() -> None:
    events = {
        1: Publication(0, at=1.0, accepted=1.0),
        2: Publication(0, at=2.0, accepted=2.1),
        3: Publication(0, at=2.4, accepted=2.6),  # perhaps after the gap: lost, in doubt
        4: Publication(0, at=4.0),
        5: Publication(1, at=5.0, accepted=5.0),
    }
    first = Listener(0)
    first.got.update([1, 1, 4])
    first.gaps += [Told(1.5, 2.5), Told(2.7)]
    second = Listener(1)
    second.got.update([5])
    second.misdelivered = 2
    found = table(first, second, events=events)
    assert (found.sent, found.unsure, found.owed) == (4, 1, 4)
    assert (found.delivered, found.gap, found.lost, found.held) == (2, 1, 1, 1)
    assert (found.duplicated, found.misdelivered, found.open_gaps) == (1, 2, 1)
    assert not found.right


def children() -> set[int]:
    """Processes of this test that are still there."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(int(folder.name))
    return found


@pytest.mark.parametrize("promise", ["best effort", "recovered"])
def test_faults_and_hostile_strangers_harm_nobody_else(promise: Promise) -> None:
    """Under ``recovered`` no event may be lost without a gap: ``right`` says so."""
    before = children()
    chaos = LiveChaos(brokers=3, seed=3, every=1.0, publishers=2, subscribers=4, promise=promise)

    async def story() -> Outcome:
        seen: list[int] = []
        outcome = await chaos.run(10.0, lambda now: seen.append(len(now.publications)))
        assert seen
        return outcome

    found = asyncio.run(story())
    assert found.right, found
    assert found.owed == found.sent > 0  # four subscribers, one for each kind of event
    assert found.delivered + found.gap + found.lost == found.owed
    assert found.delivered > 0
    assert sum(found.faults.values()) >= 1
    assert children() <= before


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("overlay", ["lstree", "graph", "dhtree"])
def test_a_virtual_run_meets_many_faults_and_loses_nothing_in_silence(
    overlay: str, seed: int
) -> None:
    """Nor anything that some broker holds: ``right`` says so."""
    chaos = LiveChaos(brokers=8, seed=seed, every=1.0, promise="recovered", overlay=overlay)
    with VirtualLoop(seed) as loop:
        found = loop.run(chaos.run(8.0, lambda now: None))
    assert found.right, f"{found}: {chaos.command(8.0)}"
    assert found.delivered + found.gap == found.owed > 0
    assert found.delivered > 0.9 * found.owed
    assert {"cut", "delay", "drop"} < set(found.faults)
    assert sum(found.faults.values()) >= 60


def test_with_small_buffers_nothing_is_lost_in_silence_either() -> None:
    """In this run, clients move to the publisher's broker, which holds the event no longer."""
    small = {"recovery": {"buffer": 2}}
    chaos = LiveChaos(
        brokers=8, seed=803, every=1.0, promise="recovered", overlay="graph", settings=small
    )
    with VirtualLoop(803) as loop:
        found = loop.run(chaos.run(15.0, lambda now: None))
    assert found.right, f"{found}: {chaos.command(15.0)}"
    assert found.gap > 0


@pytest.mark.parametrize("overlay", ["lstree", "graph"])
def test_a_virtual_run_can_be_repeated_event_by_event(overlay: str) -> None:
    """In other processes, whose sets are in another order."""
    chaos = LiveChaos(brokers=4, seed=6, every=1.0, promise="recovered", overlay=overlay)
    command = [*shlex.split(chaos.command(3.0))[1:], "--json"]
    runs = [shoal(*command, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    one, two = [json.loads(ran.stdout) for ran in runs]
    assert one == two
    assert len(one["fingerprint"]) == 16
    with VirtualLoop(6) as loop:
        here = loop.run(chaos.run(3.0, lambda now: None))
    assert here.fingerprint == one["fingerprint"]


def test_brokers_run_the_recovery_that_was_asked_for() -> None:
    """The command that repeats the run names it, and the settings of brokers."""
    asked = ["--live", "--virtual", "--promise", "recovered", "--brokers", "4", "--every", "1"]
    asked += ["--minutes", "0.05", "--seed", "6", "--json"]
    chosen: dict[str, Any] = {"recovery": {"buffer": 9, "name": "random-pull"}}
    chaos = LiveChaos(brokers=4, seed=6, every=1.0, promise="recovered", settings=chosen)
    with VirtualLoop(6) as loop:
        here = loop.run(chaos.run(3.0, lambda now: None))
    options = ["--recovery", "random-pull", "--set", "recovery.buffer=9"]
    runs = [
        shoal(*command)
        for command in (
            ["chaos", *asked, *options],
            [*shlex.split(chaos.command(3.0))[1:], "--json"],
            ["chaos", *asked],
        )
    ]
    same, again, default = [json.loads(ran.stdout)["fingerprint"] for ran in runs]
    assert same == again == here.fingerprint != default


def test_the_command_prints_the_table() -> None:
    ran = shoal("chaos", "--live", "--minutes", "0.05", "--brokers", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["delivered"] + found["gap"] + found["lost"] == found["owed"]
    assert found["duplicated"] == found["misdelivered"] == 0
