"""What a parent costs: the overhead of a publish/subscribe tree, and the metrics made of it.

Huang and Garcia-Molina, sections 2.1 and 3.1. An *interest* is a set of atoms of content, kept as
the bits of a whole number; a :class:`Space` knows how many events are expected in each atom. For
node i, s_i is what it wants itself (inherent) and s'_i what its children want (proxied):

* The overhead of a node is O_i = (r + f) Φ(¬s_i ∧ s'_i) + f Φ(s_i ∧ s'_i). It forwards once what
  its children want, as one broadcast serves all of them; and what it does not want itself it also
  receives for their sake.
* The overhead that a parent k takes on with child i is O_k(with i) - O_k(without i).

``merge`` says how interests add up. ``union`` is the paper's definition, a disjunction. With
``hull`` a node keeps the one interval that covers all its interests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import cos, erf, log1p, pi, sqrt
from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.stack.chance import Chance

Intervals: TypeAlias = tuple[tuple[float, float], ...]
"""Disjoint intervals of the number axis, in ascending order."""

NHOP: Final = "NHOP"
OVHD: Final = "OVHD"
COMBO: Final = "COMBO"
RANDOM: Final = "RANDOM"
LEAST: Final = 1e-9
"""A parent is better only if its metric is smaller by more than this."""
FARTHEST: Final = 1e9
"""Intervals are cut off here: events lie nearer to 0."""


@dataclass
class Work:
    """Units of work for one event: receiving it (r), forwarding it (f), processing it (p)."""

    receive: float = 1.0
    forward: float = 1.0
    process: float = 1.0


@dataclass
class Density:
    """Density of events on the number axis: ``rate`` everywhere, or ``total`` in a bell curve."""

    rate: float = 1.0
    total: float = 0.0
    centre: float = 0.0
    spread: float = 0.0

    def below(self, at: float) -> float:
        """Events expected below a number, up to a constant."""
        at = min(FARTHEST, max(-FARTHEST, at))
        if self.spread <= 0:
            return self.rate * at
        return self.total * 0.5 * (1.0 + erf((at - self.centre) / (self.spread * sqrt(2.0))))


@mypyc_attr(allow_interpreted_subclasses=True)
class Space:
    """Atoms of content; an interest is a set of atoms, as bits."""

    def __init__(self, hull: bool) -> None:
        self.hull = hull
        self._known: dict[int, float] = {0: 0.0}

    def phi(self, interest: int) -> float:
        """Φ: the events expected in an interest."""
        found = self._known.get(interest)
        if found is None:
            found = self.weigh(interest)
            self._known[interest] = found
        return found

    def weigh(self, interest: int) -> float:
        """Φ of an interest that is not cached."""
        raise NotImplementedError

    def join(self, interest: int, other: int) -> int:
        """The interest in one or the other, as ``merge`` has it: their union, or its hull."""
        both = interest | other
        return covering(both) if self.hull else both


def covering(interest: int) -> int:
    """The hull: all atoms from the first to the last."""
    return (1 << interest.bit_length()) - (interest & -interest) if interest else 0


class Axis(Space):
    """The number axis, cut at the ends of all intervals."""

    def __init__(self, bounds: Iterable[float], hull: bool, density: Density) -> None:
        super().__init__(hull)
        self.bounds = sorted(set(bounds))
        self._below = [density.below(at) for at in self.bounds]

    def interest(self, intervals: Intervals) -> int:
        """The atoms in some intervals, whose ends must be among the bounds."""
        found = 0
        for low, high in intervals:
            start = bisect_left(self.bounds, low)
            found |= (1 << bisect_left(self.bounds, high)) - (1 << start)
        return covering(found) if self.hull else found

    def weigh(self, interest: int) -> float:
        """Sum over the runs of neighbouring atoms."""
        events = 0.0
        while interest:
            lowest = interest & -interest
            run = interest & ~(interest + lowest)
            events += self._below[run.bit_length()] - self._below[lowest.bit_length() - 1]
            interest ^= run
        return events


def axis_of(
    wanted: Sequence[tuple[float, float] | None], hull: bool, density: Density
) -> tuple[Axis, list[int]]:
    """The axis cut at the ends of nodes' intervals (None: nothing is wanted), and each as atoms."""
    pairs = [() if interval is None else (interval,) for interval in wanted]
    axis = Axis([end for pair in pairs for interval in pair for end in interval], hull, density)
    return axis, [axis.interest(pair) for pair in pairs]


