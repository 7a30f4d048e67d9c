"""Deliveries in order: for subscriptions that ask for each publisher's events in their order.

An event waits here while its recovery still looks for an earlier one of the same publisher that the
subscription wants, or waits for the publisher's first numbers. It goes on once that one came, or
was reported as a gap. What waits is bounded; beyond it, the earliest goes on all the same, and the
client reports what comes after it as a gap.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from shoal.content import Content, Event, Filter
    from shoal.live.broker import Broker

MOST: Final = 10_000
"""Events that wait for one client."""
LOOK: Final = 0.05
"""Seconds between checks whether what waits can go on."""


class Waiting(NamedTuple):
    """A delivery that waits."""

    numbers: Sequence[int]
    event: Event
    raw: bytes
    sequence: int


_sequence = attrgetter("sequence")


class Ordering:
    """One client's ordered subscriptions, and what waits for them."""

    def __init__(
        self, broker: Broker, deliver: Callable[[Sequence[int], Event, bytes], None]
    ) -> None:
        self._broker = broker
        self._deliver = deliver
        self._filters: dict[int, Filter] = {}
        """Ordered subscriptions."""
        self._waiting: dict[int, list[Waiting]] = {}
        """Per publisher, by sequence number."""
        self._count = self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, number: int, filter: Filter) -> None:
        """A subscription wants its events in order."""
        self._filters[number] = filter

    def remove(self, number: int) -> None:
        """A subscription has ended."""
        self._filters.pop(number, None)
        self.release()

    def narrow(self, number: int, filter: Filter) -> None:
        """A subscription, if it is one of these, has another filter from now on."""
        if number in self._filters:
            self._filters[number] = filter

    def withhold(self, may_receive: Callable[[Content], bool]) -> None:
        """Let go of waiting events that the client may not receive any more."""
        for publisher, waiting in list(self._waiting.items()):
            self._waiting[publisher] = [one for one in waiting if may_receive(one.event.content)]
        kept = [one for waiting in self._waiting.values() for one in waiting]
        self._count, self._bytes = len(kept), sum(len(one.raw) for one in kept)

    def close(self) -> None:
        """The client has gone."""
        self._waiting.clear()
        self._filters.clear()
        if self._timer is not None:
            self._timer.cancel()

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        """Deliver now, or once what comes before it is there."""
        publisher = event.publisher
        waiting = self._waiting.get(publisher)
        new = Waiting(numbers, event, raw, event.sequence)
        if waiting is None and not self._must_wait(new):
            self._deliver(numbers, event, raw)
            return
        if waiting is None:
            waiting = self._waiting[publisher] = []
        insort(waiting, new, key=_sequence)
        self._count += 1
        self._bytes += len(raw)
        room = self._broker.settings.limits.queue_bytes
        while waiting and (self._count > MOST or self._bytes > room):
            self._next(waiting)
        self.release()

    def release(self) -> None:
        """Deliver what need wait no longer."""
        for publisher, waiting in list(self._waiting.items()):
            while waiting and not self._must_wait(waiting[0]):
                self._next(waiting)
            if not waiting:
                del self._waiting[publisher]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self._broker.loop.call_later(LOOK, self.release)

    def _must_wait(self, one: Waiting) -> bool:
        recovery = self._broker.layers.recovery
        if recovery is None:
            return False
        filters = [self._filters[number] for number in one.numbers if number in self._filters]
        publisher = one.event.publisher
        return any(recovery.awaits(filter, publisher, one.sequence) for filter in filters)

    def _next(self, waiting: list[Waiting]) -> None:
        one = waiting.pop(0)
        self._count -= 1
        self._bytes -= len(one.raw)
        self._deliver(one.numbers, one.event, one.raw)
