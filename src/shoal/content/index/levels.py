"""The segments of an index as a log-structured store: eight neighbours of a size become one.

Merges are generators. Every change of the index does a portion of their work, so that no change
takes long. What is removed while a merge is under way is removed from its result as well.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from shoal.content.index import fields as f
from shoal.content.index import single
from shoal.content.index.segments import Flat, Segment, Snapshot
from shoal.content.index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from shoal.content.index.merging import Merge

RECENT = 1024  # lanes of the smallest segment
FAN_OUT: Final = 8


class Levels:
    """Segments, oldest first, and the merges under way among them."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.merges: list[Merge] = []  # under way; the last is worked on
        self.settled = 0
        """Lanes in segments, dead ones included."""
        self.credit = 0
        """Work that is paid for and not yet done, in lanes looked at."""
        self.changed = True
        """Whether segments came or went since this was last set to False."""
        self._snapshot = Snapshot()
        self._firsts: list[int] = []
        self._tables: list[int] = []
        self._tiers: list[int] = []

    @property
    def snapshots(self) -> list[Snapshot]:
        """The generations of cuts in use."""
        return list({id(s.snapshot): s.snapshot for s in self.segments}.values())

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(s.nbytes for s in self.segments) + sum(s.nbytes for s in self.snapshots)

    def adopt(self, segments: list[Segment]) -> None:
        """Hold these segments from now on."""
        self.segments = segments
        if segments:
            self._snapshot = segments[-1].snapshot
        self._note()

    def add(self, flat: Flat, vocabulary: Vocabulary) -> None:
        """Make a segment of lanes newer than all there are."""
        from shoal.content.index.merging import build, run  # compiled; few lanes do without

        self._snapshot = self._recut(len(flat))
        self.segments.append(run(build(flat, self._snapshot, vocabulary.columns)))
        self._note()

    def bury(self, handle: int) -> int:
        """Drop a handle's lanes: how many there were, and their flags."""
        number = bisect_right(self._firsts, handle) - 1
        if number < 0:
            return 0
        segment = self.segments[number]
        found = single.bury(self._tables[number], handle)
        segment.live -= found & f.ID_MASK
        for work in self.merges:
            if segment in work.inputs:
                work.removed.append(handle)
        return found

    def work(self, vocabulary: Vocabulary) -> None:
        """Do as much of what is due as is paid for."""
        self._plan(vocabulary)
        while self.credit > 0 and self.merges:
            self._advance()
            if not self.merges:
                self._plan(vocabulary)
        if not self.merges:
            self.credit = min(self.credit, 0)

    def settle(self, vocabulary: Vocabulary) -> None:
        """Do all that is due."""
        while self.merges or self._plan(vocabulary):
            self._advance()
        self.credit = 0

    def merge(self, begin: int, end: int, vocabulary: Vocabulary) -> None:
        """Start to merge segments ``begin`` to ``end``."""
        from shoal.content.index.merging import Merge, merge

        inputs = self.segments[begin:end]
        snapshot = self._recut(2 * sum(s.live for s in inputs) - sum(s.live for s in self.segments))
        steps = merge(inputs, snapshot, vocabulary.columns)
        self.merges.append(Merge(inputs, snapshot, steps))

    def _recut(self, lanes: int) -> Snapshot:
        """The cuts for a new segment: fresh ones if it is the better part of the index."""
        alive = {id(s.snapshot) for s in self.segments} | {id(m.snapshot) for m in self.merges}
        if 2 * lanes >= sum(s.live for s in self.segments) and len(alive) < f.MAX_SNAPSHOTS - 1:
            return Snapshot()
        return self._snapshot

    def _note(self) -> None:
        self.settled = sum(s.ids.size for s in self.segments)
        self._firsts = [int(s.handles[0]) for s in self.segments]
        self._tables = [s.at for s in self.segments]
        self._tiers = [_tier(len(s.handles)) for s in self.segments]
        self.changed = True

    def _plan(self, vocabulary: Vocabulary) -> bool:
        """Start the merge that is due among the segments newer than any under way, if there is."""
        floor = 0
        if self.merges:
            floor = self.segments.index(self.merges[-1].inputs[-1]) + 1
        elif not all(s.live for s in self.segments):
            self.segments = [s for s in self.segments if s.live]
            self._note()
        tiers = self._tiers
        for end in range(len(tiers), floor, -1):
            begin = end - 1
            while begin > floor and tiers[begin - 1] <= tiers[end - 1] and end - begin < FAN_OUT:
                begin -= 1
            if end - begin >= FAN_OUT:
                self.merge(begin, end, vocabulary)
                return True
        if not self.merges:
            for number, segment in enumerate(self.segments):
                if 2 * segment.live < len(segment.handles):
                    self.merge(number, number + 1, vocabulary)
                    return True
        return False

    def _advance(self) -> None:
        """One step of the newest merge under way."""
        work = self.merges[-1]
        try:
            self.credit -= next(work.steps)
            return
        except StopIteration as finished:
            segment: Segment = finished.value
        self.merges.pop()
        for handle in work.removed:
            segment.live -= single.bury(segment.at, handle) & f.ID_MASK
        begin = self.segments.index(work.inputs[0])
        self.segments[begin : begin + len(work.inputs)] = [segment] if segment.live else []
        self._snapshot = work.snapshot
        self._note()


def _tier(lanes: int) -> int:
    tier = 0
    while lanes > RECENT * FAN_OUT**tier * 2:
        tier += 1
    return tier
