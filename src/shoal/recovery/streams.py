"""The subscriber's side of noticing losses: which events should have come, and did not.

Per publisher and own filter a :class:`Stream` holds the last count received, and the sequence
numbers of the events that arrived since. The next count tells how many events there were in
between. If fewer arrived, the rest is missing (:mod:`~shoal.recovery.losses`). A :class:`Run` is a
series of events without a gap, :class:`Heard` their rhythm.

Numbers may be forged by whoever can forge events. A count too large makes a false loss, which ends
as a false gap; the next true count is smaller, and counting starts again from it. If the sequence
number is too large as well, no true event is counted any more, until the follower asks again: the
publisher sees that it never was there, and has it begin anew, after a gap of unknown size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.event import MARK_BYTES
from shoal.recovery.interests import Interests, Wanted
from shoal.recovery.losses import Losses, Lost
from shoal.recovery.numbering import LIFE, read_marks

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.recovery.messages import Start
    from shoal.stack import NodeId

MOST_LATER = 4096
"""Events per stream that are remembered before a count covers them; of more, the newer half."""
UNANSWERED = 5.0
"""Seconds for which delivery in order waits for a publisher's first count."""


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


class Streams:
    """Per publisher and own filter: which events arrived."""

    def __init__(self) -> None:
        self.interests = Interests()
        self.losses = Losses()
        self.by_publisher: dict[NodeId, dict[int, Stream]] = {}
        """Per publisher, the stream of each filter, by this node's number of it."""
        self._indices: dict[NodeId, dict[int, Stream]] = {}
        """Per publisher, the same streams by its own index of the filter, if it told one."""
        self.heard: dict[NodeId, Heard] = {}
        """Arrivals per publisher."""
        self._runs: dict[object, Run] = {}
        """Per publisher (an object, as in Delivered), the run that its streams do not count yet."""

    # What is wanted

    def want(self, filter: Filter, now: float) -> None:
        """The application subscribes."""
        self._settle_all()
        self.interests.add(filter, now)

    def unwant(self, filter: Filter) -> None:
        """The application unsubscribes: what was missing for this filter alone no longer is."""
        self._settle_all()
        wanted = self.interests.remove(filter)
        if wanted is None:
            return
        for publisher, streams in self.by_publisher.items():
            stream = streams.pop(wanted.number, None)
            if stream is not None:
                self._name(publisher, stream, -1)
        self.losses.drop(wanted)

    def widen(self, filter: Filter, since: float, have: dict[NodeId, list[int]]) -> None:
        """The application wants a filter since an earlier time: its events are counted anew.

        ``have``: sequence numbers of matching events that were delivered, per publisher.
        """
        wanted = self.interests.filters[filter]
        if since >= wanted.since:
            return
        wanted.since = since
        self._settle_all()
        for publisher, streams in self.by_publisher.items():
            stream = streams.get(wanted.number)
            if stream is not None:
                self._unname(publisher, stream)
                stream.first = stream.sequence = -1
                stream.count = 0
                stream.later.update(have.get(publisher, ()))

    def restart(self, publisher: NodeId, born: float, now: float) -> list[int]:
        """A publisher has started again; return the filters whose last count it did not tell."""
        unsure: list[int] = []
        self._settle(publisher)
        for number, stream in self.by_publisher.get(publisher, {}).items():
            if stream.since < born:
                if not stream.final:
                    unsure.append(number)
                self._unname(publisher, stream)
                stream.first = stream.sequence = -1  # it may begin at any number
                stream.since, stream.final = now, False
        return unsure

    def forget(self, publisher: NodeId) -> dict[int, Stream]:
        """Follow a publisher no longer; return its streams."""
        self._settle(publisher)
        self._indices.pop(publisher, None)
        self.heard.pop(publisher, None)
        return self.by_publisher.pop(publisher)

    def _name(self, publisher: NodeId, stream: Stream, index: int) -> None:
        """Note a publisher's index of a stream's filter; -1 if it has none any more."""
        indices = self._indices.setdefault(publisher, {})
        if indices.get(stream.index) is stream:
            del indices[stream.index]
        stream.index = index
        if index >= 0:
            for name, other in list(indices.items()):
                if name >> LIFE != index >> LIFE:  # it has started again, and forgotten that one
                    del indices[name]
                    other.index = -1
                    other.asked = float("-inf")
            indices[index] = stream

    def _unname(self, publisher: NodeId, stream: Stream) -> None:
        """A publisher no longer numbers a stream's filter: it will be asked again."""
        self._name(publisher, stream, -1)
        stream.asked = float("-inf")

    # What came

    def next_came(
        self, event: Event, publisher: object, sequence: int, most: int, now: float
    ) -> bool:
        """Count an event whose marks say that it is the next one of all its streams.

        An event with room for more marks (``most``) has one for each filter that its publisher
        numbers and that it matches. If that is all of ours, nothing need be matched. False if the
        event is not so simple: then it has still to be counted by :meth:`arrived`.
        """
        marks = event.marks
        run = self._runs.get(publisher)
        if run is not None:
            if sequence == run.last + 1 and marks == run.marks:
                run.last = sequence
                run.heard.again(now)
                return True
            self._settle(event.publisher)
        indices = self._indices.get(event.publisher)
        if indices is None or len(indices) < len(self.interests) or len(marks) >= most * MARK_BYTES:
            return False
        reach = self.losses.reach
        if reach and sequence < reach.get(event.publisher, -1):
            return False
        streams: list[Stream] = []
        misses: list[int] = []
        for index, count in read_marks(event):
            stream = indices.get(index)
            if stream is not None:
                if count != stream.count + 1 or sequence <= stream.sequence or stream.later:
                    return False
                streams.append(stream)
                misses.append(sequence - count)
        if not streams:
            return False
        heard = self.hear(event.publisher, now)
        self._runs[publisher] = Run(sequence, marks, streams, misses, heard)
        return True

    def hear(self, publisher: NodeId, now: float) -> Heard:
        """Note that an event of a publisher arrived."""
        heard = self.heard.get(publisher)
        if heard is None:
            heard = Heard(now)
            self.heard[publisher] = heard
        else:
            heard.again(now)
        return heard

    def _settle(self, publisher: object) -> None:
        """End a publisher's run: bring its streams up to date."""
        run = self._runs.pop(publisher, None)
        if run is not None:
            for stream, misses in zip(run.streams, run.misses, strict=True):
                stream.sequence = run.last
                stream.count = run.last - misses

    def _settle_all(self) -> None:
        for publisher in list(self._runs):
            self._settle(publisher)

    def arrived(self, event: Event, numbers: list[int], now: float, room: bool) -> bool:
        """Count an event that is wanted. True if its publisher should be asked to number filters.

        ``room``: its publisher could have put another mark on it.
        """
        publisher = event.publisher
        self._settle(publisher)
        if event.sequence < self.losses.reach.get(publisher, -1):
            self.losses.strike(publisher, event.sequence, numbers)
        streams = self.by_publisher.setdefault(publisher, {})
        marks = read_marks(event)
        unknown = False
        for number in numbers:
            stream = streams.get(number)
            if stream is None:
                stream = Stream(self.interests.by_number[number], now)
                streams[number] = stream
            if event.sequence <= stream.sequence and stream.index >= 0:
                continue
            count = -1
            for index, told in marks:
                if index == stream.index:
                    count = told
                    break
            if count >= 0 and stream.index >= 0:
                stream.later.add(event.sequence)
                self._heard(publisher, stream, count, event.sequence, now)
            else:
                stream.later.add(event.sequence)
                if len(stream.later) > MOST_LATER:
                    stream.later = set(sorted(stream.later)[MOST_LATER // 2 :])
                if room and stream.index >= 0:
                    self._unname(publisher, stream)
                unknown = unknown or stream.index < 0
        return unknown

    def started(self, publisher: NodeId, start: Start, uptime: float, now: float) -> bool:
        """A publisher says how it numbers a filter; said again, it is as good as an event.

        True if an unknown number of events may be missing: those that the publisher no longer has,
        or may have published in an earlier life that ended without a word.
        """
        self._settle(publisher)
        wanted = self.interests.filters.get(start.filter)
        stream = None
        if wanted is not None:
            stream = self.by_publisher.get(publisher, {}).get(wanted.number)
        if wanted is None or stream is None:
            return False
        unsure = deceived = False
        if start.sequence < stream.sequence:
            deceived = stream.index < 0 and stream.since >= now - uptime
            if not deceived:
                return False
            stream.sequence = -1  # by an event with a forged number
        if stream.index != start.index and start.first >= stream.sequence:
            unsure = start.unsure or deceived or (stream.since < now - uptime and not stream.final)
            stream.since, stream.final = now, False
            self._name(publisher, stream, start.index)
            self._begin(stream, start.before, start.first)
        if stream.index == start.index and start.index >= 0:
            self._heard(publisher, stream, start.count, start.sequence, now)
        return unsure

    def told(
        self, publisher: NodeId, numbers: tuple[int, int, int], now: float, final: bool = False
    ) -> None:
        """A publisher tells its last count for a filter; ``final`` if it stops in good order."""
        index, count, sequence = numbers
        stream = self._indices.get(publisher, {}).get(index)
        if stream is not None:
            self._settle(publisher)
            stream.final = final
            if sequence > stream.sequence:
                self._heard(publisher, stream, count, sequence, now)

    def forgotten(self, publisher: NodeId, index: int) -> None:
        """A publisher no longer numbers a filter: it has to be asked again."""
        stream = self._indices.get(publisher, {}).get(index)
        if stream is not None:
            self._settle(publisher)
            self._unname(publisher, stream)

    def _heard(
        self, publisher: NodeId, stream: Stream, count: int, sequence: int, now: float
    ) -> None:
        """Compare a count with what arrived: so many events matched up to a sequence number."""
        if count < stream.count:  # numbered anew, or the last number was forged
            self._begin(stream, count, sequence)
            return
        came = {number for number in stream.later if number <= sequence}
        missing = min(count - stream.count, sequence - stream.sequence) - len(came)
        if missing > 0:
            lost = Lost(publisher, stream.wanted, stream.sequence, sequence + 1, missing, now)
            lost.have = came
            self.losses.add(lost)
        stream.count = count
        stream.sequence = sequence
        stream.later -= came

    def _begin(self, stream: Stream, count: int, sequence: int) -> None:
        stream.count = count
        stream.first = stream.sequence = sequence
        stream.later = {number for number in stream.later if number > sequence}

    # What is missing

    def lacks(self, event: Event) -> bool:
        """Whether an event belongs to a gap."""
        around = self.losses.around(event.publisher, event.sequence)
        numbers = self.interests.matching(event) if around else []
        return any(one.wanted.number in numbers for one in around)

    def awaits(self, filter: Filter, publisher: NodeId, sequence: int, now: float) -> bool:
        """Whether a publisher's event before this one may still come, as far as is known."""
        wanted = self.interests.filters.get(filter)
        if wanted is None:
            return False
        for one in self.losses.by_publisher.get(publisher, ()):
            if one.wanted is wanted and one.after < sequence:
                return True
        stream = self.by_publisher.get(publisher, {}).get(wanted.number)
        return stream is not None and stream.index < 0 and now < stream.since + UNANSWERED

    def complete(self, publisher: NodeId) -> tuple[int, int]:
        """After which and up to which of a publisher's sequence numbers nothing is missing."""
        self._settle(publisher)
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
        self._settle(publisher)
        indices = self._indices.get(publisher, {})
        return [(index, stream.sequence) for index, stream in indices.items()]

    def unfollowed(self, publisher: NodeId, before: float) -> list[Filter]:
        """Filters that a publisher does not number, as far as known, and was not asked lately."""
        streams = self.by_publisher.setdefault(publisher, {})
        found: list[Filter] = []
        for filter, wanted in self.interests.filters.items():
            stream = streams.get(wanted.number)
            if stream is None or (stream.index < 0 and stream.asked < before):
                found.append(filter)
        return found

    def ask(self, publisher: NodeId, filter: Filter, now: float) -> int:
        """Note that a publisher is asked to number a filter; return the last number counted."""
        self._settle(publisher)
        streams = self.by_publisher.setdefault(publisher, {})
        wanted = self.interests.filters[filter]
        stream = streams.get(wanted.number)
        if stream is None:
            stream = Stream(wanted, now)
            streams[wanted.number] = stream
        stream.asked = now
        return stream.sequence
