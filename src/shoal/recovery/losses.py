"""Losses: the events that should have come, and did not.

An event that arrives by any way (late, recovered, second copy) is struck off; the rest is given up
after a time. A loss is a range of numbers, so that a large one, which may be a forged one, takes no
more memory or work than a small one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.recovery.interests import Wanted
    from shoal.stack import NodeId

MOST_LOSSES = 10_000
"""Gaps that are remembered; if there are more, the oldest are given up."""


class Lost:
    """A gap: ``count`` events of a publisher that match a filter are missing.

    Their sequence numbers lie between ``after`` and ``before``, both excluded.
    """

    __slots__ = ("after", "asked", "before", "count", "have", "noticed", "publisher", "wanted")

    def __init__(
        self, publisher: NodeId, wanted: Wanted, after: int, before: int, count: int, now: float
    ) -> None:
        self.publisher = publisher
        self.wanted = wanted
        self.after = after
        self.before = before
        self.count = count
        self.have: set[int] = set()
        """Sequence numbers in between of events that arrived."""
        self.noticed = now
        """When the gap was found."""
        self.asked = -1.0
        """When other nodes were last asked for these events; -1 if never."""


class Losses:
    """What a node lacks."""

    def __init__(self) -> None:
        self.by_publisher: dict[NodeId, list[Lost]] = {}
        """Losses per publisher, the oldest first."""
        self.reach: dict[NodeId, int] = {}
        """Per publisher with gaps, the sequence number before which all of them end."""
        self.noticed = 0
        """Events found missing so far, whatever became of them."""

    def __len__(self) -> int:
        return sum(len(lost) for lost in self.by_publisher.values())

    def all(self) -> Iterator[Lost]:
        """All gaps."""
        for lost in self.by_publisher.values():
            yield from lost

    def add(self, lost: Lost) -> None:
        """More events are missing."""
        publisher = lost.publisher
        self.by_publisher.setdefault(publisher, []).append(lost)
        self.reach[publisher] = max(lost.before, self.reach.get(publisher, -1))
        self.noticed += lost.count

    def around(self, publisher: NodeId, sequence: int) -> list[Lost]:
        """The losses that an event of this number may belong to, if it matches."""
        lost = self.by_publisher.get(publisher, ())
        return [
            one for one in lost if one.after < sequence < one.before and sequence not in one.have
        ]

    def strike(self, publisher: NodeId, sequence: int, numbers: list[int]) -> None:
        """Remove an event that matches the filters of these numbers from the gaps it belongs to."""
        struck = False
        for one in self.around(publisher, sequence):
            if one.wanted.number in numbers:
                one.have.add(sequence)
                one.count -= 1
                struck = struck or not one.count
        if struck:
            self._keep(publisher, [one for one in self.by_publisher[publisher] if one.count])

    def drop(self, wanted: Wanted) -> None:
        """What is missing for a filter is missing no more."""
        for publisher, lost in list(self.by_publisher.items()):
            self._keep(publisher, [one for one in lost if one.wanted is not wanted])

    def give_up(self, before: float) -> list[Lost]:
        """Give up losses noticed before a time, and the oldest beyond MOST_LOSSES; return them."""
        given_up: list[Lost] = []
        excess, latest = len(self) - MOST_LOSSES, -1.0
        if excess > 0:
            latest = sorted([one.noticed for lost in self.by_publisher.values() for one in lost])[
                excess - 1
            ]
        for publisher, lost in list(self.by_publisher.items()):
            keep = []
            for one in lost:
                if one.noticed < before or one.noticed <= latest:
                    given_up.append(one)
                else:
                    keep.append(one)
            if len(keep) < len(lost):
                self._keep(publisher, keep)
        return given_up

    def _keep(self, publisher: NodeId, lost: list[Lost]) -> None:
        if lost:
            self.by_publisher[publisher] = lost
        else:
            self.by_publisher.pop(publisher, None)
            self.reach.pop(publisher, None)
