"""Flooding on arrays: what :mod:`shoal.routing.air_flooding` does, message for message. Compiled.

``events`` has the publisher and the number of each event, ``seen`` the nodes that have it, as a
bitset. ``pending`` is a heap of what nodes are about to pass on: time, number of posting, node,
event.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import inlined
from shoal.simulation.air.reception import mix

_ONE, _S11 = np.uint64(1), np.uint64(11)


@inlined
def is_first(seen, event, node):
    """Whether a node has an event for the first time; from now on it has it."""
    bit = _ONE << np.uint64(node & 63)
    if seen[event, node >> 6] & bit:
        return False
    seen[event, node >> 6] |= bit
    return True


@inlined
def pass_on_later(air, node, event, now):
    """Let a node transmit an event after a random time."""
    pending, numbers = air.pending, air.numbers
    word = mix(mix(air.keys[s.JITTER_KEY] ^ air.events[event, 0]) ^ air.events[event, 1])
    word = mix(mix(word ^ np.uint64(node)))
    wait = np.float64(word >> _S11) * (1.0 / 9007199254740992.0)
    at = now + np.int64(np.rint(air.real[s.JITTER] * wait * 1e9))
    order = numbers[s.POSTED]
    numbers[s.POSTED] = order + 1
    place = numbers[s.PENDING]
    numbers[s.PENDING] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if pending[above, 0] <= at:  # of equal times, the one posted earlier stays above
            break
        pending[place, 0] = pending[above, 0]
        pending[place, 1] = pending[above, 1]
        pending[place, 2] = pending[above, 2]
        pending[place, 3] = pending[above, 3]
        place = above
    pending[place, 0] = at
    pending[place, 1] = order
    pending[place, 2] = node
    pending[place, 3] = event


@inlined
def drop_first_pending(pending, numbers):
    """Take the earliest off the heap."""
    last = numbers[s.PENDING] - 1
    numbers[s.PENDING] = last
    at, order = pending[last, 0], pending[last, 1]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            pending[right, 0] < pending[child, 0]
            or (pending[right, 0] == pending[child, 0] and pending[right, 1] < pending[child, 1])
        ):
            child = right
        if pending[child, 0] > at or (pending[child, 0] == at and pending[child, 1] > order):
            break
        pending[place, 0] = pending[child, 0]
        pending[place, 1] = pending[child, 1]
        pending[place, 2] = pending[child, 2]
        pending[place, 3] = pending[child, 3]
        place = child
    pending[place, 0] = at
    pending[place, 1] = order
    pending[place, 2] = pending[last, 2]
    pending[place, 3] = pending[last, 3]
