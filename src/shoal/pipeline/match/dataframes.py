"""Millions of subscriptions against any number of events, on Spark.

>>> pairs = match(events, subscriptions)  # doctest: +SKIP

``events`` has a row per event and a column per attribute; ``subscriptions`` has an id and a filter
in the filter language. The subscriptions become an index in a folder, built by Spark's tasks in
shards; every Python worker maps that folder into its memory, so a machine holds one copy, and
only as much of it as is used. Events stay where they are: each batch is matched on all shards.

The result has exactly the pairs for which the filter is true of the event.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from shoal.content.index.vocabulary import readable
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.match.reading import FORMATS, existing, format_of, hints, read, rows_of
from shoal.pipeline.match.values import convertible
from shoal.pipeline.match.worker import (
    BATCH,
    EVENT,
    EVENT_NUMBER,
    MALFORMED,
    MATCHES,
    SUBSCRIPTION,
    Output,
    build_shard,
    match_batches,
    read_filters,
    read_row_groups,
    write_matches,
)
from shoal.pipeline.progress import Progress, Silent
from shoal.pipeline.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

SHARD = 1_000_000
"""Subscriptions in a shard at most: 100 MB of index and, while it is built, 1 GB of memory."""
WORTH_A_TASK = 2_000
"""Filters to read that are worth a task of their own."""
_READABLE = (
    *("string", "boolean", "byte", "short", "integer", "long", "float", "double", "void"),
    *("timestamp", "timestamp_ntz", "date", "decimal"),
)


@dataclass(frozen=True)
class Stored:
    """Subscriptions as an index in a folder."""

    folder: Path
    subscriptions: int
    shards: int
    attributes: tuple[str, ...]
    """What the filters ask about: no other column of an event is read."""
    id_type: Any
    """Spark's type of the subscription ids."""


@dataclass(frozen=True)
class MatchSummary:
    """What a match over files came to."""

    events: int
    subscriptions: int
    matches: int
    out: Path
    malformed: int = 0
    """Lines of the files that are no rows."""
    hints: tuple[str, ...] = ()
    """Attributes that filters ask about and no column has, a line each."""


