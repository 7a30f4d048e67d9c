"""The matching index: filters in, and for each event the filters that match it out.

Log-structured: new lanes go to a short list that every event is checked against; when it is full
it becomes a small segment; eight neighbouring segments of a size become one. Merges are done a
little at a time, with every insertion and removal, so that none of them takes long. A removal
clears bits in place. All changes are visible to the next event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index import single
from shoal.content.index.lanes import lanes_of, simple_box
from shoal.content.index.levels import RECENT, Levels
from shoal.content.index.matches import Matches
from shoal.content.index.recent import Recent
from shoal.content.index.scratch import Scratch
from shoal.content.index.segments import Array, Flat, Segment, Snapshot
from shoal.content.index.vocabulary import Vocabulary
from shoal.content.normal import NormalForm

# What is not Final below, tests set to see in seconds what else takes hours.
# Work on merges that a change pays for, in lanes looked at. A lane is merged once per level; a
# removal only has to bring on the day when half of a segment is dead.
INSERTION = 160
REMOVAL = 40
PORTION: Final = 4096  # work done at a time
# What events lose to disorder, in lanes looked at in vain. Once it is as much as putting things in
# order would cost, that is done, so that an index which is asked more than changed becomes compact.
SEGMENT_RENT: Final = 100  # lost to each segment but one
FLUSH_COST = 1 << 19
MERGE_COST = 800  # per lane


class MatchIndex:
    """Which filters match an event? Filters are known by the handle their insertion returned."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.opaque: dict[int, NormalForm] = {}
        self._levels = Levels()
        self._next = 0
        self._count = 0
        self._shared = 0
        self._recent = Recent()
        self._arrays: dict[str, Array] = {}
        self._rent = [0, 0]  # paid by events since the last flush, and since the last full merge
        self._rates = (0, 0)  # what an event pays of each
        self._renting = False
        self._dirty = True
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
        levels = self._levels
        levels.credit += INSERTION
        if levels.credit >= PORTION or len(self._recent.ids) >= RECENT:
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
        self._levels.add(flat, self.vocabulary)
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
            self._recent.add(handle, flags, [number for predicate in box for number in predicate])

    def remove(self, handle: int) -> bool:
        """Take a filter away; whether it was there."""
        if not 0 <= handle < self._next:
            return False
        recent, levels = self._recent.handles, self._levels
        found = (
            self._recent.remove(handle) if recent and handle >= recent[0] else levels.bury(handle)
        )
        if not found:
            return False
        self._count -= 1
        if found > f.ID_MASK:
            if found & f.SHARED:
                self._shared -= found & f.ID_MASK
            else:
                del self.opaque[handle]
        levels.credit += REMOVAL
        if levels.credit >= PORTION:
            self.maintain()
        return True

    # Maintenance

    def maintain(self) -> None:
        """Do a portion of the pending work."""
        if len(self._recent) >= RECENT:
            self.flush()
        self._levels.work(self.vocabulary)

    def settle(self) -> None:
        """Do all pending work."""
        self._levels.settle(self.vocabulary)

    def compact(self) -> None:
        """Bring everything into one segment: the fastest to match, and the smallest."""
        self.flush()
        self.settle()
        if len(self.segments) > 1 or any(s.live < len(s.handles) for s in self.segments):
            self._levels.merge(0, len(self.segments), self.vocabulary)
            self.settle()

    def flush(self) -> None:
        """Make a segment of the recent lanes now."""
        if not len(self._recent):
            return
        flat = self._recent.flat()
        self._recent.clear()
        self._dirty, self._rent[0] = True, 0
        if len(flat):
            self._levels.add(flat, self.vocabulary)

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
        self.vocabulary, self.opaque = vocabulary, opaque
        self._next, self._count, self._shared = next_handle, count, shared
        self._levels.adopt(segments)

    # Questions

    def match(self, attributes: Mapping[str, object]) -> list[int]:
        """The handles of the filters that match an event, each once, in no particular order."""
        count = self._find(attributes)
        if not count:
            return []
        found: list[int] = self.scratch.ids[:count].tolist()
        return self._decide(found, attributes) if self.opaque else found

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Whether any filter matches an event: as :meth:`match`, for those who ask no more."""
        if self.opaque:
            return bool(self.match(attributes))
        return self._find(attributes) > 0

    def match_ids(self, attributes: Mapping[str, object]) -> Array:
        """As :meth:`match`, as an array."""
        count = self._find(attributes)
        found = self.scratch.ids[:count]
        if self.opaque:
            return np.array(self._decide(found.tolist(), attributes), np.uint32)
        return found.copy()

    def _find(self, attributes: Mapping[str, object]) -> int:
        """Write the ids that match to the scratch space; how many."""
        levels = self._levels
        if levels.merges or self._renting:
            self.pay(1)
        if self._dirty or levels.changed:
            self.publish()
        scratch, brief, index = self.scratch, self.vocabulary.brief, self._address
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

    def pay(self, events: int) -> None:
        """Let events pay for order: towards laying out the recent lanes, and for merges."""
        if self.streams:
            return
        levels, rent, rates = self._levels, self._rent, self._rates
        rent[0] += events * rates[0]
        if rent[0] >= FLUSH_COST:
            self.flush()
        if not levels.merges:
            rent[1] += events * rates[1]
            if rent[1] >= MERGE_COST * levels.settled > 0:
                rent[1] = 0
                levels.merge(0, len(levels.segments), self.vocabulary)
        if levels.merges:
            levels.credit += events * INSERTION
            if levels.credit >= PORTION:
                self.maintain()

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
        if self._dirty or self._levels.changed:
            self._dirty = False
            self._recent.publish(self.table)
            self._reshape()
            others = max(0, len(self.segments) - 1)
            self._rates = (len(self._recent), SEGMENT_RENT * others)
            # Without segments all is recent, and the compiled code may not even be loaded.
            self._renting = bool(self.segments) and self._rates != (0, 0)
            self.scratch.out(self.lanes)
        return self._address

    def _reshape(self) -> None:
        table, arrays = self.table, self._arrays
        columns = self.vocabulary.columns
        words = 1 + (self._next >> 6)
        if words > len(arrays.get("seen", ())):
            arrays["seen"] = np.zeros(2 * words, np.uint64)
            table[f.SEEN] = arrays["seen"].ctypes.data
        if self._shared >= len(arrays.get("touched", ())):
            arrays["touched"] = np.zeros(2 * self._shared + 1, np.uint32)
            table[f.TOUCHED] = arrays["touched"].ctypes.data
        if not self._levels.changed and columns <= table[f.COLUMNS]:
            return
        self._levels.changed = False
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
    def segments(self) -> list[Segment]:
        """What was inserted, in blocks; the newest lanes are not there yet."""
        return self._levels.segments

    @property
    def snapshots(self) -> list[Snapshot]:
        """The generations of cuts in use, numbered as in the segments' tables."""
        return self._levels.snapshots

    @property
    def settled(self) -> int:
        """Lanes in segments, dead ones included."""
        return self._levels.settled

    @property
    def changed(self) -> bool:
        """Whether the kernels' tables are behind."""
        return self._dirty or self._levels.changed

    @property
    def lanes(self) -> int:
        """Lanes held, dead ones included: no event can match more."""
        return self.settled + len(self._recent)

    @property
    def nbytes(self) -> int:
        """Memory that the index holds, the names in its vocabulary aside."""
        own = sum(array.nbytes for array in self._arrays.values())
        return self._levels.nbytes + self._recent.nbytes + own
