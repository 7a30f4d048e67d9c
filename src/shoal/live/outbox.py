"""Deliveries to a client, and what happens if it is slow.

A client says how many deliveries it takes in advance (its window) and, as it consumes them, that
it did. What exceeds that, or what the socket does not take, waits in a bounded queue. When that is
full the client's own policy applies:

* ``drop oldest``: the oldest waiting events go; the client is told how many, and where.
* ``disconnect``: the client is disconnected.
* ``block``: the client whose event did not fit has to wait before it publishes another, for
  ``limits.block`` seconds at most; after that the policy of the slow one is ``drop oldest``.
  Events from other brokers cannot wait, and push out the oldest.

All queues of a broker share one :class:`~shoal.live.budget.Budget`.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from shoal.content import Content, Event
from shoal.live.budget import Holder
from shoal.live.connection import Connection, User
from shoal.live.entries import Subscriber
from shoal.live.messages import Hello, Missed
from shoal.live.wire import LENGTH, content_of, encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.session import Session

log = logging.getLogger("shoal.live")
_event = msgspec.msgpack.Decoder(Event)
_HEAD: Final = b"\x93\xa5event\x91\xce"
_ONE: Final = struct.Struct(f">I{len(_HEAD)}sI")
"""The beginning of a delivery for one subscription; the encoded event follows."""
ONE_LENGTH: Final = len(_HEAD) + 4


def delivery_head(numbers: Sequence[int], event_bytes: int) -> bytes:
    """The frame of a :class:`~shoal.live.messages.Delivery` up to its event."""
    if len(numbers) == 1:
        return _ONE.pack(ONE_LENGTH + event_bytes, _HEAD, numbers[0])
    head = b"\x93\xa5event" + content_of(numbers)
    return LENGTH.pack(len(head) + event_bytes) + head


class Outbox(User, Subscriber, Holder):
    """Deliveries to one client."""

    def __init__(self, broker: Broker, connection: Connection, hello: Hello) -> None:
        self.broker = broker
        self.connection = connection
        self.name = hello.who.name
        self.policy = hello.policy
        self.room = hello.queue
        self.credit = hello.window
        self.delivered = self.dropped = 0
        self._missed = 0
        self._lost = ""
        """Why events were lost since the client last read; it is told once it reads again."""
        self._queue: deque[tuple[bytes, bytes]] = deque()
        """The beginning of each delivery, and its event as all clients share it."""
        self._queued_bytes = 0
        self._again = 0
        """How many more than :attr:`room` may wait, as they are delivered again."""
        self._congested = False
        """Whether the socket takes no more for the moment."""
        self._publishers: dict[Session, None] = {}
        """Clients that wait until there is room here."""
        self._patience: asyncio.TimerHandle | None = None

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        if len(numbers) == 1:
            head = _ONE.pack(ONE_LENGTH + len(raw), _HEAD, numbers[0])
        else:
            head = delivery_head(numbers, len(raw))
        if self.credit > 0 and not self._congested and not self._queue:
            self.delivered += 1
            self.credit -= 1
            self.connection.send(head, raw)
        elif not self.connection.gone:
            self.delivered += 1
            self._wait(head, raw)

    def deliver_again(self, number: int, events: list[Event]) -> None:
        """Deliver events that the client may have had; it has room for them.

        Or it would lose others because of events that it has, or be disconnected for ever.
        """
        self._again += len(events)
        for event in events:
            self.deliver((number,), event, content_of(event))
        self._again = min(self._again, len(self._queue))

    def missed(
        self, numbers: Sequence[int], count: int, reason: str, publisher: int = -1, ago: float = 0.0
    ) -> None:
        """Tell the client of lost events; ``ago``: seconds since the last of them, at least."""
        if self._congested:  # one word for all that it misses meanwhile
            self._lost = reason
        else:
            self.connection.send(encode(Missed(count, reason, tuple(numbers), publisher, ago)))

    def _wait(self, head: bytes, raw: bytes) -> None:
        self._queue.append((head, raw))
        self._queued_bytes += len(head) + len(raw)
        if self._full():
            if self.policy == "disconnect":
                waiting = len(self._queue)
                self._forget()
                self.connection.close(
                    f"too slow: {waiting} events wait; consume faster, or queue more"
                )
                return
            if self.policy == "block" and self.broker.publishing is not None:
                self._block(self.broker.publishing)
            while self._full(len(self._publishers)):
                self._drop_oldest()
        self._hold()

    def _full(self, overrun: int = 0) -> bool:
        """Whether more waits than may; ``overrun`` events fit beyond that."""
        limits = self.broker.settings.limits
        return len(self._queue) > self.room + self._again + overrun or (
            self._queued_bytes > limits.queue_bytes + overrun * limits.frame
        )

    def _drop_oldest(self) -> None:
        head, raw = self._queue.popleft()
        self._queued_bytes -= len(head) + len(raw)
        self.dropped += 1
        self._missed += 1

    def withhold(self, may_receive: Callable[[Content], bool]) -> None:
        """Let go of waiting events that the client may not receive any more."""
        queue = [one for one in self._queue if may_receive(_event.decode(one[1]).content)]
        self._queue = deque(queue)
        self._queued_bytes = sum(len(head) + len(raw) for head, raw in queue)
        self._hold()

    def _hold(self) -> None:
        self.broker.budget.hold(self, self._queued_bytes)

    def shed(self) -> None:
        """Drop the older half of the queue, or the client if that is its policy: memory is full."""
        if self.policy == "disconnect":
            self._forget()
            self.connection.close("the broker's memory is full, and this client is the slowest")
            return
        for _ in range((len(self._queue) + 1) // 2):
            self._drop_oldest()
        self._hold()

    def _drain(self) -> None:
        """Send what waits, as far as the client takes it."""
        send = self.connection.send
        if self._missed and self.credit > 0 and not self._congested:
            send(encode(Missed(self._missed)))
            self._missed = 0
        if self._lost and not self._congested:
            send(encode(Missed(0, self._lost)))
            self._lost = ""
        while self._queue and self.credit > 0 and not self._congested:
            head, raw = self._queue.popleft()
            self._queued_bytes -= len(head) + len(raw)
            self.credit -= 1
            send(head, raw)
        self._again = min(self._again, len(self._queue))
        self._hold()
        if self._publishers and len(self._queue) < self.room and not self._full():
            self._unblock()

    def congested(self, yes: bool) -> None:
        self._congested = yes
        if not yes:
            self._drain()

    # Those who publish faster than this client consumes

    def _block(self, publisher: Session) -> None:
        self._publishers[publisher] = None
        publisher.wait_for(self)
        if self._patience is None:
            bound = self.broker.settings.limits.block
            self._patience = self.connection.loop.call_later(bound, self._too_slow)

    def _unblock(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        publishers, self._publishers = self._publishers, {}
        for publisher in publishers:
            publisher.no_longer_wait_for(self)

    def unblock(self, publisher: Session) -> None:
        """A client that waits has gone."""
        self._publishers.pop(publisher, None)
        if not self._publishers:
            self._unblock()

    def _too_slow(self) -> None:
        log.warning(
            "client '%s' (%s) kept others from publishing for %g s; from now on it loses the "
            "oldest events instead",
            self.name,
            self.connection.remote,
            self.broker.settings.limits.block,
        )
        self.policy = "drop oldest"
        self._unblock()

    def tell_missed(self) -> None:
        """Tell a client that is about to be left what it will not get any more."""
        missed = self._missed + len(self._queue)
        if missed:
            self.connection.send(encode(Missed(missed)))
        if self._lost:
            self.connection.send(encode(Missed(0, self._lost)))
        self._missed, self._lost = 0, ""
        self._forget()

    def _forget(self) -> None:
        """Let go of everything that waits, and of everybody."""
        self._queue.clear()
        self._queued_bytes = self.credit = self._again = 0
        self._hold()
        self._unblock()

    @property
    def queued(self) -> int:
        """Events that wait for the client."""
        return len(self._queue)
