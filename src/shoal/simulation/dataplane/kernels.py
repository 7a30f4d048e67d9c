"""Kernels shared by the loop over events and the rules of forwarding; compiled into their callers.

Arrays are passed one by one and never as rows: every row would be an object of its own to count
references to.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from pathlib import Path

import numpy as np

from shoal.content.compiled import compiler
from shoal.routing.adaptive import LONGEST
from shoal.simulation.draws import mix_words
from shoal.stack.chance import FIRST, GAMMA, SECOND

kernel = compiler(
    Path(__file__).parent,
    ("engine", "kernels", "state", "changes", "reach", "../draws"),
    *(LONGEST, GAMMA, FIRST, SECOND),
)

mix = kernel(mix_words)
_LOW = np.uint64(0xFFFF_FFFF)
_S11, _S32 = np.uint64(11), np.uint64(32)
INDEX = 0x7FFF_FFFF
"""Mask for an index: the compiler then knows that it is not negative, and leaves out Python's
counting from the end."""
ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def below(bits, limit):
    """The upper half of the 128-bit product, as :meth:`shoal.stack.chance.Chance.below`."""
    limit = np.uint64(limit)
    return np.int64(((bits >> _S32) * limit + (((bits & _LOW) * limit) >> _S32)) >> _S32)


@kernel
def bit_of(member):
    """The bit of a member in its word of a set."""
    return ONE << np.uint64(member & 63)


@kernel
def is_lost(key, publisher, sequence, source, target, quality):
    """Whether a link of this quality loses an event, as ``SimHost`` draws it."""
    word = mix(key ^ np.uint64(publisher))
    word = mix(word ^ np.uint64(sequence))
    word = mix(word ^ np.uint64(source))
    word = mix(mix(word ^ np.uint64(target)))
    return np.float64(word >> _S11) * (1.0 / 9007199254740992.0) >= quality


@kernel(inline="always")
def overlap(sets, i, others, j):
    """Whether row i of one matrix of sets has a member in common with row j of another."""
    common = ZERO
    for w in range(sets.shape[1]):  # no early exit, so that it is compiled to vector instructions
        common |= sets[i, w] & others[j, w]
    return common != ZERO


@kernel(inline="always")
def wants(local, node, bits, event):
    """Whether a node wants an event; compares four words at once (see ``pattern_words``)."""
    common = ZERO
    for w in range(0, local.shape[1], 4):
        common |= (
            (local[node, w] & bits[event, w])
            | (local[node, w + 1] & bits[event, w + 1])
            | (local[node, w + 2] & bits[event, w + 2])
            | (local[node, w + 3] & bits[event, w + 3])
        )
    return common != ZERO


@kernel(inline="always")
def direction_matches(mask, node, k, level, bits, event):
    """Whether a slot has a pattern of the event at a level."""
    common = ZERO
    for w in range(0, mask.shape[3], 4):
        common |= (
            (mask[node, k, level, w] & bits[event, w])
            | (mask[node, k, level, w + 1] & bits[event, w + 1])
            | (mask[node, k, level, w + 2] & bits[event, w + 2])
            | (mask[node, k, level, w + 3] & bits[event, w + 3])
        )
    return common != ZERO


@kernel(inline="always")
def receivers_of(sets, event, start, end, numbers, subscribers, owes_publisher, publisher):
    """Fill an event's row of a matrix of sets with the nodes that want it now."""
    for w in range(sets.shape[1]):
        wanting = ZERO
        for i in range(start[event], end[event]):
            wanting |= subscribers[numbers[i], w]
        sets[event, w] = wanting
    if not owes_publisher:
        node = publisher[event]
        sets[event, node >> 6] &= ~bit_of(node)


@kernel
def count_in_component(sets, event, component, node):
    """Number of an event's receivers that links connect with a node."""
    count = 0
    for w in range(sets.shape[1]):
        word = sets[event, w]
        bit = 0
        while word:
            if word & ONE and component[64 * w + bit] == component[node]:
                count += 1
            word >>= ONE
            bit += 1
    return count


@kernel
def push(heap, what, size, at, order, channel, event, hops, deterministic):
    """Put a message on a heap of ``size``."""
    i = size
    while i:
        up = (i - 1) >> 1
        if heap[up, 0] < at or (heap[up, 0] == at and heap[up, 1] < order):
            break
        for c in range(2):
            heap[i, c] = heap[up, c]
        for c in range(4):
            what[i, c] = what[up, c]
        i = up
    heap[i, 0] = at
    heap[i, 1] = order
    what[i, 0] = channel
    what[i, 1] = event
    what[i, 2] = hops
    what[i, 3] = deterministic


@kernel
def drop_top(heap, what, size):
    """Take the earliest message off a heap of ``size``; it has been read."""
    last = size - 1
    at = heap[last, 0]
    order = heap[last, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            heap[right, 0] < heap[child, 0]
            or (heap[right, 0] == heap[child, 0] and heap[right, 1] < heap[child, 1])
        ):
            child = right
        if at < heap[child, 0] or (at == heap[child, 0] and order < heap[child, 1]):
            break
        for c in range(2):
            heap[i, c] = heap[child, c]
        for c in range(4):
            what[i, c] = what[child, c]
        i = child
    for c in range(2):
        heap[i, c] = heap[last, c]
    for c in range(4):
        what[i, c] = what[last, c]
