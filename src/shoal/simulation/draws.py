"""The draws of :mod:`shoal.stack.chance`, many at a time: the same bits, as arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.stack.chance import mix, purpose_word

Words: TypeAlias = npt.NDArray[np.uint64]


def mix_array(word: Words) -> Words:
    """:func:`shoal.stack.chance.mix` on every element."""
    word = word + np.uint64(0x9E37_79B9_7F4A_7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return word ^ (word >> np.uint64(31))


def bits_array(seed: int, purpose: str, *counters: Words) -> Words:
    """``Chance(seed, purpose).bits(...)`` for arrays of counters, broadcast against each other."""
    key = mix((seed & 0xFFFF_FFFF_FFFF_FFFF) ^ mix(purpose_word(purpose)))
    word = np.full(np.broadcast_shapes(*(c.shape for c in counters)), key, np.uint64)
    for counter in counters:
        word = mix_array(word ^ counter)
    return mix_array(word)


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
