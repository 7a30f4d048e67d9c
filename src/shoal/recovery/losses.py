"""The subscriber's side of noticing losses: which events should have come, and did not.

Per publisher and own filter a :class:`Stream` holds the last count received, and the sequence
numbers of the events that arrived since. The next count tells how many events there were in
between. If fewer arrived, a :class:`Lost` records the difference. An event that arrives by any way
(late, recovered, second copy) is struck off it; the rest is given up after a time.

Numbers may be forged by whoever can forge events. A number too large makes a false loss, which
ends as a false gap; the next true number is smaller, and counting starts again from it. A loss is a
range of numbers, so that a large one takes no more memory or work than a small one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shoal.content.event import MARK_BYTES
from shoal.recovery.numbering import LIFE, read_marks
from shoal.recovery.streams import Heard, Lost, Run, Stream, Wanted

if TYPE_CHECKING:
    from shoal.content import AnyFilter, Event, Filter
    from shoal.content.tables import FilterTable
    from shoal.recovery.messages import Start
    from shoal.stack import NodeId

MOST_LOSSES = 10_000
"""Gaps that are remembered; if there are more, the oldest are given up."""
MOST_LATER = 4096
"""Events per stream that are remembered before a count covers them; of more, the newer half."""

UNANSWERED = 5.0
"""Seconds for which delivery in order waits for a publisher's first count."""


