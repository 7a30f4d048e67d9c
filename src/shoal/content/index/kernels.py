"""Which lanes does an event satisfy? The kernels that answer, over an index laid out in memory.

A *lane* is one conjunction of a filter; a *code* is a 16-bit rank among an attribute's constants.
See :mod:`shoal.content.index.layout` for where each number of the tables below comes from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from shoal.content.index.machine import (
    COMPRESS,
    copy64,
    count_bits,
    first_bit,
    kernel,
    load_f64,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    pack16,
    store_f64,
    store_u16,
    store_u32,
    store_u64,
    touching64,
    within8,
    within64,
)

# An id carries two flags: other lanes of its filter may match too; the reference must decide.
ID_MASK, SHARED, OPAQUE, DEAD = 0x3FFFFFFF, 0x80000000, 0x40000000, 0xFFFFFFFF
# Codes: odd on a cut, even between two; a bound with an odd code is exact.
UNBOUNDED = 1  # the code of a lower bound at minus infinity; at infinity: ``2 cuts + 3``
ABSENT = 65535  # the code of an attribute that is not there: above every bound
MAX_CUTS = 32764
NEGATED = 0x80000000  # a predicate that must not hold, flagged in its column
MAX_KEYS = 4  # columns of a group
MAX_SNAPSHOTS = 4  # generations of cuts alive at once
MAX_CELLS = 8192  # of the table that starts the search for a value's code

# The index: one table of 64-bit numbers. Each name is a position in it.
(
    COLUMNS,
    SEGMENTS,
    SEGMENT_TABLE,
    SNAPSHOTS,
    SNAPSHOT_TABLE,
    RECENT,
    RECENT_START,
    RECENT_IDS,
    RECENT_COLUMNS,
    RECENT_LOW,
    RECENT_HIGH,
    SEEN,
    TOUCHED,
    TOUCHED_COUNT,
    INDEX_SIZE,
) = range(15)
# A segment.
SNAPSHOT, FREE_GROUPS, GROUP_STARTS, GROUP_COLUMNS, GROUP_TABLE, SEGMENT_SIZE = range(6)
# A group. What every event needs lies in the first 64 bytes; EXACT: 0 where codes are exact.
WIDTH, BLOCKS, BOUNDS, ZONES, KEYS = range(5)
(
    EXACT,
    SUPERS,
    IDS,
    ALIVE,
    SPECIAL,
    SLOTS,
    SLOT_COUNT,
    RESIDUAL_START,
    RESIDUAL_COLUMNS,
    RESIDUAL_CODES,
    RESIDUAL_EXACT,
) = (KEYS + MAX_KEYS, *range(KEYS + 2 * MAX_KEYS, KEYS + 2 * MAX_KEYS + 10))
GROUP_SIZE = 24
SMALL = 8  # blocks of a group whose zone maps are packed into a few cache lines

# One column's cuts in a snapshot.
CUTS, CUT_COUNT, CUT_CELLS, CUT_BASE, CUT_SCALE, CUT_LAST_CELL, CUT_SIZE = range(7)

_ONE, _ALL, _ODD = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint16(1)
_U0 = np.uint64(0)
_inline: Any = njit(inline="always")


@kernel
def code_of(key: Any, cuts: Any) -> Any:
    """The code of a key: ``2 i + 3`` on cut i, ``2 i + 2`` just below it."""
    count = load_i64(cuts + 8 * CUT_COUNT)
    if count == 0:
        return np.uint16(2)
    base, scale = load_f64(cuts + 8 * CUT_BASE), load_f64(cuts + 8 * CUT_SCALE)
    last = load_i64(cuts + 8 * CUT_LAST_CELL)
    scaled = (key - base) * scale
    cell = 0
    if scaled >= last:
        cell = last
    elif scaled > 0.0:
        cell = np.int64(scaled)
    table = load_i64(cuts + 8 * CUT_CELLS) + 2 * cell
    low, high = np.int64(load_u16(table)), np.int64(load_u16(table + 2))
    at = load_i64(cuts + 8 * CUTS)
    while low < high:
        middle = (low + high) >> 1
        if load_f64(at + 8 * middle) < key:
            low = middle + 1
        else:
            high = middle
    on = low < count and load_f64(at + 8 * low) == key
    return np.uint16(2 * low + (3 if on else 2))


@kernel
def codes_of(keys: Any, cuts: Any, codes: Any) -> Any:
    """The codes of many keys; a NaN is absent."""
    for i in range(len(keys)):
        key = keys[i]
        codes[i] = np.uint16(ABSENT) if key != key else code_of(key, cuts)


@kernel
def codes_by_column(columns: Any, keys: Any, snapshot: Any, codes: Any) -> Any:
    """The codes of keys of various columns."""
    for i in range(len(keys)):
        codes[i] = code_of(keys[i], snapshot + 8 * CUT_SIZE * np.int64(columns[i]))


@kernel
def _fresh(index: Any, identity: Any) -> Any:
    """Whether this event has not met this id yet: a bitmap, and a list of what to clear in it."""
    word = load_i64(index + 8 * SEEN) + 8 * (identity >> 6)
    bit = _ONE << np.uint64(identity & 63)
    if load_u64(word) & bit != _U0:
        return False
    store_u64(word, load_u64(word) | bit)
    count = load_i64(index + 8 * TOUCHED_COUNT)
    store_u32(load_i64(index + 8 * TOUCHED) + 4 * count, np.uint32(identity))
    store_u64(index + 8 * TOUCHED_COUNT, np.uint64(count + 1))
    return True


@kernel
def _clear_seen(index: Any) -> None:
    """Forget the ids that an event has met."""
    seen, touched = load_i64(index + 8 * SEEN), load_i64(index + 8 * TOUCHED)
    for i in range(load_i64(index + 8 * TOUCHED_COUNT)):
        store_u64(seen + 8 * (np.int64(load_u32(touched + 4 * i)) >> 6), _U0)
    store_u64(index + 8 * TOUCHED_COUNT, _U0)


@kernel
def _emit_special(index: Any, out: Any, ids: Any, chosen: Any) -> Any:
    """Write the chosen ids, each filter once."""
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        flagged = np.int64(load_u32(ids + 4 * lane))
        if flagged & OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
        elif (flagged & SHARED) == 0 or _fresh(index, flagged & ID_MASK):
            store_u32(out, np.uint32(flagged & ID_MASK))
            out += 4
    return out


@_inline
def _emit(out: Any, ids: Any, chosen: Any) -> Any:
    """Write the chosen ids of 64; the buffer has room for 16 more."""
    if COMPRESS and count_bits(chosen) > 5:
        for quarter in range(4):
            part = np.uint16(chosen & np.uint64(0xFFFF))
            chosen >>= np.uint64(16)
            pack16(out, ids + 64 * quarter, part)
            out += 4 * count_bits(np.uint64(part))
        return out
    while chosen != _U0:
        store_u32(out, load_u32(ids + 4 * first_bit(chosen)))
        chosen &= chosen - _ONE
        out += 4
    return out


@kernel
def _slot(at: Any, codes: Any, chosen: Any) -> Any:
    """The chosen lanes whose predicate in this slot holds, without a branch per lane.

    A predicate is a column, a lowest code and a width, modulo 2**16: a negated one wraps around.
    """
    kept = _U0
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        here = at + 2 * lane
        code = np.int64(load_u16(codes + 2 * np.int64(load_u16(here))))
        low, width = np.int64(load_u16(here + 256)), np.int64(load_u16(here + 512))
        kept |= np.uint64(((code - low) & 65535) <= width) << np.uint64(lane)
    return kept


@kernel
def _residual(group: Any, codes: Any, keys: Any, ids_base: Any, chosen: Any) -> Any:
    """The chosen lanes whose residual predicates hold too."""
    starts = load_i64(group + 8 * RESIDUAL_START) + 4 * ids_base
    columns = load_i64(group + 8 * RESIDUAL_COLUMNS)
    bounds = load_i64(group + 8 * RESIDUAL_CODES)
    exact = load_i64(group + 8 * RESIDUAL_EXACT)
    kept = chosen
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        at = np.int64(load_u32(starts + 4 * lane))
        end = np.int64(load_u32(starts + 4 * lane + 4))
        while at < end:
            flagged = np.int64(load_u32(columns + 4 * at))
            column = flagged & (NEGATED - 1)
            code = load_u16(codes + 2 * column)
            low, high = load_u16(bounds + 4 * at), load_u16(bounds + 4 * at + 2)
            holds = low <= code and code <= high
            if exact != 0 and holds and (code & _ODD) == 0 and (code == low or code == high):
                key = load_f64(keys + 8 * column)
                holds = load_f64(exact + 16 * at) <= key <= load_f64(exact + 16 * at + 8)
            if holds == (flagged >= NEGATED):
                kept &= ~(_ONE << np.uint64(lane))
                break
            at += 1
    return kept


@kernel
def _refine(group: Any, key: Any, code: Any, keys: Any, block_half: Any, bounds: Any, half: Any, chosen: Any) -> Any:
    """Drop the chosen lanes whose exact bound, in the event's own bucket, excludes the event."""
    exact = load_i64(group + 8 * (EXACT + key))
    touched = chosen & touching64(bounds + half, bounds + 256 + half, code)
    value = load_f64(keys + 8 * load_i64(group + 8 * (KEYS + key)))
    at = exact + 1024 * block_half
    while touched != _U0:
        lane = first_bit(touched)
        touched &= touched - _ONE
        if not (load_f64(at + 16 * lane) <= value <= load_f64(at + 16 * lane + 8)):
            chosen &= ~(_ONE << np.uint64(lane))
    return chosen


