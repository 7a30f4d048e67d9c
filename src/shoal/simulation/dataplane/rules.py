"""The forwarding rules on arrays: which slots an event goes on over. Compiled, cached on disk.

Each is the same rule as the routing of its name has on objects, message for message.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.simulation.dataplane.state import Events, Nodes, Words

_GAMMA = np.uint64(0x9E37_79B9_7F4A_7C15)
_FIRST = np.uint64(0xBF58_476D_1CE4_E5B9)
_SECOND = np.uint64(0x94D0_49BB_1331_11EB)
_LOW = np.uint64(0xFFFF_FFFF)
_S11, _S27, _S30, _S31, _S32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))


@njit(cache=True)
def mix(word):  # type: ignore[no-untyped-def]  # numba infers the types
    """:func:`shoal.stack.chance.mix`."""
    word = word + _GAMMA
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@njit(cache=True)
def below(bits, limit):  # type: ignore[no-untyped-def]  # numba infers the types
    """The upper half of the 128-bit product, as :meth:`shoal.stack.chance.Chance.below`."""
    limit = np.uint64(limit)
    return np.int64(((bits >> _S32) * limit + (((bits & _LOW) * limit) >> _S32)) >> _S32)


@njit(cache=True)
def lost(key, publisher, sequence, source, target, quality):  # type: ignore[no-untyped-def]  # numba
    """Whether a link of this quality loses an event, as ``SimHost`` draws it."""
    word = mix(key ^ np.uint64(publisher))
    word = mix(word ^ np.uint64(sequence))
    word = mix(word ^ np.uint64(source))
    word = mix(mix(word ^ np.uint64(target)))
    return np.float64(word >> _S11) * (1.0 / 9007199254740992.0) >= quality


@njit(cache=True)
def overlap(a: Words, b: Words) -> bool:
    """Whether two sets have a member in common."""
    for i in range(len(a)):  # noqa: SIM110  # the loop is what numba makes fast
        if a[i] & b[i]:
            return True
    return False


@njit(cache=True)
def draw_some(picks, start, count, room, word):  # type: ignore[no-untyped-def]  # numba
    """Fisher-Yates on ``picks[start:start + count]``, as :meth:`shoal.stack.chance.Chance.sample`."""
    for i in range(room):
        j = i + below(mix(mix(word ^ np.uint64(i))), count - i)
        held = picks[start + i]
        picks[start + i] = picks[start + j]
        picks[start + j] = held


@njit(cache=True)
def choose_links(  # type: ignore[no-untyped-def]  # numba infers the types
    nodes: Nodes, events: Events, picks, node, sender, event, may_follow, may_guess
):
    """The semi-probabilistic choice: slots in ``picks``; how many, and how many of them are deterministic.

    ``picks`` holds the chosen, then a gap, then what is left, compacted as groups are taken out.
    """
    slots = nodes.slots[node]
    room = nodes.publisher_fanout[node] if sender < 0 else nodes.fanout[node]
    bits = events.bits[event]
    left = 0
    base = slots  # picks[base:base + left] are the slots not chosen yet
    for k in range(slots):
        if nodes.source[node, k] != sender and (
            nodes.leaf[node, k] == 0 or overlap(nodes.leaf_mask[node, k], bits)
        ):
            picks[base + left] = k
            left += 1
    chosen = 0
    word = np.uint64(0)
    if may_follow:
        for level in range(nodes.horizon[node]):
            if level > 0 and chosen >= room:
                break
            group = 0
            kept = 0
            for i in range(left):
                k = picks[base + i]
                if overlap(nodes.mask[node, k, level], bits):
                    picks[chosen + group] = k
                    group += 1
                else:
                    picks[base + kept] = k
                    kept += 1
            if level > 0 and group > room - chosen:
                word = mix(events.draws[event] ^ np.uint64(node))
                draw_some(picks, chosen, group, room - chosen, mix(word ^ np.uint64(level + 1)))
                group = room - chosen
            left = kept
            chosen += group
    known = chosen
    if may_guess and known < room:
        wish = room - known
        if left > wish:
            word = mix(events.draws[event] ^ np.uint64(node))
            draw_some(picks, base, left, wish, mix(word ^ np.uint64(0)))
            left = wish
        for i in range(left):
            picks[chosen + i] = picks[base + i]
        chosen += left
    return chosen, known
