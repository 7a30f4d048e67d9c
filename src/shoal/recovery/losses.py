"""Losses: the events that are missing.

An event that arrives after all (late, or as a copy) is removed from its loss; what is left of the
loss is given up after a time. A loss is a range of sequence numbers, so a large one, which may be
forged, takes no more memory or work than a small one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.recovery.interests import Wanted
    from shoal.stack import NodeId

MOST_LOSSES = 10_000
"""Losses that are remembered; if there are more, the oldest are given up."""


class Lost:
    """A loss: ``count`` events of a publisher that match a filter are missing.

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
        """When the loss was noticed."""
        self.asked = -1.0
        """When other nodes were last asked for these events; -1 if never."""


class Losses:
    """The losses of one node."""

    def __init__(self) -> None:
        self.by_publisher: dict[NodeId, list[Lost]] = {}
        """Losses per publisher, the oldest first."""
        self.reach: dict[NodeId, int] = {}
        """Sequence number before which all losses of a publisher end, per publisher with losses."""
        self.noticed = 0
        """Events found missing so far, whatever became of them."""
        self._noticed: dict[Lost, None] = {}
        """All losses, in the order in which they were noticed."""

    def __len__(self) -> int:
        return len(self._noticed)

    def all(self) -> Iterator[Lost]:
        """All losses, by publisher."""
        for lost in self.by_publisher.values():
            yield from lost

    def add(self, lost: Lost) -> None:
        """Add a loss that was noticed just now."""
        publisher = lost.publisher
        self._noticed[lost] = None
        self.by_publisher.setdefault(publisher, []).append(lost)
        self.reach[publisher] = max(lost.before, self.reach.get(publisher, -1))
        self.noticed += lost.count

    def around(self, publisher: NodeId, sequence: int) -> list[Lost]:
        """The losses that an event with this sequence number belongs to if it matches."""
        lost = self.by_publisher.get(publisher, ())
        return [
            one for one in lost if one.after < sequence < one.before and sequence not in one.have
        ]

    def strike(self, publisher: NodeId, sequence: int, numbers: list[int]) -> None:
        """Remove an event that matches the filters of these numbers from the losses it is in."""
        found: list[Lost] = []
        for one in self.around(publisher, sequence):
            if one.wanted.number in numbers:
                one.have.add(sequence)
                one.count -= 1
                if not one.count:
                    found.append(one)
        self._remove(publisher, found)

    def drop(self, wanted: Wanted) -> None:
        """Remove the losses of a filter."""
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
        """Remove some of a publisher's losses."""
        if not gone:
            return
        for one in gone:
            del self._noticed[one]
        left = [one for one in self.by_publisher[publisher] if one in self._noticed]
        if left:
            self.by_publisher[publisher] = left
        else:
            del self.by_publisher[publisher], self.reach[publisher]
