"""Kernels that write a tile of events where it is matched: by column, the events side by side.

One attribute is written at a time for all events: the columns of one attribute fit the nearest
cache, those of all attributes do not.

A column has a row of codes and a row of keys, except those of fragments, of which there may be
thousands: a fragment is contained or not, which takes one bit of an event, its *mark*. All
fragments share the first row, where every event has the code and the key of a fragment that is
contained. Code and key count only for events with the column's mark; in other columns all have it.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.machine import (
    fetch,
    kernel,
    load_f64,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    store_f64,
    store_u16,
    store_u64,
)

_ONE, _NONE, _ABSENT = np.uint64(1), np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def _clear_tile(tile, width, snapshots, keyed):
    """Leave no event in a tile."""
    count = load_i64(tile + 8 * f.TILE_ROW_COUNT) - 1
    row = 2 * f.TILE
    for s in range(snapshots):
        at = load_i64(tile + 8 * f.TILE_CODES) + row * (width * s + 1)
        for word in range(row * count // 8):
            store_u64(at + 8 * word, _ABSENT)
    if keyed:
        at = load_i64(tile + 8 * f.TILE_KEYS) + 4 * row
        for key in range(f.TILE * count):
            store_f64(at + 8 * key, np.nan)
    rows, marks = load_i64(tile + 8 * f.TILE_ROWS), load_i64(tile + 8 * f.TILE_MARKS)
    for column in range(1, width):
        if load_u32(rows + 4 * column) == 0:
            for word in range(f.MARKS // 8):
                store_u64(marks + f.MARKS * column + 8 * word, _NONE)


@kernel
def _fetch_lists(at, starts, columns, codes, order, begin, count):
    """Bring near what the values of a tile's events are listed with: matching has driven it away.

    Each line would be waited for, and then the next that it names; so all are asked for at once.
    """
    for event in range(count):
        fetch(starts + 4 * np.int64(np.int32(load_u32(at + 4 * np.int64(order[begin + event])))))
    for event in range(count):
        entry = np.int64(np.int32(load_u32(at + 4 * np.int64(order[begin + event]))))
        first = np.int64(load_u32(starts + 4 * np.maximum(entry, 0)))
        fetch(columns + 4 * first)
        fetch(columns + 4 * first + 32)
        fetch(codes + 2 * first)


@kernel
def spread_tile(tile, dense, listed, order, begin, count, width, snapshots, keyed):
    """Write the codes, and if need be the keys, of events ``order[begin:begin + count]`` by column.

    ``dense`` and ``listed`` are as for :func:`~shoal.content.index.kernels.match_many`.
    """
    _clear_tile(tile, width, snapshots, keyed)
    codes, keys = load_i64(tile + 8 * f.TILE_CODES), load_i64(tile + 8 * f.TILE_KEYS)
    rows, marks = load_i64(tile + 8 * f.TILE_ROWS), load_i64(tile + 8 * f.TILE_MARKS)
    for row in range(len(dense)):
        here = np.int64(load_u32(rows + 4 * dense[row, 0]))
        for s in range(snapshots):
            source, target = dense[row, 2 + s], codes + here + 2 * f.TILE * width * s
            for event in range(count):
                code = load_u16(source + 2 * np.int64(order[begin + event]))
                store_u16(target + 2 * event, code)
        if keyed:
            source, target = dense[row, 1], keys + 4 * here
            for event in range(count):
                key = load_f64(source + 8 * np.int64(order[begin + event]))
                store_f64(target + 8 * event, key)
    for row in range(len(listed)):
        at, starts, columns = listed[row, 0], listed[row, 1], listed[row, 2]
        _fetch_lists(at, starts, columns, listed[row, 4], order, begin, count)
        for event in range(count):
            entry = np.int64(np.int32(load_u32(at + 4 * np.int64(order[begin + event]))))
            if entry < 0:
                continue
            first = np.int64(load_u32(starts + 4 * entry))
            last = np.int64(load_u32(starts + 4 * entry + 4))
            for item in range(first, last):
                column = np.int64(load_u32(columns + 4 * item))
                here = np.int64(load_u32(rows + 4 * column))
                if here == 0:
                    word = marks + f.MARKS * column + 8 * (event >> 6)
                    store_u64(word, load_u64(word) | (_ONE << np.uint64(event & 63)))
                    continue
                for s in range(snapshots):
                    code = load_u16(listed[row, 4 + s] + 2 * item)
                    store_u16(codes + here + 2 * (f.TILE * width * s + event), code)
                if keyed:
                    key = load_f64(listed[row, 3] + 8 * item)
                    store_f64(keys + 4 * here + 8 * event, key)