class Sample(Space):
    """Recent events, one atom each; ``scale`` is what one of them stands for."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(False)
        self.scale = scale

    def weigh(self, interest: int) -> float:
        return self.scale * interest.bit_count()


def joined(space: Space, interests: Iterable[int]) -> int:
    """The interests merged into one."""
    merged = 0
    for interest in interests:
        merged = space.join(merged, interest)
    return merged


def overhead(space: Space, work: Work, own: int, proxied: int) -> float:
    """O_i: the work of a node for its children."""
    foreign = proxied & ~own
    return work.forward * space.phi(proxied) + work.receive * space.phi(foreign)


def cost(space: Space, work: Work, own: int, proxied: int) -> float:
    """C_i: all the work of a node (Table 1)."""
    alone = work.receive + work.process
    return (
        alone * space.phi(own & ~proxied)
        + (work.receive + work.forward) * space.phi(proxied & ~own)
        + (alone + work.forward) * space.phi(own & proxied)
    )


def actions(own: bool, proxied: bool) -> tuple[bool, bool, bool]:
    """Table 1: whether a node receives, processes and forwards an event; by who wants it."""
    return own or proxied, own, proxied


def metric(
    name: str,
    space: Space,
    work: Work,
    hops: int,
    own: int,
    others: int,
    added: int,
    errors: tuple[float, float] = (0.0, 0.0),
) -> float:
    """The routing metric of a parent ``hops`` from the root (section 3.1).

    ``own`` is what it wants, ``others`` what its other children want, ``added`` what the child
    wants. ``errors`` are relative errors of the overhead with and without the child (section 5.5).
    """
    if name == NHOP:
        return float(hops)
    if name == COMBO and not hops:
        return 0.0
    with_child = overhead(space, work, own, space.join(others, added)) * (1.0 + errors[0])
    without = overhead(space, work, own, others) * (1.0 + errors[1])
    increase = with_child - without
    if errors[0] != errors[1]:
        increase = max(0.0, increase)
    return increase * hops if name == COMBO else increase


class Errors:
    """Relative errors of overhead estimates (section 5.5), drawn once for a child and a parent.

    Normal, with mean 0 and standard deviation ``sigma``. ``shared``: one error for the overhead
    with and without the child; otherwise two.
    """

    def __init__(self, chance: Chance, sigma: float, shared: bool, run: int = 0) -> None:
        self.chance = chance
        self.sigma = sigma
        self.shared = shared
        self.run = run
        self._drawn: dict[tuple[int, int], tuple[float, float]] = {}

    def of(self, child: int, parent: int) -> tuple[float, float]:
        """The errors of the two terms."""
        found = self._drawn.get((child, parent))
        if found is None:
            first = self.sigma * normal(self.chance, self.run, child, parent, 0)
            if self.shared:
                found = (first, first)
            else:
                found = (first, self.sigma * normal(self.chance, self.run, child, parent, 1))
            self._drawn[child, parent] = found
        return found


def normal(chance: Chance, *counters: int) -> float:
    """A standard normal number (Box-Muller)."""
    radius = sqrt(-2.0 * log1p(-chance.uniform(*counters, 0)))
    return radius * cos(2.0 * pi * chance.uniform(*counters, 1))


# Intervals, as nodes tell them to one another


def united(intervals: Iterable[tuple[float, float]]) -> Intervals:
    """The union of intervals, as few as possible."""
    merged: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def hull_of(intervals: Sequence[tuple[float, float]]) -> Intervals:
    """The one interval that covers them all."""
    if not intervals:
        return ()
    return ((min([low for low, _ in intervals]), max([high for _, high in intervals])),)
