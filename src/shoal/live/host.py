"""The live host: a broker's stack sees sockets, the clock and its clients through it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from shoal.live.identity import first_sequence
from shoal.live.wire import LENGTH, content_of
from shoal.routing import Forward
from shoal.stack import Contact, Host, Timer
from shoal.stack.host import NEVER, remember

if TYPE_CHECKING:
    from shoal.content import Event, Filter, FilterTable
    from shoal.live.broker import Broker
    from shoal.stack import Heartbeat, Message, NodeId

log = logging.getLogger("shoal.live")
LOST: Final = "events of node {} were lost on their way"
WARNINGS: Final = 256
"""Warnings that are remembered, so that each is logged once."""


class LiveTimer(Timer):
    """A callback of the event loop."""

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self._handle = handle

    def cancel(self) -> None:
        self._handle.cancel()


class Repeating(Timer):
    """A callback that is repeated."""

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
        self._next.cancel()


class LiveHost(Host):
    """The host of one broker."""

    def __init__(self, broker: Broker, seed: int) -> None:
        super().__init__(broker.node, seed)
        self._broker = broker
        self._loop = broker.loop
        self.now = broker.loop.time  # type: ignore[method-assign]  # called for every event
        self.epoch = broker.epoch
        limits = broker.settings.limits
        self.neighbour_filters = limits.neighbour_filters
        self.neighbour_filter_bytes = limits.neighbour_filter_bytes
        self.floor = first_sequence(broker.epoch) - 1
        self.closed = False
        self._sent: Message | None = None
        """The message that was encoded last."""
        self._frame = b""
        """Its frame."""
        self._keeps = broker.stack.recovery is not None
        """Whether there is a recovery, which keeps events as they were encoded."""
        self._warned: dict[tuple[NodeId, str], None] = {}
        """Warnings that were logged: node and text."""

    # Time

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:

        def call() -> None:
            if not self.closed:
                callback()

        return LiveTimer(self._loop.call_later(delay, call))

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        return Repeating(self, period, callback, period if first is None else first)

    # Connections and messages

    def frame_of(self, message: Message) -> bytes:
        """The frame of a message; the last one is kept, for neighbours often get the same."""
        if message is not self._sent:
            self._sent = message
            content = content_of(message)
            self._frame = LENGTH.pack(len(content)) + content
            if self._keeps and type(message) is Forward:
                self.packed_event, self.packed = message.event, content
        return self._frame

    def pack(self, event: Event) -> bytes:
        return content_of(event)

    def routes(self, filter: Filter) -> bool:
        return filter in self._broker.edge.tables[0]

    def contact(self) -> Contact:
        return Contact(self.node, self._broker.me.address)

    def open(self, contact: Contact) -> None:
        self._broker.peers.open(contact)

    def close(self, node: NodeId) -> None:
        self._broker.peers.close(node)

    def send(self, to: NodeId, message: Message) -> None:
        departures = self._broker.departures
        if departures.absent and departures.keep(to, message):
            return
        peer = self._broker.peers.connected.get(to)
        if peer is not None:
            peer.send(message)

    def broadcast(self, message: Message) -> None:
        """Send to every neighbour in turn: a wire has no frame that all hear."""
        self.send_all(tuple(self._broker.links), message)

    def heard(self, node: NodeId) -> float:
        """When a broker last sent anything: whatever arrives is a sign of life."""
        peer = self._broker.peers.connected.get(node)
        if peer is None:
            return NEVER
        return self.now() if peer.connection.paused else peer.connection.heard

    def last_beat(self, node: NodeId) -> Heartbeat | None:
        peer = self._broker.peers.connected.get(node)
        return None if peer is None else peer.last_beat

    def send_direct(self, to: Contact, message: Message) -> None:
        peer = self._broker.peers.find(to)
        if peer is not None:
            peer.send(message)
        else:
            self._broker.out_of_band.send(to, message)

    def hold(self, node: NodeId) -> None:
        self._broker.departures.hold(node)

    def release(self, node: NodeId) -> None:
        self._broker.departures.release(node)

    # The application, and whoever watches

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        broker = self._broker
        broker.delivered += 1
        broker.recovered += recovered
        if broker.recording is not None:
            broker.recording.delivered(event, hops, recovered)
        raw = b""
        if self._keeps:
            raw = content_of(event)
            self.packed_event, self.packed = event, raw
        broker.edge.deliver(event, raw)

    def gap(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        """Tell the clients with this filter, or without one all, that events will not come."""
        broker = self._broker
        broker.given_up += count
        reason = LOST.format(publisher)
        if filter is not None:
            for subscriber, numbers in broker.edge.wanting(filter).items():
                subscriber.missed(tuple(numbers), count, reason, publisher)
        else:
            for session in broker.sessions:
                session.missed((), 0, reason, publisher)
        self.note("gap", publisher, str(count))

    def link_changed(self, neighbour: NodeId, up: bool, repair: int) -> None:
        broker = self._broker
        if broker.recording is not None:
            broker.recording.link(neighbour, "up" if up else "down", repair)
        broker.link_changes += 1
        log.info("link to %s is %s", self._name(neighbour), "up" if up else "down")
        if up:
            for warned in [key for key in self._warned if key[0] == neighbour]:
                del self._warned[warned]
            broker.links[neighbour] = broker.peers.connected[neighbour]
            broker.departures.link_up()
        else:
            broker.links.pop(neighbour, None)
            broker.departures.link_down(neighbour)

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        if self._broker.recording is not None:
            self._broker.recording.stopped(why, hops, deterministic)

    def note(self, what: str, peer: NodeId, value: str) -> None:
        """Record a note; a warning is also logged, once while it holds."""
        if self._broker.recording is not None:
            self._broker.recording.noted(what, peer, value)
        if what == "warning" and (peer, value) not in self._warned:
            remember(self._warned, (peer, value), None, WARNINGS)
            log.warning("%s: %s", self._name(peer), value)

    def _name(self, node: NodeId) -> str:
        """Name of another broker in the log."""
        connected = self._broker.peers.connected.get(node)
        return f"node {node}" if connected is None else f"'{connected.who.name}'"

    def table(self, filter: Filter) -> FilterTable:
        """A table that clients and routing share."""
        table = self._broker.edge.table()
        alone = len(self._broker.edge.tables) == 1
        self.matched = table.matched if alone else None
        return table
