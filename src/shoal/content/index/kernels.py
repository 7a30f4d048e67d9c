"""Which lanes does an event satisfy? The kernels that answer, over an index laid out in memory.

A *lane* is one conjunction of a filter; a *code* is a 16-bit rank among an attribute's constants.
See :mod:`shoal.content.index.layout` for where each number of the tables below comes from.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.blocks import ALONE, clear_seen, fresh, key_of, match_block
from shoal.content.index.codes import code_of
from shoal.content.index.machine import (
    first_bit,
    kernel,
    load_f64,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    store_f64,
    store_u16,
    store_u32,
    store_u64,
    within8,
    within64,
)

_ONE, _ALL, _U0 = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)


@kernel
def match_group(index, group, codes, keys, out):
    """Append the ids of a group's lanes that hold: supers of 64 blocks, blocks, then lanes."""
    width, blocks = load_i64(group + 8 * f.WIDTH), load_i64(group + 8 * f.BLOCKS)
    c0 = c1 = c2 = c3 = np.uint16(0)
    if width > 0:
        c0 = load_u16(codes + 2 * load_i64(group + 8 * f.KEYS))
        if c0 == f.ABSENT:
            return out
    if width > 1:
        c1 = load_u16(codes + 2 * load_i64(group + 8 * (f.KEYS + 1)))
        if c1 == f.ABSENT:
            return out
    if width > 2:
        c2 = load_u16(codes + 2 * load_i64(group + 8 * (f.KEYS + 2)))
        if c2 == f.ABSENT:
            return out
    if width > 3:
        c3 = load_u16(codes + 2 * load_i64(group + 8 * (f.KEYS + 3)))
        if c3 == f.ABSENT:
            return out
    zones = load_i64(group + 8 * f.ZONES)
    if blocks <= f.SMALL and width > 0:
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
            out = match_block(index, group, codes, keys, out, c0, c1, c2, c3, bit, whole)
        return out
    supers = load_i64(group + 8 * f.SUPERS)
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
                beside = load_i64(group + 8 * f.SLOT_COUNT) + load_i64(group + 8 * f.RESIDUAL_START)
                inner = _ALL if beside == 0 else _U0
            left = blocks - 64 * chunk
            if left < 64:
                outer &= (_ONE << np.uint64(left)) - _ONE
            while outer != _U0:
                bit = first_bit(outer)
                outer &= outer - _ONE
                whole = (inner >> np.uint64(bit)) & _ONE != _U0
                block = 64 * chunk + bit
                out = match_block(index, group, codes, keys, out, c0, c1, c2, c3, block, whole)
    return out


@kernel
def match_recent(index, keys, view, out):
    """Append the ids of the newest lanes, which lie in no segment yet, that hold."""
    ids, starts = load_i64(index + 8 * f.RECENT_IDS), load_i64(index + 8 * f.RECENT_START)
    columns = load_i64(index + 8 * f.RECENT_COLUMNS)
    lows, highs = load_i64(index + 8 * f.RECENT_LOW), load_i64(index + 8 * f.RECENT_HIGH)
    for lane in range(load_i64(index + 8 * f.RECENT)):
        flagged = np.int64(load_u32(ids + 4 * lane))
        at = np.int64(load_u32(starts + 4 * lane))
        end = np.int64(load_u32(starts + 4 * lane + 4))
        while at < end:
            column = np.int64(load_u32(columns + 4 * at))
            key = key_of(keys, view, column & (f.NEGATED - 1))
            holds = load_f64(lows + 8 * at) <= key and key <= load_f64(highs + 8 * at)
            if holds == (column >= f.NEGATED):
                break
            at += 1
        if at < end or flagged == f.DEAD:
            continue
        if flagged & f.OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
        elif (flagged & f.SHARED) == 0 or fresh(index, flagged & f.ID_MASK):
            store_u32(out, np.uint32(flagged & f.ID_MASK))
            out += 4
    return out


