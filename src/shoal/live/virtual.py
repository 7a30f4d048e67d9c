"""A virtual world for brokers: many in one process, links in memory, time that costs nothing.

Brokers are those of :mod:`shoal.live.broker`, unchanged; the event loop below them is another::

    with VirtualLoop() as loop:
        loop.run(story(loop))

Its clock jumps to whatever is due next, so ten minutes of silence take no longer than one. Nothing
in it depends on the real clock, on ports of this machine or on unseeded chance, so that a story
goes the same way again with the same seed.

Its connections are pairs of ends in memory with the habits of TCP: bytes arrive in order after
:attr:`VirtualLoop.delay` seconds, a dead process breaks its connections, a stopped one leaves them
silent, and what crosses a cut waits until that is healed. Who opens a connection is known from the
context it runs in: brokers are started by :meth:`VirtualLoop.start`.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import heapq
import itertools
import random
import selectors
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import msgspec

from shoal.live.broker import Broker
from shoal.live.settings import Settings

T = TypeVar("T")
_here: contextvars.ContextVar[Place | None] = contextvars.ContextVar("place", default=None)
BORN: Final = 1_000_000
"""The epoch of a broker that starts when the world begins."""
FIRST_PORT: Final = 50_000
"""The first port that is given to a broker which asks for any."""
END: Final = None
"""Marks the end of a connection, in place of bytes: the other end is gone."""


class Place:
    """Where a broker runs: its process, as far as others notice it."""

    def __init__(self) -> None:
        self.broker: Broker | None = None
        self.alive = True
        self.stopped = False
        self.side = 0
        """Places on different sides of a cut do not hear each other."""
        self.ends: dict[End, None] = {}
        """This place's ends of connections."""
        self.delay = 0.0
        """Seconds that bytes to and from it take beyond :attr:`VirtualLoop.delay`."""
        self.lossy: Callable[[bytes], bytes] | None = None
        """What a bad wire leaves of the bytes between it and other brokers."""
        self.waiting: list[asyncio.Handle] = []
        """Callbacks that wait while the process is stopped."""


