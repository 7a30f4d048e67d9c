"""Which events have been here: what tells a first arrival from a copy, in bounded memory."""

from __future__ import annotations

from typing import Any

GENERATION = 100_000
"""Ids kept per generation; an id is remembered while at least this many newer ones come."""


class Seen:
    """Ids of events, the oldest forgotten a generation at a time."""

    def __init__(self) -> None:
        # Any: typed as pairs, compiled code would take each id apart and build it anew.
        self._now: set[Any] | None = None
        self._before: set[Any] | None = None

    def first(self, key: Any) -> bool:
        """Remember an id; False if it was remembered already."""
        if self._before is not None and key in self._before:
            return False
        now = self._now
        if now is None:
            self._now = now = set()
        known = len(now)
        if known >= GENERATION and key not in now:
            self._before = now
            self._now = now = set()
            known = 0
        now.add(key)  # asked once only: to hash a pair takes as long as the rest
        return len(now) > known

    def add(self, publisher: int, sequence: int) -> bool:
        """Remember an id given in two parts; whether it is new, as :meth:`first`."""
        return self.first((publisher, sequence))

    def has(self, publisher: int, sequence: int) -> bool:
        """Whether an id is remembered."""
        key = (publisher, sequence)
        return key in (self._now or ()) or key in (self._before or ())
