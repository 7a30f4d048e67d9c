"""What a subscriber knows of one publisher's events: the records that Losses works on.

:class:`Wanted` is a filter, :class:`Stream` the publisher's events that match it, :class:`Run` a
series of events without a gap, :class:`Heard` their rhythm, and :class:`Lost` a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.stack import NodeId


class Wanted:
    """A filter of this node's application."""

    def __init__(self, number: int, filter: Filter, since: float) -> None:
        self.number = number
        """This node's own number of the filter."""
        self.filter = filter
        self.since = since
        """When it was subscribed to: events published before are not missed."""


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
        """Sequence number up to which losses cannot be known: counting begins after it."""
        self.sequence = -1
        """Sequence number up to which all losses are known."""
        self.count = 0
        """Events of this publisher that matched up to ``sequence``."""
        self.later: set[int] = set()
        """Sequence numbers beyond ``sequence`` of events that arrived."""


class Heard:
    """Arrivals from one publisher: time of the last one, and the usual time between two."""

    def __init__(self, now: float) -> None:
        self.last = now
        self.usual = 0.0
        """Seconds between two events: a moving average."""

    def again(self, now: float) -> None:
        """One more event arrived."""
        self.usual = 0.9 * self.usual + 0.1 * (now - self.last)
        self.last = now


class Run:
    """Events of one publisher that arrived with consecutive sequence numbers and equal marks.

    The run only remembers its last number. Its streams are brought up to date when it ends: when
    another event arrives than the next of the run, or somebody asks.
    """

    __slots__ = ("heard", "last", "marks", "misses", "streams")

    def __init__(
        self, last: int, marks: bytes, streams: list[Stream], misses: list[int], heard: Heard
    ) -> None:
        self.last = last
        """Sequence number of its last event."""
        self.marks = marks
        self.streams = streams
        """The streams that the marks name: every event of the run is the next one of each."""
        self.misses = misses
        """Per stream, the misses: sequence number less count, the same for the whole run."""
        self.heard = heard
        """Arrivals from this publisher."""


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
