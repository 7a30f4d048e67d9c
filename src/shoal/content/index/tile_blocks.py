"""Kernels for one block and 64 events of a tile: which of its 64 lanes hold for which of them?

First the keys of all lanes, event by event. If few lanes are left, the rest of each is looked at
one by one; if many are, the tables are turned: each lane is compared with all 64 events at once.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.blocks import View, beside, code_in_tile, emit, refine
from shoal.content.index.machine import (
    all_around64,
    count_bits,
    first_bit,
    kernel,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    store_i64,
    store_u32,
    store_u64,
    transpose64,
    within64,
)

CROWD = 64  # candidates of a block from which on its lanes are better compared with all events
MASKS = 192  # words that a block needs to be matched
_ONE, _U0, _ODD = np.uint64(1), np.uint64(0), np.uint16(1)


@kernel
def key_row(group, codes, view, key):
    """Address of the events' codes in a group's key column."""
    return codes + np.int64(load_u32(view.rows + 4 * load_i64(group + 8 * (f.KEYS + key))))


@kernel
def _all_in_slot(at, codes, view):
    """The events for which the predicate in a slot holds."""
    column = np.int64(load_u16(at))
    row = codes + np.int64(load_u32(view.rows + 4 * column))
    holds = all_around64(row, load_u16(at + 2), load_u16(at + 4))
    # Where a mark is missing, what holds where it is there does not, and the other way around
    return ~(holds ^ load_u64(view.marks + f.MARKS * column))


@kernel
def _in_slot(at, codes, view):
    """1 if the predicate of a slot holds for one event, else 0."""
    code = np.int64(code_in_tile(codes, view, np.int64(load_u16(at))))
    low, span = np.int64(load_u16(at + 2)), np.int64(load_u16(at + 4))
    return np.int64(((code - low) & 65535) <= span)


@kernel
def _candidates(group, block, codes, keys, view, events, found):
    """Which lanes' keys allow which of the given events: how many events, and lanes in all."""
    width = load_i64(group + 8 * f.WIDTH)
    alive = load_u64(load_i64(group + 8 * f.ALIVE) + 8 * block)
    at = load_i64(group + 8 * f.BOUNDS) + 256 * width * block
    k0, k1 = key_row(group, codes, view, 0), key_row(group, codes, view, 1)
    k2, k3 = key_row(group, codes, view, 2), key_row(group, codes, view, 3)
    exact = _exact(group)
    count = lanes = np.int64(0)
    while events != _U0:
        event = first_bit(events)
        events &= events - _ONE
        chosen = alive
        if width > 0:
            chosen &= within64(at, at + 128, load_u16(k0 + 2 * event))
        if width > 1:
            chosen &= within64(at + 256, at + 384, load_u16(k1 + 2 * event))
        if width > 2:
            chosen &= within64(at + 512, at + 640, load_u16(k2 + 2 * event))
        if width > 3:
            chosen &= within64(at + 768, at + 896, load_u16(k3 + 2 * event))
        if exact:
            chosen = _refined(group, block, codes, keys, view, event, chosen)
        store_u64(found + 16 * count, chosen)
        store_i64(found + 16 * count + 8, event)
        count += np.int64(chosen != _U0)
        lanes += count_bits(chosen)
    return count, lanes


@kernel
def _exact(group):
    """Whether codes alone do not always decide about the keys of a group."""
    exact = load_i64(group + 8 * f.EXACT) | load_i64(group + 8 * (f.EXACT + 1))
    return (exact | load_i64(group + 8 * (f.EXACT + 2)) | load_i64(group + 8 * (f.EXACT + 3))) != 0


@kernel
def _refined(group, block, codes, keys, view, event, chosen):
    """The chosen lanes whose exact bounds allow an event too."""
    width = load_i64(group + 8 * f.WIDTH)
    at = load_i64(group + 8 * f.BOUNDS) + 256 * width * block
    mine = View(view.rows, view.marks, event)
    for key in range(width):
        code = load_u16(key_row(group, codes, view, key) + 2 * event)
        if load_i64(group + 8 * (f.EXACT + key)) != 0 and (code & _ODD) == 0:
            chosen = refine(group, key, code, keys + 8 * event, mine, block, at, chosen)
        at += 256
    return chosen


