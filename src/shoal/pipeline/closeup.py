"""Measures of runs looked at closely: those that recorded every message or every note.

The text of a message is that of its class, e.g. ``Subscribe(filter=Pattern(number=3))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure import (
    Tables,
    measure,
    per_reconfiguration,
    started,
    with_value,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _since_change(tables: Tables, name: str) -> DataFrame:
    """A table's rows from the first change of the tree on; all where it does not change."""
    rows = tables[name].join(started(tables), "run_id", "left")
    return rows.where("start IS NULL OR time >= start")


def _sent(
    tables: Tables,
    kind: str,
    source: int | None,
    target: int | None,
    like: str | None,
    until: float,
) -> DataFrame:
    """Messages of a kind since the tree first changed."""
    rows = _since_change(tables, "messages").where(F.col("kind") == kind)
    rows = rows.where(F.col("time") < until)
    if source is not None:
        rows = rows.where(F.col("source") == source)
    if target is not None:
        rows = rows.where(F.col("target") == target)
    return rows if like is None else rows.where(F.col("content").like(like))


@measure
def sent(
    plan: DataFrame,
    tables: Tables,
    kind: str,
    source: int | None = None,
    target: int | None = None,
    like: str | None = None,
    until: float = 1e9,
) -> DataFrame:
    """Messages of a kind since the tree first changed, by sender, receiver and content."""
    rows = _sent(tables, kind, source, target, like, until).groupBy("run_id")
    return with_value(plan, tables, rows.agg(F.count("*").cast("double").alias("value")), 0.0)


@measure
def sent_at(
    plan: DataFrame,
    tables: Tables,
    kind: str,
    source: int | None = None,
    target: int | None = None,
) -> DataFrame:
    """Seconds from the first change of the tree to the first such message."""
    rows = _sent(tables, kind, source, target, None, 1e9).groupBy("run_id")
    first = rows.agg(F.min(F.col("time") - F.col("start")).alias("value"))
    return with_value(plan, tables, first, None)


