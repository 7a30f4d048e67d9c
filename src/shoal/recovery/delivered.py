"""``Delivered``: which events the application has had, in bounded memory and without forgetting.

Sequence numbers are kept as bits, 32 to a word, in two generations. When the older one goes, its
greatest sequence number per publisher stays: what is not above it counts as delivered. So nothing
is delivered twice, however late it comes; an event that is later than a whole generation of others
is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import EventId

GENERATION = 50_000
"""Words per generation; each stands for up to 32 events."""


class Delivered:
    """Ids of delivered events."""

    def __init__(self, generation: int = GENERATION) -> None:
        self._generation = generation
        self._now: dict[int, dict[int, int]] = {}
        """Per publisher, bits by word."""
        self._count = 0
        """Words in there."""
        self._before: dict[int, dict[int, int]] = {}
        self._floor: dict[int, int] = {}

    def first(self, publisher: int, sequence: int) -> bool:
        """Remember an event; False if it was delivered, or may have been."""
        word, bit = sequence >> 5, 1 << (sequence & 31)
        words = self._now.get(publisher)
        had = 0 if words is None else words.get(word, 0)
        if had & bit or (self._before and self._had_before(publisher, sequence)):
            return False
        if not had:
            if self._count >= self._generation:
                self._forget()
                words = None
            self._count += 1
        if words is None:
            words = self._now.setdefault(publisher, {})
        words[word] = had | bit
        return True

    def _had_before(self, publisher: int, sequence: int) -> bool:
        """Whether an event is in the older generation, or below the floor."""
        words = self._before.get(publisher)
        if words is not None and words.get(sequence >> 5, 0) & (1 << (sequence & 31)):
            return True
        return sequence <= self._floor.get(publisher, -1)

    def _forget(self) -> None:
        """The older generation goes, and a new one begins."""
        for publisher, words in self._before.items():
            word = max(words)
            greatest = 32 * word + words[word].bit_length() - 1
            self._floor[publisher] = max(greatest, self._floor.get(publisher, -1))
        self._before, self._now = self._now, {}
        self._count = 0

    def __contains__(self, key: EventId) -> bool:
        publisher, sequence = key
        words = self._now.get(publisher)
        if words is not None and words.get(sequence >> 5, 0) & (1 << (sequence & 31)):
            return True
        return bool(self._before) and self._had_before(publisher, sequence)
