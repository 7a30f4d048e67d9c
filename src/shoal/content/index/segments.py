"""Parts of an index: lists of lanes, generations of cuts, segments."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.content.index import fields as f
from shoal.content.index.vocabulary import MAX_COLUMNS

Array: TypeAlias = NDArray[Any]


def aligned(shape: tuple[int, ...], kind: type[np.generic], value: int | None = None) -> Array:
    """An array that begins on a cache line, so that 64 bytes are one load and not two."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    raw = np.empty(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    found = raw[first : first + size].view(kind).reshape(shape)
    if value is not None:
        found.fill(value)
    return found


@dataclass
class Flat:
    """Lanes as a list: ids (with flags) in ascending order, and the predicates of each."""

    ids: Array  # u32
    start: Array  # u32, one longer
    columns: Array  # u32, with NEGATED
    low: Array  # f64, inclusive
    high: Array  # f64

    def __len__(self) -> int:
        return len(self.ids)


class Snapshot:
    """A generation of cuts, by column. A column's cuts never change within a snapshot."""

    def __init__(self) -> None:
        # Room for all columns there may be: it must not move, and untouched pages cost nothing.
        self.table = np.zeros((MAX_COLUMNS, f.CUT_SIZE), np.int64)
        self.cuts: dict[int, tuple[Array, Array]] = {}

    def cut(self, column: int, cuts: Array) -> None:
        """Set a column's cuts: ascending, distinct, finite, at most ``MAX_CUTS``."""
        if not len(cuts):
            self.cuts[column] = (cuts, cuts)
            return
        size = min(1 << len(cuts).bit_length(), f.MAX_CELLS)
        base, span = float(cuts[0]), float(cuts[-1]) - float(cuts[0])
        scale = size / span if 0 < span < np.inf else 0.0
        scale = scale if scale < np.inf else 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # cuts as far apart as numbers can be
            scaled = np.nan_to_num((cuts - base) * scale)
        cell = np.clip(scaled, 0, size - 1).astype(np.int64)  # as ``code_of`` does
        cells = np.searchsorted(cell, np.arange(size + 1)).astype(np.uint16)
        self.cuts[column] = (cuts, cells)
        row = self.table[column]
        row[f.CUTS], row[f.CUT_COUNT], row[f.CUT_CELLS] = (
            cuts.ctypes.data,
            len(cuts),
            cells.ctypes.data,
        )
        row[f.CUT_LAST_CELL] = size - 1
        row[[f.CUT_BASE, f.CUT_SCALE]] = np.array([base, scale]).view(np.int64)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(8 * f.CUT_SIZE + a.nbytes + b.nbytes for a, b in self.cuts.values())


@dataclass(eq=False)
class Segment:
    """One generation of lanes; only its live bits change once it is built."""

    snapshot: Snapshot
    handles: Array  # u32 ascending: whose lanes these are
    place: Array  # u32: where each lies, block * 64 + lane
    ids: Array
    alive: Array
    groups: Array  # i64 [groups, GROUP_SIZE]
    block_group: Array  # u32: the group of each block
    arrays: dict[str, list[Array]] = field(default_factory=dict)
    table: Array = field(default_factory=lambda: np.zeros(f.SEGMENT_SIZE, np.int64))
    live: int = 0

    def name_groups(self, starts: Array) -> None:
        """Tell the kernels where the groups are; ``starts``: the first of each first column."""
        self.arrays["group_starts"] = [starts]
        table = self.table
        table[f.FREE_GROUPS] = starts[0]
        table[f.GROUP_STARTS], table[f.GROUP_COLUMNS] = starts.ctypes.data, len(starts) - 1
        table[f.GROUP_TABLE], table[f.GROUP_COUNT] = self.groups.ctypes.data, len(self.groups)

    @cached_property
    def at(self) -> int:
        """Address of the segment's table, which the kernel that removes a handle reads."""
        table = self.table
        table[f.HANDLES], table[f.HANDLE_COUNT] = self.handles.ctypes.data, len(self.handles)
        table[f.PLACES], table[f.LIVE] = self.place.ctypes.data, self.alive.ctypes.data
        table[f.FLAGGED] = self.ids.ctypes.data if "special" in self.arrays else 0
        address: int = table.ctypes.data
        return address

    @property
    def inexact(self) -> bool:
        """Whether some bound has a code that other values share."""
        return "exact" in self.arrays or "residual_exact" in self.arrays

    @property
    def nbytes(self) -> int:
        """Memory held, cuts aside."""
        own = (self.handles, self.place, self.ids, self.alive, self.groups, self.block_group)
        return sum(a.nbytes for a in own) + sum(
            a.nbytes for arrays in self.arrays.values() for a in arrays
        )
