"""The live host: what a protocol sees of the world when the world is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.stack import Host, NodeId, Timer

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

    def send_direct(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self._broker.send_direct(to, message)

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""

        def call() -> None:
            if not self.closed:
                callback()

        return LiveTimer(self._loop.call_later(delay, call))

    def deliver(self, event: Event, hops: int) -> None:
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