class Losses:
    """Per publisher and own filter: which events arrived, and which are missing."""

    def __init__(self) -> None:
        self.wanted: dict[Filter, Wanted] = {}
        """The application's filters."""
        self._by_number: dict[int, Wanted] = {}
        self._table: FilterTable | None = None
        self._numbers = 0
        self.streams: dict[NodeId, dict[int, Stream]] = {}
        """Per publisher, the stream of each filter, by this node's number of it."""
        self._indices: dict[NodeId, dict[int, Stream]] = {}
        """Per publisher, the same streams by its own index of the filter, if it told one."""
        self.lost: dict[NodeId, list[Lost]] = {}
        """Per publisher, the oldest first."""
        self.heard: dict[NodeId, Heard] = {}
        """Arrivals per publisher."""
        self._runs: dict[NodeId, Run] = {}
        """Per publisher, the run of events that its streams do not count yet."""
        self._reach: dict[NodeId, int] = {}
        """Per publisher with gaps, the sequence number before which all of them end."""
        self.noticed = 0
        """Events found missing so far, whatever became of them."""

    # What is wanted

    def want(self, filter: Filter, now: float) -> None:
        """The application subscribes."""
        if filter not in self.wanted:
            self._settle_all()
            wanted = Wanted(self._numbers, filter, now)
            self._numbers += 1
            self.wanted[filter] = wanted
            self._by_number[wanted.number] = wanted
            if self._table is None:
                self._table = filter.table()
            self._table.insert(wanted.number, filter)

    def unwant(self, filter: Filter) -> None:
        """The application unsubscribes: what was missing for this filter alone no longer is."""
        wanted = self.wanted.pop(filter, None)
        if wanted is None or self._table is None:
            return
        self._settle_all()
        self._table.remove(wanted.number, filter)
        del self._by_number[wanted.number]
        for publisher, streams in self.streams.items():
            stream = streams.pop(wanted.number, None)
            if stream is not None:
                self._name(publisher, stream, -1)
        for publisher, lost in list(self.lost.items()):
            self._keep(publisher, [one for one in lost if one.wanted is not wanted])

    def widen(self, filter: Filter, since: float, have: dict[NodeId, list[int]]) -> None:
        """The application wants a filter since an earlier time: its events are counted anew.

        ``have``: sequence numbers of matching events that were delivered, per publisher.
        """
        wanted = self.wanted[filter]
        if since >= wanted.since:
            return
        wanted.since = since
        self._settle_all()
        for publisher, streams in self.streams.items():
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
        for number, stream in self.streams.get(publisher, {}).items():
            if stream.since < born:
                if not stream.final:
                    unsure.append(number)
                self._unname(publisher, stream)
                stream.first = stream.sequence = -1  # it may begin at any number
                stream.since, stream.final = now, False
        return unsure

    def matching(self, event: Event) -> list[int]:
        """The numbers of the filters that an event matches."""
        return [] if self._table is None else self._table.match(event.content)

    def since(self, numbers: list[int], published: float) -> bool:
        """Whether one of these filters was wanted already when an event was published."""
        return any(self._by_number[number].since <= published for number in numbers)

    def earliest(self, filters: tuple[AnyFilter, ...]) -> float:
        """When the first of these filters was subscribed to; infinity if none is."""
        times = [self.wanted[filter].since for filter in filters if filter in self.wanted]
        return min(times, default=float("inf"))

    def forget(self, publisher: NodeId) -> dict[int, Stream]:
        """Follow a publisher no longer; return its streams."""
        self._settle(publisher)
        self._indices.pop(publisher, None)
        self.heard.pop(publisher, None)
        return self.streams.pop(publisher)

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
        self, event: Event, publisher: NodeId, sequence: int, most: int, now: float
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
            self._settle(publisher)
        indices = self._indices.get(publisher)
        if indices is None or len(indices) < len(self.wanted) or len(marks) >= most * MARK_BYTES:
            return False
        if self._reach and sequence < self._reach.get(publisher, -1):
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
        self._runs[publisher] = Run(sequence, marks, streams, misses, self.hear(publisher, now))
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

    def _settle(self, publisher: NodeId) -> None:
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
        if event.sequence < self._reach.get(publisher, -1):
            self.strike(event, numbers)
        streams = self.streams.get(publisher)
        if streams is None:
            streams = {}
            self.streams[publisher] = streams
        marks = read_marks(event)
        unknown = False
        for number in numbers:
            stream = streams.get(number)
            if stream is None:
                stream = Stream(now)
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
                self._heard(publisher, number, stream, count, event.sequence, now)
            else:
                stream.later.add(event.sequence)
                if len(stream.later) > MOST_LATER:
                    stream.later = set(sorted(stream.later)[MOST_LATER // 2 :])
                if room and stream.index >= 0:
                    self._unname(publisher, stream)
                unknown = unknown or stream.index < 0
        return unknown

    def strike(self, event: Event, numbers: list[int]) -> None:
        """Remove an event from the gaps that it belongs to."""
        publisher, sequence = event.publisher, event.sequence
        struck = False
        for one in self.lost.get(publisher, ()):
            if (
                one.after < sequence < one.before
                and one.wanted.number in numbers
                and sequence not in one.have
            ):
                one.have.add(sequence)
                one.count -= 1
                struck = struck or not one.count
        if struck:
            self._keep(publisher, [one for one in self.lost[publisher] if one.count])

    def started(self, publisher: NodeId, start: Start, uptime: float, now: float) -> bool:
        """A publisher says how it numbers a filter; said again, it is as good as an event.

        True if an unknown number of events may be missing: those that the publisher no longer has,
        or may have published in an earlier life that ended without a word.
        """
        self._settle(publisher)
        wanted = self.wanted.get(start.filter)
        stream = None
        if wanted is not None:
            stream = self.streams.get(publisher, {}).get(wanted.number)
        if wanted is None or stream is None or start.sequence < stream.sequence:
            return False
        unsure = False
        if stream.index != start.index and start.first >= stream.sequence:
            unsure = start.unsure or (stream.since < now - uptime and not stream.final)
            stream.since, stream.final = now, False
            self._name(publisher, stream, start.index)
            self._begin(stream, start.before, start.first)
        if stream.index == start.index and start.index >= 0:
            self._heard(publisher, wanted.number, stream, start.count, start.sequence, now)
        return unsure

    def told(
        self,
        publisher: NodeId,
        index: int,
        count: int,
        sequence: int,
        now: float,
        final: bool = False,
    ) -> None:
        """A publisher tells its last count for a filter; ``final`` if it stops in good order."""
        self._settle(publisher)
        for number, stream in self.streams.get(publisher, {}).items():
            if stream.index == index >= 0:
                stream.final = final
                if sequence > stream.sequence:
                    self._heard(publisher, number, stream, count, sequence, now)

    def forgotten(self, publisher: NodeId, index: int) -> None:
        """A publisher no longer numbers a filter: it has to be asked again."""
        stream = self._indices.get(publisher, {}).get(index)
        if stream is not None:
            self._settle(publisher)
            self._unname(publisher, stream)

    def _heard(
        self, publisher: NodeId, number: int, stream: Stream, count: int, sequence: int, now: float
    ) -> None:
        """Compare a count with what arrived: so many events matched up to a sequence number."""
        if count < stream.count:  # numbered anew, or the last number was forged
            self._begin(stream, count, sequence)
            return
        came = {number for number in stream.later if number <= sequence}
        missing = min(count - stream.count, sequence - stream.sequence) - len(came)
        if missing > 0:
            lost = Lost(
                publisher, self._by_number[number], stream.sequence, sequence + 1, missing, now
            )
            lost.have = came
            self.lost.setdefault(publisher, []).append(lost)
            self._reach[publisher] = max(sequence + 1, self._reach.get(publisher, -1))
            self.noticed += missing
        stream.count = count
        stream.sequence = sequence
        stream.later -= came

    def _begin(self, stream: Stream, count: int, sequence: int) -> None:
        stream.count = count
        stream.first = stream.sequence = sequence
        stream.later = {number for number in stream.later if number > sequence}

    def _keep(self, publisher: NodeId, lost: list[Lost]) -> None:
        if lost:
            self.lost[publisher] = lost
        else:
            self.lost.pop(publisher, None)
            self._reach.pop(publisher, None)

    # What is missing

    def __len__(self) -> int:
        return sum(len(lost) for lost in self.lost.values())

    def all(self) -> Iterator[Lost]:
        """All gaps."""
        for lost in self.lost.values():
            yield from lost

    def lacks(self, event: Event) -> bool:
        """Whether an event belongs to a gap."""
        numbers = None
        for one in self.lost.get(event.publisher, ()):
            if one.after < event.sequence < one.before and event.sequence not in one.have:
                numbers = self.matching(event) if numbers is None else numbers
                if one.wanted.number in numbers:
                    return True
        return False

    def awaits(self, filter: Filter, publisher: NodeId, sequence: int, now: float) -> bool:
        """Whether a publisher's event before this one may still come, as far as is known."""
        wanted = self.wanted.get(filter)
        if wanted is None:
            return False
        for one in self.lost.get(publisher, ()):
            if one.wanted is wanted and one.after < sequence:
                return True
        stream = self.streams.get(publisher, {}).get(wanted.number)
        return stream is not None and stream.index < 0 and now < stream.since + UNANSWERED

    def give_up(self, before: float) -> list[Lost]:
        """Give up losses noticed before a time, and the oldest beyond MOST_LOSSES; return them."""
        given_up: list[Lost] = []
        excess, latest = len(self) - MOST_LOSSES, -1.0
        if excess > 0:
            latest = sorted([one.noticed for lost in self.lost.values() for one in lost])[
                excess - 1
            ]
        for publisher, lost in list(self.lost.items()):
            keep = []
            for one in lost:
                if one.noticed < before or one.noticed <= latest:
                    given_up.append(one)
                else:
                    keep.append(one)
            if len(keep) < len(lost):
                self._keep(publisher, keep)
        return given_up

    def complete(self, publisher: NodeId) -> tuple[int, int]:
        """After which and up to which of a publisher's sequence numbers nothing is missing."""
        self._settle(publisher)
        streams = self.streams.get(publisher, {})
        if len(streams) < len(self.wanted) or not streams:
            return (-1, -1)
        first = max([stream.first for stream in streams.values()])
        last = min([s.sequence if s.index >= 0 else -1 for s in streams.values()])
        for one in self.lost.get(publisher, ()):
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
        streams = self.streams.setdefault(publisher, {})
        found: list[Filter] = []
        for filter, wanted in self.wanted.items():
            stream = streams.get(wanted.number)
            if stream is None or (stream.index < 0 and stream.asked < before):
                found.append(filter)
        return found

    def ask(self, publisher: NodeId, filter: Filter, now: float) -> int:
        """Note that a publisher is asked to number a filter; return the last number counted."""
        self._settle(publisher)
        streams = self.streams.setdefault(publisher, {})
        wanted = self.wanted[filter]
        stream = streams.get(wanted.number)
        if stream is None:
            stream = Stream(now)
            streams[wanted.number] = stream
        stream.asked = now
        return stream.sequence