def store(
    subscriptions: DataFrame,
    folder: Path,
    *,
    id_column: str = "id",
    filter_column: str = "filter",
    shard: int = SHARD,
) -> Stored:
    """Build the index of some subscriptions in a folder that all workers see."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    use_this_python(subscriptions.sparkSession)
    chosen = subscriptions.select(
        _column(subscriptions, id_column, "subscriptions").alias("id"),
        _column(subscriptions, filter_column, "subscriptions").cast("string").alias("filter"),
    )
    twice = chosen.groupBy("id").count().where("count > 1").orderBy("id").limit(1).collect()
    if twice:
        raise PipelineError(
            f"subscription {twice[0]['id']!r} is there {twice[0]['count']} times",
            f"make the ids in {id_column!r} unique",
        )
    count = chosen.count()
    spark = subscriptions.sparkSession
    shards = max(1, -(-count // shard))
    readers = max(shards, min(4 * _cores(spark), -(-count // WORTH_A_TASK)))
    folder.mkdir(parents=True, exist_ok=True)
    kind = chosen.schema["id"].dataType
    read = chosen.repartition(readers).mapInArrow(
        read_filters,
        StructType(
            [
                StructField("id", kind),
                StructField("form", BinaryType()),
                StructField("error", StringType()),
            ]
        ),
    )
    built = read.repartition(shards).mapInArrow(
        partial(build_shard, folder=folder.absolute()),
        "shard long, subscriptions long, attributes string, error string",
    )
    rows = built.collect()
    for row in sorted(rows, key=lambda r: int(r["shard"])):
        if row["error"] is not None:
            raise PipelineError(str(row["error"]), "correct it or leave it out")
    attributes = sorted({name for row in rows for name in json.loads(row["attributes"])})
    _ship(spark, folder)
    return Stored(folder.absolute(), count, len(rows), tuple(attributes), kind)


def match(
    events: DataFrame,
    subscriptions: DataFrame | Stored,
    *,
    event_id: str = "id",
    id_column: str = "id",
    filter_column: str = "filter",
    output: Output = "pairs",
    folder: Path | None = None,
) -> DataFrame:
    """The (event, subscription) pairs that match, or how many per event.

    ``events`` may be a stream. ``folder`` is where the index goes, a temporary one if not given; it
    must outlive the result.
    """
    if not isinstance(subscriptions, Stored):
        place = folder or Path(tempfile.mkdtemp(prefix="shoal-match-"))
        subscriptions = store(
            subscriptions, place, id_column=id_column, filter_column=filter_column
        )
    wanted = _readable(events, subscriptions, event_id)
    run = partial(match_batches, folder=str(subscriptions.folder), event_id=event_id, output=output)
    return wanted.mapInArrow(run, _schema(wanted.schema, subscriptions, event_id, output))


def match_files(
    spark: SparkSession,
    events: Path,
    subscriptions: Path | Stored,
    out: Path,
    *,
    event_id: str | None = None,
    id_column: str = "id",
    filter_column: str = "filter",
    output: Output = "pairs",
    progress: Progress | None = None,
) -> MatchSummary:
    """Match files: Parquet, JSON lines or CSV in, Parquet out.

    Without ``event_id`` events are numbered: by row in Parquet, by Spark elsewhere. What fails
    leaves no folder behind.
    """
    if out.exists() and any(out.iterdir()):
        raise PipelineError(f"{out} is not empty", "give another folder")
    progress = progress if progress is not None else Silent()
    existing(events, "events")
    there = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary(out) as folder:
            malformed = 0
            if isinstance(subscriptions, Stored):
                stored = subscriptions
            else:
                progress.stage("Reading the subscriptions")
                frame, malformed = rows_of(read(spark, subscriptions, "subscriptions"))
                stored = store(frame, folder, id_column=id_column, filter_column=filter_column)
            progress.stage("Reading the events")
            written, columns = _written(spark, events, stored, out, event_id, output)
            progress.stage(f"Matching: {stored.subscriptions:,} subscriptions")
            rows = written.collect()
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        if there:
            out.mkdir()
        raise
    finally:
        progress.stage("")
    return MatchSummary(
        sum(row["events"] for row in rows),
        stored.subscriptions,
        sum(row["matches"] for row in rows),
        out,
        malformed + sum(row["malformed"] for row in rows),
        tuple(hints(stored.attributes, columns)),
    )


def _written(
    spark: SparkSession,
    events: Path,
    stored: Stored,
    out: Path,
    event_id: str | None,
    output: Output,
) -> tuple[DataFrame, list[str]]:
    """What writes the matches of a file when it is collected, and the events' columns."""
    from pyspark.sql import functions as F  # noqa: N812  # as above

    named = event_id or EVENT_NUMBER
    run = partial(
        write_matches, folder=str(stored.folder), event_id=named, output=output,
        out=str(out.absolute()),
    )  # fmt: skip
    schema = "part long, events long, matches long, malformed long"
    if format_of(events) == "parquet":
        tasks, wanted, columns = _row_groups(spark, events, stored, event_id)
        read_them = partial(read_row_groups, columns=wanted, event_id=event_id)
        return tasks.mapInArrow(partial(run, read=read_them), schema), columns
    frame = read(spark, events, "events")
    columns = frame.columns
    if event_id is not None:
        _column(frame, event_id, "events")
    else:
        frame = frame.withColumn(EVENT_NUMBER, F.monotonically_increasing_id())
    if not _splittable(events):
        frame = frame.repartition(2 * _cores(spark))
    return _readable(frame, stored, named).mapInArrow(run, schema), columns


