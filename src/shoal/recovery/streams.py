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
        """When this stream began, or began anew in a later life of the publisher."""
        self.final = False
        """Whether the publisher's last Tally said that it stops in good order."""
        self.asked = float("-inf")
        """When the publisher was last asked to number them."""
        self.index = -1
        """The publisher's index of the filter; -1 while it has told none."""
        self.first = -1
        """Sequence number after which losses are known."""
        self.sequence = -1
        """Sequence number up to which they are known."""
        self.count = 0
        """Events of this publisher that matched up to ``sequence``."""
        self.later: set[int] = set()
        """Sequence numbers beyond it that came."""


class Heard:
    """When a publisher's last event came, and how long it usually is from one to the next."""

    def __init__(self, now: float) -> None:
        self.last = now
        self.usual = 0.0

    def again(self, now: float) -> None:
        """One more event came."""
        self.usual = 0.9 * self.usual + 0.1 * (now - self.last)
        self.last = now


class Run:
    """Events of one publisher that came one right after the other, all with the same marks.

    They are counted when something else than the next of them comes, or somebody wants to know.
    """

    __slots__ = ("heard", "last", "marks", "misses", "streams")

    def __init__(
        self, last: int, marks: bytes, streams: list[Stream], misses: list[int], heard: Heard
    ) -> None:
        self.last = last
        """The sequence number of the last of them."""
        self.marks = marks
        self.streams = streams
        """The streams that the marks name."""
        self.misses = misses
        """Per stream, what its count is less than the sequence number."""
        self.heard = heard
        """When events of this publisher came."""


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
