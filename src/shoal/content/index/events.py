"""Events on their way to the kernels: one from a mapping, or many from an Arrow record batch."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any, Final

import numpy as np

from shoal.content.index import codes as code_kernels
from shoal.content.index import fields as f
from shoal.content.index.layout import Array, Snapshot
from shoal.content.index.vocabulary import Attribute, Brief, Vocabulary
from shoal.content.normal import NormalForm

SLACK: Final = 64  # ids that a kernel may write beyond the last
LOG: Final = 1 << 22  # ids that a tile may find; beyond, events are matched one by one
_ENTRY = struct.Struct("<qd")
_ENTRIES = np.dtype([("column", "<i8"), ("key", "<f8")])
_NUMBERS = ("int", "uint", "double", "float", "halffloat")
_TEXTS = ("string", "large_string", "string_view")


class Scratch:
    """What the kernels write on: an event's keys and codes by column, and the ids found."""

    def __init__(self, columns: int) -> None:
        self._keys = np.full(columns, nan)
        self._codes = np.full((f.MAX_SNAPSHOTS, columns), f.ABSENT, np.uint16)
        self._present = np.zeros(columns, np.uint32)
        self._entries = bytearray(16 * columns)
        self._out = np.empty(0, np.uint32)
        self.keys_at: int = self._keys.ctypes.data
        self.codes_at: int = self._codes.ctypes.data
        self.present_at: int = self._present.ctypes.data
        self.entries_at: int = np.frombuffer(self._entries, np.uint8).ctypes.data
        self.out_at = 0

    def out(self, ids: int) -> Array:
        """Room for this many ids."""
        if len(self._out) < ids + SLACK:
            self._out = np.empty(2 * ids + SLACK, np.uint32)
            self.out_at = self._out.ctypes.data
        return self._out

    @cached_property
    def tile(self) -> Tile:
        """Room for a tile of events."""
        return Tile(len(self._keys))

    def spread(self, event: Mapping[str, object], brief: Brief) -> int:
        """Write an event's (column, key) entries; how many."""
        buffer, at = self._entries, 0
        for name, value in event.items():
            known = brief.get(name)
            if known is None:
                continue
            column, memory, pack = known
            kind = type(value)
            if kind is float and column >= 0:
                if value == value:
                    _ENTRY.pack_into(buffer, at, column, value)
                    at += 16
                continue
            found = memory.get(value) if kind is str else None  # type: ignore[call-overload]  # it is text
            if found is None:
                found = pack(value)
            end = at + len(found)
            buffer[at:end] = found
            at = end
        return at >> 4


class Tile:
    """What the kernel for tiles writes on."""

    def __init__(self, columns: int) -> None:
        self._keys = np.full((columns, f.TILE), nan)
        self._codes = np.full((f.MAX_SNAPSHOTS, columns, f.TILE), f.ABSENT, np.uint16)
        self._present = np.empty((f.TILE, columns), np.uint32)
        self._log = np.empty(LOG + SLACK, np.uint32)
        self._dealt = np.empty(LOG + SLACK, np.uint32)
        self.keys_at: int = self._keys.ctypes.data
        self.codes_at: int = self._codes.ctypes.data
        self.present_at: int = self._present.ctypes.data
        self.log_at: int = self._log.ctypes.data
        self.dealt_at: int = self._dealt.ctypes.data
        self.runs = np.empty((0, 2), np.int64)