@kernel
def match_block_in_tile(group, block, codes, keys, view, events, heads, masks):
    """Append a block's lanes that hold to the ids of those of the given events they hold for."""
    found = masks + 8 * 64
    count, lanes = _candidates(group, block, codes, keys, view, events, found)
    ids = load_i64(group + 8 * f.IDS) + 256 * block
    if load_i64(group + 8 * f.SLOT_COUNT) + load_i64(group + 8 * f.RESIDUAL_LANES) == 0:
        for i in range(count):
            head = heads + 8 * load_i64(found + 16 * i + 8)
            store_i64(head, emit(load_i64(head), ids, load_u64(found + 16 * i)))
        return
    if lanes > CROWD:
        _lane_by_lane(group, block, codes, keys, view, found, count, heads, masks)
    else:
        _one_by_one(group, block, codes, keys, view, found, count, heads)


@kernel
def _one_by_one(group, block, codes, keys, view, found, count, heads):
    """Append candidates that hold, one after the other.

    No branch depends on whether one holds, which is as good as random.
    """
    slot_count, residual = (
        load_i64(group + 8 * f.SLOT_COUNT),
        load_i64(group + 8 * f.RESIDUAL_LANES),
    )
    more = load_u64(residual + 8 * block) if residual != 0 else _U0
    slots = load_i64(group + 8 * f.SLOTS) + 384 * slot_count * block
    ids = load_i64(group + 8 * f.IDS) + 256 * block
    for i in range(count):
        chosen, event = load_u64(found + 16 * i), load_i64(found + 16 * i + 8)
        mine, here = View(view.rows, view.marks, event), codes + 2 * event
        out = load_i64(heads + 8 * event)
        while True:
            lane = first_bit(chosen)
            chosen &= chosen - _ONE
            at, holds = slots + 6 * slot_count * lane, np.int64(1)
            if slot_count > 0:  # no loop: it would be made one of long vectors
                holds &= _in_slot(at, here, mine)
            if slot_count > 1:
                holds &= _in_slot(at + 6, here, mine)
            if slot_count > 2:
                holds &= _in_slot(at + 12, here, mine)
            if holds != 0 and (more >> np.uint64(lane)) & _ONE != _U0:
                holds = np.int64(beside(group, here, keys + 8 * event, mine, 64 * block + lane))
            store_u32(out, load_u32(ids + 4 * lane))
            out += 4 * holds
            if chosen == _U0:
                break
        store_i64(heads + 8 * event, out)


@kernel
def _lane_by_lane(group, block, codes, keys, view, found, count, heads, masks):
    """Matches of a block found lane by lane: each lane is compared with all events at once."""
    slot_count, residual = (
        load_i64(group + 8 * f.SLOT_COUNT),
        load_i64(group + 8 * f.RESIDUAL_LANES),
    )
    more = load_u64(residual + 8 * block) if residual != 0 else _U0
    slots = load_i64(group + 8 * f.SLOTS) + 384 * slot_count * block
    for event in range(64):
        store_u64(masks + 8 * event, _U0)
    left = any_event = _U0
    for i in range(count):
        chosen = load_u64(found + 16 * i)
        store_u64(masks + 8 * load_i64(found + 16 * i + 8), chosen)
        left |= chosen
    transpose64(masks)
    while left != _U0:
        lane = first_bit(left)
        left &= left - _ONE
        holds = load_u64(masks + 8 * lane)
        at = slots + 6 * slot_count * lane
        if slot_count > 0:
            holds &= _all_in_slot(at, codes, view)
        if slot_count > 1:
            holds &= _all_in_slot(at + 6, codes, view)
        if slot_count > 2:
            holds &= _all_in_slot(at + 12, codes, view)
        if (more >> np.uint64(lane)) & _ONE != _U0:
            holds = _left_beside(group, codes, keys, view, 64 * block + lane, holds)
        store_u64(masks + 8 * lane, holds)
        any_event |= holds
    if any_event == _U0:
        return
    transpose64(masks)
    ids = load_i64(group + 8 * f.IDS) + 256 * block
    while any_event != _U0:
        event = first_bit(any_event)
        any_event &= any_event - _ONE
        head = load_i64(heads + 8 * event)
        store_i64(heads + 8 * event, emit(head, ids, load_u64(masks + 8 * event)))


@kernel
def _left_beside(group, codes, keys, view, position, events):
    """Events, of those given, for which the residual predicates of one lane hold."""
    left = events
    while events != _U0:
        event = first_bit(events)
        events &= events - _ONE
        mine = View(view.rows, view.marks, event)
        if not beside(group, codes + 2 * event, keys + 8 * event, mine, position):
            left &= ~(_ONE << np.uint64(event))
    return left
