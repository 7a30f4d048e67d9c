"""Chance as a pure function: the same question gets the same answer, in whatever order it is asked.

A draw is a hash (splitmix64, counter-based) of the seed, a purpose and the counters that name the
question, e.g. ``Chance(seed, "fill").below(5, node, event)``. There is no stream and no state, so
two implementations of one rule can be compared to the bit, and a run replays from its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from shoal.content.native import extension

T = TypeVar("T")

_MASK = 0xFFFF_FFFF_FFFF_FFFF
GAMMA, FIRST, SECOND = 0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB
"""The constants of splitmix64: its step, and the factors of its two rounds."""


def mix(word: int) -> int:
    """One splitmix64 step: a bijection of words; every input bit moves every output bit."""
    word = (word + GAMMA) & _MASK
    word = ((word ^ (word >> 30)) * FIRST) & _MASK
    word = ((word ^ (word >> 27)) * SECOND) & _MASK
    return word ^ (word >> 31)


def purpose_word(purpose: str) -> int:
    """A purpose's name as a 64-bit word (FNV-1a), the same on every machine."""
    word = 0xCBF2_9CE4_8422_2325
    for byte in purpose.encode():
        word = ((word ^ byte) * 0x0000_0100_0000_01B3) & _MASK
    return word


@lru_cache(maxsize=4096)  # most nodes of a network draw for the same purposes
def key_of(seed: int, purpose: str) -> int:
    """The word that every draw for this purpose under this seed begins with."""
    return mix((seed & _MASK) ^ mix(purpose_word(purpose)))


def python_bits(key: int, *counters: int) -> int:
    """64 random bits: of a key, then counters."""
    word = key
    for counter in counters:
        word = mix(word ^ (counter & _MASK))
    return mix(word)


def python_below(limit: int, key: int, *counters: int) -> int:
    """A whole number in [0, limit), of a key and counters."""
    return (python_bits(key, *counters) * limit) >> 64


_native = extension("stack._chance")
hashed_bits: Callable[..., int] = python_bits if _native is None else _native.bits
hashed_below: Callable[..., int] = python_below if _native is None else _native.below
"""Both in C (``chance.c``) where that was built, else in Python."""


class Chance:
    """Draws for one purpose under one seed; the arguments of each draw name the question."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.seed = seed
        self.purpose = purpose
        self.key = key_of(seed, purpose)

    def bits(self, *counters: int) -> int:
        """64 random bits."""
        return hashed_bits(self.key, *counters)

    def uniform(self, *counters: int) -> float:
        """A real number in [0, 1), with 53 random bits."""
        return (hashed_bits(self.key, *counters) >> 11) * (1.0 / (1 << 53))

    def below(self, limit: int, *counters: int) -> int:
        """A whole number in [0, limit); the bias of the multiply-shift is below limit / 2^64."""
        return hashed_below(limit, self.key, *counters)

    def choice(self, items: Sequence[T], *counters: int) -> T:
        """One of the items."""
        return items[self.below(len(items), *counters)]

    def sample(self, items: Sequence[T], count: int, *counters: int) -> list[T]:
        """``count`` distinct items, in random order (Fisher-Yates)."""
        pool = list(items)
        if count > len(pool):
            raise ValueError(f"{count} distinct items cannot be drawn from {len(pool)}")
        for i in range(count):
            j = i + hashed_below(len(pool) - i, self.key, *counters, i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]
