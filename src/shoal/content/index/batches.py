"""Matching a batch of events: event by event, or in an index of many groups group by group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index import kernels as k
from shoal.content.index.events import Events
from shoal.content.index.inputs import batch_of
from shoal.content.index.matches import Matches
from shoal.content.index.scratch import Scratch
from shoal.content.index.segments import Array
from shoal.content.index.tiles import match_tile

if TYPE_CHECKING:
    from shoal.content.index.index import MatchIndex

TILED_GROUPS: Final = 32  # from so many groups on a batch is matched group by group,
TILED_COLUMNS: Final = 16_384  # unless so many columns would take too much room
PORTION_IDS: Final = 1 << 20  # ids handed out at a time


def stream(index: MatchIndex, batch: Any, *, reuse: bool) -> Iterator[Matches]:
    """Matches of a table's rows, in portions; the index is locked while a portion is made."""
    batch = batch_of(batch)
    with index.lock:
        index.publish()
        index.pay(batch.num_rows)
        index.streams += 1
        scratch = index.lease()
        portions = _stream(index, batch, scratch, reuse=reuse)
    try:
        while True:
            with index.lock:
                index.unready()
                try:
                    found = next(portions, None)
                finally:
                    if not index.changed:
                        index.publish()
            if found is None:
                return
            yield found
    finally:
        with index.lock:
            index.streams -= 1
            index.give_back(scratch)


def _stream(index: MatchIndex, batch: Any, scratch: Scratch, *, reuse: bool) -> Iterator[Matches]:
    table = index.publish()
    events = Events(batch, index.vocabulary)
    lanes = index.lanes
    groups = sum(len(s.groups) for s in index.segments)
    tiled = groups >= TILED_GROUPS and index.table[f.COLUMNS] <= TILED_COLUMNS
    dense, listed, order = events.tables(index.snapshots, -1 if tiled else _sort_by(index))
    if tiled:
        order = events.by_presence(_uses(index))
    room = max(2 * lanes, PORTION_IDS)
    keyed = index.lanes > index.settled or any(s.inexact for s in index.segments)
    begin = 0
    ends = np.zeros(events.rows, np.int64)
    while begin < events.rows:
        if index.changed:
            raise RuntimeError("the index changed while a batch was being matched")
        if tiled:
            found = _match_tile(
                index, scratch, table, dense, listed, order, begin, ends, keyed=keyed, reuse=reuse
            )
            if found is not None:
                yield found.decided(events, index.opaque) if index.opaque else found
                begin += len(found.rows)
                continue
            tiled = False
        out = scratch.out(room + lanes) if reuse else np.empty(room + lanes + f.SLACK, np.uint32)
        stop = k.match_many(
            table, dense, listed, order, begin, 4 * room, scratch.codes_at, scratch.keys_at,
            scratch.present_at, out.ctypes.data, ends,
        )  # fmt: skip
        found = Matches(order[begin:stop], ends[begin:stop], out[: ends[stop - 1]])
        yield found.decided(events, index.opaque) if index.opaque else found
        begin = stop


def _sort_by(index: MatchIndex) -> int:
    """The column by which to sort events: the first key of the largest group; -1: none."""
    best, column = 0, -1
    for segment in index.segments:
        blocks = np.where(segment.groups[:, f.WIDTH] > 0, segment.groups[:, f.BLOCKS], 0)
        largest = int(blocks.argmax()) if len(blocks) else 0
        if len(blocks) and blocks[largest] > best:
            best, column = int(blocks[largest]), int(segment.groups[largest, f.KEYS])
    return column


def _uses(index: MatchIndex) -> Array:
    """Number of blocks per key column."""
    uses = np.zeros(index.vocabulary.columns)
    for segment in index.segments:
        for key in range(f.MAX_KEYS):
            groups = segment.groups[segment.groups[:, f.WIDTH] > key]
            uses += np.bincount(groups[:, f.KEYS + key], groups[:, f.BLOCKS], len(uses))
    return uses


def _match_tile(
    index: MatchIndex,
    scratch: Scratch,
    table: int,
    dense: Array,
    listed: Array,
    order: Array,
    begin: int,
    ends: Array,
    *,
    keyed: bool,
    reuse: bool,
) -> Matches | None:
    """The matches of the next events, or None if they are too many to be matched together."""
    tile, count = scratch.tile, min(f.TILE, len(order) - begin)
    tile.follow(index.vocabulary)
    size = (f.ROOM + index.lanes - index.settled) * count
    out = scratch.out(size) if reuse else np.empty(size + f.SLACK, np.uint32)
    if not match_tile(
        table, tile.at, dense, listed, order, begin, count, keyed, out.ctypes.data, ends
    ):
        return None
    stop = begin + count
    ids = out[: ends[stop - 1]]
    return Matches(order[begin:stop], ends[begin:stop], ids if reuse else ids.copy())
