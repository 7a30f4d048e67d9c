"""Kernels for one block: which of its 64 lanes does an event satisfy?"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.machine import (
    COMPRESS,
    above16,
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
    store_u32,
    store_u64,
    touching64,
    within64,
)

_ONE, _ALL, _ODD = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint16(1)
_U0 = np.uint64(0)


class View(NamedTuple):
    """Layout of an event in memory: by itself, or as one of a tile (see spreading.py)."""

    rows: int
    """Address of the tile's row per column; 0 if the event is by itself."""
    marks: int
    event: int


ALONE = View(0, 0, 0)


@kernel
def unmarked(view, column):
    """All ones if an event of a tile lacks the mark of a column, else 0."""
    mark = load_u64(view.marks + f.MARKS * column) >> np.uint64(view.event)
    return (mark & _ONE) - _ONE


@kernel
def code_in_tile(codes, view, column):
    """An event's code in a column."""
    code = load_u16(codes + np.int64(load_u32(view.rows + 4 * column)))
    return np.uint16(np.uint64(code) | unmarked(view, column))  # ABSENT without the mark


@kernel
def _code(codes, view, column):
    return code_in_tile(codes, view, column) if view.rows else load_u16(codes + 2 * column)


@kernel
def key_of(keys, view, column):
    """An event's key in a column; NaN if it has none."""
    if view.rows == 0:
        return load_f64(keys + 8 * column)
    if unmarked(view, column) != _U0:
        return np.nan
    return load_f64(keys + 4 * np.int64(load_u32(view.rows + 4 * column)))


@kernel
def fresh(index, identity):
    """Whether this event has not met this id yet: a bitmap, and a list of what to clear in it."""
    word = load_i64(index + 8 * f.SEEN) + 8 * (identity >> 6)
    bit = _ONE << np.uint64(identity & 63)
    if load_u64(word) & bit != _U0:
        return False
    store_u64(word, load_u64(word) | bit)
    count = load_i64(index + 8 * f.TOUCHED_COUNT)
    store_u32(load_i64(index + 8 * f.TOUCHED) + 4 * count, np.uint32(identity))
    store_u64(index + 8 * f.TOUCHED_COUNT, np.uint64(count + 1))
    return True


@kernel
def clear_seen(index):
    """Forget the ids that an event has met."""
    seen, touched = load_i64(index + 8 * f.SEEN), load_i64(index + 8 * f.TOUCHED)
    for i in range(load_i64(index + 8 * f.TOUCHED_COUNT)):
        store_u64(seen + 8 * (np.int64(load_u32(touched + 4 * i)) >> 6), _U0)
    store_u64(index + 8 * f.TOUCHED_COUNT, _U0)


@kernel
def settle(index, begin, end, out):
    """Write an event's ids, each filter once; what they were read from is written over.

    Most are of filters with one lane and are written as they are. The others are set aside first.
    Whether one has been met before is as good as random, so no branch depends on it.
    """
    aside = end
    if COMPRESS:
        aside = at = begin
        while at < end:
            there = np.uint64(0xFFFF)
            if end - at < 64:
                there = (_ONE << np.uint64((end - at) >> 2)) - _ONE
            odd = there & np.uint64(above16(at, np.uint32(f.ID_MASK)))
            pack16(out, at, np.uint16(there & ~odd))
            out += 4 * count_bits(there & ~odd)
            pack16(aside, at, np.uint16(odd))
            aside += 4 * count_bits(odd)
            at += 64
    seen, touched = load_i64(index + 8 * f.SEEN), load_i64(index + 8 * f.TOUCHED)
    count = load_i64(index + 8 * f.TOUCHED_COUNT)
    while begin < aside:
        flagged = np.int64(load_u32(begin))
        begin += 4
        if flagged & f.OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
            continue
        identity, shared = flagged & f.ID_MASK, flagged >> 31
        at, bit = seen + 8 * (identity >> 6), np.uint64(shared) << np.uint64(identity & 63)
        word = load_u64(at)
        fresh = np.int64((word & bit) == _U0)
        store_u64(at, word | bit)
        store_u32(touched + 4 * count, np.uint32(identity))
        count += shared & fresh
        store_u32(out, np.uint32(identity))
        out += 4 * fresh
    store_u64(index + 8 * f.TOUCHED_COUNT, np.uint64(count))
    return out


@kernel
def _emit_special(index, out, ids, chosen):
    """Write the chosen ids, each filter once."""
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        flagged = np.int64(load_u32(ids + 4 * lane))
        if flagged & f.OPAQUE:
            store_u32(out, np.uint32(flagged))
            out += 4
        elif (flagged & f.SHARED) == 0 or fresh(index, flagged & f.ID_MASK):
            store_u32(out, np.uint32(flagged & f.ID_MASK))
            out += 4
    return out