@kernel
def _match_block(index: Any, group: Any, codes: Any, keys: Any, out: Any, c0: Any, c1: Any, c2: Any, c3: Any, block: Any, whole: Any) -> Any:
    """Append the ids of a block's lanes that hold."""
    width = load_i64(group + 8 * WIDTH)
    bounds, ids = load_i64(group + 8 * BOUNDS), load_i64(group + 8 * IDS)
    alive, special = load_i64(group + 8 * ALIVE), load_i64(group + 8 * SPECIAL)
    slots, slot_count = load_i64(group + 8 * SLOTS), load_i64(group + 8 * SLOT_COUNT)
    residual = load_i64(group + 8 * RESIDUAL_START)
    exact0, exact1 = load_i64(group + 8 * EXACT), load_i64(group + 8 * (EXACT + 1))
    exact2, exact3 = load_i64(group + 8 * (EXACT + 2)), load_i64(group + 8 * (EXACT + 3))
    for half in range(2):
        chosen = load_u64(alive + 16 * block + 8 * half)
        here = ids + 512 * block + 256 * half
        if not whole:
            offset, part = 128 * half, 2 * block + half
            at = bounds + (512 * width) * block + offset
            if width > 0:
                chosen &= within64(at, at + 256, c0)
            if width > 1:
                chosen &= within64(at + 512, at + 768, c1)
            if width > 2:
                chosen &= within64(at + 1024, at + 1280, c2)
            if width > 3:
                chosen &= within64(at + 1536, at + 1792, c3)
            if chosen == _U0:
                continue
            at -= offset
            if exact0 != 0 and (c0 & _ODD) == 0:
                chosen = _refine(group, 0, c0, keys, part, at, offset, chosen)
            if exact1 != 0 and (c1 & _ODD) == 0:
                chosen = _refine(group, 1, c1, keys, part, at + 512, offset, chosen)
            if exact2 != 0 and (c2 & _ODD) == 0:
                chosen = _refine(group, 2, c2, keys, part, at + 1024, offset, chosen)
            if exact3 != 0 and (c3 & _ODD) == 0:
                chosen = _refine(group, 3, c3, keys, part, at + 1536, offset, chosen)
            for slot in range(slot_count):
                at = slots + 768 * (slot_count * block + slot) + offset
                chosen = _slot(at, codes, chosen)
            if residual != 0 and chosen != _U0:
                chosen = _residual(group, codes, keys, 64 * part, chosen)
        if special != 0:
            odd = chosen & load_u64(special + 16 * block + 8 * half)
            out = _emit_special(index, out, here, odd)
            chosen &= ~odd
        if chosen == _ALL:
            copy64(out, here)
            out += 256
        else:
            out = _emit(out, here, chosen)
    return out


