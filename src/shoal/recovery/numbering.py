"""The publisher's side of noticing losses: events are numbered per filter, for those who follow it.

A subscriber must see that an event is missing without seeing events that it did not ask for. One
number per publisher cannot do that: to a subscriber that wants every hundredth event, 99 of 100
numbers are missing. So events are numbered per (publisher, filter), and the question is where the
numbers travel.

* *With the event*, or a loss would not be noticed by the next event. What carries an event, by
  whatever path, carries its ``marks`` unchanged; no node on the way needs to understand them.
* *For filters that are followed.* A publisher cannot know every filter: under event forwarding and
  flooding subscriptions stay at home, hierarchical forwarding tells only the root, covering hides
  the narrower filters, a horizon the distant ones. So a node that hears of a publisher asks it to
  number its filters (:class:`~shoal.recovery.messages.Follow`). This needs nothing of the routing
  and serves all content models alike. Until the answer is there, and where the publisher is out of
  reach, losses are found by comparing with other nodes only.
* *Under the publisher's own indices.* A mark is (index, misses). *Misses* is the number of the
  publisher's events so far that do not match the filter with this index; *count*, the number that
  do, is the sequence number less the misses. While each event matches what the one before it did,
  all of them carry the same bytes, and one comparison tells a follower that nothing is missing.
  Indices are told to those who ask for that very filter. Others learn that some filter matches the
  event, and how often it did so, but not which.
* *At most* ``marks`` *of them.* If an event matches more filters, the least recently marked ones
  get a mark. A count says how many events there were since *any* earlier mark, so that a loss is
  noticed at the next mark, not only when every event has one.

What is missing is then named as a hole: *three events of publisher 7 that match x > 2, between its
sequence numbers 40 and 61, which are not 52*. A node that holds such events finds them by matching,
and need not have heard of the index. Marks are packed, so that nodes on the way handle one string
of bytes; an event without followers carries an empty one: two bytes.

A publisher that starts again has forgotten its followers. They notice by events that match, have
room for another mark and lack theirs, and ask again.
"""

from __future__ import annotations

from heapq import nsmallest
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Final

from shoal.content.event import MARK_BYTES

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.content.tables import FilterTable, Matched
    from shoal.stack import Host, NodeId

MOST_FILTERS = 4096
"""Filters that a publisher numbers; a follower that asks for more gets the index -1."""
MOST_BYTES = 8 << 20
"""Bytes of these filters."""
MOST_FOLLOWERS = 4096
"""Followers per filter; further ones get marks, but not the last count."""

MARK: Final = Struct("<Iq")
"""A mark: the filter's index, and the misses (the event's sequence number less the count)."""
FORMAT: Final = 2
"""Number of this form of marks. Brokers that know another one only are not linked."""
LIFE = 16
"""Bits of an index that number the filter; the bits above are the publisher's epoch."""
LOWER = (1 << LIFE) - 1
FEW = 8
"""Number of filters up to which each is evaluated by itself, without a table."""
UNKNOWN = -1
"""State number that no routing table has."""


class Followed:
    """A filter whose events are numbered."""

    def __init__(self, filter: Filter, index: int) -> None:
        self.filter = filter
        self.index = index
        self.count = 0
        """Events that matched."""
        self.sequence = -1
        """Sequence number of the last event that matched."""
        self.matched = 0.0
        """When that event was published."""
        self.marked = 0
        """Number of the last event that carried a mark of this filter."""
        self.told = True
        """Whether the last count was sent to followers."""
        self.followers: dict[NodeId, float] = {}
        """Nodes that asked for the numbers, each with the time when it last did."""


