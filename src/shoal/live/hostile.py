"""Hostile clients and brokers: what strangers may try, for ``shoal chaos --live``.

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

import msgspec

from shoal.content import AttributeFilter, Attributes, Event
from shoal.live.identity import node_id
from shoal.live.messages import (
    VERSIONS,
    Beat,
    Hello,
    Inspect,
    Known,
    Policy,
    Publish,
    Report,
    Subscribe,
    ToClient,
    Welcome,
)
from shoal.live.status import Status
from shoal.live.wire import LENGTH, encode, parse_address
from shoal.recovery.messages import Compare, Digest, Held, Hold, Reply, Tally
from shoal.stack import Contact

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


async def lies(streams: Streams, chance: random.Random) -> None:
    """A broker that advertises events it does not have, and gives others that nobody asked for."""
    reader, writer = streams
    writer.write(hello() + encode(Inspect(1)))
    name, broker, stack = f"liar-{chance.randrange(1000)}", Known(-1, "", "", 0), ""
    while not stack:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        message = _answer.decode(await reader.readexactly(length))
        if isinstance(message, Welcome):
            broker = message.who
        elif isinstance(message, Report):
            stack = msgspec.json.decode(message.status, type=Status).stack
    if "recovery=" not in stack:
        return
    there, talk = await asyncio.open_connection(*parse_address(broker.address))
    me = Known(node_id(name), name, "127.0.0.1:9", 1)
    contact = Contact(me.node, me.address)
    talk.write(encode(Hello(VERSIONS, "peer", "talk", me, time.time(), stack)))
    swallow = asyncio.ensure_future(_swallow(there))
    wanted = AttributeFilter(f"kind = {chance.randrange(4)}")
    try:
        for number in range(200):
            first = chance.randrange(1 << 40)
            held = tuple([(broker.node, first + n, 0.1) for n in range(100)])
            event = Event(broker.node, first, Attributes({"kind": NOT_FOR_US, "n": number}))
            own = Event(me.node, number, Attributes({"kind": NOT_FOR_US, "n": number}))
            for lie in (
                Digest(contact, 2 * number, wanted, held, 1),
                Digest(contact, 2 * number + 1, None, held, 0),
                Compare(contact, number, (wanted,), (60.0,), ((contact, -1, 1 << 40),), 8),
                Tally(((0, 1 << 40, 1 << 40),)),
                Reply(((event, 0.1),)),
                Hold(own, 0.1),
                Held(first),
            ):
                talk.write(encode(lie))
            await talk.drain()
            await asyncio.sleep(0.1)
    finally:
        swallow.cancel()
        talk.transport.abort()


_answer = msgspec.msgpack.Decoder(ToClient)


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
    lies: 2,
}
"""Each attack, and how many do it at a time."""


UNHURRIED: Final = (garbage, mutated, lies)
"""Attacks that let time pass: others would have all of it to themselves on a virtual loop."""


async def attack(seed: int, addresses: list[str], virtual: bool = False) -> None:
    """Attack these brokers until cancelled."""

    async def on_and_on(
        what: Callable[[Streams, random.Random], Awaitable[None]], number: int
    ) -> None:
        chance = random.Random(f"{seed} {what.__name__} {number}")
        while True:
            writer: asyncio.StreamWriter | None = None
            with contextlib.suppress(OSError, EOFError, TimeoutError):
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
            for number in range(count if what in UNHURRIED or not virtual else 0):
                group.create_task(on_and_on(what, number))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(attack(int(sys.argv[1]), sys.argv[2:]))
