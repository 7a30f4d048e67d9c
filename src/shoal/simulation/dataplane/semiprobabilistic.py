"""Semi-probabilistic and adaptive routing on arrays: subscriptions nearby first, then chance."""

# mypy: disable-error-code="no-untyped-def, assignment"
# Numba infers the types of kernels; annotations would say less than the names do.

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.routing import Adaptive, SemiProbabilistic
from shoal.routing.adaptive import Observed
from shoal.routing.semiprobabilistic import ROUNDING, WHOLE
from shoal.routing.semiprobabilistic_messages import Spread
from shoal.simulation.dataplane import changes
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.forwarding import Forwarding, forwards
from shoal.simulation.dataplane.kernels import INDEX, ZERO, below, direction_matches, kernel, mix
from shoal.simulation.dataplane.mirror import Mirror
from shoal.stack.host import NodeId

_ROUNDING = np.uint64(ROUNDING)


@kernel(inline="always")
def leaf_wants(leaf_mask, node, k, bits, event):
    """Whether a leaf wants the event. (Four words at once, as elsewhere, makes it 20% slower.)"""
    common = ZERO
    for w in range(leaf_mask.shape[2]):
        common |= leaf_mask[node, k, w] & bits[event, w]
    return common != ZERO


@kernel(inline="always")
def draw_some(picks, start, count, room, word):
    """Fisher-Yates on ``picks[start:start + count]``, as ``Chance.sample`` does it."""
    for i in range(room):
        j = i + below(mix(mix(word ^ np.uint64(i))), count - i)
        held = picks[start + i]
        picks[start + i] = picks[start + j]
        picks[start + j] = held


@kernel(also=(WHOLE, ROUNDING))
def rounds_up(draws, event, node, rest):
    """1 if the fraction of a node's fanout becomes one more link for this event, else 0."""
    word = mix(mix(draws[event] ^ np.uint64(node)) ^ _ROUNDING)
    return np.int64(below(mix(word), WHOLE) < rest)


@kernel(inline="always")
def choose(
    picks, slots, setup, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
    node, sender, event, hops, deterministic,
):  # fmt: skip  # what it sees, then what it is asked
    """The semi-probabilistic choice: how many slots, and how many of them by subscription.

    ``picks`` holds the chosen in its first half, and what is left to choose from in its second.
    """
    may_follow = deterministic < setup.ttl_deterministic
    may_guess = hops - deterministic < setup.ttl_probabilistic
    if hops >= setup.ttl or (setup.either and not (may_follow and may_guess)):
        slots = 0
        may_follow = may_guess = False
    horizon = limits[node, s.HORIZON]
    fanout = np.int64(limits[node, s.PUBLISHER_FANOUT if sender < 0 else s.FANOUT])
    room = fanout // WHOLE
    if fanout % WHOLE:
        room += rounds_up(draws, event, node, fanout % WHOLE)
    base = link.shape[1]
    left = 0
    chosen = 0
    next_door = may_follow and horizon > 0
    for k in range(slots):
        if link[node, k, s.NEIGHBOUR] != sender and (
            leaf[node, k] == 0 or leaf_wants(leaf_mask, node, k, bits, event)
        ):
            if next_door and direction_matches(mask, node, k, 0, bits, event):
                picks[chosen] = k
                chosen += 1
            else:
                picks[base + left] = k
                left += 1
    if may_follow:
        for level in range(1, horizon):
            if chosen >= room:
                break
            group = 0
            kept = 0
            for i in range(left):
                slot = np.int64(picks[base + i]) & INDEX
                if direction_matches(mask, node, slot, level, bits, event):
                    picks[chosen + group] = slot
                    group += 1
                else:
                    picks[base + kept] = slot
                    kept += 1
            if group > room - chosen:
                word = mix(mix(draws[event] ^ np.uint64(node)) ^ np.uint64(level + 1))
                draw_some(picks, chosen, group, room - chosen, word)
                group = room - chosen
            left = kept
            chosen += group
    known = chosen
    if may_guess and known < room:
        wish = room - known
        if left > wish:
            word = mix(mix(draws[event] ^ np.uint64(node)) ^ ZERO)
            draw_some(picks, base, left, wish, word)
            left = wish
        for i in range(left):
            picks[chosen + i] = picks[base + i]
        chosen += left
    return chosen, known


def limits(mirror: Mirror, routing: SemiProbabilistic) -> None:
    """Note how far a node follows subscriptions, and how many links it uses."""
    own, publishing = routing.fanout(False), routing.fanout(True)
    mirror.change(changes.LIMITS, routing.host.node, routing.follows, own, publishing)


class WatchedOnArrays(Observed):
    """An adaptive node's observations, read from the arrays."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        super().__init__()
        self.mirror = mirror
        self.node = node

    def look(self) -> None:
        counts: list[int] = self.mirror.state.nodes.watched[self.node].tolist()
        self.sent, self.wanted, self.missed = counts


def observe(mirror: Mirror, routing: Adaptive) -> None:
    """Let a node read its observations from the arrays."""
    routing.observed = WatchedOnArrays(mirror, routing.host.node)


RULE = Forwarding(
    "semi_probabilistic",
    choose,
    tune=limits,
    message=Spread,
    remembers=True,
    says_stopped=True,
    constants=(WHOLE, ROUNDING),
)
forwards(SemiProbabilistic, RULE)
forwards(Adaptive, replace(RULE, observe=observe))
