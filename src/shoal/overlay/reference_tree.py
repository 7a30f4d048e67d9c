"""Reference trees (Frey, sections 11.2.1 and 11.2.3): a picture over keys of what a tree should be.

A complete tree of ``levels`` levels, every inner key with ``fan_out`` children. Keys are numbered
from 1 so that each subtree holds a contiguous range, by the thesis's rule: of a key's children, one
lies beyond it as seen from its parent, and all others lie between the two. With fan-out 2 that is
a binary search tree. The root has half of its children on either side.

The tree is never built: a :class:`Place` is worked out when it is asked for, so a tree may have
2^62 keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

ROOT: Final = 0
BEFORE: Final = -1
AFTER: Final = 1
"""Where a key lies as seen from its parent."""


class Place(NamedTuple):
    """A key, and the range of keys that is its subtree."""

    key: int
    level: int
    """Steps from the root."""
    low: int
    high: int
    """The first and the last key of the subtree."""
    left: int
    """Children that lie before the key."""


class ReferenceTree:
    """A complete tree over the keys 1 to ``keys``."""

    def __init__(self, fan_out: int, levels: int) -> None:
        if fan_out < 2 or levels < 1:
            raise ValueError(
                f"a reference tree of fan-out {fan_out} and {levels} levels cannot be; "
                "give it a fan-out of 2 or more, and a level"
            )
        self.fan_out = fan_out
        self.levels = levels
        self._sizes = [(fan_out**n - 1) // (fan_out - 1) for n in range(levels + 1)]
        """Keys in a subtree of so many levels."""
        self.keys = self._sizes[levels]
        self.root = self._place(1, 0, ROOT)

    def _place(self, low: int, level: int, side: int) -> Place:
        """The top of the subtree that begins at ``low``."""
        below = self._sizes[self.levels - level - 1]
        left = self.fan_out // 2 if side == ROOT else 1 if side == BEFORE else self.fan_out - 1
        high = low + self.fan_out * below
        return Place(low + left * below, level, low, high, left)

    def children(self, place: Place) -> list[Place]:
        """The places below, in the order of their keys."""
        if place.level + 1 == self.levels:
            return []
        size = self._sizes[self.levels - place.level - 1]
        found: list[Place] = []
        for number in range(self.fan_out):
            before = number < place.left
            low = place.low + number * size + (0 if before else 1)
            found.append(self._place(low, place.level + 1, BEFORE if before else AFTER))
        return found

    def path(self, key: int) -> list[Place]:
        """The places from the root down to a key, both included."""
        place = self.root
        found = [place]
        while place.key != key:
            for child in self.children(place):
                if child.low <= key <= child.high:
                    place = child
                    break
            else:
                raise ValueError(f"there is no key {key}; keys are 1 to {self.keys}")
            found.append(place)
        return found

    def segments(self, after: int, upto: int) -> list[tuple[int, int]]:
        """The keys of ``(after, upto]`` on the ring as ranges of the line; all if both are one."""
        if after < upto:
            return [(after + 1, upto)]
        wrapped = [(1, upto), (after + 1, self.keys)]
        return [(low, high) for low, high in wrapped if low <= high]

    def topmost(self, after: int, upto: int) -> Place:
        """The first key of ``(after, upto]`` in breadth-first order (definition 2)."""
        segments = self.segments(after, upto)
        level = [self.root]
        while level:
            for place in level:
                if _inside(place.key, segments):
                    return place
            level = [
                child
                for place in level
                for child in self.children(place)
                if _meets(child, segments)
            ]
        raise ValueError(f"there is no key in ({after}, {upto}]; keys are 1 to {self.keys}")


def _inside(key: int, segments: Sequence[tuple[int, int]]) -> bool:
    return any(low <= key <= high for low, high in segments)


def _meets(place: Place, segments: Sequence[tuple[int, int]]) -> bool:
    return any(place.low <= high and low <= place.high for low, high in segments)


class Owner(NamedTuple):
    """A host's keys: all of ``(after, upto]`` on the ring."""

    host: int
    after: int
    upto: int

    def has(self, key: int, keys: int) -> bool:
        """Whether a key is among them, on a ring of so many."""
        span = (self.upto - self.after) % keys
        return span == 0 or 0 < (key - self.after) % keys <= span


class UnknownOwnerError(LookupError):
    """The owner of a key must be looked up before a search can go on."""

    def __init__(self, key: int) -> None:
        super().__init__(key)
        self.key = key


class Owners:
    """The owners that a search has come to know."""

    def __init__(self, tree: ReferenceTree, me: Owner) -> None:
        self.tree = tree
        self.me = me
        self._known: list[Owner] = [me]
        self._tops: dict[Owner, int] = {}

    def learn(self, owner: Owner) -> None:
        """One more."""
        self._known.append(owner)

    def of(self, key: int) -> Owner:
        """Whose key it is; :class:`UnknownOwnerError` if that must be looked up."""
        for owner in self._known:
            if owner.has(key, self.tree.keys):
                return owner
        raise UnknownOwnerError(key)

    def top(self, owner: Owner) -> int:
        """A host's topmost key."""
        top = self._tops.get(owner, 0)
        if not top:
            top = self.tree.topmost(owner.after, owner.upto).key
            self._tops[owner] = top
        return top

    def holds(self, owner: Owner, place: Place) -> bool:
        """Whether a whole subtree belongs to one host."""
        return any(
            low <= place.low and place.high <= high
            for low, high in self.tree.segments(owner.after, owner.upto)
        )


def parent_of(owners: Owners) -> Owner | None:
    """The parent (definition 3): climb to the first key that is somebody's topmost.

    None at the root; and while owners disagree, which a later search will find settled.
    """
    for place in reversed(owners.tree.path(owners.top(owners.me))[:-1]):
        owner = owners.of(place.key)
        if owner.host != owners.me.host and owners.top(owner) == place.key:
            return owner
    return None


def children_of(owners: Owners) -> list[Owner]:
    """The children: depth-first below the own topmost key, up to the first topmost keys met."""
    tree, me = owners.tree, owners.me
    found: list[Owner] = []
    waiting = list(reversed(tree.children(tree.path(owners.top(me))[-1])))
    while waiting:
        place = waiting.pop()
        owner = owners.of(place.key)
        if owner.host != me.host and owners.top(owner) == place.key:
            found.append(owner)
        elif not owners.holds(owner, place):  # else nobody else has a key there
            waiting += reversed(tree.children(place))
    return found
