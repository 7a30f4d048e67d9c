"""A client's session at its broker: what it wants, what it is sent, and what if it is slow.

A client says how many deliveries it takes in advance (its window) and, as it consumes them, that
it did. What exceeds that, or what the socket does not take, waits in a bounded queue. When that is
full the client's own policy applies:

* ``drop oldest``: the oldest waiting events go; the client is told how many, and where.
* ``disconnect``: the client is disconnected.
* ``block``: clients that publish on this broker have to wait. Events from other brokers cannot, and
  push out the oldest.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from shoal.content import AttributeFilter, Event, FilterError
from shoal.live.connection import Connection
from shoal.live.errors import RefusedError
from shoal.live.messages import (
    Accepted,
    Beat,
    Bye,
    Consumed,
    FromClient,
    Hello,
    Inspect,
    Missed,
    Publish,
    Refused,
    Report,
    Subscribe,
    Unsubscribe,
)
from shoal.live.numbers import Numbered
from shoal.live.wire import LENGTH, content_of, encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.security import Principal

_decoder = msgspec.msgpack.Decoder(FromClient)
_HEAD: Final = b"\x93\xa5event\x91\xce"
_ONE: Final = struct.Struct(f">I{len(_HEAD)}sI")
"""The beginning of a delivery for one subscription; the encoded event follows."""
ONE_LENGTH: Final = len(_HEAD) + 4
TURN: Final = 0.005
"""Seconds after which a client's frames wait until others had their turn."""
HELD: Final = 1024
"""Publications that wait for a slow client before the publisher is read no further."""


def delivery_head(numbers: Sequence[int], event_bytes: int) -> bytes:
    """The frame of a :class:`~shoal.live.messages.Delivery` up to its event."""
    if len(numbers) == 1:
        return _ONE.pack(ONE_LENGTH + event_bytes, _HEAD, numbers[0])
    head = b"\x93\xa5event" + content_of(numbers)
    return LENGTH.pack(len(head) + event_bytes) + head


