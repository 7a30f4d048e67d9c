"""What Spark's Python workers do in a match: build shards of the index, match batches on them."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.content import AttributeFilter
from shoal.content.index import MatchIndex
from shoal.content.index.storage import load, save
from shoal.content.language import FilterError
from shoal.pipeline.match.values import converted
from shoal.pipeline.spark.workers import settle
from shoal.record import columns

Output: TypeAlias = Literal["pairs", "counts"]
EVENT, SUBSCRIPTION, MATCHES = "event", "subscription", "matches"
BATCH = 1 << 16  # rows read at a time; parts of a row group begin at multiples of it
ROW_GROUP = 1 << 20  # rows that a worker gathers before it writes them

BUILT = pa.schema(columns("shard int64, subscriptions int64, attributes string, error string"))
WRITTEN = pa.schema(columns("part int64, events int64, matches int64, malformed int64"))
MALFORMED = "_malformed"
"""Name of the column that holds a malformed line as it is in its file."""


def read_filters(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bring the filters of (id, filter) rows into normal form: most of the work of building."""
    for batch in batches:
        forms, errors = [], []
        for identity, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            form, error = _read_filter(identity, text)
            forms.append(form)
            errors.append(error)
        yield pa.RecordBatch.from_arrays(
            [batch.column(0), pa.array(forms, pa.binary()), pa.array(errors, pa.string())],
            ["id", "form", "error"],
        )


def _read_filter(identity: object, text: str | None) -> tuple[bytes | None, str | None]:
    if identity is None:
        return None, f"a subscription has no id (its filter: {text})"
    if text is None:
        return None, f"subscription {identity!r} has no filter"
    try:
        return pickle.dumps(AttributeFilter(text).normal), None
    except FilterError as error:
        return None, f"subscription {identity!r}: {error}"


