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

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shoal.content import AttributeFilter
from shoal.pipeline.match.dataframes import Stored, match, match_stream, store
from shoal.pipeline.spark.session import spark_session as session
from shoal.pipeline.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["Stored", "match", "match_stream", "register", "session", "store"]


def register(spark: SparkSession, name: str = "shoal_matches") -> None:
    """Make ``shoal_matches(filter, event)`` a function of SQL.

    ``event`` is a struct whose fields are the attributes, such as ``struct(*)``. The answer is null
    where the filter or the event is; a filter that cannot be read is an error that says why.
    """
    from pyspark.sql.types import BooleanType

    use_this_python(spark)
    spark.udf.register(name, _matches, BooleanType())


def _matches(filter: str | None, event: Row | None) -> bool | None:
    if filter is None or event is None:
        return None
    return _read(filter).matches({key: _plain(value) for key, value in event.asDict().items()})


@lru_cache(maxsize=10_000)
def _read(text: str) -> AttributeFilter:
    return AttributeFilter(text)


def _plain(value: Any) -> Any:
    """A value of Spark's as filters read it; see :mod:`shoal.pipeline.match.values`."""
    import datetime
    import decimal

    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value.isoformat() if isinstance(value, datetime.date) else value
