"""Converts columns of types that filters do not know to types that they do.

A timestamp becomes the text of RFC 3339 in UTC (``2026-11-17T08:30:00.25Z``; without the ``Z`` if
the column has no time zone), a date its ISO text, and a decimal, which is how Spark reads integers
beyond 64 bits, the nearest float. ``LIKE '2026-11-%'`` asks for a month.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def convertible(kind: pa.DataType) -> bool:
    """Whether a column of this type is converted."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind))


def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with its timestamps, dates and decimals converted."""
    if not any(convertible(field.type) for field in batch.schema):
        return batch
    columns = [_convert(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _convert(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.string())
    if not pa.types.is_timestamp(kind):
        return column
    zone = kind.tz
    text = pc.strftime(column.cast(pa.timestamp(kind.unit)), format="%Y-%m-%dT%H:%M:%S")
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")  # fractions as short as they are
    text = pc.replace_substring_regex(text, r"\.$", "")
    return pc.binary_join_element_wise(text, "Z", "") if zone is not None else text
