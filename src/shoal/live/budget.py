"""One memory budget for everything that waits, for all clients and neighbours together.

Two kinds of bytes wait. Events in a *queue* can be shed. Bytes that a connection *pins* cannot:
those that its socket does not accept, a frame whose end has not arrived, frames that wait for their
turn. When all that waits exceeds the budget, the holder of the longest queue sheds some, again and
again until the rest fits; so no short queue is touched for the sake of a long one. If the pinned
bytes are more than half of the budget then, the connection that has pinned most for longest (bytes
times seconds) is closed instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Holder(Protocol):
    """Somebody for whom events wait in a queue."""

    def shed(self) -> None:
        """Drop about half of what waits, at least something, and report what is left."""


class Pinner(Protocol):
    """A connection with bytes that only its other end can free."""

    def give_up(self) -> None:
        """Close the connection, and free everything."""


class Budget:
    """Bytes that wait at one broker, per holder and together."""

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self.used = 0
        self._clock = clock
        self._held: dict[Holder, int] = {}
        self._pinned: dict[Pinner, int] = {}
        self._since: dict[Pinner, float] = {}
        """Time since which each connection has pinned something."""
        self._all_pinned = 0
        self._shedding = False

    def hold(self, holder: Holder, size: int) -> None:
        """Report that ``size`` bytes wait in this holder's queue now."""
        self.used += size - self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        else:
            self._held.pop(holder, None)
        self._make_room()

    def pin(self, pinner: Pinner, size: int) -> None:
        """Report that this connection pins ``size`` bytes now."""
        before = self._pinned.get(pinner, 0)
        self.used += size - before
        self._all_pinned += size - before
        if size:
            self._pinned[pinner] = size
            if not before:
                self._since[pinner] = self._clock()
        elif before:
            del self._pinned[pinner], self._since[pinner]
        self._make_room()

    def held(self, holder: Holder, pinner: Pinner) -> int:
        """Bytes that wait for a holder, and in its connection."""
        return self._held.get(holder, 0) + self._pinned.get(pinner, 0)

    def _make_room(self) -> None:
        """Make holders shed, and connections close, until the rest fits the limit."""
        if self._shedding or self.used <= self.limit:
            return
        self._shedding = True
        try:
            while self.used > self.limit:
                if self._held and 2 * self._all_pinned <= self.limit:
                    max(self._held, key=self._held.__getitem__).shed()
                else:
                    self._give_up()
        finally:
            self._shedding = False

    def _give_up(self) -> None:
        now = self._clock()

        def burden(pinner: Pinner) -> tuple[float, int]:
            size = self._pinned[pinner]
            return size * (now - self._since[pinner]), size

        worst = max(self._pinned, key=burden)
        worst.give_up()
        self.pin(worst, 0)