@kernel
def _match_group(index: Any, group: Any, codes: Any, keys: Any, out: Any) -> Any:
    """Append the ids of a group's lanes that hold: supers of 64 blocks, blocks, then lanes."""
    width, blocks = load_i64(group + 8 * WIDTH), load_i64(group + 8 * BLOCKS)
    c0 = c1 = c2 = c3 = np.uint16(0)
    if width > 0:
        c0 = load_u16(codes + 2 * load_i64(group + 8 * KEYS))
    if width > 1:
        c1 = load_u16(codes + 2 * load_i64(group + 8 * (KEYS + 1)))
        if c1 == ABSENT:
            return out
    if width > 2:
        c2 = load_u16(codes + 2 * load_i64(group + 8 * (KEYS + 2)))
        if c2 == ABSENT:
            return out
    if width > 3:
        c3 = load_u16(codes + 2 * load_i64(group + 8 * (KEYS + 3)))
        if c3 == ABSENT:
            return out
    zones = load_i64(group + 8 * ZONES)
    if blocks <= SMALL and width > 0:
        outer = (_ONE << np.uint64(blocks)) - _ONE
        inner = _ALL
        for key in range(width):
            code = c0 if key == 0 else c1 if key == 1 else c2 if key == 2 else c3
            outer &= within8(zones, zones + 16, code)
            inner &= within8(zones + 32, zones + 48, code)
            zones += 64
        while outer != _U0:
            bit = first_bit(outer)
            outer &= outer - _ONE
            whole = (inner >> np.uint64(bit)) & _ONE != _U0
            out = _match_block(index, group, codes, keys, out, c0, c1, c2, c3, bit, whole)
        return out
    supers = load_i64(group + 8 * SUPERS)
    super_count = (blocks + 63) >> 6
    for first in range(0, super_count, 64):
        todo = _ONE
        if super_count > 1:
            todo = _ALL
            at = supers + first * width * 4
            for key in range(width):
                code = c0 if key == 0 else c1 if key == 1 else c2 if key == 2 else c3
                todo &= within64(at, at + 128, code)
                at += 256
            if super_count - first < 64:
                todo &= (_ONE << np.uint64(super_count - first)) - _ONE
        while todo != _U0:
            chunk = first + first_bit(todo)
            todo &= todo - _ONE
            outer = inner = _ALL
            at = zones + chunk * width * 512
            for key in range(width):
                code = c0 if key == 0 else c1 if key == 1 else c2 if key == 2 else c3
                outer &= within64(at, at + 128, code)
                inner &= within64(at + 256, at + 384, code)
                at += 512
            if width == 0:
                beside = load_i64(group + 8 * SLOT_COUNT) + load_i64(group + 8 * RESIDUAL_START)
                inner = _ALL if beside == 0 else _U0
            left = blocks - 64 * chunk
            if left < 64:
                outer &= (_ONE << np.uint64(left)) - _ONE
            while outer != _U0:
                bit = first_bit(outer)
                outer &= outer - _ONE
                whole = (inner >> np.uint64(bit)) & _ONE != _U0
                block = 64 * chunk + bit
                out = _match_block(index, group, codes, keys, out, c0, c1, c2, c3, block, whole)
    return out


