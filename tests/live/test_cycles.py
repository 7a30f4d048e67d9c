"""Configured links that form a cycle: one is refused or cut, and no event comes twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from live_world import links_of, run, states_of, tables_of, tree_tables, until

from shoal.content import AttributeFilter
from shoal.live import Broker, Settings
from shoal.live.processes import free_port
from shoal.live.wire import parse_address
from shoal.testing import QUICK, TREE

CUT = "closes a cycle of configured links and is cut"
REFUSED = "would close a cycle of configured links"


class Listeners:
    """Everybody at every broker, and how often each event came."""

    def __init__(self, brokers: list[Broker]) -> None:
        self.brokers = brokers
        self._published = 0
        self.got: dict[int, Counter[int]] = {broker.node: Counter() for broker in brokers}
        self._end = [
            broker.listen_to(AttributeFilter("n >= 0"), self._count(broker.node))
            for broker in brokers
        ]

    def _count(self, node: int) -> Any:
        return lambda event: self.got[node].update([event.content.values["n"]])

    def publish(self) -> None:
        """An event at every broker."""
        for broker in self.brokers:
            self._published += 1
            broker.publish({"n": self._published})

    async def once(self, first: int) -> None:
        """Publish at every broker: each event comes to every broker, and exactly once."""
        events = range(first, first + len(self.brokers))
        for n, broker in zip(events, self.brokers, strict=True):
            broker.publish({"n": n})
        everything = {node: Counter(events) for node in self.got}
        await until(lambda: self._of(events) == everything, f"{self.got}")

    def _of(self, events: range) -> dict[int, Counter[int]]:
        return {
            node: Counter({n: count for n, count in got.items() if n in events})
            for node, got in self.got.items()
        }

    def never_twice(self) -> None:
        assert all(max(got.values(), default=1) == 1 for got in self.got.values()), self.got

    async def leave(self) -> None:
        """Nobody wants anything any more: no table keeps an entry."""
        for end in self._end:
            end()
        await until(
            lambda: not any(state.table for state in states_of(self.brokers)), "empty tables"
        )


async def tree(brokers: list[Broker]) -> None:
    """Wait until links and tables are those of a tree."""
    wants = {broker.node: {"n >= 0"} for broker in brokers}

    def right() -> bool:
        states = states_of(brokers)
        try:
            links = links_of(states)
        except AssertionError:
            return False
        edges = sum(map(len, links.values())) // 2
        return edges == len(brokers) - 1 and tables_of(states) == tree_tables(links, wants)

    await until(right, "links and tables are those of a tree")


def test_a_link_that_would_close_a_cycle_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with (
            Broker(Settings(name="1", **TREE, **QUICK)) as a,
            Broker(Settings(name="2", links=(a.address,), **TREE, **QUICK)) as b,
        ):
            await until(lambda: bool(b.status().links), "linked")
            both = (a.address, b.address)
            c = await Broker(Settings(name="3", links=both, **TREE, **QUICK)).start()
            listeners = Listeners([a, b, c])
            await tree([a, b, c])
            await until(lambda: REFUSED in caplog.text, "it is said")
            await listeners.once(0)
            # The surplus link is in reserve.
            end = "1" if {link.name for link in c.status().links} == {"1"} else "2"
            lost = a if end == "1" else b
            left = [broker for broker in (a, b, c) if broker is not lost]
            await lost.stop()
            await until(lambda: all(broker.status().links for broker in left), "linked instead")
            listeners.never_twice()
            await c.stop()

    run(story())


class Gate:
    """Holds back what comes from brokers until all of some connections have got an answer."""

    def __init__(self, connections: int) -> None:
        self._missing = connections
        self._open = asyncio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self._open.set()
        await self._open.wait()


@asynccontextmanager
async def gated(port: int, target: str, gate: Gate) -> AsyncIterator[None]:
    """A way to a broker, through a gate."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, held: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if held:
                    await gate.wait()
                    held = False
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection(*parse_address(target))
            await asyncio.gather(pump(reader, back, False), pump(there, writer, True))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()


@pytest.mark.parametrize("size", [3, 5])
def test_a_cycle_of_links_made_at_the_same_moment_is_cut(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Every broker of a ring is welcomed by the next before any of them knows of the others."""

    async def story() -> None:
        gate = Gate(size)
        ports = [free_port() for _ in range(size)]
        settings = {**QUICK, **TREE, "overlay": {**TREE["overlay"], "look": 2.0}}
        async with AsyncExitStack() as world:
            brokers: list[Broker] = []
            for number in range(size):
                link = f"127.0.0.1:{ports[number]}"
                broker = Broker(Settings(name=str(number), links=(link,), **settings))
                brokers.append(await world.enter_async_context(broker))
            listeners = Listeners(brokers)
            for number, port in enumerate(ports):
                target = brokers[(number + 1) % size].address
                await world.enter_async_context(gated(port, target, gate))
            await until(lambda: all(len(b.status().links) == 2 for b in brokers), "a ring")
            while CUT not in caplog.text:  # events come again, and are dropped
                listeners.publish()
                await asyncio.sleep(0.05)
            await tree(brokers)
            assert sum(broker.status().cycles for broker in brokers) > 0
            await listeners.once(1_000_000)
            await until(lambda: REFUSED in caplog.text, "it stays cut")
            await tree(brokers)
            listeners.never_twice()
            await listeners.leave()

    run(story())


def test_what_is_no_longer_wanted_leaves_a_cycle(caplog: pytest.LogCaptureFixture) -> None:
    """Unsubscribed while the ring was there: entries that held each other up go with the cut."""

    async def story() -> None:
        gate = Gate(3)
        ports = [free_port() for _ in range(3)]
        settings = {**QUICK, **TREE, "overlay": {**TREE["overlay"], "look": 2.0}}
        async with AsyncExitStack() as world:
            brokers: list[Broker] = []
            for number in range(3):
                link = f"127.0.0.1:{ports[number]}"
                broker = Broker(Settings(name=str(number), links=(link,), **settings))
                brokers.append(await world.enter_async_context(broker))
            listeners = Listeners(brokers)
            for number, port in enumerate(ports):
                target = brokers[(number + 1) % 3].address
                await world.enter_async_context(gated(port, target, gate))
            await until(lambda: all(len(b.status().links) == 2 for b in brokers), "a ring")
            await listeners.leave()
            await until(lambda: CUT in caplog.text, "it is said")

    run(story())


def test_a_ring_on_a_graph_is_none_of_this(caplog: pytest.LogCaptureFixture) -> None:
    """Routings that need no tree may have links in a ring."""

    async def story() -> None:
        routing = {**QUICK, "overlay": TREE["overlay"], "routing": {"name": "flooding"}}
        async with (
            Broker(Settings(name="1", **routing)) as a,
            Broker(Settings(name="2", links=(a.address,), **routing)) as b,
            Broker(Settings(name="3", links=(a.address, b.address), **routing)) as c,
        ):
            brokers = [a, b, c]
            await until(lambda: all(len(x.status().links) == 2 for x in brokers), "a ring")
            listeners = Listeners(brokers)
            await listeners.once(0)
            listeners.never_twice()

    run(story())
    assert "cycle" not in caplog.text