def build_shard(batches: Iterable[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Build the index of one task's subscriptions; gives a row that describes it, or an error."""
    from pyspark import TaskContext

    context = TaskContext.get()
    shard = context.partitionId() if context is not None else 0
    index, ids = MatchIndex(), []
    errors: list[str] = []
    for batch in batches:
        errors += [error for error in batch.column(2).to_pylist() if error is not None]
        if not errors:
            ids.append(batch.column(0))
            index.insert_many(map(pickle.loads, batch.column(1).to_pylist()))
    if index and not errors:
        unfinished = folder / f".{shard:05d}-{context.attemptNumber() if context else 0}"
        save(index, unfinished)
        table = pa.table({"id": pa.chunked_array(ids)})
        with (
            pa.OSFile(str(unfinished / "ids.arrow"), "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table.combine_chunks())
        final = folder / f"{shard:05d}"
        shutil.rmtree(final, ignore_errors=True)  # left by an attempt that died
        unfinished.rename(final)
    if index or errors:
        yield pa.record_batch(
            {
                "shard": [shard],
                "subscriptions": [len(index)],
                "attributes": [json.dumps(sorted(index.vocabulary.attributes))],
                "error": pa.array([min(errors, default=None)], pa.string()),
            },
            schema=BUILT,
        )


@dataclass
class Shard:
    """A part of the subscriptions: an index, and the id of each handle."""

    index: MatchIndex
    ids: pa.Array
    numbers: Any = None
    """The ids as an array if they are integers: looking them up is then much faster."""

    @staticmethod
    def open(folder: Path) -> Shard:
        """Map a shard's files into memory."""
        table = pa.ipc.open_file(pa.memory_map(str(folder / "ids.arrow"))).read_all()
        ids = table.column(0).combine_chunks()
        ids = ids.chunk(0) if isinstance(ids, pa.ChunkedArray) else ids
        numeric = pa.types.is_integer(ids.type)
        return Shard(load(folder), ids, ids.to_numpy() if numeric else None)

    def names(self, handles: Any) -> pa.Array:
        """The subscription ids of handles."""
        if self.numbers is not None:
            return pa.array(self.numbers[handles])
        return self.ids.take(pa.array(handles))


@lru_cache(maxsize=4)
def open_shards(folder: str) -> list[Shard]:
    """The shards of a folder, cached per worker process; on other machines, of the folder sent."""
    path = Path(folder)
    if not path.exists():
        from pyspark import SparkFiles

        path = Path(SparkFiles.get(path.name))
    return [Shard.open(each) for each in sorted(path.glob("[0-9]*"))]


def named(
    batches: Iterable[pa.RecordBatch],
    names: list[str],
    then: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Give numbered columns their names, and call ``then``."""
    return then(batch.rename_columns(names) for batch in batches)


def match_batches(
    batches: Iterable[pa.RecordBatch], folder: str, event_id: str, output: Output
) -> Iterator[pa.RecordBatch]:
    """Match each batch on every shard."""
    shards = open_shards(folder)
    for batch in batches:
        events = batch.column(batch.schema.names.index(event_id))
        readable = converted(batch)
        counts = np.zeros(batch.num_rows, np.int64)
        for shard in shards:
            for found in shard.index.stream(readable):
                if output == "counts":
                    counts[found.rows] += found.counts
                elif len(found.ids):
                    rows, handles = found.pairs()
                    yield pa.RecordBatch.from_arrays(
                        [events.take(pa.array(rows)), shard.names(handles)], [EVENT, SUBSCRIPTION]
                    )
        if output == "counts":
            yield pa.RecordBatch.from_arrays([events, pa.array(counts)], [EVENT, MATCHES])
    settle()  # by now all that matching needs is loaded


def write_matches(
    batches: Iterable[pa.RecordBatch],
    folder: str,
    event_id: str,
    output: Output,
    out: str,
    read: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Match a task's batches, and write the matches to a Parquet file of its own."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part = context.partitionId() if context is not None else 0
    target = Path(out) / f"part-{part:05d}.parquet"
    unfinished = target.with_name(f".{target.name}.{context.attemptNumber() if context else 0}")
    events = matches = malformed = 0

    def counted(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal events, malformed
        for batch in source:
            lines = batch.num_rows
            if MALFORMED in batch.schema.names:
                batch = batch.filter(batch.column(MALFORMED).is_null()).drop_columns([MALFORMED])
            events += batch.num_rows
            malformed += lines - batch.num_rows
            yield batch

    writer: pq.ParquetWriter | None = None
    held: list[pa.RecordBatch] = []
    rows = 0
    source = counted(batches if read is None else read(batches))
    for found in match_batches(source, folder, event_id, output):
        matches += found.num_rows if output == "pairs" else int(found.column(1).to_numpy().sum())
        held.append(found)
        rows += found.num_rows
        if rows >= ROW_GROUP:
            writer = _write(writer, unfinished, held)
            held, rows = [], 0
    if held:
        writer = _write(writer, unfinished, held)
    if writer is not None:
        writer.close()
        unfinished.rename(target)
    if events or malformed:
        row = {"part": part, "events": events, "matches": matches, "malformed": malformed}
        yield pa.RecordBatch.from_pylist([row], schema=WRITTEN)


def _write(
    writer: pq.ParquetWriter | None, path: Path, held: list[pa.RecordBatch]
) -> pq.ParquetWriter:
    table = pa.Table.from_batches(held)
    if writer is None:
        # Event numbers ascend: their differences take a third of the time and half the space.
        numbers = pa.types.is_integer(table.schema.field(EVENT).type)
        writer = pq.ParquetWriter(
            str(path), table.schema, compression="zstd",
            use_dictionary=[name for name in table.schema.names if name != EVENT],
            column_encoding={EVENT: "DELTA_BINARY_PACKED"} if numbers else None,
        )  # fmt: skip
    writer.write_table(table)
    return writer


def read_row_groups(
    tasks: Iterable[pa.RecordBatch], columns: list[str], event_id: str | None
) -> Iterator[pa.RecordBatch]:
    """Rows ``begin`` to ``end`` of the named row groups; without an id column they are numbered."""
    for task in tasks:
        for row in task.to_pylist():
            at, number, end = 0, row["first"], row["end"]
            kept = [  # texts stay the dictionaries they are stored as
                name
                for name in pq.read_schema(row["file"]).names
                if name in columns and name != event_id
            ]
            with pq.ParquetFile(row["file"], read_dictionary=kept) as file:
                for batch in file.iter_batches(
                    row_groups=[row["row_group"]], columns=columns, batch_size=BATCH
                ):
                    before, at = at, at + batch.num_rows
                    if at <= row["begin"]:
                        continue
                    if before >= end:
                        break
                    if event_id is None:
                        numbers = pa.array(np.arange(number, number + batch.num_rows))
                        batch = pa.RecordBatch.from_arrays(
                            [*batch.columns, numbers], [*batch.schema.names, EVENT_NUMBER]
                        )
                    number += batch.num_rows
                    yield batch


EVENT_NUMBER = "__event_number"