@dataclass
class Matches:
    """Which filters match which rows: ``ids[ends[i - 1]:ends[i]]`` are those of row ``rows[i]``."""

    rows: Array
    ends: Array
    ids: Array

    @property
    def counts(self) -> Array:
        """How many filters match, by entry of ``rows``."""
        return np.diff(self.ends, prepend=0)

    def pairs(self) -> tuple[Array, Array]:
        """All (row, handle) pairs."""
        return np.repeat(self.rows, self.counts), self.ids

    def lists(self) -> list[list[int]]:
        """The handles by row, ascending."""
        found: list[list[int]] = [[] for _ in range(len(self.rows))]
        begin = 0
        for row, end in zip(self.rows.tolist(), self.ends.tolist(), strict=True):
            found[row] = sorted(self.ids[begin:end].tolist())
            begin = end
        return found

    @staticmethod
    def join(parts: list[Matches]) -> Matches:
        """Portions of one batch as a whole."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return Matches(none, none, np.empty(0, np.uint32))
        offsets = np.cumsum([0] + [len(part.ids) for part in parts])
        return Matches(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=False)]),
            np.concatenate([part.ids for part in parts]),
        )

    def decided(self, events: Events, opaque: Mapping[int, NormalForm]) -> Matches:
        """The same without the filters that only might have matched: the reference was asked."""
        asked = np.flatnonzero(self.ids >= f.OPAQUE)
        if not len(asked):
            return self
        at = np.searchsorted(self.ends, asked, side="right")
        keep = np.ones(len(self.ids), bool)
        last: tuple[int, set[int]] = (-1, set())
        for position, entry in zip(asked.tolist(), at.tolist(), strict=True):
            if entry != last[0]:
                last = (entry, set())
            handle = int(self.ids[position]) & f.ID_MASK
            keep[position] = handle not in last[1] and opaque[handle].matches(
                events.row(int(self.rows[entry]))
            )
            if keep[position]:
                last[1].add(handle)
        kept = np.cumsum(keep)
        ends = np.where(self.ends > 0, kept[np.maximum(self.ends, 1) - 1], 0)
        return Matches(self.rows, ends, self.ids[keep] & np.uint32(f.ID_MASK))


class Events:
    """An Arrow record batch as columns of keys. Only methods of the batch itself are used."""

    def __init__(self, batch: Any, vocabulary: Vocabulary) -> None:
        self._batch = batch
        self.rows: int = batch.num_rows
        self._dense: list[tuple[int, Array, Array | None, Array | None]] = []
        self._listed: list[tuple[Array, Array, Array, Array]] = []
        self._held: list[Array] = []
        self._row: tuple[int, dict[str, object]] = (-1, {})
        for number, name in enumerate(batch.schema.names):
            attribute = vocabulary.attributes.get(name)
            if attribute is not None:
                self._read(batch.column(number), attribute)

    def row(self, number: int) -> dict[str, object]:
        """One event as a mapping."""
        if self._row[0] != number:
            self._row = (number, self._batch.slice(number, 1).to_pylist()[0])
        return self._row[1]

    def _read(self, column: Any, attribute: Attribute) -> None:
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        kind = str(column.type)
        if kind == "null":
            return
        if kind.startswith("dictionary<values="):
            if kind.removeprefix("dictionary<values=").split(",")[0] not in _TEXTS:
                column = column.dictionary_decode()
                kind = str(column.type)
        elif kind.rstrip("0123456789") not in _NUMBERS and kind != "bool" and kind not in _TEXTS:
            raise TypeError(
                f"column {attribute.name!r} holds {kind}, which no filter can read; "
                "cast it to text, a number or a boolean"
            )
        numeric = kind.rstrip("0123456789") in _NUMBERS
        if numeric and not attribute.textual:
            keys = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            if attribute.number >= 0:
                self._dense.append((attribute.number, np.ascontiguousarray(keys), None, None))
            if attribute.present >= 0:
                there = np.where(np.isnan(keys), nan, 1.0)
                self._dense.append((attribute.present, there, None, None))
            return
        coded = column if kind.startswith("dictionary<") else column.dictionary_encode()
        at = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        distinct = coded.dictionary.to_pylist()
        if attribute.named and kind != "bool" and not numeric:
            names = attribute.texts
            keys = np.array([*(names.get(text, nan) for text in distinct), nan])
            self._dense.append((attribute.text, keys.take(at, mode="wrap"), keys, at))
            return
        parts = [attribute.pack(value) for value in distinct]
        start = np.zeros(len(parts) + 1, np.uint32)
        np.cumsum([len(part) >> 4 for part in parts], out=start[1:])
        entries = np.frombuffer(b"".join(parts), _ENTRIES)
        self._listed.append(
            (at, start, entries["column"].astype(np.uint32), entries["key"].astype(np.float64))
        )

    @cached_property
    def _plain_order(self) -> Array:
        return np.arange(self.rows, dtype=np.uint32)

    def tables(self, snapshots: list[Snapshot], sort_by: int) -> tuple[Array, Array, Array]:
        """Addresses of the columns for the kernels, and an order in which to match the rows."""
        order = self._plain_order
        dense = np.zeros((len(self._dense), 2 + f.MAX_SNAPSHOTS), np.int64)
        for row, (column, keys, distinct, at) in zip(dense, self._dense, strict=True):
            row[0], row[1] = column, keys.ctypes.data
            for number, snapshot in enumerate(snapshots):
                source = keys if distinct is None else distinct
                codes = np.empty(len(source), np.uint16)
                code_kernels.codes_of(source, snapshot.table[column].ctypes.data, codes)
                if at is not None:
                    codes = codes.take(at, mode="wrap")
                row[2 + number] = self._hold(codes)
                if column == sort_by and number == 0:
                    order = np.argsort(codes, kind="stable").astype(np.uint32)
        listed = np.zeros((len(self._listed), 4 + f.MAX_SNAPSHOTS), np.int64)
        for row, (at, start, columns, keys) in zip(listed, self._listed, strict=True):
            row[:4] = [a.ctypes.data for a in (at, start, columns, keys)]
            for number, snapshot in enumerate(snapshots):
                codes = np.empty(len(keys), np.uint16)
                code_kernels.codes_by_column(columns, keys, snapshot.table.ctypes.data, codes)
                row[4 + number] = self._hold(codes)
        return dense, listed, order

    def _hold(self, array: Array) -> int:
        self._held.append(array)
        address: int = array.ctypes.data
        return address