class Door:
    """A listening socket: who has connected and is not accepted yet."""

    def __init__(self, loop: VirtualLoop, host: str, port: int) -> None:
        self._loop = loop
        self._name = host, port
        self.place = _here.get()
        self._came: deque[End] = deque()
        self._waiter: asyncio.Future[tuple[Any, Any]] | None = None

    def comes(self, end: End) -> None:
        """Somebody connects."""
        self._came.append(end)
        self.look()

    def accept(self) -> asyncio.Future[tuple[Any, Any]]:
        """Whoever comes next."""
        waiter = self._waiter = self._loop.create_future()
        self.look()
        return waiter

    def look(self) -> None:
        """Let somebody in, if somebody came and the broker waits for that."""
        stopped = self.place is not None and self.place.stopped
        if self._came and self._waiter is not None and not self._waiter.done() and not stopped:
            self._waiter.set_result((self._came.popleft(), None))

    def getsockname(self) -> tuple[str, int]:
        """The address, as a socket gives it."""
        return self._name

    def close(self) -> None:
        """Listen no more, and close what waits to be accepted."""
        if self._loop.doors.get(self._name[1]) is self:
            del self._loop.doors[self._name[1]]
        while self._came:
            self._came.popleft().close()


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: VirtualLoop, place: Place | None, name: tuple[str, int]) -> None:
        super().__init__({"peername": name})
        self._loop = loop
        self.place = place
        self.other: End
        self.protocol: asyncio.Protocol | None = None
        self._context = contextvars.copy_context()
        self._coming: deque[bytes | None] = deque()
        """What is on its way here, in order."""
        self._reading = True
        self._closing = False
        if place is not None:
            place.ends[self] = None

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Hand this end over to a protocol."""
        self.protocol = protocol
        self._context = contextvars.copy_context()
        protocol.connection_made(self)
        self.look()

    # What a protocol asks for

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        data = bytes(data)
        near, far = self.place, self.other.place
        if near is not None and far is not None:
            for lossy in (near.lossy, far.lossy):
                data = data if lossy is None else lossy(data)
        if data:
            self.other.comes(data)

    def close(self) -> None:
        if not self._closing:
            self.other.comes(END)
            self._lost()

    def abort(self) -> None:
        self.close()

    def reset(self) -> None:
        """The connection breaks, and what is on its way is lost."""
        self._coming.clear()
        self.other._coming.clear()
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: a write buffer in memory is never too full."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.look()

    # What the other end sends

    def comes(self, data: bytes | None) -> None:
        """Bytes, or the end, are on their way here."""
        self._coming.append(data)
        delay = self._loop.delay
        for place in (self.place, self.other.place):
            delay += 0.0 if place is None else place.delay
        self._loop.call_later(delay, self._arrive, context=self._context)

    def look(self) -> None:
        """Let what has waited arrive."""
        for _ in range(len(self._coming)):
            self._loop.call_soon(self._arrive, context=self._context)

    def _arrive(self) -> None:
        deaf = self.protocol is None or not self._reading or self._loop.apart(self, self.other)
        if self._closing or not self._coming or deaf:
            return
        data = self._coming.popleft()
        if data is END:
            self._lost()
        elif self.protocol is not None:
            self.protocol.data_received(data)

    def _lost(self) -> None:
        self._closing = True
        if self.place is not None:
            self.place.ends.pop(self, None)
        if self.protocol is not None:
            self._loop.call_soon(self.protocol.connection_lost, None, context=self._context)


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the clock jumps instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is due any more, and somebody waits for it")
            self.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time and connections are virtual."""

    def __init__(self, seed: int = 0, delay: float = 0.001) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self.seed = seed
        """Seed of the module :mod:`random` while a story is told."""
        self.delay = delay
        """Seconds that bytes take from end to end."""
        self.places: dict[int, Place] = {}
        """Places by the port that a broker listens on."""
        self.doors: dict[int, Door] = {}
        """Listening sockets by port."""
        self._ports = itertools.count(FIRST_PORT)

    def time(self) -> float:
        """Seconds since the world began."""
        return self._jumping.now

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Run a story to its end."""
        asyncio.set_event_loop(self)
        before = random.getstate()
        random.seed(self.seed)
        try:
            return self.run_until_complete(story)
        finally:
            for place in self.places.values():
                if place.broker is not None:
                    place.broker.lobby.close()
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.run_until_complete(asyncio.sleep(0))
            asyncio.set_event_loop(None)
            random.setstate(before)

    def __enter__(self) -> VirtualLoop:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Brokers and what becomes of them

    async def start(self, settings: Settings) -> Broker:
        """Start a broker in a place of its own; name and seed, if it has none, are this world's."""
        place = Place()
        name = settings.name or f"broker-{random.getrandbits(32):08x}"
        seed = random.getrandbits(62) if settings.seed is None else settings.seed
        settings = msgspec.structs.replace(settings, name=name, seed=seed)

        async def start() -> Broker:
            _here.set(place)
            broker = Broker(settings)
            broker.begin_life(BORN + int(1000 * self.time()))
            return await broker.start()

        broker = place.broker = await asyncio.create_task(start())
        self.places[_port(broker)] = place
        return broker

    def kill(self, broker: Broker) -> None:
        """SIGKILL: it does nothing more, and its connections break."""
        place = self.places.pop(_port(broker))
        place.alive = False
        broker.running = False
        broker.host.closed = True
        broker.lobby.close()
        for task in list(broker._tasks):
            task.cancel()
        for end in list(place.ends):
            end.protocol = None
            end.close()

    async def terminate(self, broker: Broker) -> None:
        """SIGTERM: it stops in good order."""
        place = self.places[_port(broker)]

        async def stop() -> None:
            _here.set(place)
            await broker.drain()

        await asyncio.create_task(stop())
        self.kill(broker)

    def stop_process(self, broker: Broker) -> None:
        """SIGSTOP: it does nothing until it goes on, and others hear nothing of it."""
        place = self.places[_port(broker)]
        place.stopped = True
        due: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        place.waiting = [handle for handle in due if _owner(handle) is place]
        due[:] = [handle for handle in due if _owner(handle) is not place]
        heapq.heapify(due)
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # likewise
        for at, handle in enumerate(ready):
            if _owner(handle) is place:
                place.waiting.append(handle)
                ready[at] = asyncio.Handle(int, (), self)  # the loop has counted them

    def go_on(self, broker: Broker) -> None:
        """SIGCONT: what was due meanwhile happens now."""
        place = self.places[_port(broker)]
        place.stopped = False
        for handle in place.waiting:
            if isinstance(handle, asyncio.TimerHandle):
                heapq.heappush(self._scheduled, handle)  # type: ignore[attr-defined]  # asyncio's own heap
            else:
                self._ready.append(handle)  # type: ignore[attr-defined]  # likewise
        place.waiting = []
        door = self.doors.get(_port(broker))
        if door is not None:  # it may have been about to stop
            door.look()
        for end in list(place.ends):
            end.look()

    def cut(self, away: Iterable[Broker]) -> None:
        """Cut these brokers off from all others; nobody: heal the cut."""
        far = {_port(broker) for broker in away}
        for port, place in self.places.items():
            place.side = int(port in far)
        for place in self.places.values():
            for end in list(place.ends):
                end.look()

    def apart(self, one: End, other: End) -> bool:
        """Whether one end hears nothing of the other just now."""
        a, b = one.place, other.place
        return a is not None and (a.stopped or (b is not None and a.side != b.side))

    # What asyncio asks for

    async def getaddrinfo(self, host: Any, port: Any, **rest: Any) -> Any:
        """Addresses are what they look like."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def run_in_executor(self, executor: Any, function: Callable[..., T], *args: Any) -> T:  # type: ignore[override]  # no thread: time stands still meanwhile
        """Do it here and now."""
        return function(*args)

    def listening(self, host: str, port: int) -> list[Door]:
        """In place of :func:`shoal.live.lobby.listening`: no port of this machine is used."""
        port = port or next(self._ports)
        if port in self.doors:
            raise OSError(errno.EADDRINUSE, "somebody listens there")
        door = self.doors[port] = Door(self, host, port)
        return [door]

    async def sock_accept(self, sock: Any) -> tuple[Any, Any]:
        """Wait for the next connection at a listening socket."""
        return await sock.accept()  # type: ignore[no-any-return]  # a Door

    async def connect_accepted_socket(  # type: ignore[override]  # as below
        self, factory: Any, sock: Any, **rest: Any
    ) -> Any:
        """The accepting end of a connection."""
        protocol = factory()
        sock.begin(protocol)
        return sock, protocol

    async def create_connection(  # type: ignore[override]  # of its many arguments these are used
        self, factory: Any, host: Any = None, port: Any = None, **rest: Any
    ) -> Any:
        """Connect to a broker of this world."""
        here = _here.get()
        await asyncio.sleep(self.delay)
        door = self.doors.get(port)
        if door is None:
            raise ConnectionRefusedError(111, "nobody listens there")
        if here is not None and door.place is not None and here.side != door.place.side:
            await self.create_future()  # nothing ever answers
        near = End(self, here, (host, port))
        far = End(self, door.place, (host, 0))
        near.other, far.other = far, near
        door.comes(far)
        protocol = factory()
        near.begin(protocol)
        return near, protocol


def _port(broker: Broker) -> int:
    return int(broker.address.rpartition(":")[2])


def _owner(handle: asyncio.Handle) -> Place | None:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]  # of asyncio
    return context.get(_here)
