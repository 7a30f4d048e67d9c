"""Which events have been here: what tells a first arrival from a copy, in bounded memory."""

from __future__ import annotations

GENERATION = 100_000
"""Ids kept per generation; an id is remembered while at least this many newer ones come."""


class Seen:
    """Ids of events, the oldest forgotten a generation at a time."""

    def __init__(self) -> None:
        self._now: set[tuple[int, int]] = set()
        self._before: set[tuple[int, int]] = set()

    def add(self, publisher: int, sequence: int) -> bool:
        """Remember an id; False if it was remembered already."""
        key = (publisher, sequence)
        if key in self._now or key in self._before:
            return False
        if len(self._now) >= GENERATION:
            self._before = self._now
            self._now = set()
        self._now.add(key)
        return True

    def has(self, publisher: int, sequence: int) -> bool:
        """Whether an id is remembered."""
        key = (publisher, sequence)
        return key in self._now or key in self._before
