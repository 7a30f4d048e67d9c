"""The compiled half of :mod:`shoal.content.boxes`.

``rows`` is a tuple of arrays by row: masks, axes, lows, highs; ``blocks`` one of arrays by block:
sizes, masks that all rows share, masks that some row has, zones; ``tree`` one of arrays by node.
A zone holds, per axis, the least low and greatest high of a block's boxes (those without bounds on
the axis counting as infinite), and the greatest low and least high of those that have bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BLOCK = 64
WIDTH = 12
OVERFLOW = np.uint64(1) << np.uint64(63)  # in a mask: some axes were left out
FIRST = np.uint64(1) << np.uint64(62)  # in a mask: the first conjunction of its filter
ATTRIBUTES = np.uint64((1 << 62) - 1)

fast: Any = njit(cache=True, nogil=True, boundscheck=False)


@fast
def spread(axes: Any, lows: Any, highs: Any, low: Any, high: Any) -> Any:
    """Write a box into arrays by axis."""
    for at in range(len(axes)):
        low[axes[at]], high[axes[at]] = lows[at], highs[at]


@fast
def clear(axes: Any, low: Any, high: Any) -> Any:
    """Make these arrays infinite again."""
    for axis in axes:
        low[axis], high[axis] = -np.inf, np.inf


@fast
def around(
    blocks: Any, rows: Any, count: Any, mask: Any, axes: Any, q_lows: Any, q_highs: Any,
    low: Any, high: Any, found: Any,
) -> Any:  # fmt: skip
    """Rows whose boxes contain the query's; -1 if there is no room for them."""
    sizes, all_masks, _, zones = blocks
    masks, row_axes, lows, highs = rows
    spread(axes, q_lows, q_highs, low, high)
    held = 0
    for block in range(count):
        if sizes[block] == 0 or (all_masks[block] & ATTRIBUTES) & ~mask != 0:
            continue
        fits = True
        for axis in axes:
            if zones[block, axis, 0] > low[axis] or zones[block, axis, 1] < high[axis]:
                fits = False
                break
        if not fits:
            continue
        for row in range(block * BLOCK, block * BLOCK + sizes[block]):
            if (masks[row] & ATTRIBUTES) & ~mask != 0:
                continue
            fits = True
            for place in range(WIDTH):
                axis = row_axes[row, place]
                if axis < 0:
                    break
                if lows[row, place] > low[axis] or highs[row, place] < high[axis]:
                    fits = False
                    break
            if fits:
                if held == len(found):
                    clear(axes, low, high)
                    return -1
                found[held] = row
                held += 1
    clear(axes, low, high)
    return held


@fast
def inside(
    blocks: Any, rows: Any, count: Any, mask: Any, axes: Any, q_lows: Any, q_highs: Any,
    low: Any, high: Any, found: Any,
) -> Any:  # fmt: skip
    """Rows of first conjunctions whose boxes lie in the query's; -1 if there is no room for them."""
    sizes, _, any_masks, zones = blocks
    masks, row_axes, lows, highs = rows
    held = 0
    for block in range(count):
        if sizes[block] == 0 or mask & ~any_masks[block] != 0:
            continue
        fits = True
        if any_masks[block] & OVERFLOW == 0:
            for at in range(len(axes)):
                if zones[block, axes[at], 2] < q_lows[at] or zones[block, axes[at], 3] > q_highs[at]:
                    fits = False
                    break
        if not fits:
            continue
        for row in range(block * BLOCK, block * BLOCK + sizes[block]):
            if mask & ~masks[row] != 0 or masks[row] & FIRST == 0:
                continue
            fits = True
            if masks[row] & OVERFLOW == 0:
                for at in range(len(axes)):
                    bounded = False
                    for place in range(WIDTH):
                        if row_axes[row, place] == axes[at]:
                            bounded = (
                                lows[row, place] >= q_lows[at] and highs[row, place] <= q_highs[at]
                            )
                            break
                        if row_axes[row, place] < 0:
                            break
                    if not bounded:
                        fits = False
                        break
            if fits:
                if held == len(found):
                    return -1
                found[held] = row
                held += 1
    return held


@fast
def leaf_of(tree: Any, blocks: Any, low: Any, high: Any) -> Any:
    """The leaf where a box belongs: one with room if there is one."""
    axis, side, cut, left, right = tree
    sizes = blocks[0]
    node = 0
    while True:
        if axis[node] >= 0:
            key = low[axis[node]] if side[node] == 0 else high[axis[node]]
            node = left[node] if key <= cut[node] else right[node]
        elif right[node] >= 0 and sizes[left[node]] == BLOCK:
            node = right[node]
        else:
            return node


