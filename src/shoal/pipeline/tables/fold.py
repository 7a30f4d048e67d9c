"""Folds the files of many small runs into a few larger ones, so that Spark reads them in no time.

A part is written beside the files that it replaces, its ``runs`` file last. From that moment the
part counts and the single files do not, whether or not they have been removed yet: a process killed
at any point loses nothing and doubles nothing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.tables.store import PART, Inventory, Store
from shoal.record import SCHEMAS

FEWEST = 64
"""Fewer runs than this are not worth folding."""
MOST = 2000
LARGEST = 16 << 20
"""A run of more bytes than this stays by itself."""
PART_BYTES = 256 << 20
ROWS = 1 << 18
"""Rows of a row group."""
AHEAD = 64
"""Files read ahead of the writer."""


def fold(store: Store, found: Inventory, fewest: int = FEWEST, order: Sequence[str] = ()) -> int:
    """Fold small runs into parts; how many were. The inventory is brought up to date.

    Runs are folded in the ``order`` given, that of their plan: the runs of an experiment share a
    few parts, and a measure of one experiment reads no others.
    """
    folded = 0
    for runs in _chunks(store, found, order):
        if len(runs) < fewest:
            continue
        part = f"{PART}{uuid.uuid4().hex[:12]}"
        tables = sorted({table for run in runs for table in found.loose[run]})
        for table in tables:
            having = [run for run in runs if table in found.loose[run]]
            _write_part(store, table, part, having, [])
        _write_part(store, "runs", part, runs, tables)
        for run in runs:
            for table in ["runs", *found.loose.pop(run)]:
                with suppress(OSError):
                    store.path(table, run).unlink()
            found.folded[run] = part
        found.parts[part] = tables
        folded += len(runs)
    return folded


def _chunks(store: Store, found: Inventory, order: Sequence[str]) -> Iterator[list[str]]:
    """Small loose runs, in lots that make one part each."""
    runs: list[str] = []
    total = 0
    for run in dict.fromkeys([*(run for run in order if run in found.loose), *sorted(found.loose)]):
        size = sum(store.path(table, run).stat().st_size for table in found.loose[run])
        if size > LARGEST:
            continue
        if runs and (len(runs) == MOST or total + size > PART_BYTES):
            yield runs
            runs, total = [], 0
        runs.append(run)
        total += size
    if runs:
        yield runs


def _write_part(store: Store, table: str, part: str, runs: list[str], tables: list[str]) -> None:
    path = store.path(table, part)
    draft = path.with_name(f".{path.name}")
    schema = SCHEMAS[table].with_metadata({"tables": " ".join(tables)} if tables else None)
    paths = [store.path(table, run) for run in runs]
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        pq.ParquetWriter(draft, schema, compression="zstd") as writer,
    ):
        waiting: list[pa.Table] = []
        rows = 0
        for piece in _in_turn(pool, paths):
            waiting.append(piece)
            rows += piece.num_rows
            if rows >= ROWS:
                writer.write_table(_joined(waiting, schema))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(_joined(waiting, schema))
    _to_disk(draft)  # the single files are about to go
    draft.replace(path)
    _to_disk(path.parent)


def _in_turn(pool: ThreadPoolExecutor, paths: list[Path]) -> Iterator[pa.Table]:
    """The files' tables in order, a few read ahead."""
    for start in range(0, len(paths), AHEAD):
        yield from pool.map(_read, paths[start : start + AHEAD])


def _read(path: Path) -> pa.Table:
    # A small file is read fastest in one piece.
    return pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)


def _joined(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks().cast(schema)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