def match_stream(
    events: DataFrame,
    subscriptions: Callable[[], DataFrame],
    sink: Callable[[DataFrame, int], None],
    folder: Path,
    *,
    event_id: str = "id",
    output: Output = "pairs",
) -> DataStreamWriter:
    """Match a stream: ``sink`` gets each micro-batch's matches and its number.

    ``subscriptions`` is asked at each micro-batch for the subscriptions as they now are; where they
    have changed, the index is built anew. Start the writer that is returned.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as above

    held: dict[str, Any] = {"mark": None, "stored": None, "version": 0}

    def each(batch: DataFrame, number: int) -> None:
        now = subscriptions()
        mark = now.agg(
            F.count("*"), F.expr("bit_xor(xxhash64(id, filter))"), F.expr("sum(hash(id, filter))")
        ).collect()[0]
        if tuple(mark) != held["mark"]:
            held["version"] += 1
            stored = store(now, folder / f"subscriptions-{held['version']}")
            if held["stored"] is not None:
                shutil.rmtree(held["stored"].folder, ignore_errors=True)
            held["mark"], held["stored"] = tuple(mark), stored
        sink(match(batch, held["stored"], event_id=event_id, output=output), number)

    return events.writeStream.foreachBatch(each)


def _column(frame: DataFrame, name: str, what: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812  # as above

    if name not in frame.columns:
        raise PipelineError(
            f"the {what} have no column {name!r}", f"there are: {', '.join(frame.columns)}"
        )
    return F.col(_quoted(name))


def _quoted(name: str) -> str:
    """A column's name as Spark takes it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def _readable(events: DataFrame, stored: Stored, event_id: str | None) -> DataFrame:
    """The columns that the filters ask about, if a filter can read them all."""
    for field in events.schema.fields:
        kind = field.dataType.typeName()
        if field.name in stored.attributes and kind not in _READABLE:
            raise PipelineError(
                f"column {field.name!r} of the events holds {kind}, which no filter can read",
                "cast it to string, a number or boolean",
            )
    wanted = [name for name in events.columns if name in stored.attributes]
    if event_id is not None and event_id not in wanted:
        _column(events, event_id, "events")
        wanted.append(event_id)
    wanted += [MALFORMED] if MALFORMED in events.columns else []
    return events.select(*map(_quoted, wanted))


def _schema(events: StructType, stored: Stored, event_id: str, output: Output) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    event = StructField(EVENT, events[event_id].dataType)
    found = (
        StructField(MATCHES, LongType())
        if output == "counts"
        else StructField(SUBSCRIPTION, stored.id_type)
    )
    return StructType([event, found])


def _row_groups(
    spark: SparkSession, path: Path, stored: Stored, event_id: str | None
) -> tuple[DataFrame, list[str], list[str]]:
    """One row per row group of a Parquet file or folder, or part of one; columns to read; all.

    Each file is read by its own types. One that no filter can read is refused here, by name.
    """
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    wanted = dict.fromkeys([*stored.attributes, *([] if event_id is None else [event_id])])
    columns: dict[str, None] = {}
    every: dict[str, None] = {}
    rows, first = [], 0
    id_type: tuple[str, str] | None = None
    for file in files:
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
        if event_id is not None and event_id not in schema.names:
            raise PipelineError(
                f"the events have no column {event_id!r} ({file.name})",
                f"there are: {', '.join(schema.names)}",
            )
        every |= dict.fromkeys(schema.names)
        for field in schema:
            if field.name not in wanted:
                continue
            columns[field.name] = None
            if field.name in stored.attributes and not (
                readable(field.type) or convertible(field.type)
            ):
                raise PipelineError(
                    f"column {field.name!r} of the events holds {field.type} from row {first} on "
                    f"({file.name}), which no filter can read",
                    "cast it to string, a number or boolean",
                )
            if field.name == event_id:
                id_type = id_type or (str(field.type), file.name)
                if str(field.type) != id_type[0]:
                    raise PipelineError(
                        f"column {event_id!r} of the events holds {id_type[0]} in {id_type[1]} and "
                        f"{field.type} from row {first} on ({file.name})",
                        "give the ids one type",
                    )
        for group in range(metadata.num_row_groups):
            rows.append((str(file.absolute()), group, first, metadata.row_group(group).num_rows))
            first += metadata.row_group(group).num_rows
    tasks = 4 * _cores(spark)
    share = max(BATCH, -(-first // (tasks * BATCH)) * BATCH)  # a large row group is split up
    parts = [
        (file, group, start + begin, begin, min(begin + share, size))
        for file, group, start, size in rows
        for begin in range(0, size, share)
    ]
    bins = max(1, min(len(parts), tasks))
    frame = spark.createDataFrame(
        [(number % bins, *part) for number, part in enumerate(parts)],
        "bin int, file string, row_group int, first long, begin long, end long",
    )
    return frame.repartitionById(bins, "bin"), list(columns), list(every)


def _splittable(path: Path) -> bool:
    return path.is_dir() or path.suffix in FORMATS


def _cores(spark: SparkSession) -> int:
    return int(spark.sparkContext.defaultParallelism)


def _ship(spark: SparkSession, folder: Path) -> None:
    """Workers on other machines get the index with the job's files."""
    if not str(spark.sparkContext.master).startswith("local["):
        spark.sparkContext.addFile(str(folder.absolute()), recursive=True)


@contextmanager
def _temporary(beside: Path) -> Iterator[Path]:
    """A folder beside the output, which all workers see, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=".index-", dir=beside.absolute().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