@kernel
def _match_event(index, present, count, codes, keys, out):
    """Append the ids that match an event whose codes and keys have been spread by column."""
    columns = load_i64(index + 8 * f.COLUMNS)
    table = load_i64(index + 8 * f.SEGMENT_TABLE)
    for number in range(load_i64(index + 8 * f.SEGMENTS)):
        segment = load_i64(table + 8 * number)
        mine = codes + 2 * columns * load_i64(segment + 8 * f.SNAPSHOT)
        groups = load_i64(segment + 8 * f.GROUP_TABLE)
        for group in range(load_i64(segment + 8 * f.FREE_GROUPS)):
            out = match_group(index, groups + 8 * f.GROUP_SIZE * group, mine, keys, out)
        starts, known = (
            load_i64(segment + 8 * f.GROUP_STARTS),
            load_i64(segment + 8 * f.GROUP_COLUMNS),
        )
        for i in range(count):
            column = np.int64(load_u32(present + 4 * i))
            if column < known:
                begin = np.int64(load_u32(starts + 4 * column))
                end = np.int64(load_u32(starts + 4 * column + 4))
                for group in range(begin, end):
                    out = match_group(index, groups + 8 * f.GROUP_SIZE * group, mine, keys, out)
    out = match_recent(index, keys, ALONE, out)
    if load_i64(index + 8 * f.TOUCHED_COUNT) > 0:
        clear_seen(index)
    return out


@kernel
def forget(present, count, width, snapshots, codes, keys):
    """Clear what an event left in the scratch space."""
    for i in range(count):
        column = np.int64(load_u32(present + 4 * i))
        store_f64(keys + 8 * column, np.nan)
        for snapshot in range(snapshots):
            store_u16(codes + 2 * (width * snapshot + column), np.uint16(f.ABSENT))


@kernel
def match_one(index, entries, count, codes, keys, present, out):
    """Match one event given as (column, key) pairs; how many ids were written."""
    width = load_i64(index + 8 * f.COLUMNS)
    snapshots = load_i64(index + 8 * f.SNAPSHOTS)
    table = load_i64(index + 8 * f.SNAPSHOT_TABLE)
    for i in range(count):
        column, key = load_i64(entries + 16 * i), load_f64(entries + 16 * i + 8)
        store_u32(present + 4 * i, np.uint32(column))
        store_f64(keys + 8 * column, key)
        for snapshot in range(snapshots):
            cuts = load_i64(table + 8 * snapshot) + 8 * f.CUT_SIZE * column
            store_u16(codes + 2 * (width * snapshot + column), code_of(key, cuts))
    end = _match_event(index, present, count, codes, keys, out)
    forget(present, count, width, snapshots, codes, keys)
    return (end - out) >> 2


@kernel
def spread(dense, listed, event, width, snapshots, codes, keys, present):
    """Write an event's keys and codes by column and list its columns; how many there are."""
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
    return count


@kernel
def match_many(index, dense, listed, order, begin, room, codes, keys, present, out, ends):
    """Match events ``order[begin:]`` while an event's worst case fits; where it stopped.

    ``dense`` has a row per column of single values: column, keys, codes by snapshot. ``listed`` has
    a row per dictionary: its index by event, list starts, columns, keys, codes by snapshot.
    ``ends[i]`` becomes the number of ids written up to and with event ``order[i]``.
    """
    width = load_i64(index + 8 * f.COLUMNS)
    snapshots = load_i64(index + 8 * f.SNAPSHOTS)
    start = out
    for position in range(begin, len(order)):
        if out - start > room:
            return position
        event = np.int64(order[position])
        count = spread(dense, listed, event, width, snapshots, codes, keys, present)
        out = _match_event(index, present, count, codes, keys, out)
        ends[position] = (out - start) >> 2
        forget(present, count, width, snapshots, codes, keys)
    return len(order)


@kernel
def bury(segment, handle):
    """Clear the live bits of a handle's lanes: how many there were, and their flags."""
    handles, count = load_i64(segment + 8 * f.HANDLES), load_i64(segment + 8 * f.HANDLE_COUNT)
    place, alive = load_i64(segment + 8 * f.PLACES), load_i64(segment + 8 * f.LIVE)
    ids = load_i64(segment + 8 * f.FLAGGED)
    low, high = np.int64(0), count
    guess = handle - np.int64(load_u32(handles))  # right if none was left out and all have one lane
    if (
        0 < guess < count
        and np.int64(load_u32(handles + 4 * guess)) == handle
        and np.int64(load_u32(handles + 4 * guess - 4)) < handle
    ):
        low = high = guess
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
            if ids != 0:
                flags |= np.int64(load_u32(ids + 4 * position)) & (f.SHARED | f.OPAQUE)
            found += 1
        low += 1
    return found | flags
