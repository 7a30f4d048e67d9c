"""The client for programs without an event loop: the same verbs, blocking.

::

    with shoal.connect_sync("127.0.0.1:7464") as bus:
        bus.publish(room="lab1", temperature=31)
        with bus.subscribe("temperature > 30") as hot:
            for event in hot:
                print(event["room"])
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from shoal.content import AttributeFilter, Value
from shoal.live.client import Bus
from shoal.live.client import connect as connect_async
from shoal.live.errors import DisconnectedError, LiveError
from shoal.live.messages import Promise
from shoal.live.subscription import Gap, Received, Subscription

LAST_WORDS: Final = 1.0
"""Seconds in which threads that still wait for a connection are to learn that it is closed."""
P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, for callers that have none."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self.loop.run_forever, name="shoal", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread, and wait for its result."""
        with self._lock:
            if self._over:
                work.close()
                raise DisconnectedError("the connection is closed")
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise DisconnectedError("the connection was closed meanwhile") from None
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread; what others still wait for ends with it."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.run_until_complete(_end_all())
        self.loop.close()


async def _end_all() -> None:
    """Give the other tasks of this loop a moment to end, and cancel those that do not."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=LAST_WORDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class SyncSubscription:
    """Events that match a filter, as an iterator; leaving its block unsubscribes."""

    def __init__(self, thread: LoopThread, subscription: Subscription) -> None:
        self._thread = thread
        self._subscription = subscription

    @property
    def missed(self) -> int:
        """Events known to be missing."""
        return self._subscription.missed

    @property
    def gaps(self) -> int:
        """Number of reports that events may have been missed."""
        return self._subscription.gaps

    def next(self, timeout: float | None = None) -> Received | Gap:
        """The next event; a TimeoutError if none comes in time."""

        async def wait() -> Received | Gap:
            async with asyncio.timeout(timeout):
                return await self._subscription.__anext__()

        return self._thread.run(wait())

    def __iter__(self) -> Iterator[Received]:
        return self

    def __next__(self) -> Received:
        try:
            return self.next()  # type: ignore[return-value]  # a Gap only where it was asked for
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> SyncSubscription:
        self._thread.run(self._subscription.start())
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(DisconnectedError):  # closed with its connection
            self._thread.run(self._subscription.stop())


def _blocking(
    method: Callable[Concatenate[Bus, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncBus, P], T]:
    """A method of :class:`SyncBus`, with the arguments and the docstring of its original."""

    @wraps(method)
    def run(self: SyncBus, /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._thread.run(method(self.bus, *arguments, **named))

    return run


class SyncBus:
    """A :class:`~shoal.live.client.Bus` whose methods block."""

    def __init__(self, address: str, options: Mapping[str, Any]) -> None:
        self._thread = LoopThread()
        try:
            self.bus: Bus = self._thread.run(_connected(address, options))
        except BaseException:
            self._thread.stop()
            raise

    publish = _blocking(Bus.publish)
    publish_many = _blocking(Bus.publish_many)
    request = _blocking(Bus.request)
    reply = _blocking(Bus.reply)
    settled = _blocking(Bus.settled)
    inspect = _blocking(Bus.inspect)

    def subscribe(
        self,
        filter: str | AttributeFilter,
        *,
        gaps: bool = False,
        promise: Promise = "best effort",
        ordered: bool = False,
    ) -> SyncSubscription:
        """Subscribe, as :meth:`shoal.live.client.Bus.subscribe`; iterate over the result."""

        async def make() -> Subscription:
            return self.bus.subscribe(filter, gaps=gaps, promise=promise, ordered=ordered)

        return SyncSubscription(self._thread, self._thread.run(make()))

    def close(self) -> None:
        """Leave."""
        with suppress(DisconnectedError):  # once is enough
            self._thread.run(self.bus.close())
        self._thread.stop()

    def __enter__(self) -> SyncBus:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _connected(address: str, options: Mapping[str, Any]) -> Bus:
    return await connect_async(address, **options)


def connect(address: str = "127.0.0.1:7464", **options: Any) -> SyncBus:
    """Connect without an event loop; the options are those of :func:`shoal.connect`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return SyncBus(address, options)
    raise LiveError("an event loop is running here: use 'await shoal.connect(…)' instead")


def publish(
    address: str, attributes: Mapping[str, Value | None], *, body: bytes = b"", **options: Any
) -> None:
    """Publish one event and leave: ``shoal.publish("127.0.0.1:7464", {"room": "lab1"})``.

    The options are those of :func:`shoal.connect`. A program that publishes more than now and then
    keeps a connection instead: :func:`shoal.connect_sync`.
    """
    with connect(address, **options) as bus:
        bus.publish(attributes, body=body)
