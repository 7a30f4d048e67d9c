"""The draws of :mod:`shoal.stack.chance`, many at a time: the same bits, as arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.stack.chance import FIRST, GAMMA, SECOND, key_of

Words: TypeAlias = npt.NDArray[np.uint64]
_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST), np.uint64(SECOND)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def mix_words(word: Words) -> Words:
    """:func:`shoal.stack.chance.mix` on every element; the data plane compiles it for one word."""
    word = word + _GAMMA
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


def bits_array(seed: int, purpose: str, *counters: Words) -> Words:
    """``Chance(seed, purpose).bits(...)`` for arrays of counters, broadcast against each other."""
    key = key_of(seed, purpose)
    word = np.full(np.broadcast_shapes(*(c.shape for c in counters)), key, np.uint64)
    for counter in counters:
        word = mix_words(word ^ counter)
    return mix_words(word)


def uniform_array(seed: int, purpose: str, *counters: Words) -> npt.NDArray[np.float64]:
    """``Chance(seed, purpose).uniform(...)`` for arrays of counters."""
    top = bits_array(seed, purpose, *counters) >> np.uint64(11)
    return top.astype(np.float64) * (1.0 / (1 << 53))


def below_array(bits: Words, limit: int | Words) -> Words:
    """``Chance.below`` of these bits: the upper word of their product with limits below 2^32."""
    high, low, wide = (
        bits >> np.uint64(32),
        bits & np.uint64(0xFFFF_FFFF),
        np.asarray(limit, np.uint64),
    )
    return (high * wide + (low * wide >> np.uint64(32))) >> np.uint64(32)
