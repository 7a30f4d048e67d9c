"""One memory budget for everything that waits, for all clients and neighbours together.

What waits to be sent counts, and so do long frames whose end has not arrived. Whoever keeps bytes
waiting says how many. When they exceed the budget, whoever keeps most has to shed some, again and
again until the rest fits: a modest backlog is never touched for a greedy one.
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """Somebody for whom bytes wait."""

    def shed(self) -> None:
        """Drop part of what waits, if that is possible, and report what is left."""


class Budget:
    """Bytes that wait at one broker, per holder and together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._held: dict[Holder, int] = {}
        self._shedding = False

    @property
    def full(self) -> bool:
        """Whether more waits than may, since nothing of it could be shed."""
        return self.used > self.limit

    def hold(self, holder: Holder, size: int) -> None:
        """Report that ``size`` bytes wait for this holder now."""
        self.used += size - self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        else:
            self._held.pop(holder, None)
        if self.used > self.limit and not self._shedding:
            self._shedding = True
            self._shed()
            self._shedding = False

    def held(self, holder: Holder) -> int:
        """Bytes that wait for this holder."""
        return self._held.get(holder, 0)

    def _shed(self) -> None:
        able = dict(self._held)
        while able and self.used > self.limit:
            greediest = max(able, key=able.__getitem__)
            greediest.shed()
            left = self._held.get(greediest, 0)
            if left and left < able[greediest]:
                able[greediest] = left
            else:  # it cannot shed, or has nothing left
                del able[greediest]
