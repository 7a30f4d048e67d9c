"""Reads files of events and subscriptions as DataFrames.

CSV is read as RFC 4180 writes it: quotes are doubled, and a quoted value may hold newlines. A
malformed line (no JSON, or too many or too few values) is left out and counted.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.match.worker import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}
_PACKED: Final = (".gz", ".zst", ".bz2")


def read(spark: SparkSession, path: Path) -> DataFrame:
    """The rows of a file or folder; of JSON and CSV, malformed lines are in :data:`MALFORMED`."""
    from pyspark.sql.types import StringType, StructField, StructType

    kind = format_of(path)
    literal = "".join(f"\\{c}" if c in "[]{}*?\\" else c for c in str(path.absolute()))
    if kind == "parquet":
        return spark.read.parquet(literal)
    reader = spark.read.option("columnNameOfCorruptRecord", MALFORMED)
    if kind == "csv":
        # Without pruning: whether a line has too many values shows only if all are read.
        reader = reader.options(header=True, multiLine=True, quote='"', escape='"')
        reader = reader.option("columnPruning", False)
        schema = reader.option("inferSchema", True).csv(literal).schema
    else:
        schema = reader.json(literal).schema
    fields = [field for field in schema.fields if field.name != MALFORMED]
    if not fields:  # no row at all: the file is empty, or no line of it is JSON
        return spark.read.text(literal).withColumnRenamed("value", MALFORMED)
    reader = reader.schema(StructType([*fields, StructField(MALFORMED, StringType())]))
    return reader.csv(literal) if kind == "csv" else reader.json(literal)


def rows_of(lines: DataFrame) -> tuple[DataFrame, int]:
    """The well-formed rows, and the number of malformed lines; keeps all in memory."""
    from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

    if MALFORMED not in lines.columns:
        return lines, 0
    kept = lines.persist()
    broken = F.col(MALFORMED).isNotNull()
    return kept.where(~broken).drop(MALFORMED), kept.where(broken).count()


def format_of(path: Path) -> str:
    """``parquet``, ``json`` or ``csv``, by a file's name or by the files of a folder."""
    if path.is_dir():
        inside = {format_of(file) for file in path.iterdir() if file.suffix in {*FORMATS, *_PACKED}}
        if len(inside) == 1:
            return inside.pop()
        raise PipelineError(
            f"{path} holds no data or several formats", "keep one of Parquet, JSON and CSV in it"
        )
    suffix = next((s for s in reversed(path.suffixes) if s not in _PACKED), "")
    if suffix not in FORMATS:
        raise PipelineError(
            f"{path} is of no known format", f"end its name in {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[suffix]


def hints(attributes: Iterable[str], columns: Iterable[str]) -> list[str]:
    """A line for each attribute that filters name and no column has."""
    there = list(columns)
    folded = {name.lower(): name for name in there}
    found = []
    for name in sorted(set(attributes) - set(there)):
        line = f"filters ask about '{name}', which no column of the events is called"
        if name.lower() in folded:
            other = folded[name.lower()]
            line += (
                f"; there is '{other}', but filters read names in lower case: rename the column, "
                f"or write it in backquotes in the filters, `{other}`"
            )
        elif near := get_close_matches(name, there, 1):
            line += f"; did you mean '{near[0]}'?"
        found.append(line)
    return found
