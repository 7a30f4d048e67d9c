"""Which events have been here: what tells a first arrival from a copy, in bounded memory."""

from __future__ import annotations

from typing import Any

GENERATION = 100_000
"""Ids kept per generation; an id is remembered while at least this many newer ones come."""


class Seen:
    """Ids of events, the oldest forgotten a generation at a time."""

    def __init__(self) -> None:
        # Any: typed as pairs, compiled code would take each id apart and build it anew.
        self._now: set[Any] = set()
        self._before: set[Any] = set()

    def first(self, key: Any) -> bool:
        """Remember an id; False if it was remembered already."""
        if self._before and key in self._before:
            return False
        if len(self._now) >= GENERATION and key not in self._now:
            self._before = self._now
            self._now = set()
        known = len(self._now)
        self._now.add(key)  # asked once only: to hash a pair takes as long as the rest
        return len(self._now) > known

    def add(self, publisher: int, sequence: int) -> bool:
        """As :meth:`first`, for an id in two parts."""
        return self.first((publisher, sequence))

    def has(self, publisher: int, sequence: int) -> bool:
        """Whether an id is remembered."""
        key = (publisher, sequence)
        return key in self._now or key in self._before
