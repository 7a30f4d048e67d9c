"""The compiled half of :mod:`shoal.content.boxes`.

``rows`` is a tuple of arrays by row: masks, axes, lows, highs; ``blocks`` one of arrays by block:
sizes, masks that all rows share, masks that some row has, zones, a place to note candidates;
``tree`` one of arrays by node. ``zones[axis, :, block]`` are the least low and the greatest high of
a block's boxes (those without bounds on the axis counting as infinite), and the greatest low and
least high of those that have bounds. So laid out, all blocks are tested at once in vector code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

BLOCK = 64
"""Rows of a block."""
WIDTH = 12
"""Axes of a box; it counts as a candidate always if it has more."""
ATTRIBUTE_BITS = 62
"""Of a mask; attributes beyond share them."""
OVERFLOW = np.uint64(1) << np.uint64(63)  # in a mask: some axes were left out
FIRST = np.uint64(1) << np.uint64(62)  # in a mask: the first conjunction of its filter
ATTRIBUTES = np.uint64((1 << ATTRIBUTE_BITS) - 1)

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def fast(kernel: Kernel) -> Kernel:
    """Compile a kernel; the machine code is kept on disk."""
    return cast("Kernel", njit(cache=True, nogil=True, boundscheck=False)(kernel))


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
    """Rows whose boxes contain the query's; -1 if there is no room."""
    sizes, all_masks, _, zones, candidate = blocks
    masks, row_axes, lows, highs = rows
    spread(axes, q_lows, q_highs, low, high)
    others = ~mask & ATTRIBUTES
    for block in range(count):
        candidate[block] = (sizes[block] != 0) & (all_masks[block] & others == 0)
    for at in range(len(axes)):
        least, greatest, q_low, q_high = (
            zones[axes[at], 0],
            zones[axes[at], 1],
            q_lows[at],
            q_highs[at],
        )
        for block in range(count):
            candidate[block] &= (least[block] <= q_low) & (greatest[block] >= q_high)
    held = 0
    for block in range(count):
        if not candidate[block]:
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
    """Rows of first conjunctions whose boxes lie in the query's; -1 if there is no room."""
    sizes, _, any_masks, zones, candidate = blocks
    masks, row_axes, lows, highs = rows
    for block in range(count):
        candidate[block] = (sizes[block] != 0) & (mask & ~any_masks[block] == 0)
    for at in range(len(axes)):
        greatest, least, q_low, q_high = (
            zones[axes[at], 2],
            zones[axes[at], 3],
            q_lows[at],
            q_highs[at],
        )
        for block in range(count):
            partial = any_masks[block] & OVERFLOW != 0
            candidate[block] &= partial | ((greatest[block] >= q_low) & (least[block] <= q_high))
    held = 0
    for block in range(count):
        if not candidate[block]:
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
    sizes, all_masks, any_masks, zones, _ = blocks
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
        for axis in range(len(zones)):
            zones[axis, 0, block] = min(zones[axis, 0, block], low[axis])
            zones[axis, 1, block] = max(zones[axis, 1, block], high[axis])
        for place in range(kept):
            zone = zones[axes[place]]
            zone[2, block] = max(zone[2, block], q_lows[place])
            zone[3, block] = min(zone[3, block], q_highs[place])
    clear(axes, low, high)
    return row


@fast
def summarise(blocks: Any, rows: Any, block: Any) -> Any:
    """Compute a block's masks and zone afresh."""
    sizes, all_masks, any_masks, zones, _ = blocks
    masks, row_axes, lows, highs = rows
    size = sizes[block]
    some, every = np.uint64(0), ~np.uint64(0)
    counts = np.zeros(len(zones), np.int64)
    for axis in range(len(zones)):
        zones[axis, 0, block] = zones[axis, 3, block] = np.inf
        zones[axis, 1, block] = zones[axis, 2, block] = -np.inf
    for row in range(block * BLOCK, block * BLOCK + size):
        some |= masks[row]
        every &= masks[row]
        for place in range(WIDTH):
            axis = row_axes[row, place]
            if axis < 0:
                break
            counts[axis] += 1
            zone = zones[axis]
            zone[0, block] = min(zone[0, block], lows[row, place])
            zone[1, block] = max(zone[1, block], highs[row, place])
            zone[2, block] = max(zone[2, block], lows[row, place])
            zone[3, block] = min(zone[3, block], highs[row, place])
    for axis in range(len(zones)):
        if counts[axis] < size:
            zones[axis, 0, block], zones[axis, 1, block] = -np.inf, np.inf
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
