"""Measures of DPS (Anceaume et al.): who is contacted, who has how much to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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

Which = Literal["max", "median", "mean"]


# How far events go


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


@measure(unit="%")
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


@measure(unit="share")
def least_delivery(
    plan: DataFrame, tables: Tables, since: float, until: float, window: float = 100.0
) -> DataFrame:
    """The worst of a span's windows: deliveries made of those owed to nodes that did not crash."""
    rows = with_rows(plan.select("run_id").distinct(), tables["reach"]).where(between(since, until))
    windows = rows.groupBy("run_id", F.floor(F.col("time") / window).alias("window"))
    shares = windows.agg(F.try_divide(F.sum("received"), F.sum("owed")).alias("share"))
    return tidy(plan, shares.groupBy("run_id").agg(F.min("share").alias("value")))


@measure(unit="share")
def delivery_by_window(plan: DataFrame, tables: Tables, window: float = 100.0) -> DataFrame:
    """Deliveries made of those owed to nodes that did not crash first; x is the time."""
    rows = with_rows(plan.select("run_id").distinct(), tables["reach"])
    x = (F.floor(F.col("time") / window) * window).alias("x")
    shares = rows.groupBy("run_id", x)
    return tidy(plan, shares.agg(F.try_divide(F.sum("received"), F.sum("owed")).alias("value")))


@over("deliveries", unit="deliveries")
def unwanted_deliveries() -> Column:
    """Deliveries to nodes without a subscription that matches."""
    return F.coalesce(F.sum(F.when(~F.col("wanted"), 1.0)), F.lit(0.0))


@over("deliveries", unit="hops")
def delivery_hops() -> Column:
    """Nodes that an event passes from its publisher to a subscriber, on average."""
    return F.mean(F.when(F.col("hops") > 0, F.col("hops")))


# Load


def _loads(plan: DataFrame, tables: Tables, way: str, which: Which) -> DataFrame:
    """Per run and time bin the load of the most loaded, the median or the mean node."""
    rows = with_rows(plan.select("run_id").distinct(), tables["loads"])
    load = F.col("received") if way == "in" else F.col("sent") - F.col("requests")
    pick = {"max": F.max, "median": F.median, "mean": F.mean}[which]
    return rows.groupBy("run_id", "time").agg(pick(load).cast("double").alias("value"))


@measure(unit="messages")
def load(
    plan: DataFrame,
    tables: Tables,
    way: str = "out",
    which: Which = "max",
    since: float = 0.0,
    until: float = EVER,
) -> DataFrame:
    """Messages of the most loaded, median or mean node in a time bin, on average over a span."""
    bins = _loads(plan, tables, way, which).where(between(since, until))
    return tidy(plan, bins.groupBy("run_id").agg(F.mean("value").alias("value")))


@measure(unit="messages")
def load_over_time(
    plan: DataFrame, tables: Tables, way: str = "out", which: Which = "max"
) -> DataFrame:
    """Messages of the most loaded, median or mean node, bin by bin; x is the time."""
    bins = _loads(plan, tables, way, which)
    return tidy(plan, bins.select("run_id", F.round("time", 6).alias("x"), "value"))


@measure(unit="ratio")
def load_growth(
    plan: DataFrame,
    tables: Tables,
    way: str,
    which: Which,
    early: tuple[float, float],
    late: tuple[float, float],
) -> DataFrame:
    """The load of a late span divided by that of an early one."""
    bins = _loads(plan, tables, way, which)
    sums = bins.groupBy("run_id").agg(
        F.mean(F.when(between(*early), F.col("value"))).alias("early"),
        F.mean(F.when(between(*late), F.col("value"))).alias("late"),
    )
    return tidy(
        plan, sums.select("run_id", F.try_divide(F.col("late"), F.col("early")).alias("value"))
    )


@measure(unit="ratio")
def imbalance(plan: DataFrame, tables: Tables, way: str = "out", since: float = 0.0) -> DataFrame:
    """The most loaded node's messages divided by the mean, on average over time bins."""
    most = _loads(plan, tables, way, "max").withColumnRenamed("value", "most")
    mean = _loads(plan, tables, way, "mean").where(F.col("time") >= since)
    ratios = most.join(mean, ["run_id", "time"])
    ratio = F.mean(F.try_divide(F.col("most"), F.col("value")))
    return tidy(plan, ratios.groupBy("run_id").agg(ratio.alias("value")))


@measure(unit="messages")
def incoming_less_outgoing(
    plan: DataFrame, tables: Tables, which: Which = "max", since: float = 0.0
) -> DataFrame:
    """How much more the node that receives most receives than the one that sends most sends."""
    into = _loads(plan, tables, "in", which).withColumnRenamed("value", "into")
    bins = into.join(_loads(plan, tables, "out", which), ["run_id", "time"])
    more = F.mean(F.col("into") - F.col("value")).alias("value")
    return tidy(plan, bins.where(F.col("time") >= since).groupBy("run_id").agg(more))


@measure(unit="ratio")
def load_gap(
    plan: DataFrame, tables: Tables, way: str = "out", since: float = 0.0, until: float = EVER
) -> DataFrame:
    """The most loaded node's messages divided by the median node's."""
    most = _loads(plan, tables, way, "max").withColumnRenamed("value", "most")
    bins = most.join(_loads(plan, tables, way, "median"), ["run_id", "time"])
    sums = bins.where(between(since, until)).groupBy("run_id")
    return tidy(plan, sums.agg(F.try_divide(F.sum("most"), F.sum("value")).alias("value")))


@measure(unit="%")
def nodes_at_end(plan: DataFrame, tables: Tables) -> DataFrame:
    """Nodes that are up in the last time bin, of all."""
    rows = with_rows(done(plan, tables), tables["loads"])
    bins = rows.groupBy("run_id", "time").agg(
        (100 * F.count("node") / F.max("dispatchers")).alias("value")
    )
    last = bins.groupBy("run_id").agg(F.max_by("value", "time").alias("value"))
    return tidy(plan, last)
