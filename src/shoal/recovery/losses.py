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
        self._noticed: dict[Lost, None] = {}
        """All gaps, in the order in which they were noticed."""

    def __len__(self) -> int:
        return len(self._noticed)

    def all(self) -> Iterator[Lost]:
        """All gaps."""
        for lost in self.by_publisher.values():
            yield from lost

    def add(self, lost: Lost) -> None:
        """More events are missing, as was noticed just now."""
        publisher = lost.publisher
        self._noticed[lost] = None
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
        found: list[Lost] = []
        for one in self.around(publisher, sequence):
            if one.wanted.number in numbers:
                one.have.add(sequence)
                one.count -= 1
                if not one.count:
                    found.append(one)
        self._remove(publisher, found)

    def drop(self, wanted: Wanted) -> None:
        """What is missing for a filter is missing no more."""
        for publisher, lost in list(self.by_publisher.items()):
            self._remove(publisher, [one for one in lost if one.wanted is wanted])

    def give_up(self, before: float) -> list[Lost]:
        """Give up losses noticed before a time, and the oldest beyond MOST_LOSSES; return them."""
        excess, latest = len(self) - MOST_LOSSES, -1.0
        due: dict[NodeId, list[Lost]] = {}
        for place, one in enumerate(self._noticed):
            if place < excess:
                latest = one.noticed
            elif one.noticed >= before and one.noticed > latest:
                break
            due.setdefault(one.publisher, []).append(one)
        given_up: list[Lost] = []
        for publisher in [one for one in self.by_publisher if one in due] if due else ():
            given_up += due[publisher]
            self._remove(publisher, due[publisher])
        return given_up

    def _remove(self, publisher: NodeId, gone: list[Lost]) -> None:
        """Remove some of a publisher's gaps."""
        if not gone:
            return
        for one in gone:
            del self._noticed[one]
        left = [one for one in self.by_publisher[publisher] if one in self._noticed]
        if left:
            self.by_publisher[publisher] = left
        else:
            del self.by_publisher[publisher], self.reach[publisher]
