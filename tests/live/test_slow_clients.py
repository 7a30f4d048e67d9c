"""Clients that are slow, dead or mean to be: they slow nobody for long, and cost no memory."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from live_world import run, until
from test_hostile import Raw, hello

from shoal.live import Broker, RefusedError
from shoal.live.budget import Budget
from shoal.live.connection import Connection
from shoal.live.messages import Accepted, Beat, Bye, Publish, Subscribe, Welcome
from shoal.live.security import hash_token
from shoal.live.settings import Limits
from shoal.live.wire import LENGTH, Splitter, encode
from shoal.overlay.graph_messages import Ask, Shuffle
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


def test_what_waits_in_sockets_shares_the_budget_and_who_reads_keeps_its_connection() -> None:
    """Nothing of it can be shed, so those who have not read for longest are disconnected."""

    async def story() -> None:
        budget, event = 4 << 20, bytes(1 << 19)
        async with (
            Network(1, limits={"memory": budget}) as network,
            network.connect() as publisher,
            network.connect() as honest,
            honest.subscribe("TRUE") as everything,
        ):
            broker = network.brokers[0]
            raws = [await subscriber(broker, "TRUE", window=1_000_000) for _ in range(40)]
            for n in range(30):
                await publisher.publish(n=n, body=event)
                assert (await anext(everything))["n"] == n
                assert broker.budget.used <= budget
            clients = broker.status().clients
            assert len(clients) < 2 + len(raws), "some had to go"
            assert honest.reconnects == publisher.reconnects == 0
            for raw in raws:
                raw.close()
            await until(lambda: not broker.status().waiting, "nothing waits any more")

    run(story())


def test_signs_of_life_are_not_kept_for_who_does_not_read() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect() as publisher:
            broker = network.brokers[0]
            raw = await subscriber(broker, "TRUE", window=1_000_000)
            session = next(s for s in broker.sessions if s.name == "c")
            while not session.queued:
                await publisher.publish(body=bytes(1 << 18))
            waiting = session.connection.waiting()
            for _ in range(10_000):
                session.connection.beat(1e9)
            session.connection.flush()
            assert session.connection.waiting() <= waiting
            raw.close()

    run(story())


def test_a_neighbour_that_asks_and_does_not_read_the_answers_has_to_go() -> None:
    async def story() -> None:
        bound = 1 << 20
        async with Network(1, shape="graph", limits={"queue_bytes": bound}) as network:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            raw.writer.write(encode(hello(broker, "peer")))
            await raw.answer(Welcome)
            raw.writer.write(encode(Ask((), 0, False)))
            await until(lambda: bool(broker.links), "it is linked")
            (peer,) = broker.links.values()
            question = encode(Shuffle((), True)) * 1000
            while broker.links:
                raw.writer.write(question)
                await asyncio.sleep(0)
                assert peer.connection.waiting() <= bound + len(question)
            assert "does not read" in peer.connection.reason
            raw.close()

    run(story())


def test_what_was_sent_before_the_end_still_arrives_if_it_is_read() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        here.setblocking(False)
        _, connection = await loop.create_connection(lambda: Connection(Limits()), sock=there)
        sent = [bytes([n]) * size for n, size in enumerate((10, 70_000, 3, 1 << 20, 40_000, 5))]
        for part in sent:
            connection.send(LENGTH.pack(len(part)), part)
        connection.close("done")
        came = b""
        while piece := await loop.sock_recv(here, 1 << 16):
            came += piece
        frames = [bytes(frame) for frame in Splitter(1 << 21).feed(came)]
        assert frames == [*sent, encode(Bye("done"))[LENGTH.size :]]
        here.close()

    run(story())


def test_frames_that_wait_for_their_turn_share_the_budget() -> None:
    async def story() -> None:
        budget = 4 << 20
        async with Network(1, limits={"memory": budget}) as network, network.connect() as honest:
            broker = network.brokers[0]
            raws = [await subscriber(broker, "n = 1") for _ in range(20)]
            flood = b"".join(encode(Publish(n, {"kind": -1, "n": -n})) for n in range(3000))
            for raw in raws:
                raw.writer.write(flood)
            await until(lambda: len(broker.sessions) <= 12, "who sends most has to go")
            assert broker.budget.used <= budget
            await honest.publish(n=1)
            assert honest.reconnects == 0
            for raw in raws:
                raw.close()

    run(story())


class Waiting:
    """Bytes that wait in a queue, or in a connection."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.size, self.gone = budget, 0, False

    def shed(self) -> None:
        self.size //= 2
        self.budget.hold(self, self.size)

    def give_up(self) -> None:
        self.gone = True


def test_who_has_pinned_most_for_longest_is_given_up() -> None:
    now = 0.0
    budget = Budget(100, lambda: now)
    modest, long_ago, lately, just_now = (Waiting(budget) for _ in range(4))
    modest.size = 20
    budget.hold(modest, 20)
    budget.pin(long_ago, 10)
    now = 9.0
    budget.pin(lately, 30)
    now = 10.0
    budget.pin(just_now, 50)
    assert (long_ago.gone, lately.gone, just_now.gone) == (True, False, False)
    assert (budget.used, modest.size) == (100, 20)
    now = 20.0
    budget.pin(long_ago, 20)
    assert just_now.gone, "fifty for ten seconds weigh more than thirty for eleven"
    assert not lately.gone
    assert (budget.used, modest.size) == (70, 20)
    modest.size = 80
    budget.hold(modest, 80)
    assert not lately.gone, "what is pinned is half of the budget at most, so queues shed"
    assert (budget.used, modest.size) == (90, 40)
