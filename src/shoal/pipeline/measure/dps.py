"""Measures of DPS (Anceaume et al.): how far events go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.registry import (
    EVER,
    Tables,
    between,
    done,
    measure,
    over,
    tidy,
    total,
    with_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _percent(column: str, since: float = 0.0) -> Column:
    of_span = F.when(F.col("time") >= since, F.col(column))
    return 100 * F.try_divide(F.mean(of_span), F.max("dispatchers"))


@over("reach", unit="%")
def matching_nodes() -> Column:
    """Nodes with a subscription that matches an event, on average."""
    return _percent("matching")


@over("reach", unit="%")
def contacted_nodes() -> Column:
    """Nodes that an event is sent to, on average, wanted there or not."""
    return _percent("contacted")


@over("reach", unit="%")
def false_positives(since: float = 0.0) -> Column:
    """Nodes that are sent an event that no subscription of theirs matches, on average."""
    return _percent("in_vain", since)


@over("reach", unit="%")
def unaccounted_nodes() -> Column:
    """Nodes contacted that are neither false positives nor matching, on average."""
    return _percent("contacted") - _percent("matching") - _percent("in_vain")


@measure("routes", "reach", unit="%")
def contacted_members(plan: DataFrame, tables: Tables) -> DataFrame:
    """Nodes contacted without the leaders of groups that an event does not match, on average."""
    runs = done(plan, tables)
    ends = with_rows(runs, tables["routes"]).where(F.col("why") == "no match")
    cut = ends.groupBy("run_id").agg(F.sum("count").alias("cut"))
    reach = with_rows(runs, tables["reach"]).groupBy("run_id")
    seen = reach.agg(
        F.sum("contacted").alias("contacted"),
        F.count("contacted").alias("events"),
        F.max("dispatchers").alias("nodes"),
    )
    kept = F.col("contacted") - F.coalesce(F.col("cut"), F.lit(0))
    share = 100 * F.try_divide(kept, F.col("events") * F.col("nodes"))
    return tidy(plan, seen.join(cut, "run_id", "left").select("run_id", share.alias("value")))


@over("reach", unit="%")
def spared_nodes() -> Column:
    """Nodes that a broadcast would reach and DPS does not, on average."""
    return 100 - _percent("contacted")


@over("reach", unit="share")
def false_share() -> Column:
    """False positives among the nodes contacted."""
    return 1 - F.try_divide(F.sum("matching"), F.sum("contacted"))


@over("reach", unit="messages")
def copies_per_event() -> Column:
    """Messages sent for an event, on average."""
    return F.mean("copies")


@over("reach", unit="copies")
def copies_per_contact() -> Column:
    """Copies that a node gets of an event that it is sent."""
    return F.try_divide(F.sum("copies"), F.sum("contacted"))


@over("reach", unit="share")
def surviving_delivery(since: float = 0.0, until: float = EVER) -> Column:
    """Deliveries made of those owed to nodes that did not crash first."""
    span = between(since, until)
    return F.try_divide(total("received", span), total("owed", span))


@over("deliveries", unit="deliveries")
def unwanted_deliveries() -> Column:
    """Deliveries to nodes without a subscription that matches."""
    return F.coalesce(F.sum(F.when(~F.col("wanted"), 1.0)), F.lit(0.0))


@over("deliveries", unit="hops")
def delivery_hops() -> Column:
    """Nodes that an event passes from its publisher to a subscriber, on average."""
    return F.mean(F.when(F.col("hops") > 0, F.col("hops")))
