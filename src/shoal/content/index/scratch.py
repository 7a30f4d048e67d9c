"""Scratch memory of the kernels: an event's keys and codes, and the ids found."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cached_property
from math import nan

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.segments import Array, aligned
from shoal.content.index.vocabulary import Brief, Vocabulary

_ENTRY = struct.Struct("<qd")


def spread(event: Mapping[str, object], brief: Brief) -> bytes:
    """An event's (column, key) entries, packed."""
    parts: list[bytes] = []
    for name, value in dict(event).items():
        known = brief.get(name)
        if known is None:
            continue
        column, memory, pack = known
        kind = type(value)
        if kind is float and column >= 0:
            if value == value:
                parts.append(_ENTRY.pack(column, value))
            continue
        found = memory.get(value) if kind is str else None  # type: ignore[call-overload]  # it is text
        parts.append(pack(value) if found is None else found)
    return b"".join(parts)


class Scratch:
    """Scratch memory of the kernels: an event's keys and codes by column, and the ids found."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._keys = np.full(columns, nan)
        self._codes = np.full((f.MAX_SNAPSHOTS, columns), f.ABSENT, np.uint16)
        self._present = np.zeros(columns, np.uint32)
        self._entries = np.zeros(16 * columns, np.uint8)
        self.ids: Array = np.empty(0, np.uint32)
        self.keys_at: int = self._keys.ctypes.data
        self.codes_at: int = self._codes.ctypes.data
        self.present_at: int = self._present.ctypes.data
        self.entries_at: int = self._entries.ctypes.data
        self.out_at = 0

    def out(self, ids: int) -> Array:
        """Room for this many ids."""
        if len(self.ids) < ids + f.SLACK:
            self.ids = np.empty(2 * ids + f.SLACK, np.uint32)
            self.out_at = self.ids.ctypes.data
        return self.ids

    @cached_property
    def tile(self) -> Tile:
        """Room for a tile of events."""
        return Tile(len(self._keys))

    def write(self, entries: bytes) -> int:
        """Put an event's entries where the kernels read them; how many."""
        self._entries[: len(entries)] = np.frombuffer(entries, np.uint8)
        return len(entries) >> 4


class Tile:
    """Scratch memory of the kernel for tiles; spreading.py describes its layout."""

    def __init__(self, columns: int) -> None:
        self._keys = np.empty((columns, f.TILE))
        self._codes = aligned((f.MAX_SNAPSHOTS, columns, f.TILE), np.uint16)
        self._keys[0], self._codes[:, 0] = 1.0, f.FIRST_CUT
        self._rows = np.zeros(columns, np.uint32)
        self._marks = np.zeros((columns, f.MARKS), np.uint8)
        self._marks[0] = 0xFF
        self._found = np.empty((f.TILE, f.ROOM + f.SLACK), np.uint32)
        self._columns, self._fragments = 1, 0
        self._table = np.zeros(f.TILE_SIZE, np.int64)
        self._table[f.TILE_CODES] = self._codes.ctypes.data
        self._table[f.TILE_KEYS] = self._keys.ctypes.data
        self._table[f.TILE_MARKS] = self._marks.ctypes.data
        self._table[f.TILE_ROWS] = self._rows.ctypes.data
        self._table[f.TILE_ROW_COUNT] = 1
        self._table[f.TILE_FOUND] = self._found.ctypes.data
        self.at: int = self._table.ctypes.data

    def follow(self, vocabulary: Vocabulary) -> None:
        """Make room for what the vocabulary has learnt since the last time."""
        if self._columns == vocabulary.columns:
            return
        new = np.arange(self._columns, vocabulary.columns)
        new = np.setdiff1d(new, vocabulary.fragments[self._fragments :])
        first = int(self._table[f.TILE_ROW_COUNT])
        self._rows[new] = 2 * f.TILE * np.arange(first, first + len(new))
        self._marks[new] = 0xFF
        self._table[f.TILE_ROW_COUNT] += len(new)
        self._columns, self._fragments = vocabulary.columns, len(vocabulary.fragments)
