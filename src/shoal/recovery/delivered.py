"""``Delivered``: which events the application has had, in bounded memory and without forgetting.

Sequence numbers are kept as bits, 32 to a word, in two generations. When the older one goes, its
greatest sequence number per publisher stays: what is not above it counts as delivered. So nothing
is delivered twice, however late it comes; an event that is later than a whole generation of others
is refused, and reported as a gap. A broker's record of what came to it, which strangers can fill,
forgets the older generation instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import EventId

GENERATION = 50_000
"""Words per generation; each stands for up to 32 events."""


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
        word = max(self.words, default=-1)
        if self.bits:
            word = max(word, self.word)
        return max(self.greatest, 32 * word + self.bits_of(word).bit_length() - 1)


class Delivered:
    """Ids of delivered events."""

    def __init__(self, generation: int = GENERATION, refusing: bool = True) -> None:
        self._generation = generation
        self._refusing = refusing
        """Whether what may have been delivered counts as delivered."""
        self._now: dict[object, Had] = {}
        """Per publisher, which is an object lest its number be made anew for each look-up."""
        self._count = 0
        """Words in there."""
        self._before: dict[object, Had] = {}
        self._floor: dict[object, int] = {}

    def first(self, publisher: object, sequence: int) -> bool:
        """Remember an event; False if it was delivered, or may have been."""
        word, bit = sequence >> 5, 1 << (sequence & 31)
        had = self._now.get(publisher)
        if had is None:
            before = self._before.get(publisher)
            floor = self._floor.get(publisher, -1)
            had = Had(floor if before is None else before.last())
            self._now[publisher] = had
        if word != had.word:
            had.turn_to(word)
        if had.bits & bit or (sequence <= had.greatest and self._may_have(publisher, sequence)):
            return False
        if not had.bits:
            if self._count >= self._generation:
                self._forget()
                return self.first(publisher, sequence)
            self._count += 1
        had.bits |= bit
        return True

    def doubtful(self, publisher: object, sequence: int) -> bool:
        """Whether an event that was refused may be new: it is only not above what was forgotten."""
        word, bit = sequence >> 5, 1 << (sequence & 31)
        generations = (self._now.get(publisher), self._before.get(publisher))
        return not any(had is not None and had.bits_of(word) & bit for had in generations)

    def _forget(self) -> None:
        """The older generation goes, and a new one begins."""
        if self._refusing:
            for publisher, had in self._before.items():
                self._floor[publisher] = had.last()
        self._before, self._now = self._now, {}
        self._count = 0

    def __contains__(self, key: EventId) -> bool:
        return self._may_have(*key)

    def _may_have(self, publisher: object, sequence: int) -> bool:
        """Whether an event was delivered, or is not above what was forgotten."""
        return sequence <= self._floor.get(publisher, -1) or not self.doubtful(publisher, sequence)