class Numbering:
    """A publisher's counters: one per filter that somebody follows."""

    def __init__(self, epoch: int, most: int, floor: int = -1, host: Host | None = None) -> None:
        self._host = host
        self._routed: Matched | None = None
        """The routing's match of the last event, if the counters were found by it."""
        self._state = UNKNOWN
        """State number of the routing's table when it was last compared with the filters here."""
        self._shared = False
        """Whether that table had all filters, so that one match serves routing and numbers."""
        self._life = (epoch & 0x7FFF) << LIFE
        """Upper bits of all indices; a publisher that starts again has others than before."""
        self._last = -1
        """Lower bits of the latest index."""
        self._most = most
        self._filters: dict[Filter, Followed] = {}
        self._bytes = 0
        self._by_index: dict[int, Followed] = {}
        self._table: FilterTable | None = None
        self._untold: dict[int, None] = {}
        """Indices of the filters whose last count was not sent to followers yet."""
        self._oldest = float("inf")
        """A time since which every follower was heard of."""
        self._events = 0
        self._run: list[Followed] = []
        """The filters that the last event matched."""
        self._run_marks = b""
        """Marks of the last event; the next one has the same if it matches the same filters."""
        self.published = False
        """Whether anything was published in this life."""
        self.time = float("-inf")
        """When the last event was published."""
        self.sequence = floor
        """Sequence number of the last event; before the first, a number below it."""
        self.before = floor
        """A sequence number below those of this life, and above those of earlier ones."""

    def follow(self, filter: Filter, follower: NodeId, now: float) -> Followed | None:
        """Number the events that match from now on; None if there are too many filters already."""
        followed = self._filters.get(filter)
        if followed is None:
            size = filter.size()
            if len(self._filters) >= MOST_FILTERS or self._bytes + size > MOST_BYTES:
                return None
            self._bytes += size
            followed = Followed(filter, self._free_index())
            if self._table is None:
                self._table = filter.table()
            self._table.insert(followed.index, filter)
            self._filters[filter] = followed
            self._by_index[followed.index] = followed
            self._state, self._routed = UNKNOWN, None
        if follower in followed.followers or len(followed.followers) < MOST_FOLLOWERS:
            followed.followers[follower] = now
            self._oldest = min(self._oldest, now)
        return followed

    def still(self, index: int, follower: NodeId, now: float) -> int:
        """A follower still wants the filter with this index; return its count, -1 if unknown."""
        followed = self._by_index.get(index)
        if followed is None or follower not in followed.followers:
            return -1
        followed.followers[follower] = now
        return followed.count

    def _free_index(self) -> int:
        """The next index of this life that no filter has; they come round after all others."""
        while True:
            self._last = (self._last + 1) & LOWER
            if self._life | self._last not in self._by_index:
                return self._life | self._last

    def filters(self) -> list[Filter]:
        """The filters that somebody follows."""
        return list(self._filters)

    def forget(self, before: float) -> None:
        """Drop the followers that were last heard of before a time, and filters without any."""
        if before <= self._oldest:
            return
        for followed in list(self._filters.values()):
            told = followed.followers
            followed.followers = {node: heard for node, heard in told.items() if heard >= before}
            if not followed.followers:
                assert self._table is not None
                self._table.remove(followed.index, followed.filter)
                self._bytes -= followed.filter.size()
                del self._filters[followed.filter], self._by_index[followed.index]
                self._untold.pop(followed.index, None)
                self._state, self._routed = UNKNOWN, None
        times = [time for f in self._filters.values() for time in f.followers.values()]
        self._oldest = min(times, default=float("inf"))

    def marks(self, event: Event, now: float) -> bytes:
        """Count an event that is published; return its marks."""
        sequence = event.sequence
        self._events += 1
        if not self.published:
            self.published = True
            self.before = sequence - 1
        follows = sequence == self.sequence + 1
        self.sequence = sequence
        self.time = now
        if self._table is None:
            return b""
        matched = self._matching(event)
        for followed in matched:
            followed.count += 1
            followed.sequence = sequence
            followed.matched = now
            if followed.told:
                followed.told = False
                self._untold[followed.index] = None
        if follows and len(matched) <= self._most and matched == self._run:
            return self._run_marks
        self._run = matched
        if len(matched) > self._most:
            matched = nsmallest(self._most, matched, key=attrgetter("marked"))
        packed = b""
        for followed in matched:
            followed.marked = self._events
            packed += MARK.pack(followed.index, sequence - followed.count)
        self._run_marks = packed
        return packed

    def _matching(self, event: Event) -> list[Followed]:
        """The counters of the filters that an event matches, by the routing's match if possible."""
        content = event.content
        host = self._host
        matched = None if host is None else host.matched
        routed = None if matched is None else matched(content)
        if host is not None and routed is not None:
            if routed is self._routed:
                return self._run
            if routed.state != self._state:
                self._state = routed.state
                self._shared = all(host.routes(filter) for filter in self._filters)
            if self._shared:
                self._routed = routed
                return [self._filters[f] for f in routed.filters if f in self._filters]
        self._routed = None
        if len(self._filters) <= FEW:
            return [one for one in self._filters.values() if one.filter.matches(content)]
        assert self._table is not None
        return [self._by_index[index] for index in self._table.match(content)]

    def last_words(self) -> dict[NodeId, list[tuple[int, int, int]]]:
        """Index, count and sequence number of each filter, per follower, for when it stops."""
        told: dict[NodeId, list[tuple[int, int, int]]] = {}
        for followed in self._filters.values():
            for follower in followed.followers:
                numbers = (followed.index, followed.count, followed.sequence)
                told.setdefault(follower, []).append(numbers)
        return told

    def tails(self, before: float) -> dict[NodeId, list[tuple[int, int, int]]]:
        """The same for filters that no event has matched since a time, if not sent before."""
        told: dict[NodeId, list[tuple[int, int, int]]] = {}
        for index in list(self._untold):
            followed = self._by_index[index]
            if followed.matched > before:
                continue
            del self._untold[index]
            followed.told = True
            for follower in followed.followers:
                told.setdefault(follower, []).append((index, followed.count, followed.sequence))
        return told


def read_marks(event: Event) -> list[tuple[int, int]]:
    """Index and count of each mark of an event; nothing of what cannot be marks."""
    marks, sequence = event.marks, event.sequence
    if len(marks) % MARK_BYTES:
        return []
    found: list[tuple[int, int]] = []
    for at in range(0, len(marks), MARK_BYTES):
        index, misses = MARK.unpack_from(marks, at)
        found.append((index, sequence - misses))
    return found
