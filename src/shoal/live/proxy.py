"""A bad wire in front of a broker: it cuts connections, delays what passes, and drops events.

Only whole messages between brokers that carry events are dropped. A connection that loses anything
else ends, in TCP; that is what :meth:`Proxy.cut` is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from typing import Final

import msgspec

from shoal.live.errors import ProtocolError
from shoal.live.messages import Hello
from shoal.live.wire import LENGTH, Splitter, parse_address
from shoal.stack import Message

LARGEST: Final = 1 << 30


def _kinds(kind: type[Message]) -> Iterator[type[Message]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def with_events() -> frozenset[bytes]:
    """How messages begin, on a wire, that carry events from broker to broker."""
    found = set()
    for kind in _kinds(Message):
        config = msgspec.structs.fields(kind) and kind.__struct_config__
        if kind.events is not Message.events and config and isinstance(config.tag, str):
            found.add(msgspec.msgpack.encode(config.tag))
    return frozenset(found)


def _of_client(introduction: bytes) -> bool:
    try:
        return _hello.decode(introduction).role == "client"
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        return True


_hello: Final = msgspec.msgpack.Decoder(Hello)


class Proxy:
    """Passes connections on to a broker; its faults can be set at any time."""

    def __init__(self, target: str, seed: str = "", *, frames: bool = True) -> None:
        self._target = parse_address(target)
        self._chance = random.Random(seed)
        self._frames = frames
        """Whether Shoal's frames pass, which can be dropped one by one; else it is plain bytes."""
        self._events = with_events()
        self._writers: dict[asyncio.StreamWriter, None] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None
        self.address = ""
        self.loss = 0.0
        """The share of messages with events that is dropped."""
        self.delay = 0.0
        """Seconds by which everything waits."""
        self.refuses = False
        """Whether new connections are closed at once."""
        self.dropped = 0

    async def start(self, address: str = "127.0.0.1:0") -> Proxy:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, *parse_address(address))
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    def fault(self, delay: float = 0.0, loss: float = 0.0) -> None:
        """Delay everything by so many seconds; drop this share of messages with events."""
        self.delay, self.loss = delay, loss

    def cut(self) -> None:
        """Every connection breaks, with what was on its way."""
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        """Cut everything, and listen no more."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection, in a task of the proxy's own.

        A task that asyncio makes would print a traceback for each connection that ``stop`` ends.
        """
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            if not self.refuses:
                there, onward = await asyncio.open_connection(*self._target)
                writers.append(onward)
                self._writers |= dict.fromkeys(writers)
                clients: list[bool] = []
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_on(reader, onward, clients))
                    both.create_task(self._pass_on(there, writer, clients))
        except* (OSError, asyncio.CancelledError, ProtocolError):
            pass  # cut, stopped, or no frames: the connection ends
        finally:
            for one in writers:
                self._writers.pop(one, None)
                one.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clients: list[bool]
    ) -> None:
        """Pass on what comes; ``clients`` says whether a client opened the connection, once known.

        The first frame of all is the caller's introduction.
        """
        splitter = Splitter(LARGEST)
        while data := await reader.read(1 << 16):
            if self.delay:
                await asyncio.sleep(self.delay)
            if writer.is_closing():
                break
            passed = bytearray(b"" if self._frames else data)
            for frame in splitter.feed(data) if self._frames else ():
                if not clients:
                    clients.append(_of_client(bytes(frame)))
                if self.loss and not clients[0] and self._lost(bytes(frame[1:40])):
                    self.dropped += 1
                else:
                    passed += LENGTH.pack(len(frame)) + frame
            writer.write(passed)  # at once: asyncio warns of each write to a connection that broke
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
        raise ConnectionError("closed")  # the other direction ends as well

    def _lost(self, head: bytes) -> bool:
        return self._chance.random() < self.loss and any(map(head.startswith, self._events))
