"""Kernels that write a tile of events where it is matched: by column, the events side by side.

One attribute at a time for all events: the columns of one attribute fit the nearest cache, those of
all attributes do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.content.index.fields import ABSENT, TILE
from shoal.content.index.machine import (
    kernel,
    load_f64,
    load_u16,
    load_u32,
    store_f64,
    store_u16,
)


@kernel
def spread_tile(
    dense: Any,
    listed: Any,
    order: Any,
    begin: Any,
    count: Any,
    width: Any,
    snapshots: Any,
    codes: Any,
    keys: Any,
    keyed: Any,
) -> None:
    """Write the codes, and if need be the keys, of events ``order[begin:begin + count]`` by column.

    ``dense`` and ``listed`` are as for :func:`~shoal.content.index.kernels.match_many`.
    """
    for row in range(len(dense)):
        column = dense[row, 0]
        for s in range(snapshots):
            source, target = dense[row, 2 + s], codes + 2 * TILE * (width * s + column)
            for event in range(count):
                code = load_u16(source + 2 * np.int64(order[begin + event]))
                store_u16(target + 2 * event, code)
        if keyed:
            source, target = dense[row, 1], keys + 8 * TILE * column
            for event in range(count):
                key = load_f64(source + 8 * np.int64(order[begin + event]))
                store_f64(target + 8 * event, key)
    for row in range(len(listed)):
        at, starts, columns = listed[row, 0], listed[row, 1], listed[row, 2]
        for event in range(count):
            entry = np.int64(np.int32(load_u32(at + 4 * np.int64(order[begin + event]))))
            if entry < 0:
                continue
            first = np.int64(load_u32(starts + 4 * entry))
            last = np.int64(load_u32(starts + 4 * entry + 4))
            for item in range(first, last):
                column = np.int64(load_u32(columns + 4 * item))
                for s in range(snapshots):
                    code = load_u16(listed[row, 4 + s] + 2 * item)
                    store_u16(codes + 2 * (TILE * (width * s + column) + event), code)
                if keyed:
                    key = load_f64(listed[row, 3] + 8 * item)
                    store_f64(keys + 8 * (TILE * column + event), key)


@kernel
def forget_tile(
    dense: Any,
    listed: Any,
    order: Any,
    begin: Any,
    count: Any,
    width: Any,
    snapshots: Any,
    codes: Any,
    keys: Any,
    keyed: Any,
) -> None:
    """Clear what :func:`spread_tile` wrote."""
    for row in range(len(dense)):
        column = dense[row, 0]
        for s in range(snapshots):
            for event in range(count):
                at = codes + 2 * (TILE * (width * s + column) + event)
                store_u16(at, np.uint16(ABSENT))
        if keyed:
            for event in range(count):
                store_f64(keys + 8 * (TILE * column + event), np.nan)
    for row in range(len(listed)):
        at, starts, columns = listed[row, 0], listed[row, 1], listed[row, 2]
        for event in range(count):
            entry = np.int64(np.int32(load_u32(at + 4 * np.int64(order[begin + event]))))
            if entry < 0:
                continue
            first = np.int64(load_u32(starts + 4 * entry))
            last = np.int64(load_u32(starts + 4 * entry + 4))
            for item in range(first, last):
                column = np.int64(load_u32(columns + 4 * item))
                for s in range(snapshots):
                    at_code = codes + 2 * (TILE * (width * s + column) + event)
                    store_u16(at_code, np.uint16(ABSENT))
                if keyed:
                    store_f64(keys + 8 * (TILE * column + event), np.nan)
