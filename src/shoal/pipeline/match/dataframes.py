"""Millions of subscriptions against any number of events, on Spark.

>>> pairs = match(events, subscriptions)  # doctest: +SKIP

``events`` has a row per event and a column per attribute; ``subscriptions`` has an id and a filter
in the filter language. Spark's tasks build an index of the subscriptions in a folder, in shards.
Every Python worker maps that folder into its memory, so a machine holds one copy, and only as much
of it as is used. Events stay where they are: each batch is matched on all shards.

The result has exactly the pairs for which the filter is true of the event.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.match.worker import (
    EVENT,
    EVENT_NUMBER,
    MALFORMED,
    MATCHES,
    SUBSCRIPTION,
    Output,
    build_shard,
    match_batches,
    named,
    read_filters,
)
from shoal.pipeline.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

SHARD = 1_000_000
"""Most subscriptions in a shard: 100 MB of index and, while it is built, 1 GB of memory."""
WORTH_A_TASK = 2_000
"""Filters per task that reads them."""
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
    """Attributes that the filters name; no other column of an event is read."""
    id_type: Any
    """Spark's type of the subscription ids."""


def store(
    subscriptions: DataFrame,
    folder: Path | str,
    *,
    id_column: str = "id",
    filter_column: str = "filter",
    shard: int = SHARD,
) -> Stored:
    """Build an index of subscriptions in a folder that all workers see."""
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    use_this_python(subscriptions.sparkSession)
    chosen = subscriptions.select(
        column(subscriptions, id_column, "subscriptions").alias("id"),
        column(subscriptions, filter_column, "subscriptions").cast("string").alias("filter"),
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
    readers = max(shards, min(4 * cores(spark), -(-count // WORTH_A_TASK)))
    folder = Path(folder)
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
    folder: Path | str | None = None,
) -> DataFrame:
    """The (event, subscription) pairs that match, or how many per event.

    ``events`` may be a stream. ``folder`` is where the index goes, a temporary one if not given; it
    must outlive the result.
    """
    if output not in get_args(Output):
        raise PipelineError(f"unknown output {output!r}", "give 'pairs' or 'counts'")
    if not isinstance(subscriptions, Stored):
        if not hasattr(subscriptions, "sparkSession"):
            raise TypeError("the subscriptions must be a DataFrame, or what store() returned")
        place = folder or Path(tempfile.mkdtemp(prefix="shoal-match-"))
        subscriptions = store(
            subscriptions, place, id_column=id_column, filter_column=filter_column
        )
    wanted, names = readable_columns(events, subscriptions, event_id)
    run = partial(match_batches, folder=str(subscriptions.folder), event_id=event_id, output=output)
    schema = _schema(events.schema, subscriptions, event_id, output)
    return wanted.mapInArrow(partial(named, names=names, then=run), schema)


def match_stream(
    events: DataFrame,
    subscriptions: Callable[[], DataFrame],
    sink: Callable[[DataFrame, int], None],
    folder: Path | str,
    *,
    event_id: str = "id",
    output: Output = "pairs",
) -> DataStreamWriter:
    """Match a stream: ``sink`` gets each micro-batch's matches and its number.

    ``subscriptions`` is called for each micro-batch and returns the present subscriptions; if they
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
            stored = store(now, Path(folder) / f"subscriptions-{held['version']}")
            if held["stored"] is not None:
                shutil.rmtree(held["stored"].folder, ignore_errors=True)
            held["mark"], held["stored"] = tuple(mark), stored
        sink(match(batch, held["stored"], event_id=event_id, output=output), number)

    return events.writeStream.foreachBatch(each)


def column(frame: DataFrame, name: str, what: str) -> Any:
    """A column by its name; if there is none, an error that lists the columns."""
    from pyspark.sql import functions as F  # noqa: N812  # as above

    if name not in frame.columns:
        there = ", ".join(each for each in frame.columns if each != MALFORMED)
        raise PipelineError(
            f"the {what} have no column {name!r}",
            f"there are: {there}" if there else "the file is empty or has no rows: give another",
        )
    return F.col(_quoted(name))


def _quoted(name: str) -> str:
    """A column's name in Spark's quotes."""
    return f"`{name.replace('`', '``')}`"


def readable_columns(
    events: DataFrame, stored: Stored, event_id: str | None
) -> tuple[DataFrame, list[str]]:
    """The columns that the filters name, if a filter can read them all, and these names.

    In the DataFrame the columns are numbered: Spark cannot pass on one with a dot in its name.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as above

    for field in events.schema.fields:
        kind = field.dataType.typeName()
        if field.name in stored.attributes and kind not in _READABLE:
            raise PipelineError(
                f"column {field.name!r} of the events holds {kind}, which no filter can read",
                "cast it to string, a number or boolean",
            )
    wanted = [name for name in events.columns if name in stored.attributes]
    if event_id is not None and event_id not in wanted:
        column(events, event_id, "events")
        wanted.append(event_id)
    if MALFORMED in events.columns:
        # Spark reads no file for that column alone, so some other is read with it.
        others = [name for name in events.columns if name not in (MALFORMED, EVENT_NUMBER)]
        wanted += others[:1] if not set(wanted) & set(others) else []
        wanted.append(MALFORMED)
    columns = [F.col(_quoted(name)).alias(f"c{number}") for number, name in enumerate(wanted)]
    return events.select(*columns), wanted


def _schema(events: StructType, stored: Stored, event_id: str, output: Output) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    event = StructField(EVENT, events[event_id].dataType)
    found = (
        StructField(MATCHES, LongType())
        if output == "counts"
        else StructField(SUBSCRIPTION, stored.id_type)
    )
    return StructType([event, found])


def cores(spark: SparkSession) -> int:
    """The cores that Spark has."""
    return int(spark.sparkContext.defaultParallelism)


def _ship(spark: SparkSession, folder: Path) -> None:
    """Send the index to workers on other machines, with the job's files."""
    if not str(spark.sparkContext.master).startswith("local["):
        spark.sparkContext.addFile(str(folder.absolute()), recursive=True)
