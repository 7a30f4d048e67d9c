"""``Delivered``: which events the application has had, in bounded memory and without forgetting.

Ids are kept in two generations. When the older one goes, its greatest sequence number per publisher
stays: what is not above it counts as delivered. So nothing is delivered twice, however late it
comes; an event that is later than a whole generation of others is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import EventId

GENERATION = 100_000
"""Ids per generation."""


class Delivered:
    """Ids of delivered events."""

    def __init__(self, generation: int = GENERATION) -> None:
        self._generation = generation
        self._now: set[EventId] = set()
        self._before: set[EventId] = set()
        self._floor: dict[int, int] = {}

    def first(self, key: EventId) -> bool:
        """Remember an id; False if it was delivered, or may have been."""
        if key in self:
            return False
        if len(self._now) >= self._generation:
            for publisher, sequence in self._before:
                if sequence > self._floor.get(publisher, -1):
                    self._floor[publisher] = sequence
            self._before, self._now = self._now, set()
        self._now.add(key)
        return True

    def __contains__(self, key: EventId) -> bool:
        if key in self._now or key in self._before:
            return True
        return bool(self._floor) and key[1] <= self._floor.get(key[0], -1)
