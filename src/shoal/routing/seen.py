"""Which events have been here: what tells a first arrival from a copy, in bounded memory.

``Seen`` suits nodes that see few events of each publisher, as where all events are flooded: all
nodes of a simulation share one id of an event. ``SeenNumbers`` suits nodes that see many: 32
sequence numbers of a publisher take the memory of one.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

GENERATION = 100_000
"""Ids kept per generation; an id is remembered while at least this many newer ones come."""
WORDS = 50_000
"""Words per generation; each stands for up to 32 events of a publisher."""


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

    def __contains__(self, key: Any) -> bool:
        return key in (self._now or ()) or key in (self._before or ())


class Had:
    """The events of one publisher in one generation."""

    __slots__ = ("bits", "greatest", "word", "words")

    def __init__(self, greatest: int) -> None:
        self.greatest = greatest
        """The greatest sequence number of earlier generations."""
        self.words: dict[int, int] = {}
        """Bits by word; of the word that changed last, :attr:`bits` are what holds."""
        self.word = -1
        self.bits = 0

    def bits_of(self, word: int) -> int:
        """The bits of a word."""
        return self.bits if word == self.word else self.words.get(word, 0)

    def turn_to(self, word: int) -> None:
        """Change another word from now on."""
        if self.bits:
            self.words[self.word] = self.bits
        self.word, self.bits = word, self.words.get(word, 0)

    def last(self) -> int:
        """The greatest sequence number up to here."""
        word = max((*self.words, self.word if self.bits else -1))
        return max(self.greatest, 32 * word + self.bits_of(word).bit_length() - 1)


@mypyc_attr(allow_interpreted_subclasses=True)
class SeenNumbers:
    """Sequence numbers per publisher, as bits; the oldest are forgotten a generation at a time."""

    def __init__(self, generation: int = WORDS) -> None:
        self._generation = generation
        self._now: dict[object, Had] = {}
        """Per publisher, which is an object lest its number be made anew for each look-up."""
        self._count = 0
        """Words in there."""
        self._before: dict[object, Had] = {}

    def first(self, publisher: object, sequence: int) -> bool:
        """Remember an event; False if it was remembered already."""
        word, bit = sequence >> 5, 1 << (sequence & 31)
        had = self._now.get(publisher)
        if had is None:
            had = Had(self._greatest(publisher))
            self._now[publisher] = had
        if word != had.word:
            had.turn_to(word)
        if had.bits & bit or (sequence <= had.greatest and self.has(publisher, sequence)):
            return False
        if not had.bits:
            if self._count >= self._generation:
                self._forget()
                return self.first(publisher, sequence)
            self._count += 1
        had.bits |= bit
        return True

    def has(self, publisher: object, sequence: int) -> bool:
        """Whether an event is remembered."""
        word, bit = sequence >> 5, 1 << (sequence & 31)
        generations = (self._now.get(publisher), self._before.get(publisher))
        return any(had is not None and had.bits_of(word) & bit for had in generations)

    def _greatest(self, publisher: object) -> int:
        """The greatest sequence number of earlier generations."""
        before = self._before.get(publisher)
        return -1 if before is None else before.last()

    def _forget(self) -> None:
        """The older generation goes, and a new one begins."""
        self._before, self._now = self._now, {}
        self._count = 0
