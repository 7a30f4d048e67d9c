"""Kernels that read a segment's lanes back: their predicates, with exact bounds."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.machine import kernel, load_f64, load_i64, load_u16, load_u32, load_u64

_ONE = np.uint64(1)


@kernel
def survey(place, groups, block_group, ids, alive, begin, end, counts):
    """Number of predicates per lane; -1 for a dead one."""
    for i in range(begin, end):
        position = np.int64(place[i])
        word = load_u64(alive + 8 * (position >> 6))
        counts[i] = -1
        if (word >> np.uint64(position & 63)) & _ONE == _ONE:
            row = groups[block_group[position // f.BLOCK]]
            counts[i] = row[f.WIDTH]
            inside = position - (row[f.IDS] - ids) // 4
            slots = row[f.SLOT_COUNT]
            for slot in range(slots):
                here = row[f.SLOTS] + 6 * (slots * inside + slot)
                counts[i] += 1 if load_u16(here + 4) != 65535 else 0
            if row[f.RESIDUAL_START] != 0:
                at = row[f.RESIDUAL_START] + 4 * inside
                counts[i] += np.int64(load_u32(at + 4)) - np.int64(load_u32(at))


@kernel
def _value(code, cuts, exact):
    """The bound behind a code."""
    count = load_i64(cuts + 8 * f.CUT_COUNT)
    if code == f.UNBOUNDED:
        return -np.inf
    if code == 2 * count + 3:
        return np.inf
    if code & 1:
        return load_f64(load_i64(cuts + 8 * f.CUTS) + 8 * ((code - 3) // 2))
    return load_f64(exact)


@kernel
def unfold(place, groups, block_group, snapshot, chosen, ids, start, columns, low, high, out_ids):
    """The predicates of the chosen lanes, with exact bounds."""
    for i in range(len(chosen)):
        position = np.int64(place[chosen[i]])
        row = groups[block_group[position // f.BLOCK]]
        inside = position - (row[f.IDS] - ids) // 4
        block, lane = inside // f.BLOCK, inside % f.BLOCK
        out_ids[i] = load_u32(ids + 4 * position)
        at = np.int64(start[i])
        width = row[f.WIDTH]
        for key in range(width):
            column = row[f.KEYS + key]
            cuts = snapshot + 8 * f.CUT_SIZE * column
            bounds = row[f.BOUNDS] + 256 * (width * block + key) + 2 * lane
            exact = row[f.EXACT + key] + 16 * inside
            columns[at] = column
            low[at] = _value(np.int64(load_u16(bounds)), cuts, exact)
            high[at] = _value(np.int64(load_u16(bounds + 128)), cuts, exact + 8)
            at += 1
        for slot in range(row[f.SLOT_COUNT]):
            here = row[f.SLOTS] + 6 * (row[f.SLOT_COUNT] * inside + slot)
            lower = np.int64(load_u16(here + 2))
            upper = lower + np.int64(load_u16(here + 4))
            if upper - lower != 65535:
                column = np.int64(load_u16(here))
                cuts = snapshot + 8 * f.CUT_SIZE * column
                columns[at] = column
                if upper > 65535:  # a negated predicate wraps around
                    lower, upper = (upper + 1) & 65535, lower - 1
                    columns[at] = column | f.NEGATED
                low[at], high[at] = _value(lower, cuts, 0), _value(upper, cuts, 0)
                at += 1
        if row[f.RESIDUAL_START] != 0:
            first = np.int64(load_u32(row[f.RESIDUAL_START] + 4 * inside))
            last = np.int64(load_u32(row[f.RESIDUAL_START] + 4 * inside + 4))
            for r in range(first, last):
                flagged = np.int64(load_u32(row[f.RESIDUAL_COLUMNS] + 4 * r))
                cuts = snapshot + 8 * f.CUT_SIZE * (flagged & (f.NEGATED - 1))
                codes, exact = row[f.RESIDUAL_CODES] + 4 * r, row[f.RESIDUAL_EXACT] + 16 * r
                columns[at] = flagged
                low[at] = _value(np.int64(load_u16(codes)), cuts, exact)
                high[at] = _value(np.int64(load_u16(codes + 2)), cuts, exact + 8)
                at += 1
