"""Hostile clients: what strangers on the network may try, for ``shoal chaos --live``.

They run in a process of their own, so that what they spend is not taken from honest clients::

    python -m shoal.live.hostile SEED HOST:PORT HOST:PORT …
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from shoal.live.messages import VERSIONS, Beat, Hello, Known, Policy, Publish, Subscribe
from shoal.live.wire import LENGTH, encode, parse_address

NOT_FOR_US: Final = -1
"""The kind of events that floods consist of; honest subscribers want none of it."""
PATIENCE: Final = 10.0
"""Seconds after which a hostile client begins anew, elsewhere."""
IDLE: Final = 40
"""Connections that say nothing, at a time."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def hello(window: int = 1000, policy: Policy = "drop oldest") -> bytes:
    """The introduction of a client."""
    me = Known(-1, "stranger", "", 0)
    return encode(Hello(VERSIONS, "client", "link", me, time.time(), window=window, policy=policy))


async def garbage(streams: Streams, chance: random.Random) -> None:
    """Bytes that mean nothing, at once or in place of a frame after an introduction."""
    _, writer = streams
    for _ in range(20):
        junk = chance.randbytes(chance.randrange(1, 4096))
        if chance.random() < 0.5:
            writer.write(hello() if chance.random() < 0.3 else b"")
            writer.write(LENGTH.pack(len(junk)))
        writer.write(junk)
        await writer.drain()


async def mutated(streams: Streams, chance: random.Random) -> None:
    """Frames that are nearly right."""
    _, writer = streams
    writer.write(hello())
    frames = [
        encode(Subscribe(1, "kind = 1 AND n > 3")),
        encode(Publish(2, {"spam": 1}, b"body")),  # no such change makes it one for the honest
        encode(Beat()),
    ]
    for _ in range(50):
        frame = bytearray(chance.choice(frames))
        frame[chance.randrange(4, len(frame))] = chance.randrange(256)
        writer.write(bytes(frame))
        await writer.drain()


async def flood(streams: Streams, chance: random.Random) -> None:
    """Events as fast as the broker reads them."""
    reader, writer = streams
    writer.write(hello())
    swallow = asyncio.ensure_future(_swallow(reader))
    try:
        for number in range(1, 1_000_000):
            body = b"x" * chance.randrange(1000)
            writer.write(encode(Publish(number, {"kind": NOT_FOR_US, "n": number}, body)))
            await writer.drain()
    finally:
        swallow.cancel()


async def _swallow(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            pass


async def idle(streams: Streams, chance: random.Random) -> None:
    """A connection that says nothing."""
    await streams[0].read()


async def never_reads(streams: Streams, chance: random.Random) -> None:
    """Subscribe to everything and read nothing."""
    _, writer = streams
    writer.write(hello(window=1_000_000) + encode(Subscribe(1, "TRUE")))
    await _beat(writer)


async def blocks(streams: Streams, chance: random.Random) -> None:
    """Publishers are to wait for a client that consumes nothing."""
    _, writer = streams
    writer.write(hello(window=1, policy="block") + encode(Subscribe(1, "TRUE")))
    await _beat(writer)


async def _beat(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(encode(Beat()))
        await writer.drain()
        await asyncio.sleep(1)


ATTACKS: Final[dict[Callable[[Streams, random.Random], Awaitable[None]], int]] = {
    garbage: 2,
    mutated: 2,
    flood: 1,
    idle: IDLE,
    never_reads: 2,
    blocks: 2,
}
"""Each attack, and how many do it at a time."""


async def attack(seed: int, addresses: list[str]) -> None:
    """Attack these brokers until cancelled."""

    async def on_and_on(
        what: Callable[[Streams, random.Random], Awaitable[None]], number: int
    ) -> None:
        chance = random.Random(f"{seed} {what.__name__} {number}")
        while True:
            writer: asyncio.StreamWriter | None = None
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    streams = await asyncio.open_connection(
                        *parse_address(chance.choice(addresses))
                    )
                    writer = streams[1]
                    await what(streams, chance)
            if writer is not None:
                writer.transport.abort()
            await asyncio.sleep(chance.uniform(0.1, 0.5))

    async with asyncio.TaskGroup() as group:
        for what, count in ATTACKS.items():
            for number in range(count):
                group.create_task(on_and_on(what, number))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(attack(int(sys.argv[1]), sys.argv[2:]))
