"""Clients that outlive their brokers: started before them, and moving when they die."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from certificates import Authority
from fleet import Fleet
from live_world import run, until

import shoal
from shoal.live import Broker, Bus, Gap, Settings, connect
from shoal.live.messages import VERSIONS, Hello, Known, Welcome
from shoal.live.processes import free_port
from shoal.live.settings import settings_from
from shoal.live.wire import LENGTH, encode, parse_address
from shoal.overlay.graph_messages import Ask
from shoal.testing import GRAPH, QUICK, Network


def test_a_client_may_be_started_before_its_broker() -> None:
    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        connecting = asyncio.ensure_future(_connected(address))
        await asyncio.sleep(0.1)
        assert not connecting.done()
        async with Broker(Settings(name="late", listen=address)):
            bus = await connecting
            await bus.publish(n=1)
            assert bus.reconnects == 0
            await bus.close()

    run(story())


async def _connected(address: str) -> Bus:
    return await connect(address, patience=1e6, reconnect=(0.02, 0.1))


@pytest.mark.parametrize("shape", ["graph", "tree"])
def test_a_client_moves_to_a_broker_that_its_own_told_it_of(shape: str) -> None:
    async def story() -> None:
        async with Network(1, shape=shape) as network:  # type: ignore[arg-type]  # one of the two
            first = network.brokers[0]
            async with (
                network.connect(patience=1e6, reconnect=(0.02, 0.1)) as bus,
                bus.subscribe("n >= 0", gaps=True) as numbers,
            ):
                # The others come when the client is there already.
                more = {"links" if shape == "tree" else "join": (first.address,)}
                for name in ("1", "2"):
                    raw = {**network._settings, "name": name, **more}
                    network.brokers.append(await Broker(settings_from(raw)).start())
                await network.settled()
                await until(lambda: len(bus.others) == 2, "it has heard of the others")
                await first.stop()
                await until(lambda: bus.broker is not None and bus.broker.name != "0", "it moved")
                await bus.publish(n=1)
                assert isinstance(await anext(numbers), Gap)
                event = await anext(numbers)
                assert event["n"] == 1

    run(story())


def test_over_tls_it_moves_to_the_broker_of_that_name_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")

    def settings(name: str, **more: object) -> Settings:
        pair = authority.issue(name)
        files = {"certificate": pair.certificate, "key": pair.key}
        return settings_from(
            {"name": name, **GRAPH, **QUICK, **files, "authority": authority.certificate, **more}
        )

    async def story() -> None:
        kitchen = await Broker(settings("kitchen")).start()
        cellar = await Broker(settings("cellar", join=(kitchen.address,))).start()
        attic = await Broker(settings("attic", join=(kitchen.address,))).start()
        await until(lambda: len(kitchen.links) == 2, "all are linked")
        async with shoal.connect(
            kitchen.address,
            ca=authority.certificate,
            broker="kitchen,attic",
            patience=1e6,
            reconnect=(0.02, 0.1),
        ) as bus:
            await until(lambda: "attic" in bus.others.values(), "it has heard of it")
            await kitchen.stop()
            await until(lambda: bus.broker is not None and bus.broker.name == "attic", "it moved")
            await bus.publish(n=1)
        await attic.stop()
        await cellar.stop()

    run(story())


def test_a_broker_that_was_stopped_blames_no_clock() -> None:
    """It finds an introduction that has waited for it; the clock in that was right."""

    async def story() -> None:
        fleet = Fleet()
        try:
            process = fleet.add(["--overlay", "graph", "--set", "limits.skew=1.0"])
            process.listens()
            async with shoal.connect(process.address) as bus:
                stack = (await bus.inspect()).stack
            process.signal(signal.SIGSTOP)
            reader, writer = await asyncio.open_connection(*parse_address(process.address))
            me = Known(77, "77", "127.0.0.1:1", 2**40)
            writer.write(encode(Hello(VERSIONS, "peer", "link", me, time.time(), stack=stack)))
            await asyncio.sleep(3.0)
            process.signal(signal.SIGCONT)
            (length,) = LENGTH.unpack(await reader.readexactly(4))
            msgspec.msgpack.decode(await reader.readexactly(length), type=Welcome)
            writer.write(encode(Ask((), 0, False)))
            async with shoal.connect(process.address) as bus:

                async def no_skew() -> bool:
                    return [link.skew for link in (await bus.inspect()).links] == [0]

                await until(no_skew, "it is linked, and its clock is right")
            writer.transport.abort()
            process.said.seek(0)
            assert "clock" not in process.said.read()
        finally:
            await fleet.close()

    run(story())


@pytest.mark.parametrize(
    ("limit", "there", "here"), [("frame", 1 << 20, 4096), ("cost", 500_000_000, 50_000_000)]
)
def test_brokers_that_take_events_or_filters_of_different_sizes_are_not_linked(
    limit: str, there: int, here: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with (
            Broker(Settings(name="1", **GRAPH, **QUICK)) as one,
            Broker(
                settings_from(
                    {
                        "name": "2",
                        **GRAPH,
                        **QUICK,
                        "join": (one.address,),
                        "limits": {limit: here},
                    }
                )
            ) as other,
        ):
            await until(
                lambda: "take events and filters of the same size" in caplog.text, "it is said"
            )
            difference = f"same size; {limit}: {here} here, {there} there; trying on"
            assert difference in caplog.text, "as the one that is refused reads it"
            assert not one.links
            assert not other.links

    run(story())


def test_an_event_of_the_largest_size_for_thousands_of_subscriptions_arrives() -> None:
    async def story() -> None:
        count = 2500
        async with Network(1) as network, network.connect() as bus:
            held = [await bus.subscribe(f"n > {-n}").start() for n in range(count)]
            await bus.publish(n=1, body=bytes((1 << 20) - 100))
            for subscription in held:
                assert (await anext(subscription))["n"] == 1
            assert bus.reconnects == 0

    run(story())


def test_a_client_that_leaves_many_subscriptions_stalls_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once a turn is over, the event loop comes round before the next is removed."""
    monkeypatch.setattr("shoal.live.broker.TURN", -1.0)  # over after each of them

    async def story() -> None:
        count = 300
        async with Network(1) as network:
            bus = await network.connect()
            kept = [bus.subscribe(f"n = {n} AND room = 'r{n}'") for n in range(count)]
            for subscription in kept:
                await subscription.start()
            filters = network.brokers[0].edge
            left = [len(filters)]

            async def others() -> None:
                while left[-1]:
                    await asyncio.sleep(0)
                    left.append(len(filters))

            await asyncio.gather(bus.close(), others())
            assert left[0] == count
            assert max(before - after for before, after in pairwise(left)) == 1

    run(story())