@kernel
def _match_recent(index: Any, keys: Any, out: Any) -> Any:
    """Append the ids of the newest lanes, which lie in no segment yet, that hold."""
    ids, starts = load_i64(index + 8 * RECENT_IDS), load_i64(index + 8 * RECENT_START)
    columns = load_i64(index + 8 * RECENT_COLUMNS)
    lows, highs = load_i64(index + 8 * RECENT_LOW), load_i64(index + 8 * RECENT_HIGH)
    for lane in range(load_i64(index + 8 * RECENT)):
        flagged = np.int64(load_u32(ids + 4 * lane))
        at = np.int64(load_u32(starts + 4 * lane))
        end = np.int64(load_u32(starts + 4 * lane + 4))
        while at < end:
            column = np.int64(load_u32(columns + 4 * at))
            key = load_f64(keys + 8 * (column & (NEGATED - 1)))
            holds = load_f64(lows + 8 * at) <= key and key <= load_f64(highs + 8 * at)
            if holds == (column >= NEGATED):
                break
            at += 1
        if at < end or flagged == DEAD:
            continue
        if flagged & OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
        elif (flagged & SHARED) == 0 or _fresh(index, flagged & ID_MASK):
            store_u32(out, np.uint32(flagged & ID_MASK))
            out += 4
    return out


@kernel
def _match_event(index: Any, present: Any, count: Any, codes: Any, keys: Any, out: Any) -> Any:
    """Append the ids that match an event whose codes and keys have been spread by column."""
    columns = load_i64(index + 8 * COLUMNS)
    table = load_i64(index + 8 * SEGMENT_TABLE)
    for number in range(load_i64(index + 8 * SEGMENTS)):
        segment = load_i64(table + 8 * number)
        mine = codes + 2 * columns * load_i64(segment + 8 * SNAPSHOT)
        groups = load_i64(segment + 8 * GROUP_TABLE)
        for group in range(load_i64(segment + 8 * FREE_GROUPS)):
            out = _match_group(index, groups + 8 * GROUP_SIZE * group, mine, keys, out)
        starts, known = load_i64(segment + 8 * GROUP_STARTS), load_i64(segment + 8 * GROUP_COLUMNS)
        for i in range(count):
            column = np.int64(load_u32(present + 4 * i))
            if column < known:
                begin = np.int64(load_u32(starts + 4 * column))
                end = np.int64(load_u32(starts + 4 * column + 4))
                for group in range(begin, end):
                    out = _match_group(index, groups + 8 * GROUP_SIZE * group, mine, keys, out)
    out = _match_recent(index, keys, out)
    if load_i64(index + 8 * TOUCHED_COUNT) > 0:
        _clear_seen(index)
    return out


