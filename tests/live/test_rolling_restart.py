"""Every broker of a network is restarted, one by one, under load, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from live_world import links_of, run, tables_of, tree_tables, until

import shoal
from patience import CONDITION, STORY
from shoal.live.processes import BrokerProcess, free_port
from shoal.live.status import Status

KINDS = 3
TREE = {0: (1, 2), 1: (0, 3, 4), 2: (0,), 3: (1,), 4: (1,)}
"""The neighbours of each broker: every link is configured at both ends."""
PATIENT = ["--set=heartbeat=20.0", "--set=drain=300.0", "--set=settle=4.0"]
TREES = [*PATIENT, "--set=overlay.absence=300.0", "--set=overlay.settle=4.0"]
"""A machine that is short of time must not look like a broker that is dead."""


def tree() -> list[BrokerProcess]:
    addresses = [f"127.0.0.1:{free_port()}" for _ in TREE]
    return [
        BrokerProcess(
            str(n),
            [*TREES, *(word for other in TREE[n] for word in ("--link", addresses[other]))],
            address=addresses[n],
        )
        for n in TREE
    ]


def ring() -> list[BrokerProcess]:
    """Four brokers that keep two neighbours each, give or take one."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(4)]
    arguments = [
        *PATIENT,
        "--overlay=graph",
        "--set=overlay.heartbeat=20.0",
        "--degree",
        "2",
        "--set=routing.threshold=1.0",
    ]
    for address in addresses:
        arguments += ["--join", address]
    return [BrokerProcess(str(n), arguments, address=a) for n, a in enumerate(addresses)]


def lstree() -> list[BrokerProcess]:
    """Six brokers with the default stack, of which no more than three are linked to one."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(6)]
    arguments = [*PATIENT, "--set=overlay.heartbeat=20.0", "--set=overlay.max_degree=3"]
    for address in addresses:
        arguments += ["--join", address]
    return [BrokerProcess(str(n), arguments, address=a) for n, a in enumerate(addresses)]


class Subscriber:
    """A client that may use any broker, and what it got."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.got: Counter[int] = Counter()
        self.wrong: list[int] = []

    @asynccontextmanager
    async def listening(self, addresses: str) -> AsyncIterator[shoal.live.Subscription]:
        async with (
            shoal.connect(addresses, reconnect=(0.05, 0.5), patience=CONDITION) as bus,
            bus.subscribe(f"kind = {self.kind}", gaps=True) as events,
        ):
            await bus.settled()
            task = asyncio.create_task(self._count(events))
            yield events
            task.cancel()

    async def _count(self, events: shoal.live.Subscription) -> None:
        async for event in events:
            if isinstance(event, shoal.live.Gap):
                continue
            self.got[int(str(event["n"]))] += 1
            if event["kind"] != self.kind:
                self.wrong.append(int(str(event["n"])))


