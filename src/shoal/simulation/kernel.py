"""The discrete-event kernel: a queue bucketed by instant.

Link delays are few, so many things happen at the same instant: one heap entry per instant, and a
plain list of what happens then, in the order in which it was scheduled. Time is whole nanoseconds,
so that instants compare exactly and a run is the same on every machine.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from shoal.stack.host import Timer

if TYPE_CHECKING:
    from shoal.stack.layer import Handler
    from shoal.stack.message import Message

NANOSECONDS: Final = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NANOSECONDS)


class Channel:
    """One direction of a link during one epoch: from when it came up to when it goes down.

    A message in flight when its channel goes down is lost, also if the same pair is linked again:
    that is another channel.
    """

    def __init__(self, source: int, target: int, handlers: dict[type[Message], Handler]) -> None:
        self.source = source
        self.target = target
        self.handlers = handlers
        self.up = True
        self.delay = 0
        self.ns_per_byte = 0.0
        self.free_at = 0
        self.quality = 1.0
        """The share of events that get through; what keeps the tables right is repeated until it does."""
        self.number = -1
        """Its row in a data plane, if there is one."""
        self.beyond = -1
        """The nodes that lie beyond this channel, as a bitset kept by the oracle."""


class Kernel:
    """Time, and what is to happen in it."""

    def __init__(self) -> None:
        self.now = 0
        self.handled = 0
        """Messages handed to their receivers so far."""
        self.lost = 0
        """Messages that were in flight on a link when it went down."""
        self.waiting = 0
        """Messages on their way."""
        self.armed = 0
        """Timers that will fire, background ones not counted."""
        self.posted = 0
        """Things put on the queue so far, counted while ``orders`` is kept."""
        self.orders: dict[int, list[int]] | None = None
        """Beside each bucket, when each of its entries was posted; kept for a data plane only."""
        self.buckets: dict[int, list[tuple[Channel | None, object]]] = {}
        self.instants: list[int] = []
        self._last_at = -1
        """The instant of the last post: messages sent together mostly arrive together."""
        self._last_bucket: list[tuple[Channel | None, object]] = []

    def post(self, at: int, channel: Channel, message: Message) -> None:
        """A message arrives over a channel, unless the channel goes down before."""
        if at != self._last_at:
            self._last_at = at
            self._last_bucket = self._bucket(at)
        self._last_bucket.append((channel, message))
        if self.orders is not None:
            self._number(self.orders, at)
        self.waiting += 1

    def call_at(self, at: int, callback: Callable[[], None], background: bool = False) -> SimTimer:
        """Call back at an instant. Background calls do not keep a run from being at rest."""
        timer = SimTimer(self, callback, background)
        if not background:
            self.armed += 1
        self._bucket(at).append((None, timer))
        if self.orders is not None:
            self._number(self.orders, at)
        return timer

    def _bucket(self, at: int) -> list[tuple[Channel | None, object]]:
        bucket = self.buckets.get(at)
        if bucket is None:
            bucket = []
            self.buckets[at] = bucket
            heappush(self.instants, at)
        return bucket

    def _number(self, orders: dict[int, list[int]], at: int) -> None:
        numbers = orders.get(at)
        if numbers is None:
            orders[at] = [self.posted]
        else:
            numbers.append(self.posted)
        self.posted += 1

    def run(self, until: int) -> None:
        """Let everything happen up to and including an instant."""
        collecting = gc.isenabled()
        gc.disable()  # the loop makes no cycles; scanning the queue again and again costs a third
        try:
            while self.instants and self.instants[0] <= until:
                self._instant(heappop(self.instants))
            if until > self.now:
                self.now = until
        finally:
            if collecting:
                gc.enable()

    def run_to_rest(self, until: int) -> bool:
        """Run until nothing is going on; False if that has not come by ``until``."""
        while self.instants and self.instants[0] <= until:
            if self.at_rest():
                return True
            self._instant(heappop(self.instants))
        return self.at_rest()

    def at_rest(self) -> bool:
        """Whether nothing is going on: nothing in flight, no timer armed."""
        return self.armed == 0 and self.waiting == 0

    def take(self, at: int) -> list[tuple[Channel | None, object]]:
        """Take what happens at an instant off the queue."""
        self.now = at
        self._last_at = -1
        return self.buckets.pop(at)

    def _instant(self, at: int) -> None:
        handled = 0
        lost = 0
        for channel, what in self.take(at):
            if channel is None:
                assert isinstance(what, SimTimer)
                what.fire()
            elif channel.up:
                handled += 1
                channel.handlers[type(what)](channel.source, what)  # type: ignore[index]  # a Message
            else:
                lost += 1
        self.handled += handled
        self.lost += lost
        self.waiting -= handled + lost


class SimTimer(Timer):
    """A callback in simulated time."""

    def __init__(self, kernel: Kernel, callback: Callable[[], None], background: bool) -> None:
        self.kernel = kernel
        self.callback: Callable[[], None] | None = callback
        self.background = background

    def cancel(self) -> None:
        """See :class:`~shoal.stack.host.Timer`."""
        if self.callback is not None:
            self.callback = None
            if not self.background:
                self.kernel.armed -= 1

    def fire(self) -> None:
        """Call back, unless cancelled."""
        callback = self.callback
        if callback is not None:
            self.cancel()
            callback()