@kernel
def _forget(present: Any, count: Any, width: Any, snapshots: Any, codes: Any, keys: Any) -> None:
    """Clear what an event left in the scratch space."""
    for i in range(count):
        column = np.int64(load_u32(present + 4 * i))
        store_f64(keys + 8 * column, np.nan)
        for snapshot in range(snapshots):
            store_u16(codes + 2 * (width * snapshot + column), np.uint16(ABSENT))


@kernel
def match_one(index: Any, entries: Any, count: Any, codes: Any, keys: Any, present: Any, out: Any) -> Any:
    """Match one event given as (column, key) pairs; how many ids were written."""
    width = load_i64(index + 8 * COLUMNS)
    snapshots = load_i64(index + 8 * SNAPSHOTS)
    table = load_i64(index + 8 * SNAPSHOT_TABLE)
    for i in range(count):
        column, key = load_i64(entries + 16 * i), load_f64(entries + 16 * i + 8)
        store_u32(present + 4 * i, np.uint32(column))
        store_f64(keys + 8 * column, key)
        for snapshot in range(snapshots):
            cuts = load_i64(table + 8 * snapshot) + 8 * CUT_SIZE * column
            store_u16(codes + 2 * (width * snapshot + column), code_of(key, cuts))
    end = _match_event(index, present, count, codes, keys, out)
    _forget(present, count, width, snapshots, codes, keys)
    return (end - out) >> 2


@kernel
def match_many(index: Any, dense: Any, listed: Any, order: Any, begin: Any, room: Any, codes: Any, keys: Any, present: Any, out: Any, ends: Any) -> Any:
    """Match events ``order[begin:]`` while an event's worst case fits; where it stopped.

    ``dense`` has a row per column of single values: column, keys, codes by snapshot. ``listed`` has
    a row per dictionary: its index by event, list starts, columns, keys, codes by snapshot.
    ``ends[i]`` becomes the number of ids written up to and with event ``order[i]``.
    """
    width = load_i64(index + 8 * COLUMNS)
    snapshots = load_i64(index + 8 * SNAPSHOTS)
    start = out
    for position in range(begin, len(order)):
        if out - start > room:
            return position
        event = np.int64(order[position])
        count = 0
        for row in range(len(dense)):
            key = load_f64(dense[row, 1] + 8 * event)
            if key == key:
                column = dense[row, 0]
                store_u32(present + 4 * count, np.uint32(column))
                count += 1
                store_f64(keys + 8 * column, key)
                for s in range(snapshots):
                    code = load_u16(dense[row, 2 + s] + 2 * event)
                    store_u16(codes + 2 * (width * s + column), code)
        for row in range(len(listed)):
            entry = np.int64(np.int32(load_u32(listed[row, 0] + 4 * event)))
            if entry >= 0:
                first = np.int64(load_u32(listed[row, 1] + 4 * entry))
                last = np.int64(load_u32(listed[row, 1] + 4 * entry + 4))
                for at in range(first, last):
                    column = np.int64(load_u32(listed[row, 2] + 4 * at))
                    store_u32(present + 4 * count, np.uint32(column))
                    count += 1
                    store_f64(keys + 8 * column, load_f64(listed[row, 3] + 8 * at))
                    for s in range(snapshots):
                        code = load_u16(listed[row, 4 + s] + 2 * at)
                        store_u16(codes + 2 * (width * s + column), code)
        out = _match_event(index, present, count, codes, keys, out)
        ends[position] = (out - start) >> 2
        _forget(present, count, width, snapshots, codes, keys)
    return len(order)


@kernel
def bury(handles: Any, count: Any, place: Any, ids: Any, alive: Any, handle: Any) -> Any:
    """Clear the live bits of a handle's lanes: how many there were, and their flags."""
    low, high = np.int64(0), np.int64(count)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(load_u32(handles + 4 * middle)) < handle:
            low = middle + 1
        else:
            high = middle
    found = flags = np.int64(0)
    while low < count and np.int64(load_u32(handles + 4 * low)) == handle:
        position = np.int64(load_u32(place + 4 * low))
        word = alive + 8 * (position >> 6)
        bit = _ONE << np.uint64(position & 63)
        if load_u64(word) & bit != _U0:
            store_u64(word, load_u64(word) & ~bit)
            flags |= np.int64(load_u32(ids + 4 * position)) & (SHARED | OPAQUE)
            found += 1
        low += 1
    return found | flags
