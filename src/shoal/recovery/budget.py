"""How much a recovery may send, and how often: ``Budget`` bounds bytes, ``Pace`` the period."""

from __future__ import annotations

BURST = 10.0
"""Seconds of the steady rate that can be saved up."""


class Budget:
    """Bytes that may be sent: a steady rate, and a share of the events that came by.

    So gossip takes a bounded part of links that are busy, and stays below the rate where nothing
    happens.
    """

    def __init__(self, rate: float, share: float = 0.0) -> None:
        self.rate = rate
        self.share = share
        self._most = BURST * rate
        self._left = self._most
        self._at = 0.0
        self._earned = 0
        """Bytes of events that came by since something was last spent."""

    def earn(self, size: int) -> None:
        """Count bytes of events that passed: a share of them may be spent."""
        self._earned += size

    def allows(self, size: int, now: float, spare: float = 0.0) -> bool:
        """Whether so many bytes may be sent now, and a share of all that can be saved up stays.

        A message larger than all that can be saved up may go when nothing is owed.
        """
        if self._earned:
            self._left = min(self._left + self.share * self._earned, 2 * self._most)
            self._earned = 0
        if self._left < self._most:
            self._left = min(self._left + self.rate * (now - self._at), self._most)
        self._at = now
        return self._left >= min(size + spare * self._most, self._most)

    def spend(self, size: int, now: float) -> bool:
        """Whether so many bytes may be sent now; if so, they count as sent."""
        if not self.allows(size, now):
            return False
        self._left -= size
        return True

    def charge(self, size: int) -> None:
        """Count bytes that were sent although the budget did not allow for them."""
        self._left = max(self._left - size, -self._most)


class Pace:
    """When the next round is due: soon while there is something to do, ever later if not."""

    def __init__(self, period: float, longest: float) -> None:
        self.shortest = period
        self.longest = longest
        self.period = period
        self.due = 0.0

    def comes(self, now: float) -> bool:
        """Whether a round is due; if so, the next one is after a period."""
        if now < self.due:
            return False
        self.due = now + self.period * (1.0 - 1e-9)
        return True

    def busy(self, now: float) -> None:
        """There is something to do: rounds as often as can be."""
        self.period = self.shortest
        self.due = min(self.due, now + self.shortest * (1.0 - 1e-9))

    def in_vain(self) -> None:
        """A round found nothing to do: the next one later."""
        self.period = min(2 * self.period, self.longest)