@measure
def message_set(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """A number that is the same for the same messages, whatever their times and order."""
    rows = _since_change(tables, "messages").where(F.col("kind").isin(list(kinds)))
    each = rows.groupBy("run_id", "kind", "source", "target", "content").count()
    word = F.bit_xor(F.xxhash64("kind", "source", "target", "content", "count"))
    # 52 bits: a double holds them exactly.
    values = each.groupBy("run_id").agg(word.bitwiseAND(F.lit((1 << 52) - 1)).alias("value"))
    return with_value(plan, tables, values.withColumn("value", F.col("value").cast("double")), 0.0)


@measure
def sent_downwards(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """Messages sent away from the root of a static tree, where parents have lower numbers."""
    rows = tables["messages"].where(F.col("kind").isin(list(kinds)))
    down = rows.where("source < target").groupBy("run_id")
    return with_value(plan, tables, down.agg(F.count("*").cast("double").alias("value")), 0.0)


def _event() -> tuple[Column, Column]:
    """Publisher and sequence number of an event on its way."""
    text = F.col("content")
    return (
        F.regexp_extract(text, r"publisher=(\d+)", 1).alias("publisher"),
        F.regexp_extract(text, r"sequence=(\d+)", 1).alias("sequence"),
    )


@measure
def event_link_repeats(plan: DataFrame, tables: Tables) -> DataFrame:
    """How often an event crosses a link it has crossed before, in either direction."""
    ends = F.least("source", "target").alias("a"), F.greatest("source", "target").alias("b")
    crossings = tables["messages"].where("kind = 'event'").groupBy("run_id", *_event(), *ends)
    repeats = crossings.agg((F.count("*") - 1).alias("again")).groupBy("run_id")
    return with_value(plan, tables, repeats.agg(F.sum("again").cast("double").alias("value")), 0.0)


@measure
def event_links_missed(plan: DataFrame, tables: Tables) -> DataFrame:
    """By how many transmissions events differ from one over each link of the tree."""
    sent_each = (
        tables["messages"]
        .where("kind = 'event'")
        .groupBy("run_id", *_event())
        .agg(F.count("*").alias("count"))
        .join(tables["runs"].select("run_id", "nodes"), "run_id")
        .groupBy("run_id")
        .agg(
            F.sum(F.abs(F.col("count") - (F.col("nodes") - 1))).alias("off"),
            F.count("*").alias("seen"),
        )
    )
    published = tables["publications"].groupBy("run_id").agg(F.count("*").alias("published"))
    both = sent_each.join(published, "run_id", "full")
    unseen = F.coalesce("published", F.lit(0)) - F.coalesce("seen", F.lit(0))
    values = both.select("run_id", (F.coalesce("off", F.lit(0)) + unseen).alias("value"))
    return with_value(plan, tables, values, None)


@measure
def repeated_subscriptions(plan: DataFrame, tables: Tables) -> DataFrame:
    """How often a filter is announced over a link, in a direction, where it already was."""
    told = tables["messages"].where("kind IN ('sub', 'unsub')")
    told = told.withColumn("filter", F.regexp_extract("content", r"\(filter=(.*)\)", 1))
    # One direction of a link carries at most one message about a filter at an instant.
    link = Window.partitionBy("run_id", "source", "target", "filter").orderBy("time")
    told = told.withColumn("before", F.lag("kind").over(link))
    twice = told.where("kind = 'sub' AND before = 'sub'").groupBy("run_id")
    return with_value(plan, tables, twice.agg(F.count("*").cast("double").alias("value")), 0.0)


@measure
def rec_with_patterns_per_rec(plan: DataFrame, tables: Tables) -> DataFrame:
    """REC messages that carry patterns, per reconfiguration."""
    full = tables["messages"].where("kind = 'rec' AND content NOT LIKE '%add=(), delete=()%'")
    values = full.groupBy("run_id").agg(F.count("*").cast("double").alias("value"))
    return per_reconfiguration(plan, tables, values)


# What protocols note about themselves


@measure
def noted(plan: DataFrame, tables: Tables, what: str, node: int | None = None) -> DataFrame:
    """How often something was noted since the tree first changed."""
    rows = _since_change(tables, "notes").where(F.col("what") == what)
    rows = rows if node is None else rows.where(F.col("node") == node)
    values = rows.groupBy("run_id").agg(F.count("*").cast("double").alias("value"))
    return with_value(plan, tables, values, 0.0)


@measure
def noted_per_rec(plan: DataFrame, tables: Tables, what: str) -> DataFrame:
    """How often something was noted, per reconfiguration."""
    rows = _since_change(tables, "notes").where(F.col("what") == what)
    values = rows.groupBy("run_id").agg(F.count("*").cast("double").alias("value"))
    return per_reconfiguration(plan, tables, values)


def _by_repair(tables: Tables) -> DataFrame:
    """Notes with the reconfiguration during which they were made: the last that had begun."""
    next_break = F.lead("broken_at", 1, 1e9).over(
        Window.partitionBy("run_id").orderBy("broken_at", "repair")
    )
    spans = tables["repairs"].select("run_id", "repair", "broken_at", next_break.alias("until"))
    during = (F.col("time") >= F.col("broken_at")) & (F.col("time") < F.col("until"))
    return tables["notes"].join(spans, "run_id").where(during)


@measure
def restored_per_rec(plan: DataFrame, tables: Tables) -> DataFrame:
    """Table entries removed and put back within one reconfiguration, per reconfiguration."""
    entry = ("run_id", "repair", "node", "peer", "value")
    added = F.sum(F.when(F.col("what") == "entry added", 1).otherwise(0))
    removed = F.sum(F.when(F.col("what") == "entry removed", 1).otherwise(0))
    first_removed = F.min(F.when(F.col("what") == "entry removed", F.col("time")))
    last_added = F.max(F.when(F.col("what") == "entry added", F.col("time")))
    both = (
        _by_repair(tables)
        .where("what LIKE 'entry %'")
        .groupBy(*entry)
        .agg(
            F.least(added, removed).alias("times"),
            first_removed.alias("gone"),
            last_added.alias("back"),
        )
        .where("back >= gone")
    )
    values = both.groupBy("run_id").agg(F.sum("times").cast("double").alias("value"))
    return per_reconfiguration(plan, tables, values)


@measure
def entries_after_flush(plan: DataFrame, tables: Tables) -> DataFrame:
    """Entries that reach an end of the old link only after the FLUSH that should follow them."""
    notes = _by_repair(tables)
    flushed = notes.where("what = 'flushed'").select(
        "run_id", "repair", "node", F.col("time").alias("flushed_at")
    )
    late = notes.where("what = 'entry added'").join(flushed, ["run_id", "repair", "node"])
    counts = late.groupBy("run_id").agg(
        F.sum(F.when(F.col("time") > F.col("flushed_at"), 1.0).otherwise(0.0)).alias("value")
    )
    seen = flushed.select("run_id").distinct()
    values = seen.join(counts, "run_id", "left").fillna(0.0, ["value"])
    return with_value(plan, tables, values, None)


@measure
def latest_unsubscribing(plan: DataFrame, tables: Tables) -> DataFrame:
    """The longest time from a break to the start of its deferred unsubscriptions, in seconds."""
    begun = tables["notes"].where("what = 'unsubscribing' AND value RLIKE '^[0-9]+$'")
    begun = begun.select("run_id", F.col("value").cast("int").alias("repair"), "time")
    waits = begun.join(tables["repairs"], ["run_id", "repair"]).groupBy("run_id")
    longest = F.round(F.max(F.col("time") - F.col("broken_at")), 6)
    return with_value(plan, tables, waits.agg(longest.alias("value")), None)


@measure
def first_delivery_after(plan: DataFrame, tables: Tables, node: int, since: float) -> DataFrame:
    """Seconds from an instant to the first event delivered to a node after it."""
    rows = tables["deliveries"].where((F.col("node") == node) & (F.col("time") >= since))
    first = rows.groupBy("run_id").agg((F.min("time") - since).alias("value"))
    return with_value(plan, tables, first, None)
