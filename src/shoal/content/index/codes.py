"""Kernels that look up codes: a key's rank among its column's cuts."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.machine import kernel, load_f64, load_i64, load_u16


@kernel
def code_of(key: Any, cuts: Any) -> Any:
    """The code of a key: ``2 i + 3`` on cut i, ``2 i + 2`` just below it."""
    count = load_i64(cuts + 8 * f.CUT_COUNT)
    if count == 0:
        return np.uint16(2)
    base, scale = load_f64(cuts + 8 * f.CUT_BASE), load_f64(cuts + 8 * f.CUT_SCALE)
    last = load_i64(cuts + 8 * f.CUT_LAST_CELL)
    scaled = (key - base) * scale
    cell: Any = 0
    if scaled >= last:
        cell = last
    elif scaled > 0.0:
        cell = np.int64(scaled)
    table = load_i64(cuts + 8 * f.CUT_CELLS) + 2 * cell
    low, high = np.int64(load_u16(table)), np.int64(load_u16(table + 2))
    at = load_i64(cuts + 8 * f.CUTS)
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
        codes[i] = np.uint16(f.ABSENT) if key != key else code_of(key, cuts)


@kernel
def codes_by_column(columns: Any, keys: Any, snapshot: Any, codes: Any) -> Any:
    """The codes of keys of various columns."""
    for i in range(len(keys)):
        codes[i] = code_of(keys[i], snapshot + 8 * f.CUT_SIZE * np.int64(columns[i]))
