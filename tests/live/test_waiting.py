"""A client that stops waiting: nothing hangs, and nothing stays behind at the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from live_world import run, until

import shoal
from shoal.live import DisconnectedError
from shoal.live.messages import FromClient, Hello, Known, Publish, Subscribe, Unsubscribe, Welcome
from shoal.live.wire import LENGTH, encode


class Mute:
    """A broker that at most says welcome."""

    def __init__(self, welcomes: bool) -> None:
        self.heard: list[Any] = []
        self.left = 0
        self._welcomes = welcomes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind: Any = Hello
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(4))
                self.heard.append(
                    msgspec.msgpack.decode(await reader.readexactly(length), type=kind)
                )
                if kind is Hello and self._welcomes:
                    me = Known(1, "1", "", 1)
                    writer.write(encode(Welcome(1, me, time.time(), limit=65_536)))
                kind = FromClient
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left += 1
            writer.close()

    def told(self, kind: type) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]


@asynccontextmanager
async def mute(welcomes: bool = True) -> AsyncIterator[tuple[Mute, str]]:
    broker = Mute(welcomes)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    try:
        yield broker, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_a_subscription_that_is_not_answered_ends_with_the_connection() -> None:
    async def story() -> None:
        async with mute() as (broker, address):
            bus = await shoal.connect(address)
            waiting = asyncio.create_task(bus.subscribe("x = 1").start())
            await until(lambda: bool(broker.told(Subscribe)), "it has been asked for")
            await bus.close()
            with pytest.raises(DisconnectedError, match="not subscribed: the connection is closed"):
                await waiting

    run(story())


def test_a_subscription_that_is_given_up_is_taken_back() -> None:
    async def story() -> None:
        async with mute() as (broker, address), shoal.connect(address) as bus:
            publishing = asyncio.ensure_future(bus.publish(x=1))
            await until(lambda: bool(broker.told(Publish)), "it has been published")
            waiting = asyncio.create_task(bus.subscribe("x = 1").start())
            await until(lambda: bool(broker.told(Subscribe)), "it has been asked for")
            waiting.cancel()
            await until(lambda: bool(broker.told(Unsubscribe)), "it is taken back")
            number = broker.told(Subscribe)[0].subscription
            assert broker.told(Unsubscribe)[0].subscription == number
            # Its answer, still on the way, says nothing about publications that wait.
            bus._requests.accepted(number)
            assert not publishing.done()
            publishing.cancel()

    run(story())


def test_who_gives_up_connecting_leaves_no_connection() -> None:
    async def story() -> None:
        async def knock(address: str) -> None:
            await shoal.connect(address)

        async with mute(welcomes=False) as (broker, address):
            knocking = asyncio.create_task(knock(address))
            await until(lambda: bool(broker.told(Hello)), "it has introduced itself")
            knocking.cancel()
            await until(lambda: broker.left == 1, "it is gone")

    run(story())


def test_closing_ends_a_publication_that_waits_for_a_broker() -> None:
    async def story() -> None:
        async with mute() as (_, address):
            bus = await shoal.connect(address)
            bus._lost("as if")
            publishing = asyncio.create_task(bus.publish(x=1))
            await until(lambda: bool(bus._up._waiters), "it waits for a connection")
            await bus.close()
            with pytest.raises(DisconnectedError, match="the connection is closed"):
                await publishing

    run(story())


def test_a_client_moves_also_if_its_old_broker_falls_silent_meanwhile() -> None:
    async def story() -> None:
        async with (
            mute() as (old, first),
            mute() as (new, second),
            shoal.connect(f"{first},{second}") as bus,
        ):
            asking = asyncio.create_task(bus.inspect())
            await until(lambda: len(old.heard) > 1, "the old broker has been asked")
            assert bus._greeting is not None
            bus._leave(bus._greeting)
            await until(lambda: bool(new.told(Hello)), "the client has gone to the new broker")
            bus._greeting.connection.heard -= 3600.0  # the old one has been silent for long
            with pytest.raises(DisconnectedError):
                await asking
            await until(lambda: bus._connection is not None, "the client uses the new broker")

    run(story())


def test_who_closes_while_it_moves_leaves_no_connection() -> None:
    async def story() -> None:
        async with mute() as (old, first), mute() as (new, second):
            bus = await shoal.connect(f"{first},{second}")
            asking = asyncio.create_task(bus.inspect())  # so it stays for the old one's answer
            await until(lambda: len(old.heard) > 1, "the old broker has been asked")
            assert bus._greeting is not None
            bus._leave(bus._greeting)
            await until(lambda: bool(new.told(Hello)), "it has introduced itself to the new one")
            await bus.close()
            with pytest.raises(DisconnectedError):
                await asking
            await until(lambda: old.left == new.left == 1, "it has left both")

    run(story())
