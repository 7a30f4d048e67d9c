"""Measures of routing on a graph: how much is sent, how far events go, what the ideal sends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.registry import (
    TIDY,
    Tables,
    beside,
    done,
    measure,
    of_kind,
    over,
    tidy,
    total,
)
from shoal.pipeline.measure.runs import delivery

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


def _with_value(plan: DataFrame, tables: Tables, values: DataFrame) -> DataFrame:
    """``run_id, value`` for the runs that went well; None for one that has no row."""
    return tidy(plan, done(plan, tables).select("run_id").join(values, "run_id", "left"))


OVERHEAD = ("event", "sub", "unsub")
"""What Costa and Picco count: every event and (un)subscription sent."""


def _per_event(plan: DataFrame, tables: Tables, counted: DataFrame) -> DataFrame:
    """Messages among some rows of the traffic, for each event published."""
    sent = counted.groupBy("run_id").agg(F.sum("count").cast("double").alias("sent"))
    published = tables["publications"].groupBy("run_id").agg(F.count("*").alias("published"))
    share = F.try_divide("sent", "published").alias("value")
    return _with_value(plan, tables, sent.join(published, "run_id").select("run_id", share))


@over("traffic", unit="messages")
def messages(kinds: Sequence[str] = OVERHEAD) -> Column:
    """All events and (un)subscriptions sent in a run, the laying of the first ones included."""
    return total("count", of_kind(kinds))


@measure(unit="messages")
def messages_per_event(
    plan: DataFrame, tables: Tables, kinds: Sequence[str] = ("event",)
) -> DataFrame:
    """Copies of events (or messages of other kinds) sent for each event published."""
    return _per_event(plan, tables, tables["traffic"].where(of_kind(kinds)))


@measure(unit="messages")
def all_messages_per_event(plan: DataFrame, tables: Tables) -> DataFrame:
    """Messages of all kinds sent for each event published."""
    return _per_event(plan, tables, tables["traffic"])


@over("traffic", unit="messages")
def control_share() -> Column:
    """(Un)subscriptions sent for each event sent."""
    control = total("count", of_kind(("sub", "unsub")))
    return F.try_divide(control, total("count", of_kind(("event",))))


@over("routes", unit="links")
def route_length() -> Column:
    """Links that a copy of an event crosses until a node drops it that had it already."""
    duplicate = F.col("why") == "duplicate"
    return F.try_divide(total("hops", duplicate), total("count", duplicate))


@over("routes", unit="share")
def deterministic_share() -> Column:
    """The share of these links that a subscription chose."""
    duplicate = F.col("why") == "duplicate"
    return F.try_divide(total("deterministic", duplicate), total("hops", duplicate))


@over("publications", unit="share")
def reachable_share() -> Column:
    """Of the deliveries owed, those to nodes that links led to when the event was published."""
    return F.try_divide(F.sum("reachable"), F.sum("owed"))


@over("publications", unit="share")
def delivery_of_reachable() -> Column:
    """Deliveries made of those owed to nodes that links led to."""
    return F.try_divide(F.sum("received"), F.sum("reachable"))


def _degrees(tables: Tables) -> DataFrame:
    """Every degree that a node has after a change, once the graph stands."""
    sign = F.when(F.col("change") == "up", 1).when(F.col("change") == "down", -1).otherwise(0)
    ends = tables["links"].select(
        "run_id", "time", sign.alias("step"), F.explode(F.array("a", "b")).alias("node")
    )
    steps = ends.groupBy("run_id", "node", "time").agg(F.sum("step").alias("step"))
    so_far = Window.partitionBy("run_id", "node").orderBy("time")
    return steps.select("run_id", F.sum("step").over(so_far).alias("degree"))


@measure(unit="links")
def least_degree(plan: DataFrame, tables: Tables) -> DataFrame:
    """The fewest links that a node ever has."""
    values = _degrees(tables).groupBy("run_id").agg(F.min("degree").cast("double").alias("value"))
    return _with_value(plan, tables, values)


@measure(unit="links")
def greatest_degree(plan: DataFrame, tables: Tables) -> DataFrame:
    """The most links that a node ever has."""
    values = _degrees(tables).groupBy("run_id").agg(F.max("degree").cast("double").alias("value"))
    return _with_value(plan, tables, values)


@over("links", unit="links/s")
def reconfiguration_rate() -> Column:
    """Links that vanish per second, from the first to the last."""
    gone = F.when(F.col("change") == "down", F.col("time"))
    return F.try_divide(F.count(gone) - 1, F.max(gone) - F.min(gone))


@measure(unit="share")
def gain(plan: DataFrame, tables: Tables, over: str = " static") -> DataFrame:
    """How much more a variant delivers than its namesake with a suffix, seed by seed."""
    values = delivery(plan, tables)
    namesake = F.regexp_replace("variant", f"{over}$", "")
    base = values.where(F.col("variant").endswith(over)).withColumn("variant", namesake)
    paired = beside(values, base, "base", "variant")
    return paired.withColumn("value", F.col("value") - F.col("base")).select(*TIDY)


# The ideal: events along the shortest ways, known for free (Costa and Picco, figure 3)


@measure(unit="messages")
def ideal_messages(plan: DataFrame, tables: Tables) -> DataFrame:
    """Links on shortest ways from each publisher to all receivers, on a graph that stands still."""
    runs = done(plan, tables).select("run_id", "configuration").distinct()
    values = runs.mapInArrow(_ideal, "run_id string, value double")
    return _with_value(plan, tables, values)


@measure(unit="times")
def times_ideal(plan: DataFrame, tables: Tables) -> DataFrame:
    """How many times as many messages are sent as the ideal would send."""
    ideal = ideal_messages(plan, tables)
    paired = beside(messages(plan, tables), ideal, "ideal", "variant")
    return paired.withColumn("value", F.try_divide("value", "ideal")).select(*TIDY)


def _ideal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark's side of it: the graph and the events follow from a run's configuration."""
    import pyarrow as pa

    known: dict[str, float] = {}
    for batch in batches:
        rows = batch.to_pylist()
        values = []
        for row in rows:
            raw = json.loads(row["configuration"])
            # Routing changes neither the graph nor the events.
            key = json.dumps({**raw, "routing": None, "record": None}, sort_keys=True)
            if key not in known:
                known[key] = ideal_of(raw)
            values.append(known[key])
        yield pa.RecordBatch.from_pydict(
            {"run_id": [row["run_id"] for row in rows], "value": values}
        )


