"""The kernel for many events and many groups: group by group, a tile of events at a time.

Event by event, an index with thousands of groups is read from memory again for each event. Here a
group is read once for a whole tile. The ids found come out group by group; they are logged as runs
and dealt out to their events at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.content.index.blocks import clear_seen, fresh
from shoal.content.index.fields import (
    BLOCKS,
    COLUMNS,
    GROUP_COUNT,
    GROUP_SIZE,
    GROUP_TABLE,
    ID_MASK,
    OPAQUE,
    RECENT,
    SEGMENT_TABLE,
    SEGMENTS,
    SNAPSHOT,
    SNAPSHOTS,
    TILE,
    TOUCHED_COUNT,
)
from shoal.content.index.kernels import forget, match_group, match_recent, spread
from shoal.content.index.machine import kernel, load_i64, load_u32, store_u32


@kernel
def _log_groups(
    index: Any, count: Any, codes: Any, keys: Any, log: Any, room: Any, runs: Any
) -> Any:
    """Match a tile on every group; how many runs (event, length) there are, -1 if no room."""
    width, table = load_i64(index + 8 * COLUMNS), load_i64(index + 8 * SEGMENT_TABLE)
    out, found = log, 0
    for number in range(load_i64(index + 8 * SEGMENTS)):
        segment = load_i64(table + 8 * number)
        mine = codes + 2 * TILE * width * load_i64(segment + 8 * SNAPSHOT)
        groups = load_i64(segment + 8 * GROUP_TABLE)
        for g in range(load_i64(segment + 8 * GROUP_COUNT)):
            group = groups + 8 * GROUP_SIZE * g
            most = 512 * load_i64(group + 8 * BLOCKS)
            for event in range(count):
                if out - log + most > room:
                    return -1
                end = match_group(0, group, mine + 2 * event, keys + 8 * event, TILE, out)
                if end > out:
                    runs[found, 0], runs[found, 1] = event, (end - out) >> 2
                    found += 1
                    out = end
    return found


@kernel
def _settle_event(index: Any, begin: Any, end: Any, out: Any) -> Any:
    """Write an event's ids, each filter once."""
    while begin < end:
        flagged = np.int64(load_u32(begin))
        begin += 4
        if flagged <= ID_MASK or flagged & OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
        elif fresh(index, flagged & ID_MASK):
            store_u32(out, np.uint32(flagged & ID_MASK))
            out += 4
    return out


@kernel
def match_tile(
    index: Any,
    dense: Any,
    listed: Any,
    order: Any,
    begin: Any,
    count: Any,
    codes: Any,
    keys: Any,
    present: Any,
    log: Any,
    room: Any,
    runs: Any,
    dealt: Any,
    out: Any,
    ends: Any,
) -> Any:
    """Match events ``order[begin:begin + count]``; whether there was room in the log.

    As :func:`~shoal.content.index.kernels.match_many`; ``dealt`` and ``out`` have the log's room,
    and ``out`` that of the recent lanes for each event besides.
    """
    width, snapshots = load_i64(index + 8 * COLUMNS), load_i64(index + 8 * SNAPSHOTS)
    listed_to = np.zeros(count + 1, np.int64)
    for event in range(count):
        listed_to[event + 1] = listed_to[event] + spread(
            dense,
            listed,
            np.int64(order[begin + event]),
            width,
            snapshots,
            codes + 2 * event,
            keys + 8 * event,
            TILE,
            present + 4 * listed_to[event],
        )
    found = _log_groups(index, count, codes, keys, log, room, runs)
    if found >= 0:
        place = np.zeros(count + 1, np.int64)
        for run in range(found):
            place[runs[run, 0] + 1] += runs[run, 1]
        for event in range(count):
            place[event + 1] += place[event]
        at = place.copy()
        source = log
        for run in range(found):
            event, length = runs[run, 0], runs[run, 1]
            target = dealt + 4 * at[event]
            for i in range(length):
                store_u32(target + 4 * i, load_u32(source + 4 * i))
            source += 4 * length
            at[event] += length
        here = out
        for event in range(count):
            here = _settle_event(
                index, dealt + 4 * place[event], dealt + 4 * place[event + 1], here
            )
            if load_i64(index + 8 * RECENT) > 0:
                here = match_recent(index, keys + 8 * event, TILE, here)
            if load_i64(index + 8 * TOUCHED_COUNT) > 0:
                clear_seen(index)
            ends[begin + event] = (here - out) >> 2
    for event in range(count):
        forget(
            present + 4 * listed_to[event],
            listed_to[event + 1] - listed_to[event],
            width,
            snapshots,
            codes + 2 * event,
            keys + 8 * event,
            TILE,
        )
    return found >= 0
