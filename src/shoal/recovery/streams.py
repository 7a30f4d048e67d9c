"""Records of the events that a subscriber should have; :mod:`~shoal.recovery.losses` keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.stack import NodeId


class Wanted:
    """A filter of this node's application."""

    def __init__(self, number: int, filter: Filter, since: float) -> None:
        self.number = number
        self.filter = filter
        self.since = since
        """When it was subscribed to."""


class Stream:
    """The events of one publisher that match one filter."""

    __slots__ = ("asked", "count", "final", "first", "index", "later", "sequence", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        """When this publisher was first heard of, or last said that it stops in good order."""
        self.final = False
        """Whether it said so and was not heard of since."""
        self.asked = float("-inf")
        """When the publisher was last asked to number them."""
        self.index = -1
        """The publisher's name for the filter; -1 while it has not answered."""
        self.first = -1
        """All is known from beyond this sequence number of the publisher ..."""
        self.sequence = -1
        """... up to this sequence number of the publisher ..."""
        self.count = 0
        """... and so many events matched up to there."""
        self.later: set[int] = set()
        """Sequence numbers beyond it that came."""


class Run:
    """Events of one publisher that came one right after the other, all with the same marks.

    They are counted when something else than the next of them comes, or somebody wants to know.
    """

    __slots__ = ("last", "marks", "misses", "streams")

    def __init__(self) -> None:
        self.last = -1
        """The sequence number of the last of them."""
        self.marks = b""
        self.streams: list[Stream] = []
        """The streams that the marks name."""
        self.misses: list[int] = []
        """Per stream, what its count is less than the sequence number."""


class Lost:
    """Events that should have come: so many, between two sequence numbers of a publisher."""

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
        """Sequence numbers in between that came."""
        self.noticed = now
        self.asked = -1.0
        """When others were last asked for it."""
