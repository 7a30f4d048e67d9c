"""Filters on Spark: match events with subscriptions, as DataFrames and in SQL.

::

    from shoal import spark as shoal_spark

    with shoal_spark.session() as spark:                      # or any session of your own
        pairs = shoal_spark.match(events, subscriptions)      # event, subscription
        shoal_spark.register(spark)
        spark.sql("SELECT * FROM events WHERE shoal_matches('price > 10', struct(*))")

``match`` takes millions of subscriptions and any number of events, at rest or as a stream;
``shoal_matches`` tries one filter on each row.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.content import AttributeFilter, FilterError
from shoal.pipeline.match.dataframes import Stored, match, match_stream, store
from shoal.pipeline.match.values import converted
from shoal.pipeline.spark.session import spark_session as session
from shoal.pipeline.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Stored", "match", "match_stream", "register", "session", "store"]


def register(spark: SparkSession, name: str = "shoal_matches") -> None:
    """Make ``shoal_matches(filter, event)`` a function of SQL.

    ``event`` is a struct whose fields are the attributes, such as ``struct(*)``; times, dates and
    decimals are read as :func:`match` reads them. The answer is null where the filter or the event
    is. A filter that cannot be read is an error that says why.
    """
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # not in its stubs

    use_this_python(spark)
    spark.udf.register(name, arrow_udf(_matches, "boolean"))


def _matches(filters: pa.Array, events: pa.Array) -> pa.Array:
    """Whether each filter matches the event beside it."""
    try:
        text = str(filters.type) in ("string", "large_string", "null")
        if not (text and pa.types.is_struct(events.type)):
            raise TypeError("shoal_matches takes a filter as text and an event as a struct(…)")
        readable = converted(pa.RecordBatch.from_struct_array(events)).to_pylist()
        found = [
            None if filter_ is None or not there else _read(filter_).matches(event)
            for filter_, there, event in zip(
                filters.to_pylist(), events.is_valid().to_pylist(), readable, strict=True
            )
        ]
    except (FilterError, TypeError):
        # The user's mistake: Spark gives the error alone, no traceback of this worker, now ending.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
    return pa.array(found, pa.bool_())


@lru_cache(maxsize=10_000)
def _read(text: str) -> AttributeFilter:
    return AttributeFilter(text)
