"""The kernel for many events and many groups: group by group, a tile of events at a time.

Event by event, an index with thousands of groups is read from memory again for each event, and what
is not a key is checked lane by lane. Here a group is read once for a whole tile of events, and
matched with 64 of them at a time.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.blocks import View, clear_seen, settle
from shoal.content.index.kernels import match_recent
from shoal.content.index.machine import (
    all_around64,
    all_within64,
    fetch,
    kernel,
    load_i64,
    load_u16,
    load_u64,
    store_u64,
)
from shoal.content.index.spreading import spread_tile
from shoal.content.index.tile_blocks import MASKS, key_row, match_block_in_tile

NEAR = 64  # cache lines of a group fetched ahead
PARTS = f.TILE // 64
STRIDE = 4 * (f.ROOM + f.SLACK)  # bytes from one event's ids to the next one's
_ONE, _ALL, _U0 = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_FIRST, _LAST = np.uint16(0), np.uint16(f.ABSENT - 1)


@kernel
def _present(group, codes, view, events):
    """Events, of those given, that have all keys of a group."""
    for key in range(load_i64(group + 8 * f.WIDTH)):
        events &= all_within64(key_row(group, codes, view, key), _FIRST, _LAST)
        events &= load_u64(view.marks + f.MARKS * load_i64(group + 8 * (f.KEYS + key)))
    return events


@kernel
def _in_zone(codes, at, shift):
    """The events that have a code between the two, in a page of zones of ``1 << shift`` blocks."""
    low, high = load_u16(at), load_u16(at + (2 << shift))
    return all_around64(codes, low, np.uint16(np.int64(high) - np.int64(low)))


@kernel
def _match_group(group, codes, keys, view, events, found, heads, most, masks):
    """Match 64 events, of which some have the keys of a group, on it.

    ``most``: ids that any of them has found at most; returned as it is afterwards, -1 if there may
    be no room for those of some event.
    """
    width, blocks = load_i64(group + 8 * f.WIDTH), load_i64(group + 8 * f.BLOCKS)
    zones = load_i64(group + 8 * f.ZONES)
    shift = 3 if blocks <= f.SMALL else 6  # zones lie in pages of 8 or of 64
    k0, k1 = key_row(group, codes, view, 0), key_row(group, codes, view, 1)
    k2, k3 = key_row(group, codes, view, 2), key_row(group, codes, view, 3)
    for block in range(blocks):
        at = zones + (((block >> shift) * width) << (shift + 3))
        at += 2 * (block & ((1 << shift) - 1))
        inside = events
        if width > 0:
            inside &= _in_zone(k0, at, shift)
        if width > 1:
            inside &= _in_zone(k1, at + (8 << shift), shift)
        if width > 2:
            inside &= _in_zone(k2, at + (16 << shift), shift)
        if width > 3:
            inside &= _in_zone(k3, at + (24 << shift), shift)
        if inside == _U0:
            continue
        if most + f.BLOCK > f.ROOM:
            most = 0
            for event in range(64):
                most = max(most, (load_i64(heads + 8 * event) - found - STRIDE * event) >> 2)
            if most + f.BLOCK > f.ROOM:
                return -1
        most += f.BLOCK
        match_block_in_tile(group, block, codes, keys, view, inside, heads, masks)
    return most


@kernel
def _fetch_group(group):
    """Bring the zones and the first blocks of a group near."""
    width, blocks = load_i64(group + 8 * f.WIDTH), load_i64(group + 8 * f.BLOCKS)
    zones, bounds = load_i64(group + 8 * f.ZONES), load_i64(group + 8 * f.BOUNDS)
    for line in range(width):
        fetch(zones + 64 * line)
    for line in range(min(4 * width * blocks, NEAR)):
        fetch(bounds + 64 * line)
    ids, slots = load_i64(group + 8 * f.IDS), load_i64(group + 8 * f.SLOTS)
    for line in range(min(4 * blocks, NEAR)):
        fetch(ids + 64 * line)
    for line in range(min(6 * load_i64(group + 8 * f.SLOT_COUNT) * blocks, NEAR)):
        fetch(slots + 64 * line)


@kernel
def _ahead(group, count, codes, rows, marks, there):
    """Note which events have the keys of a group, and bring it near if there are any."""
    some = _U0
    for part in range((count + 63) // 64):
        first = 64 * part
        events = _ALL if count - first >= 64 else (_ONE << np.uint64(count - first)) - _ONE
        view = View(rows, marks + first // 8, 0)
        events = _present(group, codes + 2 * first, view, events)
        store_u64(there + 8 * part, events)
        some |= events
    if some != _U0:
        _fetch_group(group)


@kernel
def _match_groups(index, count, codes, keys, rows, marks, found, heads):
    """Match a tile on every group; whether the ids of each event fit its room."""
    columns, table = load_i64(index + 8 * f.COLUMNS), load_i64(index + 8 * f.SEGMENT_TABLE)
    most = np.zeros(PARTS, np.int64)
    held = np.empty(MASKS + 2 * PARTS, np.uint64)
    masks = held.ctypes.data
    there, ahead = masks + 8 * MASKS, masks + 8 * (MASKS + PARTS)
    for number in range(load_i64(index + 8 * f.SEGMENTS)):
        segment = load_i64(table + 8 * number)
        mine = codes + 2 * f.TILE * columns * load_i64(segment + 8 * f.SNAPSHOT)
        group = load_i64(segment + 8 * f.GROUP_TABLE)
        left = load_i64(segment + 8 * f.GROUP_COUNT)
        if left > 0:
            _ahead(group, count, mine, rows, marks, ahead)
        while left > 0:
            there, ahead = ahead, there
            left -= 1
            if left > 0:
                _ahead(group + 8 * f.GROUP_SIZE, count, mine, rows, marks, ahead)
            for part in range((count + 63) // 64):
                events = load_u64(there + 8 * part)
                if events == _U0:
                    continue
                first = 64 * part
                most[part] = _match_group(
                    group, mine + 2 * first, keys + 8 * first,
                    View(rows, marks + first // 8, 0), events,
                    found + STRIDE * first, heads + 8 * first, most[part], masks,
                )  # fmt: skip
                if most[part] < 0:
                    return False
            group += 8 * f.GROUP_SIZE
    return True


@kernel
def match_tile(index, tile, dense, listed, order, begin, count, keyed, out, ends):
    """Match events ``order[begin:begin + count]``; whether there was room for what they find.

    As :func:`~shoal.content.index.kernels.match_many`; ``keyed`` says whether any lane asks for
    keys; ``out`` has STRIDE bytes for each event, and as much as the recent lanes take besides.
    """
    width, snapshots = load_i64(index + 8 * f.COLUMNS), load_i64(index + 8 * f.SNAPSHOTS)
    spread_tile(tile, dense, listed, order, begin, count, width, snapshots, keyed)
    codes, keys = load_i64(tile + 8 * f.TILE_CODES), load_i64(tile + 8 * f.TILE_KEYS)
    rows, marks = load_i64(tile + 8 * f.TILE_ROWS), load_i64(tile + 8 * f.TILE_MARKS)
    found = load_i64(tile + 8 * f.TILE_FOUND)
    heads = np.empty(f.TILE, np.int64)
    for event in range(f.TILE):
        heads[event] = found + STRIDE * event
    if not _match_groups(index, count, codes, keys, rows, marks, found, heads.ctypes.data):
        return False
    here = out
    for event in range(count):
        here = settle(index, found + STRIDE * event, heads[event], here)
        if load_i64(index + 8 * f.RECENT) > 0:
            view = View(rows, marks + 8 * (event >> 6), event & 63)
            here = match_recent(index, keys + 8 * event, view, here)
        if load_i64(index + 8 * f.TOUCHED_COUNT) > 0:
            clear_seen(index)
        ends[begin + event] = (here - out) >> 2
    return True
