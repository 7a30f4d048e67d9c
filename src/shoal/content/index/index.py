"""The matching index: takes filters, and finds for each event those that match.

A filter is kept as *lanes*, one or more per conjunction of its normal form. The index is
log-structured. New lanes go to a short list, with which every event is compared one by one. When
the list is full it becomes a small segment; eight neighbouring segments of a size become one.
Merges are done a little at a time, with every insertion and removal, so that none of these takes
long. A removal clears bits in place. All changes are visible to the next event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, overload

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index import single
from shoal.content.index.inputs import Event, Wanted, event_of, form_of, is_table
from shoal.content.index.lanes import lanes_of, simple_box
from shoal.content.index.levels import RECENT, Levels
from shoal.content.index.matches import Matches
from shoal.content.index.recent import Recent
from shoal.content.index.scratch import Scratch, spread
from shoal.content.index.segments import Array, Segment, Snapshot
from shoal.content.index.vocabulary import Vocabulary
from shoal.content.normal import NormalForm

# Tests lower the limits below that are not Final, so that rare paths run in seconds.

# Work on merges per change, in lanes looked at. A lane is merged once per level; removals need only
# do enough for a segment to be merged when half of it is dead.
INSERTION = 160
REMOVAL = 40
PORTION: Final = 4096  # work done at a time
READINGS: Final = 8  # of an event whose values, when read, change the index
# What events lose to recent lanes and to many segments, in lanes looked at in vain. Once the sum is
# as much as a flush or merge would cost, that is done: an index that is asked more than changed
# becomes compact.
SEGMENT_RENT: Final = 100  # lost to each segment but one
FLUSH_COST = 1 << 19
MERGE_COST = 800  # per lane


class MatchIndex:
    """Which filters match an event? Filters are known by the handle their insertion returned.

    Threads may share an index: each call has it to itself, and sees every change that was made
    before. A batch has it to itself portion by portion; a change in between ends the batch.
    """

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.opaque: dict[int, NormalForm] = {}
        self.never: set[int] = set()
        """Handles of filters that no event can match: they have no lanes."""
        self.lock = single.lock()
        """Held by whoever reads or changes the index."""
        self._ready = False
        """Whether the kernels' tables may be read without the lock; they hold the same."""
        self._levels = Levels()
        self.next_handle = 0
        """The handle that the next filter will get."""
        self.shared_lanes = 0
        """Lanes of filters of which several may match one event."""
        self._count = 0
        self._recent = Recent()
        self._arrays: dict[str, Array] = {}
        self._rent = [0, 0]  # paid by events since the last flush, and since the last full merge
        self._rates = (0, 0)  # what an event pays of each
        self._renting = False
        self._dirty = True
        self._spare: Scratch | None = None
        self.streams = 0
        """Number of batches being matched; while there are any, nothing may move."""
        self.table = np.zeros(f.INDEX_SIZE, np.int64)
        self._address = self.table.ctypes.data

    def __len__(self) -> int:
        return self._count

    # Changes

    def insert(self, wanted: Wanted) -> int:
        """Add a filter (or its text, or its normal form) and return its handle; handles ascend."""
        form = wanted if type(wanted) is NormalForm else form_of(wanted)
        with self.lock:
            handle = self._add(form)
            levels = self._levels
            levels.credit += INSERTION
            if levels.credit >= PORTION or len(self._recent.ids) >= RECENT:
                self.maintain()
            return handle

    def insert_many(self, wanted: Iterable[Wanted]) -> range:
        """Add many filters at once, faster than one by one; their handles."""
        with self.lock:
            first = self.next_handle
            for one in wanted:
                self._add(one if type(one) is NormalForm else form_of(one))
            if len(self._recent) >= RECENT:
                self.flush()
                self.settle()
            return range(first, self.next_handle)

    def unready(self) -> None:
        """Have everybody take the lock from here to the next :meth:`publish`."""
        if self._ready:
            self._ready = False
            self.table[f.READY] = 0

    def _add(self, form: NormalForm) -> int:
        self.unready()
        handle = self.next_handle
        if handle > f.ID_MASK - 1:
            raise OverflowError(
                f"an index takes {f.ID_MASK} insertions; build a new one from its filters"
            )
        box = simple_box(form, self.vocabulary)
        if box is not None:
            self._recent.add(handle, 0, box)
        else:
            self._add_lanes(handle, form)
        self.next_handle += 1
        self._count += 1
        self._dirty = True
        return handle

    def _add_lanes(self, handle: int, form: NormalForm) -> None:
        lanes = lanes_of(form, self.vocabulary)
        if not lanes.boxes:
            self.never.add(handle)
        flags = 0
        if lanes.opaque:
            flags = f.OPAQUE
            self.opaque[handle] = form
        elif not lanes.disjoint:
            flags = f.SHARED
            self.shared_lanes += len(lanes.boxes)
        for box in lanes.boxes:
            self._recent.add(handle, flags, [number for predicate in box for number in predicate])

    def remove(self, handle: int) -> bool:
        """Take a filter away; whether it was there."""
        with self.lock:
            return self._remove(handle)

    def _remove(self, handle: int) -> bool:
        if not 0 <= handle < self.next_handle:
            return False
        recent, levels = self._recent.handles, self._levels
        found = (
            self._recent.remove(handle) if recent and handle >= recent[0] else levels.bury(handle)
        )
        if not found:
            if handle not in self.never:
                return False
            self.never.remove(handle)
        self._count -= 1
        if found > f.ID_MASK:
            if found & f.SHARED:
                self.shared_lanes -= found & f.ID_MASK
            else:
                del self.opaque[handle]
        levels.credit += REMOVAL
        if levels.credit >= PORTION:
            self.maintain()
        return True

    # Maintenance

    def maintain(self) -> None:
        """Do a portion of the pending work."""
        self.unready()
        if len(self._recent) >= RECENT:
            self.flush()
        self._levels.work(self.vocabulary)

    def settle(self) -> None:
        """Do all pending work."""
        self.unready()
        self._levels.settle(self.vocabulary)

    def compact(self) -> None:
        """Bring everything into one segment: the fastest to match, and the smallest."""
        with self.lock:
            self.flush()
            self.settle()
            if len(self.segments) > 1 or any(s.live < len(s.handles) for s in self.segments):
                self._levels.merge(0, len(self.segments), self.vocabulary)
                self.settle()

    def flush(self) -> None:
        """Make a segment of the recent lanes now."""
        if not len(self._recent):
            return
        self.unready()
        flat = self._recent.flat()
        self._recent.clear()
        self._dirty, self._rent[0] = True, 0
        if len(flat):
            self._levels.add(flat, self.vocabulary)

    # For storage

    def adopt(
        self,
        vocabulary: Vocabulary,
        segments: list[Segment],
        opaque: dict[int, NormalForm],
        never: set[int],
        next_handle: int,
        count: int,
        shared: int,
    ) -> None:
        """Become the index that these are the parts of."""
        self.vocabulary, self.opaque, self.never = vocabulary, opaque, never
        self.next_handle, self._count, self.shared_lanes = next_handle, count, shared
        self._levels.adopt(segments)

    # Questions

    @overload
    def match(self, event: Event) -> list[int]: ...
    @overload
    def match(self, event: Any) -> Any: ...
    def match(self, event: Any) -> Any:
        """The handles of the filters that match an event, each once, in no particular order.

        Of a table of events (Arrow's, or a pandas or polars DataFrame): a list of them per row.
        """
        found: list[int] | None = self._quick(event, False)
        if found is not None:
            return self._decide(found, event) if self.opaque and found else found
        if type(event) is not dict:
            if is_table(event):
                return self.match_batch(event).lists()
            event = event_of(event)
        with self.lock:
            entries, scratch = self._entries(event), self.scratch
            match = single.match
            if match is not None:
                found = match(
                    entries, self._address, scratch.codes_at, scratch.keys_at, scratch.out_at
                )
            else:
                found = scratch.ids[: self._find(entries)].copy().tolist()
            return self._decide(found, event) if self.opaque and found else found

    def matches(self, event: Event) -> bool:
        """Whether any filter matches an event: as :meth:`match`, for those who ask no more."""
        if self.opaque:
            return bool(self.match(event))
        found = self._quick(event, True)
        if found is not None:
            return bool(found)
        attributes = event if type(event) is dict else event_of(event)
        with self.lock:
            return self._find(self._entries(attributes)) > 0

    def match_ids(self, event: Event) -> Array:
        """Handles of the filters that match an event, as an array."""
        if self.opaque:
            return np.array(self.match(event), np.uint32)
        found = self._quick(event, True)
        if found is not None:
            return np.frombuffer(found, np.uint32)
        attributes = event if type(event) is dict else event_of(event)
        with self.lock:
            count = self._find(self._entries(attributes))  # which may renew the scratch space
            return self.scratch.ids[:count].copy()

    def _quick(self, event: Any, raw: bool) -> Any:
        """The ids that match, found without the lock; None where that cannot be."""
        quick = single.quick
        if quick is None or type(event) is not dict:
            return None
        if self._levels.merges or self._renting:
            with self.lock:
                self.pay(1)
        return quick(event, self.vocabulary.brief, self._address, raw)

    def _entries(self, attributes: Mapping[str, object]) -> bytes:
        """An event's entries, while the kernels' tables are up to date."""
        levels = self._levels
        if levels.merges or self._renting:
            self.pay(1)
        for _ in range(READINGS):
            if not self._ready or levels.changed:
                self.publish()
            brief = self.vocabulary.brief
            if single.spread is not None and single.match is not None:
                entries = single.spread(attributes, brief)
            else:
                entries = spread(attributes, brief)
            if self._ready and not levels.changed:  # reading a value may run code that inserts
                return entries
        raise RuntimeError("the index changes whenever this event is read")

    def _find(self, entries: bytes) -> int:
        """Write the ids that match to the scratch space; how many."""
        scratch, index = self.scratch, self._address
        if single.match is not None and single.count is not None:
            return single.count(entries, index, scratch.codes_at, scratch.keys_at, scratch.out_at)
        found: int = single.kernels().match_one(
            index, scratch.entries_at, scratch.write(entries),
            scratch.codes_at, scratch.keys_at, scratch.present_at, scratch.out_at,
        )  # fmt: skip
        return found

    def pay(self, events: int) -> None:
        """Add up what disorder costs events; when that equals the cost of a merge, merge."""
        if self.streams:
            return
        levels, rent, rates = self._levels, self._rent, self._rates
        rent[0] += events * rates[0]
        if rent[0] >= FLUSH_COST:
            self.flush()
        if not levels.merges:
            rent[1] += events * rates[1]
            if rent[1] >= MERGE_COST * levels.settled > 0:
                self.unready()
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
        forms = ((handle, self.opaque.get(handle)) for handle in maybe)
        return sure + [handle for handle, form in forms if form and form.decide(attributes)]

    def match_batch(self, batch: object) -> Matches:
        """The handles of the filters that match each row of an Arrow record batch or table."""
        return Matches.join(list(self.stream(batch, reuse=False)))

    def stream(self, batch: object, *, reuse: bool = True) -> Iterator[Matches]:
        """Matches of a batch, in portions; with ``reuse`` a portion is overwritten by the next."""
        from shoal.content.index.batches import stream

        return stream(self, batch, reuse=reuse)

    def lease(self) -> Scratch:
        """Scratch space for a batch of its own: kept between batches, never used by two."""
        columns = int(self.table[f.COLUMNS])
        kept, self._spare = self._spare, None
        return kept if kept is not None and kept.columns == columns else Scratch(columns)

    def give_back(self, scratch: Scratch) -> None:
        """Keep a batch's scratch space for the next."""
        self._spare = scratch

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
        if not self._ready:
            table, scratch = self.table, self.scratch
            table[f.SCRATCH_CODES], table[f.SCRATCH_KEYS] = scratch.codes_at, scratch.keys_at
            table[f.SCRATCH_OUT] = scratch.out_at
            table[f.READY] = 1
            self._ready = True
        return self._address

    def _reshape(self) -> None:
        table, arrays = self.table, self._arrays
        columns = self.vocabulary.columns
        words = 1 + (self.next_handle >> 6)
        if words > len(arrays.get("seen", ())):
            arrays["seen"] = np.zeros(2 * words, np.uint64)
            table[f.SEEN] = arrays["seen"].ctypes.data
        if self.shared_lanes >= len(arrays.get("touched", ())):
            arrays["touched"] = np.zeros(2 * self.shared_lanes + 1, np.uint32)
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
        """Segments of lanes in blocks; the newest lanes are in none yet."""
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
        """Whether the kernels' tables must be rebuilt before the next match."""
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
