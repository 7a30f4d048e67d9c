"""Reception of a frame: bit errors by the ratio of signal to noise and interference.

The error rates of 802.11b's four modulations: DBPSK and DQPSK spread over 22 MHz (1 and 2 Mbit/s),
and the union bounds of CCK (5.5 and 11 Mbit/s) of IEEE 802.15.2, annex C.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import math

import numpy as np

from shoal.simulation.air.arrays import inlined, kernel
from shoal.simulation.draws import mix_words

mix = kernel(mix_words)
_LOW, _S11, _S32 = np.uint64(0xFFFF_FFFF), np.uint64(11), np.uint64(32)


@inlined
def uniform(key, first, second):
    """``Chance.uniform`` of two counters."""
    word = mix(mix(mix(key ^ np.uint64(first)) ^ np.uint64(second)))
    return np.float64(word >> _S11) * (1.0 / 9007199254740992.0)


@inlined
def below(key, limit, first, second):
    """``Chance.below`` of two counters, for limits below 2^32."""
    bits = mix(mix(mix(key ^ np.uint64(first)) ^ np.uint64(second)))
    wide = np.uint64(limit)
    return np.int64(((bits >> _S32) * wide + (((bits & _LOW) * wide) >> _S32)) >> _S32)


@inlined
def tail(x):
    """The share of a normal distribution beyond x."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


@inlined
def bit_error_rate(ratio, rate):
    """The share of wrong bits at a ratio of signal to noise and interference."""
    if rate <= 1e6:
        return 0.5 * math.exp(-22.0 * ratio)
    if rate <= 2e6:
        x = 11.0 * ratio
        root = math.sqrt(2.0)
        scale = (root + 1.0) / math.sqrt(8.0 * math.pi * root)
        return min(0.5, scale / math.sqrt(x) * math.exp(-(2.0 - root) * x))
    if rate <= 5.5e6:
        wrong = 14.0 * tail(math.sqrt(8.0 * ratio)) + tail(math.sqrt(16.0 * ratio))
        return min(0.5, wrong * 8.0 / 15.0)
    wrong = (
        24.0 * tail(math.sqrt(4.0 * ratio))
        + 16.0 * tail(math.sqrt(6.0 * ratio))
        + 174.0 * tail(math.sqrt(8.0 * ratio))
        + 16.0 * tail(math.sqrt(10.0 * ratio))
        + 24.0 * tail(math.sqrt(12.0 * ratio))
        + tail(math.sqrt(16.0 * ratio))
    )
    return min(0.5, wrong * 128.0 / 255.0)


@inlined
def decay(ratio, rate, start, end, preamble_end):
    """Minus the logarithm of the probability that a frame's bits from start to end are right.

    Its preamble and header are sent at 1 Mbit/s.
    """
    total = 0.0
    if start < preamble_end:
        until = min(end, preamble_end)
        total -= math.log1p(-bit_error_rate(ratio, 1e6)) * (until - start) * 1e-3
        start = until
    if end > start:
        total -= math.log1p(-bit_error_rate(ratio, rate)) * (end - start) * rate * 1e-9
    return total
