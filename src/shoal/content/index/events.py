"""Many events on their way to the kernels, from an Arrow record batch."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from shoal.content.index import codes as code_kernels
from shoal.content.index import fields as f
from shoal.content.index.segments import Array, Snapshot
from shoal.content.index.vocabulary import NUMBERS, TEXTS, Attribute, Vocabulary, readable

SORTED, SORT_BITS = 1 << 14, 7  # so many events are sorted by the presence of so many attributes
_ENTRIES = np.dtype([("column", "<i8"), ("key", "<f8")])


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
        if not readable(column.type):
            raise TypeError(
                f"column {attribute.name!r} holds {kind}, which no filter can read; "
                "cast it to text, a number or a boolean"
            )
        named = kind.removeprefix("dictionary<values=").split(",")[0]
        if named != kind and named not in TEXTS:
            column = column.dictionary_decode()
            kind = str(column.type)
        numeric = kind.rstrip("0123456789") in NUMBERS
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
        known = {} if numeric or kind == "bool" else attribute.memory  # where 1 is not True
        parts = [known.get(value) or attribute.pack(value) for value in distinct]
        start = np.zeros(len(parts) + 1, np.uint32)
        np.cumsum([len(part) >> 4 for part in parts], out=start[1:])
        entries = np.frombuffer(b"".join(parts), _ENTRIES)
        self._listed.append(
            (at, start, entries["column"].astype(np.uint32), entries["key"].astype(np.float64))
        )

    def by_presence(self, uses: Array) -> Array:
        """An order in which events that have the same of the most used attributes are neighbours.

        ``uses``: how often each column is a key. No event moves far, so that memory is still read
        more or less from front to back.
        """
        found = [(uses[column], keys) for column, keys, _, _ in self._dense]
        found += [(uses[np.unique(columns)].sum(), at) for at, _, columns, _ in self._listed]
        found.sort(key=lambda one: -one[0])
        kind = np.arange(self.rows) // SORTED
        bits = 0
        for often, values in found:
            there = values >= 0 if values.dtype == np.int32 else values == values
            if bits < SORT_BITS and often and not there.all():
                kind = 2 * kind + there
                bits += 1
        return np.argsort(kind.astype(np.uint16), kind="stable").astype(np.uint32)

    def tables(self, snapshots: list[Snapshot], sort_by: int) -> tuple[Array, Array, Array]:
        """Addresses of the columns for the kernels, and an order in which to match the rows."""
        order = np.arange(self.rows, dtype=np.uint32)
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
