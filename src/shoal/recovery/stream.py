"""A stream: the events of one publisher that match one filter, as their subscriber counts them.

It holds the last count received, and the sequence numbers of the events that arrived since. The
next count tells how many events there were in between. If fewer arrived, the rest is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.losses import Lost

if TYPE_CHECKING:
    from shoal.recovery.interests import Wanted
    from shoal.stack import NodeId

MOST_LATER = 4096
"""Events per stream that may wait for a count; of more, the newer half is kept."""


class Stream:
    """The events of one publisher that match one filter."""

    __slots__ = (
        "asked",
        "count",
        "final",
        "first",
        "index",
        "later",
        "sequence",
        "since",
        "wanted",
    )

    def __init__(self, wanted: Wanted, now: float) -> None:
        self.wanted = wanted
        self.since = now
        """When this stream began, or began anew in a later life of the publisher."""
        self.final = False
        """Whether the publisher's last Tally was final: it stopped in good order."""
        self.asked = float("-inf")
        """When the publisher was last asked to number them."""
        self.index = -1
        """The publisher's index of the filter; -1 if none is known."""
        self.first = -1
        """Sequence number up to which losses cannot be known: counting begins after it."""
        self.sequence = -1
        """Sequence number up to which all losses are known."""
        self.count = 0
        """Events of this publisher that matched up to ``sequence``."""
        self.later: set[int] = set()
        """Sequence numbers beyond ``sequence`` of events that arrived."""

    def begin(self, count: int, sequence: int) -> None:
        """Count from here on: ``count`` events matched up to this sequence number."""
        self.count = count
        self.first = self.sequence = sequence
        self.later = {number for number in self.later if number > sequence}

    def begin_anywhere(self) -> None:
        """Forget where counting began: the next count may be of any sequence number."""
        self.first = self.sequence = -1

    def came(self, sequence: int) -> None:
        """An event arrived; a later count covers it."""
        self.later.add(sequence)
        if len(self.later) > MOST_LATER:
            self.later = set(sorted(self.later)[MOST_LATER // 2 :])

    def told(self, publisher: NodeId, count: int, sequence: int, now: float) -> Lost | None:
        """Compare a count with what arrived; return what is missing up to its sequence number."""
        if count < self.count:  # numbered anew, or the last number was forged
            self.begin(count, sequence)
            return None
        came = {number for number in self.later if number <= sequence}
        missing = min(count - self.count, sequence - self.sequence) - len(came)
        lost = None
        if missing > 0:
            lost = Lost(publisher, self.wanted, self.sequence, sequence + 1, missing, now)
            lost.have = came
        self.count = count
        self.sequence = sequence
        self.later -= came
        return lost