def ideal_of(raw: dict[str, Any]) -> float:
    """What the ideal sends in one run."""
    from shoal.simulation.config import parse_config
    from shoal.simulation.graph import initial_graph
    from shoal.simulation.topology import adjacency, ways_to
    from shoal.simulation.workload import plan_workload

    config = parse_config(raw)
    links = initial_graph("static-graph", config.nodes, config.topology["degree"], config.seed)
    neighbours = adjacency(config.nodes, links)
    workload = plan_workload(config.workload, config.nodes, config.duration, config.seed)
    wanting: dict[int, set[int]] = {}
    for _, node, number, _ in workload.by_number():
        wanting.setdefault(number, set()).add(node)
    towards: dict[int, dict[int, int]] = {}
    total = 0
    for event, publisher in enumerate(workload.publishers.tolist()):
        if publisher not in towards:
            towards[publisher] = ways_to(neighbours, publisher)
        way = towards[publisher]
        reached = {publisher}
        for number in workload.content(event):
            for node in wanting.get(number, ()):
                while node not in reached:
                    reached.add(node)
                    node = way[node]
        total += len(reached) - 1
    return float(total)


# Adaptive routing against the best fixed setting

EVERYTHING = (*OVERHEAD, "leaf", "feedback")
"""What adaptive routing sends, its talk about losses included."""


def _beside_best(plan: DataFrame, tables: Tables, values: DataFrame) -> DataFrame:
    """Each variant's values divided by those of the best fixed setting, seed by seed.

    The best is the cheapest of those that deliver within 1% of the most that any delivers.
    """
    name = ["experiment", "variant"]
    got = delivery_of_reachable(plan, tables).groupBy(*name).agg(F.avg("value").alias("got"))
    cost = messages_per_event(plan, tables, kinds=EVERYTHING)
    cost = cost.groupBy(*name).agg(F.avg("value").alias("cost"))
    fixed = got.join(cost, name).where(F.col("variant").startswith("φ"))
    most = F.max("got").over(Window.partitionBy("experiment"))
    good = fixed.withColumn("most", most).where("got >= 0.99 * most")
    rank = F.row_number().over(Window.partitionBy("experiment").orderBy("cost", "variant"))
    best = good.withColumn("rank", rank).where("rank = 1").select(*name)
    paired = beside(values, values.join(best, name), "base")
    return paired.withColumn("value", F.try_divide("value", "base")).select(*TIDY)


@measure(unit="times")
def delivery_beside_best(plan: DataFrame, tables: Tables) -> DataFrame:
    """Deliveries made, as a share of those of the best fixed setting."""
    return _beside_best(plan, tables, delivery_of_reachable(plan, tables))


@measure(unit="times")
def messages_beside_best(plan: DataFrame, tables: Tables) -> DataFrame:
    """Messages per event, as a multiple of those of the best fixed setting."""
    return _beside_best(plan, tables, messages_per_event(plan, tables, kinds=EVERYTHING))
