"""Arrivals: the events of each publisher, as they come one after the other.

Nearly always an event is the next one of all its streams. It is then noted as the last of a
*series*: events with consecutive sequence numbers and equal marks. The streams are brought up to
date when the series ends: when an event arrives that is not its next one, or when they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.numbering import read_marks

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.recovery.stream import Stream
    from shoal.stack import NodeId


class Heard:
    """When events of one publisher came: the last one, and how long it usually is to the next."""

    def __init__(self, now: float) -> None:
        self.last = now
        self.usual = 0.0
        """Seconds between two events: a moving average."""

    def again(self, now: float) -> None:
        """One more event arrived."""
        self.usual = 0.9 * self.usual + 0.1 * (now - self.last)
        self.last = now


class Series:
    """Events of one publisher that arrived with consecutive sequence numbers and equal marks."""

    __slots__ = ("heard", "last", "marks", "misses", "streams")

    def __init__(
        self, last: int, marks: bytes, streams: list[Stream], misses: list[int], heard: Heard
    ) -> None:
        self.last = last
        """Sequence number of its last event."""
        self.marks = marks
        self.streams = streams
        """The streams that the marks name: every event of the series is the next one of each."""
        self.misses = misses
        """Per stream, the misses: sequence number less count, the same for the whole series."""
        self.heard = heard
        """Arrivals from this publisher."""


class Arrivals:
    """Per publisher, the series that its streams do not count yet, and when its events came."""

    def __init__(self) -> None:
        self.heard: dict[NodeId, Heard] = {}
        self._series: dict[object, Series] = {}
        """Series per publisher, typed as an object: compiled, an int is boxed for each look-up."""

    def goes_on(self, publisher: object, sequence: int, marks: bytes, now: float) -> bool:
        """Whether an event is the next one of a series; if not, the series ends."""
        series = self._series.get(publisher)
        if series is None:
            return False
        if sequence == series.last + 1 and marks == series.marks:
            series.last = sequence
            series.heard.again(now)
            return True
        self.settle(publisher)
        return False

    def begins(
        self, event: Event, publisher: object, sequence: int, named: dict[int, Stream], now: float
    ) -> bool:
        """Begin a series with an event if its marks show that it is the next one of its streams.

        ``named``: this publisher's streams, by its own indices of their filters.
        """
        streams: list[Stream] = []
        misses: list[int] = []
        for index, count in read_marks(event):
            stream = named.get(index)
            if stream is not None:
                if count != stream.count + 1 or sequence <= stream.sequence or stream.later:
                    return False
                streams.append(stream)
                misses.append(sequence - count)
        if not streams:
            return False
        heard = self.hear(event.publisher, now)
        self._series[publisher] = Series(sequence, event.marks, streams, misses, heard)
        return True

    def hear(self, publisher: NodeId, now: float) -> Heard:
        """Note that an event of a publisher arrived."""
        heard = self.heard.get(publisher)
        if heard is None:
            heard = self.heard[publisher] = Heard(now)
        else:
            heard.again(now)
        return heard

    def settle(self, publisher: object) -> None:
        """End a publisher's series: bring its streams up to date."""
        series = self._series.pop(publisher, None)
        if series is not None:
            for stream, misses in zip(series.streams, series.misses, strict=True):
                stream.sequence = series.last
                stream.count = series.last - misses

    def settle_all(self) -> None:
        """End the series of all publishers."""
        for publisher in list(self._series):
            self.settle(publisher)
