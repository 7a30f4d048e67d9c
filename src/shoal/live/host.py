"""The live host: what a protocol sees of the world when the world is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.stack import Contact, Host, NodeId, Timer

if TYPE_CHECKING:
    from shoal.content import Event, Filter, FilterTable
    from shoal.live.broker import Broker
    from shoal.stack import Message


class LiveTimer(Timer):
    """A callback of the event loop."""

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        """See :class:`~shoal.stack.host.Timer`."""
        self._handle.cancel()


class Repeating(Timer):
    """A callback that comes again and again."""

    def __init__(
        self, host: LiveHost, period: float, callback: Callable[[], None], first: float
    ) -> None:
        self._host = host
        self._period = period
        self._callback = callback
        self._next = host.after(first, self._call)

    def _call(self) -> None:
        self._next = self._host.after(self._period, self._call)
        self._callback()

    def cancel(self) -> None:
        """See :class:`~shoal.stack.host.Timer`."""
        self._next.cancel()


class LiveHost(Host):
    """One broker's view of the world."""

    def __init__(self, broker: Broker, node: NodeId, seed: int) -> None:
        super().__init__(node, seed)
        self._broker = broker
        self._loop = broker.loop
        self.closed = False

    def now(self) -> float:
        """See :class:`~shoal.stack.host.Host`."""
        return self._loop.time()

    def send(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self._broker.send(to, message)

    def broadcast(self, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`. A wire has no frame that all hear."""
        self.send_all(tuple(self._broker.links), message)

    def send_direct(self, to: Contact, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self._broker.send_direct(to, message)

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""

        def call() -> None:
            if not self.closed:
                callback()

        return LiveTimer(self._loop.call_later(delay, call))

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return Repeating(self, period, callback, period if first is None else first)

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self._broker.deliver(event, hops)

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        recording = self._broker.recording
        if recording is not None:
            recording.stopped(why, hops, deterministic)

    def note(self, what: str, peer: NodeId, value: str) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        recording = self._broker.recording
        if recording is not None:
            recording.noted(what, peer, value)

    def table(self, filter: Filter) -> FilterTable:
        """A table that clients and routing share."""
        return self._broker.edge.table()