class Publisher:
    """Publishes without pause, one event after the other is taken."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.stop = False

    async def publish(self, addresses: str, first: int) -> None:
        n = first
        async with shoal.connect(addresses, reconnect=(0.05, 0.5), patience=CONDITION) as bus:
            while not self.stop:
                await bus.publish(n=n, kind=n % KINDS)
                self.sent.append(n)
                n += 1
                await asyncio.sleep(0.002)

    async def publish_many(self, addresses: str, first: int) -> None:
        n = first
        async with shoal.connect(addresses, reconnect=(0.05, 0.5), patience=CONDITION) as bus:
            while not self.stop:
                block = range(n, n + 50)
                await bus.publish_many({"n": i, "kind": i % KINDS} for i in block)
                self.sent.extend(block)
                n += 50
                await asyncio.sleep(0.1)


def rotated(addresses: list[str], by: int) -> str:
    by %= len(addresses)
    return ",".join(addresses[by:] + addresses[:by])


@pytest.mark.parametrize("shape", [tree, ring, lstree], ids=["tree", "ring", "lstree"])
def test_a_rolling_restart_loses_nothing(shape: object) -> None:
    async def story() -> None:
        brokers: list[BrokerProcess] = shape()  # type: ignore[operator]
        try:
            for broker in brokers:
                broker.listens()
            addresses = [broker.address for broker in brokers]
            subscribers = [Subscriber(n % KINDS) for n in range(2 * KINDS)]
            publisher = Publisher()
            async with AsyncExitStack() as stack:
                watched = [
                    await stack.enter_async_context(s.listening(rotated(addresses, i)))
                    for i, s in enumerate(subscribers)
                ]
                load = [
                    asyncio.create_task(publisher.publish(rotated(addresses, 1), 0)),
                    asyncio.create_task(publisher.publish(rotated(addresses, 3), 1_000_000)),
                    asyncio.create_task(publisher.publish_many(rotated(addresses, 2), 2_000_000)),
                ]
                for broker in brokers:
                    before = len(publisher.sent)
                    await until(lambda b=before: len(publisher.sent) > b + 100, "there is load")
                    broker.signal(signal.SIGTERM)
                    ended = await asyncio.to_thread(broker.process.wait, STORY)
                    assert ended == 0, broker.words()
                    broker.start()
                    await asyncio.to_thread(broker.listens)
                    await until(lambda a=broker.address: serves(a), "it serves clients again")
                before = len(publisher.sent)
                await until(lambda: len(publisher.sent) > before + 100, "there is load at the end")
                publisher.stop = True
                await asyncio.gather(*load)
                wanted = [{n for n in publisher.sent if n % KINDS == s.kind} for s in subscribers]
                await until(
                    lambda: all(w <= set(s.got) for w, s in zip(wanted, subscribers, strict=True)),
                    "everything published is there",
                )
                for subscriber, subscription in zip(subscribers, watched, strict=True):
                    assert max(subscriber.got.values()) == 1, "nothing twice"
                    assert not subscriber.wrong
                    assert subscription.gaps == 0, "and no gap was feared"
        except AssertionError as error:
            words = "\n".join(f"{b.name}: {b.words()}" for b in brokers)
            raise AssertionError(f"{error}\n{words}") from error
        finally:
            for broker in brokers:
                broker.close()

    run(story())


async def serves(address: str) -> bool:
    try:
        async with shoal.connect(address):
            return True
    except shoal.live.LiveError:
        return False


def test_a_restarted_broker_of_a_tree_has_the_tables_that_others_have_changed() -> None:
    """0 - 1 - 2: while 1 is away somebody at 2 loses interest, and somebody at 0 gains some."""

    async def story() -> None:
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
        links = {0: [1], 1: [0, 2], 2: [1]}
        brokers = [
            BrokerProcess(
                str(n),
                [*TREES, *(word for m in links[n] for word in ("--link", addresses[m]))],
                address=addresses[n],
            )
            for n in links
        ]
        try:
            for broker in brokers:
                broker.listens()
            async with shoal.connect(addresses[0]) as left, shoal.connect(addresses[2]) as right:
                kept = await right.subscribe("x = 1").start()
                dropped = await right.subscribe("x = 2").start()
                await right.settled()
                brokers[1].signal(signal.SIGTERM)
                assert await asyncio.to_thread(brokers[1].process.wait, STORY) == 0
                await dropped.stop()
                await left.publish(x=1, n=1)
                gained = await left.subscribe("x = 3").start()
                await right.publish(x=1, n=2)
                brokers[1].start()
                await asyncio.to_thread(brokers[1].listens)
                assert [(await anext(kept))["n"] for _ in range(2)] == [2, 1]
                async with shoal.connect(addresses[1]) as middle:
                    wants = {0: {"x = 3"}, 2: {"x = 1"}}
                    expected = tree_tables({0: {1}, 1: {0, 2}, 2: {1}}, wants)

                    async def right_tables() -> bool:
                        states: list[Status] = [
                            await bus.inspect(tables=True) for bus in (left, middle, right)
                        ]
                        return tables_of(states) == expected and bool(links_of(states))

                    await until(right_tables, "tables are the oracle's")
                    await middle.publish(x=3)
                    assert (await anext(gained))["x"] == 3
        finally:
            for broker in brokers:
                broker.close()

    run(story())
