"""Clients that are slow, dead or mean to be: they slow nobody for long, and cost no memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from live_world import run, until
from test_hostile import Raw, hello

from shoal.live import Broker, RefusedError
from shoal.live.messages import Accepted, Beat, Subscribe, Welcome
from shoal.live.security import hash_token
from shoal.live.wire import LENGTH, encode
from shoal.testing import Network


async def subscriber(broker: Broker, filter: str, **more: Any) -> Raw:
    """A client that subscribes and then consumes nothing."""
    raw = await Raw.open(broker)
    raw.writer.write(encode(hello(broker, **more)))
    await raw.answer(Welcome)
    raw.writer.write(encode(Subscribe(1, filter)))
    await raw.answer(Accepted)
    return raw


BLOCKS = {"policy": "block", "window": 10, "queue": 10}


def test_a_dead_client_that_blocks_lets_everybody_go_at_once() -> None:
    async def story() -> None:
        async with (
            Network(1, anyone_may_block=True, limits={"block": 1e6}) as network,
            network.connect() as publisher,
            network.connect() as other,
        ):
            dead = await subscriber(network.brokers[0], "n >= 0", **BLOCKS)
            count = asyncio.create_task(publisher.publish_many({"n": n} for n in range(5000)))
            broker = network.brokers[0]
            await until(lambda: broker.status().clients[-1].queued > 10, "its queue is full")
            await asyncio.sleep(0.1)
            assert not count.done()
            # Who publishes other events never waits; nor does he who publishes his first.
            assert await other.publish_many({"m": n} for n in range(5000)) == 5000
            assert not count.done()
            dead.close()
            assert await count == 5000
            await other.publish(n=1)
            await until(lambda: len(broker.status().clients) == 2, "it is gone")
            assert not broker.status().waiting

    run(story())


def test_a_client_that_never_consumes_blocks_for_as_long_as_the_broker_lets_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        limits = {"block": 0.3}
        async with (
            Network(1, anyone_may_block=True, limits=limits) as network,
            network.connect() as publisher,
            network.connect() as other,
        ):
            raw = await subscriber(network.brokers[0], "TRUE", policy="block", window=1, queue=1)
            raw.writer.write(encode(Beat()))
            loop = asyncio.get_running_loop()
            began = loop.time()
            for n in range(20):
                await publisher.publish(n=n)
                await other.publish(n=n)
            assert loop.time() - began >= 0.3, "it was waited for, once"
            raw.writer.write(encode(Beat()))
            await publisher.publish(n=1)
            slow = network.brokers[0].status().clients[-1]
            assert (slow.queued, slow.dropped) == (1, 39)
            raw.close()

    run(story())
    assert sum("kept others from publishing for 0.3 s" in r.message for r in caplog.records) == 1


def test_a_client_that_waits_for_itself_goes_on_in_time() -> None:
    async def story() -> None:
        async with (
            Network(1, anyone_may_block=True, limits={"block": 0.2}) as network,
            network.connect(window=2, queue=2, when_full="block") as bus,
            bus.subscribe("n >= 0") as mine,
        ):
            assert await bus.publish_many({"n": n} for n in range(3000)) == 3000
            await bus.publish(n=3000)
            assert (await anext(mine))["n"] == 0

    run(story())


def test_to_block_is_a_right(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text(
        '[[allow]]\nname = "anonymous"\n\n[[allow]]\nname = "ledger"\nblock = true\n'
        f'token = "{hash_token("secret")}"\n'
    )

    async def story() -> None:
        async with Network(1) as network:
            with pytest.raises(RefusedError, match="put block = true into its access rule"):
                await network.connect(when_full="block")
        async with Network(1, access=access) as network:
            with pytest.raises(RefusedError, match="'anonymous' may not ask for when_full"):
                await network.connect(when_full="block")
            async with network.connect(when_full="block", token="secret") as bus:
                await bus.publish(n=1)

    run(story())


def test_all_queues_share_one_budget_and_the_greediest_pays() -> None:
    async def story() -> None:
        budget = 8 << 20
        limits = {"memory": budget, "queue_bytes": budget}
        async with (
            Network(1, limits=limits) as network,
            network.connect() as publisher,
            network.connect(window=1) as modest,
            modest.subscribe("kind = 'small'", gaps=True) as small,
        ):
            broker = network.brokers[0]
            greedy = [await subscriber(broker, "TRUE", window=100_000) for _ in range(12)]
            for n in range(200):
                await publisher.publish(kind="big", n=n, body=bytes(1 << 18))
                await publisher.publish(kind="small", n=n)
                status = await publisher.inspect()
                assert status.room == budget
                # Beside the queues stand the sockets' own buffers, of at most an event or two.
                assert status.waiting <= budget + 12 * (3 << 18)
            clients = [client for client in status.clients if client.name == "c"]
            assert len(clients) == 12
            assert all(client.dropped > 0 for client in clients), "all of them had to give"
            held = [client.waiting for client in clients]
            assert max(held) <= 3 * (min(held) + (1 << 18)), held
            for n in range(200):
                assert (await anext(small))["n"] == n, "a modest backlog is not touched"
            for raw in greedy:
                raw.close()
            await until(lambda: not broker.status().waiting, "nothing waits any more")

    run(story())


def test_frames_that_never_end_share_the_budget() -> None:
    async def story() -> None:
        budget = 4 << 20
        async with (
            Network(1, limits={"memory": budget}) as network,
            network.connect() as honest,
        ):
            broker = network.brokers[0]
            raws = [await subscriber(broker, "n = 1") for _ in range(12)]
            for raw in raws:
                raw.writer.write(LENGTH.pack(1 << 20) + bytes((1 << 20) - 1))
            await until(lambda: len(broker.status().clients) <= 5, "who keeps most has to go")
            status = await honest.inspect()
            assert status.waiting <= budget
            await honest.publish(n=1, body=bytes(1 << 19))
            for raw in raws:
                raw.close()
            await until(lambda: not broker.status().waiting, "nothing waits any more")
            assert honest.reconnects == 0

    run(story())