@kernel
def emit(out, ids, chosen):
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
def _slot(at, stride, codes, chosen):
    """The chosen lanes whose predicate in this slot holds, without a branch per lane.

    A predicate is a column, a lowest code and a width, modulo 2**16: a negated one wraps around.
    ``stride``: bytes from one lane to the next.
    """
    kept = _U0
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        here = at + stride * lane
        code = np.int64(load_u16(codes + 2 * np.int64(load_u16(here))))
        low, width = np.int64(load_u16(here + 2)), np.int64(load_u16(here + 4))
        kept |= np.uint64(((code - low) & 65535) <= width) << np.uint64(lane)
    return kept


@kernel
def beside(group, codes, keys, view, position):
    """Whether the residual predicates of one lane hold."""
    starts = load_i64(group + 8 * f.RESIDUAL_START) + 4 * position
    columns = load_i64(group + 8 * f.RESIDUAL_COLUMNS)
    bounds = load_i64(group + 8 * f.RESIDUAL_CODES)
    exact = load_i64(group + 8 * f.RESIDUAL_EXACT)
    at, end = np.int64(load_u32(starts)), np.int64(load_u32(starts + 4))
    while at < end:
        flagged = np.int64(load_u32(columns + 4 * at))
        column = flagged & (f.NEGATED - 1)
        code = _code(codes, view, column)
        low, high = load_u16(bounds + 4 * at), load_u16(bounds + 4 * at + 2)
        holds = low <= code and code <= high
        if exact != 0 and holds and (code & _ODD) == 0 and code in (low, high):
            key = key_of(keys, view, column)
            holds = load_f64(exact + 16 * at) <= key <= load_f64(exact + 16 * at + 8)
        if holds == (flagged >= f.NEGATED):
            return False
        at += 1
    return True


@kernel
def _fails(group, codes, keys, position, chosen):
    """The chosen lanes whose residual predicates do not hold."""
    fails = _U0
    while chosen != _U0:
        lane = first_bit(chosen)
        chosen &= chosen - _ONE
        if not beside(group, codes, keys, ALONE, position + lane):
            fails |= _ONE << np.uint64(lane)
    return fails


@kernel
def refine(group, key, code, keys, view, block, bounds, chosen):
    """Drop the chosen lanes whose exact bound, in the event's own bucket, excludes the event."""
    exact = load_i64(group + 8 * (f.EXACT + key))
    touched = chosen & touching64(bounds, bounds + 128, code)
    value = key_of(keys, view, load_i64(group + 8 * (f.KEYS + key)))
    at = exact + 1024 * block
    while touched != _U0:
        lane = first_bit(touched)
        touched &= touched - _ONE
        if not (load_f64(at + 16 * lane) <= value <= load_f64(at + 16 * lane + 8)):
            chosen &= ~(_ONE << np.uint64(lane))
    return chosen


@kernel
def match_block(index, group, codes, keys, out, c0, c1, c2, c3, block, whole):
    """Append the ids of a block's lanes that hold for an event by itself."""
    width = load_i64(group + 8 * f.WIDTH)
    bounds, ids = load_i64(group + 8 * f.BOUNDS), load_i64(group + 8 * f.IDS)
    alive, special = load_i64(group + 8 * f.ALIVE), load_i64(group + 8 * f.SPECIAL)
    slots, slot_count = load_i64(group + 8 * f.SLOTS), load_i64(group + 8 * f.SLOT_COUNT)
    residual = load_i64(group + 8 * f.RESIDUAL_LANES)
    exact0, exact1 = load_i64(group + 8 * f.EXACT), load_i64(group + 8 * (f.EXACT + 1))
    exact2, exact3 = load_i64(group + 8 * (f.EXACT + 2)), load_i64(group + 8 * (f.EXACT + 3))
    chosen = load_u64(alive + 8 * block)
    here = ids + 256 * block
    if not whole:
        at = bounds + 256 * width * block
        if width > 0:
            chosen &= within64(at, at + 128, c0)
        if width > 1:
            chosen &= within64(at + 256, at + 384, c1)
        if width > 2:
            chosen &= within64(at + 512, at + 640, c2)
        if width > 3:
            chosen &= within64(at + 768, at + 896, c3)
        if chosen == _U0:
            return out
        if exact0 != 0 and (c0 & _ODD) == 0:
            chosen = refine(group, 0, c0, keys, ALONE, block, at, chosen)
        if exact1 != 0 and (c1 & _ODD) == 0:
            chosen = refine(group, 1, c1, keys, ALONE, block, at + 256, chosen)
        if exact2 != 0 and (c2 & _ODD) == 0:
            chosen = refine(group, 2, c2, keys, ALONE, block, at + 512, chosen)
        if exact3 != 0 and (c3 & _ODD) == 0:
            chosen = refine(group, 3, c3, keys, ALONE, block, at + 768, chosen)
        for slot in range(slot_count):
            at = slots + 6 * (64 * slot_count * block + slot)
            chosen = _slot(at, 6 * slot_count, codes, chosen)
        if residual != 0:
            more = chosen & load_u64(residual + 8 * block)
            chosen &= ~_fails(group, codes, keys, 64 * block, more)
    if special != 0:
        odd = chosen & load_u64(special + 8 * block)
        out = _emit_special(index, out, here, odd)
        chosen &= ~odd
    if chosen == _ALL:
        copy64(out, here)
        return out + 256
    return emit(out, here, chosen)
