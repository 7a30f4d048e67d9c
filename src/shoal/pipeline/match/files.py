"""Files of events against files of subscriptions, on Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.content.index.vocabulary import readable
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.match.dataframes import Stored, column, cores, readable_columns, store
from shoal.pipeline.match.reading import FORMATS, format_of, hints, read, rows_of
from shoal.pipeline.match.values import convertible
from shoal.pipeline.match.worker import (
    BATCH,
    EVENT,
    EVENT_NUMBER,
    MALFORMED,
    MATCHES,
    SUBSCRIPTION,
    Output,
    named,
    read_row_groups,
    write_matches,
)
from shoal.pipeline.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class MatchSummary:
    """Summary of a match over files."""

    events: int
    subscriptions: int
    matches: int
    out: Path
    malformed: int = 0
    """Lines of the files that are no rows."""
    hints: tuple[str, ...] = ()
    """A line for each attribute that filters name and no column has."""


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
    check_paths(events, subscriptions, out)
    progress = progress or Progress()
    there = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary(out) as folder:
            malformed = 0
            if isinstance(subscriptions, Stored):
                stored = subscriptions
            else:
                progress.stage("Reading the subscriptions")
                frame, malformed = rows_of(read(spark, subscriptions))
                stored = store(frame, folder, id_column=id_column, filter_column=filter_column)
            progress.stage("Reading the events")
            written, columns, id_type = _written(spark, events, stored, out, event_id, output)
            progress.stage(f"Matching: {stored.subscriptions:,} subscriptions")
            rows = written.collect()
            if not any(out.glob("*.parquet")):
                _write_empty(out, id_type, stored, output)
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


def check_paths(events: Path, subscriptions: Path | Stored, out: Path) -> None:
    """An error if there are no such files, or they are no tables, or the folder is not empty."""
    if out.exists() and any(out.iterdir()):
        raise PipelineError(f"{out} is not empty", "give another folder")
    for path, what in ((events, "events"), (subscriptions, "subscriptions")):
        if isinstance(path, Path):
            if not path.exists():
                raise PipelineError(f"{path} does not exist", f"name a file or folder of {what}")
            format_of(path)


def _written(
    spark: SparkSession,
    events: Path,
    stored: Stored,
    out: Path,
    event_id: str | None,
    output: Output,
) -> tuple[DataFrame, list[str], pa.DataType]:
    """A DataFrame that writes the matches when collected; the events' columns; their ids' type."""
    from pyspark.sql import functions as F  # noqa: N812  # as above
    from pyspark.sql.pandas.types import to_arrow_type

    identity = event_id or EVENT_NUMBER
    run = partial(
        write_matches, folder=str(stored.folder), event_id=identity, output=output,
        out=str(out.absolute()),
    )  # fmt: skip
    schema = "part long, events long, matches long, malformed long"
    if format_of(events) == "parquet":
        tasks, some, columns, id_type = _row_groups(spark, events, stored, event_id)
        read_them = partial(read_row_groups, columns=some, event_id=event_id)
        return tasks.mapInArrow(partial(run, read=read_them), schema), columns, id_type
    frame = read(spark, events)
    columns = [name for name in frame.columns if name != MALFORMED]
    if event_id is not None:
        column(frame, event_id, "events")
    else:
        frame = frame.withColumn(EVENT_NUMBER, F.monotonically_increasing_id())
    if not events.is_dir() and events.suffix not in FORMATS:  # packed: Spark cannot split it
        frame = frame.repartition(2 * cores(spark))
    wanted, names = readable_columns(frame, stored, identity)
    id_type = to_arrow_type(frame.schema[identity].dataType)
    return wanted.mapInArrow(partial(named, names=names, then=run), schema), columns, id_type


def _write_empty(out: Path, id_type: pa.DataType, stored: Stored, output: Output) -> None:
    """Write a file without rows, as Parquet's readers accept no empty folder."""
    from pyspark.sql.pandas.types import to_arrow_type

    found = (
        (MATCHES, pa.int64())
        if output == "counts"
        else (SUBSCRIPTION, to_arrow_type(stored.id_type))
    )
    pq.write_table(pa.schema([(EVENT, id_type), found]).empty_table(), out / "part-00000.parquet")


def _row_groups(
    spark: SparkSession, path: Path, stored: Stored, event_id: str | None
) -> tuple[DataFrame, list[str], list[str], pa.DataType]:
    """One row per row group or part of one; the columns to read; all columns; the ids' type.

    Each file is read by its own types. A type that no filter can read is refused by the file's
    name.
    """
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    wanted = dict.fromkeys([*stored.attributes, *([] if event_id is None else [event_id])])
    columns: dict[str, None] = {}
    every: dict[str, None] = {}
    rows, first = [], 0
    id_type: tuple[pa.DataType, str] | None = None
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
                id_type = id_type or (field.type, file.name)
                if field.type != id_type[0]:
                    raise PipelineError(
                        f"column {event_id!r} of the events holds {id_type[0]} in {id_type[1]} and "
                        f"{field.type} from row {first} on ({file.name})",
                        "give the ids one type",
                    )
        for group in range(metadata.num_row_groups):
            rows.append((str(file.absolute()), group, first, metadata.row_group(group).num_rows))
            first += metadata.row_group(group).num_rows
    tasks = 4 * cores(spark)
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
    kind = id_type[0] if id_type is not None else pa.int64()
    return frame.repartitionById(bins, "bin"), list(columns), list(every), kind


@contextmanager
def _temporary(beside: Path) -> Iterator[Path]:
    """A temporary folder beside the output, where all workers see it."""
    folder = Path(tempfile.mkdtemp(prefix=".index-", dir=beside.absolute().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
