"""The matching index: filters in, and for each event the filters that match it out.

Log-structured: new lanes go to a short list that every event is checked against; when it is full
it becomes a small segment; four neighbouring segments of a size become one. Merges are done a
little at a time, with every insertion and removal, so that none of them takes long. A removal
clears bits in place. All changes are visible to the next event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index import single
from shoal.content.index.lanes import lanes_of, simple_box
from shoal.content.index.matches import Matches
from shoal.content.index.recent import Recent
from shoal.content.index.scratch import Scratch
from shoal.content.index.segments import Array, Flat, Segment, Snapshot
from shoal.content.index.vocabulary import Vocabulary
from shoal.content.normal import NormalForm

if TYPE_CHECKING:
    from shoal.content.index.merging import Merge

RECENT: Final = 1024  # lanes that wait for their segment
FAN_OUT: Final = 4
CREDIT: Final = 160  # work on merges that one change pays for, in lanes looked at
PORTION: Final = 4096  # work done at a time
# What events lose to disorder, in lanes looked at in vain. Once it is as much as putting things in
# order would cost, that is done, so that an index which is asked more than changed becomes compact.
SEGMENT_RENT: Final = 100  # lost to each segment but one
FLUSH_COST: Final = 1 << 19
MERGE_COST: Final = 800  # per lane


class MatchIndex:
    """Which filters match an event? Filters are known by the handle their insertion returned."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.segments: list[Segment] = []
        self.opaque: dict[int, NormalForm] = {}
        self._snapshot = Snapshot()
        self._next = 0
        self._count = 0
        self._shared = 0
        self._recent = Recent()
        self._arrays: dict[str, Array] = {}
        self._firsts: list[int] = []
        self.settled = 0
        """Lanes in segments, dead ones included."""
        self._merges: list[Merge] = []  # under way; the last is worked on
        self._credit = 0
        self._rent = [0, 0]  # paid by events since the last flush, and since the last full merge
        self._rates = (0, 0)  # what an event pays of each
        self._dirty = self._moved = True
        self.streams = 0
        """Batches being matched: nothing may move meanwhile."""
        self.table = np.zeros(f.INDEX_SIZE, np.int64)
        self._address = self.table.ctypes.data

    def __len__(self) -> int:
        return self._count

    # Changes

    def insert(self, form: NormalForm) -> int:
        """Add a filter and return its handle; handles ascend."""
        handle = self._add(form)
        self._credit += CREDIT
        if len(self._recent) >= RECENT or self._credit >= PORTION:
            self.maintain()
        return handle

    def insert_many(self, forms: Iterable[NormalForm]) -> range:
        """Add many filters at once, faster than one by one; their handles."""
        first = self._next
        for form in forms:
            self._add(form)
        if len(self._recent) >= RECENT:
            self.flush()
            self.settle()
        return range(first, self._next)

    def insert_flat(self, flat: Flat) -> None:
        """Add lanes that are laid out already; their ids must follow the last handle."""
        self.flush()
        self._build(flat)
        ids = flat.ids & np.uint32(f.ID_MASK)
        self._next = int(ids[-1]) + 1
        self._count += len(np.unique(ids))
        self._shared += int((flat.ids >= f.SHARED).sum())

    def _add(self, form: NormalForm) -> int:
        handle = self._next
        if handle > f.ID_MASK - 1:
            raise OverflowError(
                f"an index takes {f.ID_MASK} insertions; build a new one from its filters"
            )
        box = simple_box(form, self.vocabulary)
        if box is not None:
            self._recent.add(handle, 0, box)
        else:
            self._add_lanes(handle, form)
        self._next += 1
        self._count += 1
        self._dirty = True
        return handle

    def _add_lanes(self, handle: int, form: NormalForm) -> None:
        lanes = lanes_of(form, self.vocabulary)
        flags = 0
        if lanes.opaque:
            flags = f.OPAQUE
            self.opaque[handle] = form
        elif not lanes.disjoint:
            flags = f.SHARED
            self._shared += len(lanes.boxes)
        for box in lanes.boxes:
            self._recent.add(handle, flags, box)

    def remove(self, handle: int) -> bool:
        """Take a filter away; whether it was there."""
        if not 0 <= handle < self._next:
            return False
        recent = self._recent.handles
        found = (
            self._recent.remove(handle) if recent and handle >= recent[0] else self._bury(handle)
        )
        if not found:
            return False
        self._count -= 1
        if found & f.SHARED:
            self._shared -= found & f.ID_MASK
        self.opaque.pop(handle, None)
        self._credit += CREDIT
        if self._credit >= PORTION:
            self.maintain()
        return True

    def _bury(self, handle: int) -> int:
        number = bisect_right(self._firsts, handle) - 1
        if number < 0:
            return 0
        segment = self.segments[number]
        found = single.bury(*segment.addresses, handle)
        segment.live -= found & f.ID_MASK
        for work in self._merges:
            if segment in work.inputs:
                work.removed.append(handle)
        return found

    # Maintenance

    def maintain(self) -> bool:
        """Do a portion of the pending work; whether there is more."""
        if len(self._recent) >= RECENT:
            self.flush()
        self._plan()
        while self._credit > 0:
            if not self._merges and not self._plan():
                self._credit = 0
                return False
            self._advance()
        return True

    def settle(self) -> None:
        """Do all pending work."""
        while self._merges or self._plan():
            self._advance()
        self._credit = 0

    def compact(self) -> None:
        """Bring everything into one segment: the fastest to match, and the smallest."""
        self.flush()
        self.settle()
        if len(self.segments) > 1 or any(s.live < len(s.handles) for s in self.segments):
            self._start_merge(0, len(self.segments))
            self.settle()

    def flush(self) -> None:
        """Make a segment of the recent lanes now."""
        if not len(self._recent):
            return
        flat = self._recent.flat()
        self._recent.clear()
        self._dirty, self._rent[0] = True, 0
        if not len(flat):
            return
        self._build(flat)

    def _build(self, flat: Flat) -> None:
        """Make a segment of lanes."""
        from shoal.content.index.merging import build, run  # compiled; few lanes do without

        self._snapshot = self._recut(len(flat))
        self.segments.append(run(build(flat, self._snapshot, self.vocabulary.columns)))
        self._changed()

    def _recut(self, lanes: int) -> Snapshot:
        """The cuts for a new segment: fresh ones if it is the better part of the index."""
        alive = {id(s.snapshot) for s in self.segments} | {id(m.snapshot) for m in self._merges}
        if 2 * lanes >= sum(s.live for s in self.segments) and len(alive) < f.MAX_SNAPSHOTS - 1:
            return Snapshot()
        return self._snapshot

    def _changed(self) -> None:
        self.settled = sum(s.ids.size for s in self.segments)
        self._firsts = [int(s.handles[0]) for s in self.segments]
        self._dirty = self._moved = True

    def _plan(self) -> bool:
        """Start the merge that is due among the segments newer than any under way, if there is."""
        floor = 0
        if self._merges:
            floor = self.segments.index(self._merges[-1].inputs[-1]) + 1
        elif not all(s.live for s in self.segments):
            self.segments = [s for s in self.segments if s.live]
            self._changed()
        tiers = [_tier(len(s.handles)) for s in self.segments]
        for end in range(len(tiers), floor, -1):
            begin = end - 1
            while begin > floor and tiers[begin - 1] <= tiers[end - 1] and end - begin < FAN_OUT:
                begin -= 1
            if end - begin >= FAN_OUT:
                self._start_merge(begin, end)
                return True
        if not self._merges:
            for number, segment in enumerate(self.segments):
                if 2 * segment.live < len(segment.handles):
                    self._start_merge(number, number + 1)
                    return True
        return False

    def _start_merge(self, begin: int, end: int) -> None:
        from shoal.content.index.merging import Merge, merge

        inputs = self.segments[begin:end]
        snapshot = self._recut(2 * sum(s.live for s in inputs) - sum(s.live for s in self.segments))
        steps = merge(inputs, snapshot, self.vocabulary.columns)
        self._merges.append(Merge(inputs, snapshot, steps))

    def _advance(self) -> None:
        """One step of the newest merge under way."""
        work = self._merges[-1]
        try:
            self._credit -= next(work.steps)
            return
        except StopIteration as finished:
            segment: Segment = finished.value
        self._merges.pop()
        for handle in work.removed:
            segment.live -= single.bury(*segment.addresses, handle) & f.ID_MASK
        begin = self.segments.index(work.inputs[0])
        self.segments[begin : begin + len(work.inputs)] = [segment] if segment.live else []
        self._snapshot = work.snapshot
        self._changed()

    # For storage

    @property
    def next_handle(self) -> int:
        """The handle that the next filter will get."""
        return self._next

    @property
    def shared_lanes(self) -> int:
        """Lanes of filters of which several may match one event."""
        return self._shared

    def adopt(
        self,
        vocabulary: Vocabulary,
        segments: list[Segment],
        opaque: dict[int, NormalForm],
        next_handle: int,
        count: int,
        shared: int,
    ) -> None:
        """Become the index that these are the parts of."""
        self.vocabulary, self.segments, self.opaque = vocabulary, segments, opaque
        self._next, self._count, self._shared = next_handle, count, shared
        if segments:
            self._snapshot = segments[-1].snapshot
        self._changed()

    # Questions

    def match(self, attributes: Mapping[str, object]) -> list[int]:
        """The handles of the filters that match an event, each once, in no particular order."""
        count = self._find(attributes)
        if not count:
            return []
        found: list[int] = self.scratch.ids[:count].tolist()
        return self._decide(found, attributes) if self.opaque else found

    def match_ids(self, attributes: Mapping[str, object]) -> Array:
        """As :meth:`match`, as an array."""
        count = self._find(attributes)
        found = self.scratch.ids[:count]
        if self.opaque:
            return np.array(self._decide(found.tolist(), attributes), np.uint32)
        return found.copy()

    def _find(self, attributes: Mapping[str, object]) -> int:
        """Write the ids that match to the scratch space; how many."""
        if self._merges or self._rates != (0, 0):
            self._pay()
        index = self.publish() if self._dirty else self._address
        scratch, brief = self.scratch, self.vocabulary.brief
        scratch.out(self.settled + len(self._recent))
        if single.match is not None:
            return single.match(
                attributes if type(attributes) is dict else dict(attributes), brief,
                index, scratch.entries_at, scratch.codes_at, scratch.keys_at, scratch.out_at,
            )  # fmt: skip
        found: int = single.kernels().match_one(
            index, scratch.entries_at, scratch.spread(attributes, brief),
            scratch.codes_at, scratch.keys_at, scratch.present_at, scratch.out_at,
        )  # fmt: skip
        return found

    def _pay(self) -> None:
        """Let this event pay for order: for a merge under way, or towards the next."""
        if self.streams:
            return
        if self._merges:
            self._credit += CREDIT
            if self._credit >= PORTION:
                self.maintain()
            return
        rent, rates = self._rent, self._rates
        rent[0] += rates[0]
        rent[1] += rates[1]
        if rent[0] >= FLUSH_COST:
            self.flush()
        elif rent[1] >= MERGE_COST * self.settled:
            rent[1] = 0
            self._start_merge(0, len(self.segments))

    def _decide(self, found: list[int], attributes: Mapping[str, object]) -> list[int]:
        """Let the reference say which of the filters that only may match do."""
        sure = [handle for handle in found if handle < f.OPAQUE]
        maybe = {handle & f.ID_MASK: None for handle in found if handle >= f.OPAQUE}
        return sure + [handle for handle in maybe if self.opaque[handle].matches(attributes)]

    def match_batch(self, batch: object) -> Matches:
        """The handles of the filters that match each row of an Arrow record batch."""
        return Matches.join(list(self.stream(batch, reuse=False)))

    def stream(self, batch: object, *, reuse: bool = True) -> Iterator[Matches]:
        """As :meth:`match_batch`, in portions; with ``reuse`` one is gone when the next comes."""
        from shoal.content.index.batches import stream

        return stream(self, batch, reuse=reuse)

    # The tables that the kernels read

    def publish(self) -> int:
        """Bring the kernels' tables up to date with the last changes; their address."""
        if self._dirty:
            self._dirty = False
            self._recent.publish(self.table)
            self._reshape()
            others = max(0, len(self.segments) - 1)
            # Without segments all is recent, and the compiled code may not even be loaded.
            self._rates = (len(self._recent), SEGMENT_RENT * others) if self.segments else (0, 0)
        return self._address

    def _reshape(self) -> None:
        table, arrays = self.table, self._arrays
        columns = max(self.vocabulary.columns, 1)
        words = 1 + (self._next >> 6)
        if words > len(arrays.get("seen", ())):
            arrays["seen"] = np.zeros(2 * words, np.uint64)
            table[f.SEEN] = arrays["seen"].ctypes.data
        if self._shared >= len(arrays.get("touched", ())):
            arrays["touched"] = np.zeros(2 * self._shared + 1, np.uint32)
            table[f.TOUCHED] = arrays["touched"].ctypes.data
        if not self._moved and columns <= table[f.COLUMNS]:
            return
        self._moved = False
        if columns > table[f.COLUMNS]:
            self.scratch = Scratch(2 * columns)
            table[f.COLUMNS] = 2 * columns
        snapshots = self.snapshots
        for segment in self.segments:
            segment.table[f.SNAPSHOT] = snapshots.index(segment.snapshot)
        arrays["segments"] = np.array([s.table.ctypes.data for s in self.segments], np.int64)
        arrays["snapshots"] = np.array([s.table.ctypes.data for s in snapshots], np.int64)
        table[f.SEGMENTS], table[f.SNAPSHOTS] = len(self.segments), len(snapshots)
        table[f.SEGMENT_TABLE] = arrays["segments"].ctypes.data
        table[f.SNAPSHOT_TABLE] = arrays["snapshots"].ctypes.data

    @property
    def snapshots(self) -> list[Snapshot]:
        """The generations of cuts in use, numbered as in the segments' tables."""
        return list({id(s.snapshot): s.snapshot for s in self.segments}.values())

    @property
    def changed(self) -> bool:
        """Whether the kernels' tables are behind."""
        return self._dirty

    @property
    def lanes(self) -> int:
        """Lanes held, dead ones included: no event can match more."""
        return self.settled + len(self._recent)

    @property
    def nbytes(self) -> int:
        """Memory that the index holds, the names in its vocabulary aside."""
        recent = 8 * len(self._recent) + 20 * len(self._recent.columns)
        return (
            sum(s.nbytes for s in self.segments)
            + sum(s.nbytes for s in self.snapshots)
            + sum(array.nbytes for array in self._arrays.values())
            + recent
        )


def _tier(lanes: int) -> int:
    tier = 0
    while lanes > RECENT * FAN_OUT**tier * 2:
        tier += 1
    return tier
