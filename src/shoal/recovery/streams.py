"""The subscriber's side of noticing losses: which events are missing.

There is a :class:`~shoal.recovery.stream.Stream` per publisher and own filter. Events that arrive
in order are counted by :mod:`~shoal.recovery.arrivals`, the others one by one here. Missing events
are held in :mod:`~shoal.recovery.losses`.

A node that can forge events can also forge numbers. A count that is too large causes a false loss,
which becomes a false gap; the next true count is smaller, and counting goes on from it. If the
sequence number is too large as well, true events are not counted until the follower asks again. The
publisher then sees a number that it has not reached, and the stream begins anew, after a gap of
unknown size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.event import MARK_BYTES
from shoal.recovery.arrivals import Arrivals
from shoal.recovery.interests import Interests, Wanted
from shoal.recovery.losses import Losses
from shoal.recovery.numbering import LIFE, read_marks
from shoal.recovery.stream import Stream

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.recovery.messages import Start
    from shoal.stack import NodeId

UNANSWERED = 5.0
"""Seconds for which delivery in order waits for a publisher's first count."""


class Streams:
    """Per publisher and own filter: which events arrived."""

    def __init__(self) -> None:
        self.interests = Interests()
        self.losses = Losses()
        self.by_publisher: dict[NodeId, dict[int, Stream]] = {}
        """Streams per publisher, by this node's number of the filter."""
        self._by_index: dict[NodeId, dict[int, Stream]] = {}
        """The same streams per publisher, by the publisher's index of the filter if it has one."""
        self.arrivals = Arrivals()

    # What is wanted

    def want(self, filter: Filter, now: float) -> None:
        """The application subscribes."""
        self.arrivals.settle_all()
        self.interests.add(filter, now)

    def unwant(self, filter: Filter) -> None:
        """The application unsubscribes: forget the streams and losses of this filter."""
        self.arrivals.settle_all()
        wanted = self.interests.remove(filter)
        if wanted is None:
            return
        for publisher, streams in self.by_publisher.items():
            stream = streams.pop(wanted.number, None)
            if stream is not None:
                self._set_index(publisher, stream, -1)
        self.losses.drop(wanted)

    def widen(self, filter: Filter, since: float, have: dict[NodeId, list[int]]) -> None:
        """The application wants a filter since an earlier time: its events are counted anew.

        ``have``: sequence numbers of matching events that were delivered, per publisher.
        """
        wanted = self.interests.filters[filter]
        if since >= wanted.since:
            return
        wanted.since = since
        self.arrivals.settle_all()
        for publisher, streams in self.by_publisher.items():
            stream = streams.get(wanted.number)
            if stream is not None:
                self._clear_index(publisher, stream)
                stream.begin_anywhere()
                stream.count = 0
                stream.later.update(have.get(publisher, ()))

    def restart(self, publisher: NodeId, born: float, now: float) -> list[int]:
        """A publisher starts again; return the filters (by number) without a last count of it."""
        unsure: list[int] = []
        self.arrivals.settle(publisher)
        for number, stream in self.by_publisher.get(publisher, {}).items():
            if stream.since < born:
                if not stream.final:
                    unsure.append(number)
                self._clear_index(publisher, stream)
                stream.begin_anywhere()
                stream.since, stream.final = now, False
        return unsure

    def forget(self, publisher: NodeId) -> dict[int, Stream]:
        """Follow a publisher no longer; return its streams."""
        self.arrivals.settle(publisher)
        self._by_index.pop(publisher, None)
        self.arrivals.heard.pop(publisher, None)
        return self.by_publisher.pop(publisher)

    def _set_index(self, publisher: NodeId, stream: Stream, index: int) -> None:
        """Set a publisher's index of a stream's filter; -1 if it has none any more."""
        indices = self._by_index.setdefault(publisher, {})
        if indices.get(stream.index) is stream:
            del indices[stream.index]
        stream.index = index
        if index >= 0:
            for old, other in list(indices.items()):
                if old >> LIFE != index >> LIFE:  # of an earlier life: no longer valid
                    del indices[old]
                    other.index = -1
                    other.asked = float("-inf")
            indices[index] = stream

    def _clear_index(self, publisher: NodeId, stream: Stream) -> None:
        """A publisher no longer numbers a stream's filter: it will be asked again."""
        self._set_index(publisher, stream, -1)
        stream.asked = float("-inf")

    # What came

    def next_came(
        self, event: Event, publisher: object, sequence: int, most: int, now: float
    ) -> bool:
        """Count an event if its marks show that it is the next one of all its streams.

        An event with fewer than ``most`` marks has one for each filter that it matches and its
        publisher numbers. If the publisher numbers all filters of this node, the event need not be
        matched. False if it was not counted: :meth:`arrived` is to count it.
        """
        if self.arrivals.goes_on(publisher, sequence, event.marks, now):
            return True
        named = self._by_index.get(event.publisher)
        if named is None or len(named) < len(self.interests):
            return False
        if len(event.marks) >= most * MARK_BYTES:
            return False
        reach = self.losses.reach
        if reach and sequence < reach.get(event.publisher, -1):
            return False
        return self.arrivals.begins(event, publisher, sequence, named, now)

    def arrived(self, event: Event, numbers: list[int], now: float, room: bool) -> bool:
        """Count an event that is wanted. True if its publisher should be asked to number filters.

        ``room``: the event could carry another mark. If it has none for a filter that it matches,
        its publisher no longer numbers that filter.
        """
        publisher = event.publisher
        self.arrivals.settle(publisher)
        if event.sequence < self.losses.reach.get(publisher, -1):
            self.losses.strike(publisher, event.sequence, numbers)
        streams = self.by_publisher.setdefault(publisher, {})
        marks = dict(read_marks(event))
        unknown = False
        for number in numbers:
            stream = _stream(streams, self.interests.by_number[number], now)
            if event.sequence <= stream.sequence and stream.index >= 0:
                continue
            count = marks.get(stream.index, -1)
            if count >= 0:
                stream.later.add(event.sequence)
                self._compare(publisher, stream, count, event.sequence, now)
            else:
                stream.came(event.sequence)
                if room and stream.index >= 0:
                    self._clear_index(publisher, stream)
                unknown = unknown or stream.index < 0
        return unknown

    def started(self, publisher: NodeId, start: Start, uptime: float, now: float) -> bool:
        """Handle how a publisher numbers a filter; a repeated Start serves as a count.

        True if an unknown number of events may be missing: those that the publisher no longer has,
        or may have published in an earlier life that ended without a last Tally.
        """
        self.arrivals.settle(publisher)
        wanted = self.interests.filters.get(start.filter)
        if wanted is None:
            return False
        stream = self.by_publisher.get(publisher, {}).get(wanted.number)
        if stream is None:
            return False
        unsure = deceived = False
        if start.sequence < stream.sequence:
            deceived = stream.index < 0 and stream.since >= now - uptime
            if not deceived:
                return False
            stream.begin_anywhere()  # an event with a forged number had arrived
        if stream.index != start.index and start.first >= stream.sequence:
            unsure = start.unsure or deceived or (stream.since < now - uptime and not stream.final)
            stream.since, stream.final = now, False
            self._set_index(publisher, stream, start.index)
            stream.begin(start.before, start.first)
        if stream.index == start.index and start.index >= 0:
            self._compare(publisher, stream, start.count, start.sequence, now)
        return unsure

    def told(
        self, publisher: NodeId, numbers: tuple[int, int, int], now: float, final: bool = False
    ) -> bool:
        """Handle a publisher's last count for a filter; ``final`` if it stops in good order.

        True if it no longer numbers the filter (its count is -1), and has to be asked again.
        """
        index, count, sequence = numbers
        stream = self._by_index.get(publisher, {}).get(index)
        if stream is not None:
            self.arrivals.settle(publisher)
            if count < 0:
                self._clear_index(publisher, stream)
            else:
                stream.final = final
                if sequence > stream.sequence:
                    self._compare(publisher, stream, count, sequence, now)
        return count < 0

    def _compare(
        self, publisher: NodeId, stream: Stream, count: int, sequence: int, now: float
    ) -> None:
        """Compare a publisher's count with what arrived, and note what is missing."""
        lost = stream.told(publisher, count, sequence, now)
        if lost is not None:
            self.losses.add(lost)

    # What is missing

    def lacks(self, event: Event) -> bool:
        """Whether an event belongs to a loss."""
        around = self.losses.around(event.publisher, event.sequence)
        numbers = self.interests.matching(event) if around else []
        return any(one.wanted.number in numbers for one in around)

    def awaits(self, filter: Filter, publisher: NodeId, sequence: int, now: float) -> bool:
        """Whether an earlier event of a publisher that matches a filter may still arrive."""
        wanted = self.interests.filters.get(filter)
        if wanted is None:
            return False
        for one in self.losses.by_publisher.get(publisher, ()):
            if one.wanted is wanted and one.after < sequence:
                return True
        stream = self.by_publisher.get(publisher, {}).get(wanted.number)
        return stream is not None and stream.index < 0 and now < stream.since + UNANSWERED

    def complete(self, publisher: NodeId) -> tuple[int, int]:
        """Sequence numbers of a publisher (first excluded, last included) with no loss between."""
        self.arrivals.settle(publisher)
        streams = self.by_publisher.get(publisher, {})
        if len(streams) < len(self.interests) or not streams:
            return (-1, -1)
        first = max([stream.first for stream in streams.values()])
        last = min([s.sequence if s.index >= 0 else -1 for s in streams.values()])
        for one in self.losses.by_publisher.get(publisher, ()):
            if one.before > first:
                last = min(last, one.after)
        return (first, last)

    # Whom to ask for numbers

    def named(self, publisher: NodeId) -> list[tuple[int, int]]:
        """The publisher's indices of our filters, each with the last sequence number counted."""
        self.arrivals.settle(publisher)
        indices = self._by_index.get(publisher, {})
        return [(index, stream.sequence) for index, stream in indices.items()]

    def unfollowed(self, publisher: NodeId, before: float) -> list[Filter]:
        """Filters that a publisher does not number, as far as known, nor was asked for lately."""
        streams = self.by_publisher.setdefault(publisher, {})
        found: list[Filter] = []
        for filter, wanted in self.interests.filters.items():
            stream = streams.get(wanted.number)
            if stream is None or (stream.index < 0 and stream.asked < before):
                found.append(filter)
        return found

    def ask(self, publisher: NodeId, filter: Filter, now: float) -> int:
        """Note that a publisher is asked to number a filter; return the last number counted."""
        self.arrivals.settle(publisher)
        streams = self.by_publisher.setdefault(publisher, {})
        stream = _stream(streams, self.interests.filters[filter], now)
        stream.asked = now
        return stream.sequence


def _stream(streams: dict[int, Stream], wanted: Wanted, now: float) -> Stream:
    """A publisher's stream of this filter, which may begin now."""
    stream = streams.get(wanted.number)
    if stream is None:
        stream = streams[wanted.number] = Stream(wanted, now)
    return stream