class Session:
    """One connected client."""

    def __init__(
        self, broker: Broker, connection: Connection, hello: Hello, principal: Principal
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.name = hello.who.name
        self.principal = principal
        self.policy = hello.policy
        self.room = hello.queue
        self.credit = hello.window
        self.filters = Numbered()
        self.published = self.delivered = self.dropped = 0
        self._missed = 0
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._congested = False
        self._blocking = False
        self._tokens = broker.settings.limits.rate
        self._refilled = connection.loop.time()
        self._paused = 0
        self._held: list[Publish] = []
        self._later: list[memoryview] = []

    # From the client

    def received(self, frames: list[memoryview]) -> None:
        """See :class:`~shoal.live.connection.User`."""
        if self._later:
            self._later += frames
        else:
            self._handle(frames)

    def _handle(self, frames: list[memoryview]) -> None:
        """Handle frames; if that takes long, others have their turn before the rest."""
        decode = _decoder.decode
        accepted = -1
        turn_ends = self.connection.loop.time() + TURN
        for at, frame in enumerate(frames):
            if not at & 31 and at and self.connection.loop.time() > turn_ends:
                self._later = frames[at:]
                self.pause()
                self.connection.loop.call_soon(self._go_on)
                frames = frames[:at]
                break
            message = decode(frame)
            if type(message) is Publish:
                if self._held or self.broker.blocked:
                    self._hold(message)
                    continue
                try:
                    self.broker.publish_for(self, message.values, message.body)
                except RefusedError as error:
                    if accepted >= 0:
                        self.connection.send(encode(Accepted(accepted)))
                        accepted = -1
                    self._refuse(message.request, error)
                else:
                    accepted = message.request
                    self.published += 1
            elif type(message) is Consumed:
                self.credit += message.count
                if self._queue or self._missed:
                    self._drain()
            else:
                if accepted >= 0:
                    self.connection.send(encode(Accepted(accepted)))
                    accepted = -1
                self._other(message)
        if accepted >= 0:
            self.connection.send(encode(Accepted(accepted)))
        if self.broker.settings.limits.rate:
            self._throttle(len(frames))

    def _go_on(self) -> None:
        frames, self._later = self._later, []
        self.resume()
        if not self.connection.gone:
            self.connection.guarded(self._handle, frames)

    def _hold(self, message: Publish) -> None:
        """Somebody who must not miss anything is slow: let publications wait."""
        self._held.append(message)
        if len(self._held) == HELD:
            self.pause()

    def release(self) -> None:
        """Publish what was held back, until somebody is too slow again."""
        if len(self._held) >= HELD:
            self.resume()
        held, self._held = self._held, []
        for at, message in enumerate(held):
            if self.broker.blocked:
                self._held = held[at:]
                if len(self._held) >= HELD:
                    self.pause()
                return
            try:
                self.broker.publish_for(self, message.values, message.body)
            except RefusedError as error:
                self._refuse(message.request, error)
            else:
                self.published += 1
                self.connection.send(encode(Accepted(message.request)))

    def _other(self, message: FromClient) -> None:
        if isinstance(message, Subscribe):
            try:
                self._subscribe(message)
            except FilterError as error:
                self._refuse(message.subscription, RefusedError("filter", str(error)))
            except RefusedError as error:
                self._refuse(message.subscription, error)
        elif isinstance(message, Unsubscribe):
            filter = self.filters.pop(message.subscription)
            if filter is not None:
                self.broker.unsubscribe(self, message.subscription, filter)
        elif isinstance(message, Inspect):
            self.broker.check_may_inspect(self.principal)
            status = msgspec.json.encode(self.broker.status(message.tables))
            self.connection.send(encode(Report(message.request, status)))
        elif isinstance(message, Bye):
            self.connection.close(f"client left: {message.reason}")
        else:
            assert isinstance(message, Beat), message

    def _subscribe(self, message: Subscribe) -> None:
        number = message.subscription
        if number in self.filters:
            raise RefusedError("number", f"subscription {number} is there already")
        if len(self.filters) >= self.broker.settings.limits.subscriptions:
            raise RefusedError(
                "limit", f"a client may have {len(self.filters)} subscriptions, and it has"
            )
        filter = self.principal.may_subscribe(AttributeFilter(message.filter))
        self.filters.put(number, self.broker.subscribe(self, number, filter))
        self.connection.send(encode(Accepted(number)))

    def restrict(self, principal: Principal) -> None:
        """Other rules hold from now on; subscriptions keep what they still allow."""
        self.principal = principal
        for number, filter in list(self.filters.items()):
            assert isinstance(filter, AttributeFilter), filter
            kept: AttributeFilter | None
            try:
                kept = principal.may_subscribe(filter)
            except RefusedError:
                kept = None
            if kept is filter:
                continue
            self.filters.pop(number)
            self.broker.unsubscribe(self, number, filter)
            if kept is not None:
                self.filters.put(number, self.broker.subscribe(self, number, kept))

    def _refuse(self, request: int, error: RefusedError) -> None:
        self.connection.send(encode(Refused(error.code, str(error)[:1000], request)))

    def _throttle(self, frames: int) -> None:
        """Read no more for as long as the client is ahead of its rate."""
        now = self.connection.loop.time()
        rate = self.broker.settings.limits.rate
        self._tokens = min(rate, self._tokens + (now - self._refilled) * rate) - frames
        self._refilled = now
        if self._tokens < 0:
            self.pause()
            self.connection.loop.call_later(-self._tokens / rate, self.resume)

    def pause(self) -> None:
        """Take nothing more from the client for the moment."""
        self._paused += 1
        if self._paused == 1 and self.connection.transport is not None:
            self.connection.transport.pause_reading()

    def resume(self) -> None:
        """Take more again, unless somebody else asked not to."""
        self._paused -= 1
        transport = self.connection.transport
        if not self._paused and transport is not None and not transport.is_closing():
            self.connection.heard = self.connection.loop.time()
            transport.resume_reading()

    @property
    def paused(self) -> bool:
        """Whether nothing is read from the client; its silence then means nothing."""
        return self._paused > 0

    # To the client

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """See :class:`~shoal.live.entries.Subscriber`."""
        if len(numbers) == 1:
            head = _ONE.pack(ONE_LENGTH + len(raw), _HEAD, numbers[0])
        else:
            head = delivery_head(numbers, len(raw))
        self.delivered += 1
        if self.credit > 0 and not self._congested and not self._queue:
            self.credit -= 1
            self.connection.send(head, raw)
        else:
            self._wait(head + raw)

    def _wait(self, frame: bytes) -> None:
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        full = len(self._queue) > self.room
        if not full and self._queued_bytes <= self.broker.settings.limits.queue_bytes:
            return
        if self.policy == "disconnect":
            waiting = len(self._queue)
            self._queue.clear()
            self.connection.close(f"too slow: {waiting} events wait; consume faster, or queue more")
            return
        if self.policy == "block" and not self._blocking:
            self._blocking = True
            self.broker.block(self)
        slack = 2 if self.policy == "block" else 1
        while len(self._queue) > slack * self.room or (
            self._queued_bytes > slack * self.broker.settings.limits.queue_bytes
        ):
            self._queued_bytes -= len(self._queue.popleft())
            self.dropped += 1
            self._missed += 1

    def _drain(self) -> None:
        """Send what waits, as far as the client takes it."""
        send = self.connection.send
        if self._missed and self.credit > 0 and not self._congested:
            send(encode(Missed(self._missed)))
            self._missed = 0
        sent = 0
        while self._queue and self.credit > 0 and not self._congested:
            frame = self._queue.popleft()
            self._queued_bytes -= len(frame)
            self.credit -= 1
            send(frame)
            sent += len(frame)
            if sent > 1 << 18:  # in portions: the socket says in between whether it takes more
                self.connection.flush()
                sent = 0
        if self._blocking and 2 * len(self._queue) <= self.room:
            self._blocking = False
            self.broker.unblock(self)

    def congested(self, yes: bool) -> None:
        """See :class:`~shoal.live.connection.User`."""
        self._congested = yes
        if not yes:
            self._drain()

    @property
    def queued(self) -> int:
        """Events that wait for the client."""
        return len(self._queue)

    def closed(self, reason: str) -> None:
        """See :class:`~shoal.live.connection.User`."""
        if self._blocking:
            self._blocking = False
            self.broker.unblock(self)
        self._queue.clear()
        self.broker.session_closed(self, reason)
