"""Live brokers on DHTree: they join, are killed and come back; the tree is that of their keys."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

from fleet import Fleet
from live_world import links_of, run, states_of, tables_of, tree_tables, until

from shoal.content import AttributeFilter
from shoal.live import Broker
from shoal.live.processes import BrokerProcess
from shoal.live.settings import Settings, settings_from
from shoal.overlay.dhtree import DHTree

QUICK: dict[str, Any] = {
    "heartbeat": 0.25,
    "overlay": {"name": "dhtree", "heartbeat": 0.25, "reply": 0.2, "heal": 0.5},
    "reconfiguration": {"name": "timed", "unsubscription_timer": 0.3},
}


def settings(name: int, *contacts: Broker) -> Settings:
    join = [contact.address for contact in contacts]
    return settings_from({"name": str(name), "join": join, **QUICK})


def tree(broker: Broker) -> DHTree:
    overlay = broker.layers.overlay
    assert isinstance(overlay, DHTree)
    return overlay


def whole(brokers: list[Broker], wants: dict[int, set[str]]) -> bool:
    """Whether links are those that the keys give, and tables those of the oracle."""
    running = {broker.node: tree(broker) for broker in brokers}
    if any(overlay.broken_promise(running) is not None for overlay in running.values()):
        return False
    states = states_of(brokers)
    try:
        links = links_of(states)
    except AssertionError:
        return False
    return tables_of(states) == tree_tables(links, wants)


def test_brokers_become_the_tree_of_their_keys_and_follow_it() -> None:
    async def story() -> None:
        brokers = [await Broker(settings(0)).start()]
        for number in range(1, 8):
            brokers.append(await Broker(settings(number, brokers[0])).start())
        wants: dict[int, set[str]] = {}
        got: Counter[int] = Counter()

        def listen(broker: Broker, number: int) -> None:
            filter = f"x = {number % 3}"
            wants[broker.node] = {filter}

            def count(event: object) -> None:
                got[number] += 1

            broker.listen_to(AttributeFilter(filter), count)

        for number, broker in enumerate(brokers):
            listen(broker, number)
        try:
            await until(lambda: whole(brokers, wants), "eight brokers are one tree")
            assert max(len(tree(broker).neighbours) for broker in brokers) <= 3
            brokers[5].publish({"x": 1})
            await until(lambda: got.total() == 3, "all who want an event get it")
            root = next(b for b in brokers if tree(b).place.level == 0)
            brokers.remove(root)
            del wants[root.node]
            await root.stop()
            await until(lambda: whole(brokers, wants), "the root has left")
            late = await Broker(settings(9, brokers[0])).start()
            brokers.append(late)
            listen(late, 9)
            await until(lambda: whole(brokers, wants), "another has come")
            got.clear()
            late.publish({"x": 0})
            wanted = sum("x = 0" in filters for filters in wants.values())
            await until(lambda: got.total() >= wanted, "and is served")
            assert got.total() == wanted
        finally:
            for broker in brokers:
                await broker.stop()

    run(story())


def test_processes_that_are_killed_and_come_back() -> None:
    async def story() -> None:
        fleet = Fleet()
        arguments = [
            *("--overlay", "dhtree", "--reconfiguration", "timed"),
            *("--set=overlay.heartbeat=0.5", "--set=overlay.reply=0.4", "--set=overlay.heal=1.0"),
        ]
        try:
            for number in range(6):
                join = ["--join", fleet.processes[0].address] if number else []
                fleet.processes.append(BrokerProcess(str(number), [*arguments, *join]))
                fleet.processes[number].listens()
            everybody = list(range(6))
            for number in everybody:
                await fleet.follow(number, f"kind = {number % 5}")

            async def settled(numbers: list[int]) -> None:
                async def tree_and_tables() -> bool:
                    states = await fleet.states(numbers)
                    try:
                        links = links_of(states)
                    except AssertionError:
                        return False
                    nodes = {n: state.node for n, state in zip(numbers, states, strict=True)}
                    wants = {nodes[n]: {f"kind = {n % 5}"} for n in numbers}
                    edges = sum(len(found) for found in links.values()) // 2
                    whole = edges == len(numbers) - 1
                    return whole and tables_of(states) == tree_tables(links, wants)

                await until(tree_and_tables, "one tree, and its tables")

            await fleet.quiet(everybody, 0, lambda: settled(everybody))
            await fleet.buses.pop(3).close()  # it would move to another broker, and stay there
            fleet.processes[3].signal(signal.SIGKILL)
            rest = [n for n in everybody if n != 3]
            await fleet.quiet(rest, 10_000, lambda: settled(rest))
            fleet.processes[3].start()
            fleet.processes[3].listens()
            await fleet.follow(3, "kind = 3")
            await fleet.quiet(everybody, 20_000, lambda: settled(everybody))
            for number, got in fleet.got.items():
                assert max(got.values(), default=0) <= 1, f"doubled at {number}"
        finally:
            await fleet.close()

    run(story())