@fast
def put(
    tree: Any, blocks: Any, rows: Any, mask: Any, axes: Any, q_lows: Any, q_highs: Any,
    low: Any, high: Any,
) -> Any:  # fmt: skip
    """Store a box; its row, or ``-1 - leaf`` if the leaf it belongs to is full."""
    sizes, all_masks, any_masks, zones = blocks
    masks, row_axes, lows, highs = rows
    spread(axes, q_lows, q_highs, low, high)
    leaf = leaf_of(tree, blocks, low, high)
    block = tree[3][leaf]
    if sizes[block] == BLOCK:
        clear(axes, low, high)
        return -1 - leaf
    row = block * BLOCK + sizes[block]
    kept = min(len(axes), WIDTH)
    masks[row] = mask if len(axes) <= WIDTH else mask | OVERFLOW
    for place in range(WIDTH):
        row_axes[row, place] = axes[place] if place < kept else -1
        if place < kept:
            lows[row, place], highs[row, place] = q_lows[place], q_highs[place]
    sizes[block] += 1
    if len(axes) > WIDTH or sizes[block] == 1:
        summarise(blocks, rows, block)
    else:
        all_masks[block] &= masks[row]
        any_masks[block] |= masks[row]
        zone = zones[block]
        for axis in range(zones.shape[1]):
            zone[axis, 0] = min(zone[axis, 0], low[axis])
            zone[axis, 1] = max(zone[axis, 1], high[axis])
        for place in range(kept):
            zone[axes[place], 2] = max(zone[axes[place], 2], q_lows[place])
            zone[axes[place], 3] = min(zone[axes[place], 3], q_highs[place])
    clear(axes, low, high)
    return row


@fast
def summarise(blocks: Any, rows: Any, block: Any) -> Any:
    """Compute a block's masks and zone afresh."""
    sizes, all_masks, any_masks, zones = blocks
    masks, row_axes, lows, highs = rows
    size = sizes[block]
    some, every = np.uint64(0), ~np.uint64(0)
    counts = np.zeros(zones.shape[1], np.int64)
    zone = zones[block]
    zone[:, 0] = np.inf
    zone[:, 1] = -np.inf
    zone[:, 2] = -np.inf
    zone[:, 3] = np.inf
    for row in range(block * BLOCK, block * BLOCK + size):
        some |= masks[row]
        every &= masks[row]
        for place in range(WIDTH):
            axis = row_axes[row, place]
            if axis < 0:
                break
            counts[axis] += 1
            zone[axis, 0] = min(zone[axis, 0], lows[row, place])
            zone[axis, 1] = max(zone[axis, 1], highs[row, place])
            zone[axis, 2] = max(zone[axis, 2], lows[row, place])
            zone[axis, 3] = min(zone[axis, 3], highs[row, place])
    for axis in range(zones.shape[1]):
        if counts[axis] < size:
            zone[axis, 0], zone[axis, 1] = -np.inf, np.inf
    all_masks[block], any_masks[block] = every, some


@fast
def keys_of(rows: Any, block: Any, axis: Any, side: Any, keys: Any) -> Any:
    """The low or high bounds of a full block's boxes on an axis."""
    _, row_axes, lows, highs = rows
    for at in range(BLOCK):
        row = block * BLOCK + at
        keys[at] = -np.inf if side == 0 else np.inf
        for place in range(WIDTH):
            if row_axes[row, place] == axis:
                keys[at] = lows[row, place] if side == 0 else highs[row, place]
                break
            if row_axes[row, place] < 0:
                break


@fast
def best_cut(rows: Any, block: Any, axis_count: Any, last: Any) -> Any:
    """The axis, side and cut that split a full block evenly; axis -1 if none splits it.

    Of cuts about as even the one that comes next after the parent's is taken: k-d trees take turns.
    """
    row_axes = rows[1]
    best, best_key, best_cut = 2.0 * BLOCK, -1, 0.0
    keys = np.empty(BLOCK)
    seen = np.zeros(axis_count, np.bool_)
    for row in range(block * BLOCK, block * BLOCK + BLOCK):
        for place in range(WIDTH):
            if row_axes[row, place] < 0:
                break
            seen[row_axes[row, place]] = True
    for step in range(2 * axis_count):
        key = (last + 1 + step) % (2 * axis_count)
        axis, side = key >> 1, key & 1
        if not seen[axis]:
            continue
        keys_of(rows, block, axis, side, keys)
        ordered = np.sort(keys)
        cut = ordered[(BLOCK - 1) // 2]
        left = np.searchsorted(ordered, cut, side="right")
        if left == BLOCK:  # the upper half is all one value: cut below it
            left = np.searchsorted(ordered, cut, side="left")
            if left == 0:
                continue
            cut = ordered[left - 1]
        uneven = abs(2 * left - BLOCK)
        if uneven + BLOCK / 4 < best:  # only a much better one may jump the queue
            best, best_key, best_cut = float(uneven), key, cut
    return best_key, best_cut
