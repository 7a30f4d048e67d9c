"""A subscription: events, and reports of those that are missing."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from shoal.content import AttributeFilter, Value
from shoal.live.errors import LiveError
from shoal.recovery.delivered import Delivered

if TYPE_CHECKING:
    from shoal.live.client import Bus
    from shoal.live.messages import Promise


class Received(msgspec.Struct, frozen=True):
    """An event as a subscriber gets it; ``event["room"]`` is an attribute."""

    attributes: Mapping[str, Value | None]
    body: bytes
    publisher: int
    """The node id of the broker it was published at."""
    sequence: int

    def __getitem__(self, name: str) -> Value | None:
        return self.attributes[name]

    def get(self, name: str, otherwise: Value | None = None) -> Value | None:
        """An attribute, or something else where the event has none."""
        return self.attributes.get(name, otherwise)


class Gap(msgspec.Struct, frozen=True):
    """Events are missing here: so many, or an unknown number (None) after a lost connection."""

    count: int | None
    reason: str
    publisher: int | None = None
    """The node id of the broker they were published at, if they are of one."""


class Subscription:
    """Events that match a filter, as an asynchronous iterator; leaving its block unsubscribes."""

    def __init__(
        self,
        bus: Bus,
        filter: AttributeFilter,
        gaps: bool,
        promise: Promise = "best effort",
        ordered: bool = False,
    ) -> None:
        self._bus = bus
        self.filter = filter
        self.promise: Promise = promise
        self.ordered = ordered
        self._had = Delivered()
        """Events that came."""
        self._last: dict[int, int] = {}
        """Per publisher the last sequence number; only where events come in order."""
        self._doubted: dict[int, float] = {}
        """Per publisher, when an unknown number of its events was last reported missing."""
        self.since: float | None = None
        """Time at which a broker was first asked for it."""
        self.number = bus._requests.subscription_number()
        self.missed = 0
        """Events known to be missing."""
        self.gaps = 0
        """Number of reports that events may have been missed."""
        self._yields_gaps = gaps
        self._ready: deque[Received | Gap] = deque()
        self._wake: asyncio.Event = asyncio.Event()
        self._active = False
        self._error: LiveError | None = None

    async def start(self) -> Subscription:
        """Subscribe now rather than at the first event asked for."""
        if not self._active:
            self._active = True
            try:
                await self._bus._subscribe(self)
            except BaseException:
                self._active = False
                raise
        return self

    async def stop(self) -> None:
        """Unsubscribe."""
        if self._active:
            self._active = False
            self.since = None  # subscribed again, it misses nothing of the time in between
            self._bus._unsubscribe(self)
            self._wake.set()

    async def __aenter__(self) -> Subscription:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        """The next event. With ``gaps=True`` a :class:`Gap` may come in its place."""
        await self.start()
        while not self._ready:
            if self._error is not None:
                raise self._error
            if not self._active:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        item = self._ready.popleft()
        if isinstance(item, Received):
            self._bus._consumed()
        return item  # type: ignore[return-value]  # a Gap only where it was asked for

    def __del__(self) -> None:
        if self._active:  # left without its block: unsubscribe all the same
            self._bus._abandon(self.number, self._waiting())

    def _waiting(self) -> int:
        return sum(isinstance(item, Received) for item in self._ready)

    def _is_news(self, gap: Gap, ago: float) -> bool:
        """Whether a gap in what was published until so many seconds ago was not told before."""
        if gap.publisher is None or gap.count is not None:
            return True
        now = self._bus._loop.time()
        if ago and self._doubted.get(gap.publisher, -math.inf) >= now - ago:
            return False
        self._doubted[gap.publisher] = now
        return True

    def _put(self, item: Received | Gap) -> None:
        if isinstance(item, Received) and not self._had.first(item.publisher, item.sequence):
            self._bus._consumed()  # it came before, from another broker or before a reconnection
            if not self._had.doubtful(item.publisher, item.sequence):
                return
            item = Gap(1, "it came too late to know whether it is new", item.publisher)
        if self.ordered and isinstance(item, Received):
            if item.sequence < self._last.get(item.publisher, -1):
                self._bus._consumed()
                item = Gap(1, "it came too late to be in order", item.publisher)
            else:
                self._last[item.publisher] = item.sequence
        if isinstance(item, Gap):
            self.gaps += 1
            self.missed += item.count or 0
            if not self._yields_gaps:
                return
        self._ready.append(item)
        self._wake.set()

    def _fail(self, error: LiveError) -> None:
        self._error = error
        self._wake.set()
