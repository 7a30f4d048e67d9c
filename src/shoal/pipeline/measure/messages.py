"""Measures of runs looked at closely: those that recorded every message or every note.

The text of a message is that of its class, e.g. ``Subscribe(filter=Pattern(number=3))``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.registry import (
    CHANGING,
    EVER,
    Tables,
    done,
    measure,
    of_kind,
    over,
    per_replacement,
    run_rows,
    tidy,
    total,
    with_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _such(kind: str, source: int | None, target: int | None, like: str | None = None) -> Column:
    """Whether a message is of a kind, by sender, receiver and content, since the tree changed."""
    found = F.col(CHANGING) & (F.col("kind") == kind)
    if source is not None:
        found = found & (F.col("source") == source)
    if target is not None:
        found = found & (F.col("target") == target)
    return found if like is None else found & F.col("content").like(like)


@over("messages", unit="messages")
def sent(
    kind: str,
    source: int | None = None,
    target: int | None = None,
    like: str | None = None,
    until: float = EVER,
) -> Column:
    """Messages of a kind since the tree first changed, by sender, receiver and content."""
    return total(F.lit(1), _such(kind, source, target, like) & (F.col("time") < until))


@over("messages", unit="s")
def sent_at(kind: str, source: int | None = None, target: int | None = None) -> Column:
    """Seconds from the first change of the tree to the first such message."""
    return F.min(F.when(_such(kind, source, target), F.col("time") - F.col("start")))


@over("messages", unit="messages")
def sent_downwards(kinds: Sequence[str]) -> Column:
    """Messages sent away from the root of a static tree, where parents have lower numbers."""
    return total(F.lit(1), of_kind(kinds) & (F.col("source") < F.col("target")))


@over("messages", unit="messages")
def rec_on_head_per_rec() -> Column:
    """REC messages on the head and over the new link, the stretch on which they carry patterns."""
    head = F.split(F.regexp_extract("content", r"head=\(([^)]*)\)", 1), ", *")
    from_head = F.array_contains(head, F.col("source").cast("string"))
    return per_replacement(total(F.lit(1), (F.col("kind") == "rec") & from_head))


@measure("messages", unit="hash")
def message_set(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """A number that is the same for the same messages, whatever their times and order."""
    what = ("kind", "source", "target", "content")
    rows = run_rows(plan, tables, "messages")
    counted = rows.groupBy("run_id", *what).agg(total(F.lit(1), F.col(CHANGING)).alias("count"))
    word = F.when(of_kind(kinds) & (F.col("count") > 0), F.xxhash64(*what, "count"))
    # 52 bits: a double holds them exactly.
    number = F.bit_xor(F.coalesce(word, F.lit(0).cast("bigint"))).bitwiseAND((1 << 52) - 1)
    return tidy(plan, counted.groupBy("run_id").agg(number.alias("value")))


def _events(plan: DataFrame, tables: Tables) -> DataFrame:
    """Transmissions of events, with the event's publisher and sequence number."""
    text = F.col("content")
    rows = with_rows(done(plan, tables), tables["messages"].where("kind = 'event'"))
    return rows.withColumns(
        {
            "publisher": F.regexp_extract(text, r"publisher=(\d+)", 1).cast("int"),
            "sequence": F.regexp_extract(text, r"sequence=(\d+)", 1).cast("int"),
        }
    )


@measure("messages", unit="messages")
def event_link_repeats(plan: DataFrame, tables: Tables) -> DataFrame:
    """How often an event crosses a link it has crossed before, in either direction."""
    ends = F.least("source", "target").alias("a"), F.greatest("source", "target").alias("b")
    crossed = _events(plan, tables).groupBy("run_id", "publisher", "sequence", *ends)
    again = crossed.agg((F.count("*") - 1).alias("again")).groupBy("run_id")
    return tidy(plan, again.agg(F.sum("again").alias("value")))


@measure("messages", unit="messages")
def event_links_missed(plan: DataFrame, tables: Tables) -> DataFrame:
    """By how many transmissions events differ from one over each link of the tree."""
    event = ("run_id", "publisher", "sequence")
    sent_each = _events(plan, tables).groupBy(*event).agg(F.count("*").alias("sent"))
    published = with_rows(done(plan, tables), tables["publications"])
    each = published.join(sent_each, list(event), "left")
    off = F.abs(F.coalesce("sent", F.lit(0)) - (F.col("dispatchers") - 1))
    return tidy(plan, each.groupBy("run_id").agg(F.sum(off).alias("value")))


@measure("messages", unit="messages")
def repeated_subscriptions(plan: DataFrame, tables: Tables) -> DataFrame:
    """How often a filter is announced over a link, in a direction, where it already was."""
    rows = run_rows(plan, tables, "messages")
    rows = rows.withColumn("filter", F.regexp_extract("content", r"\(filter=(.*)\)", 1))
    # One direction of a link carries at most one message about a filter at an instant.
    link = Window.partitionBy("run_id", "source", "target", "filter").orderBy("time")
    told = of_kind(["sub", "unsub"])
    before = F.lag(F.when(told, F.col("kind"))).over(link)
    twice = (F.col("kind") == "sub") & (before == "sub")
    marked = rows.select("run_id", F.when(twice, 1).otherwise(0).alias("twice"))
    return tidy(plan, marked.groupBy("run_id").agg(F.sum("twice").alias("value")))


# What protocols note about themselves


@over("notes", unit="notes")
def noted(what: str, node: int | None = None) -> Column:
    """How often something was noted since the tree first changed."""
    found = F.col(CHANGING) & (F.col("what") == what)
    return total(F.lit(1), found if node is None else found & (F.col("node") == node))


@over("notes", unit="notes")
def noted_per_rec(what: str) -> Column:
    """How often something was noted, per reconfiguration."""
    return per_replacement(total(F.lit(1), F.col(CHANGING) & (F.col("what") == what)))


def _by_repair(plan: DataFrame, tables: Tables) -> DataFrame:
    """Notes with the reconfiguration during which they were made: the last that had begun."""
    in_order = Window.partitionBy("run_id").orderBy("broken_at", "repair")
    until = F.lead("broken_at", 1, EVER).over(in_order).alias("next_at")
    repairs = with_rows(plan.select("run_id").distinct(), tables["repairs"])
    spans = repairs.select("run_id", "repair", "broken_at", until)
    during = (F.col("time") >= F.col("broken_at")) & (F.col("time") < F.col("next_at"))
    notes = with_rows(done(plan, tables), tables["notes"].where("what <> 'overlap'"))
    return with_rows(spans, notes).where(during)


@measure("notes", unit="entries")
def restored_per_rec(plan: DataFrame, tables: Tables) -> DataFrame:
    """Table entries removed and put back within one reconfiguration, per reconfiguration."""
    came, went = F.col("what") == "entry added", F.col("what") == "entry removed"
    entries = _by_repair(plan, tables).where(came | went)
    each = entries.groupBy("run_id", "repair", "node", "peer", "value").agg(
        F.max("reconfigurations").alias("reconfigurations"),
        F.least(total(F.lit(1), came), total(F.lit(1), went)).alias("times"),
        F.min(F.when(went, F.col("time"))).alias("gone"),
        F.max(F.when(came, F.col("time"))).alias("back"),
    )
    restored = total("times", F.col("back") >= F.col("gone"))
    return tidy(plan, each.groupBy("run_id").agg(per_replacement(restored).alias("value")))


@measure("notes", unit="entries")
def entries_after_flush(plan: DataFrame, tables: Tables) -> DataFrame:
    """Entries that reach an end of the old link only after the FLUSH that should follow them."""
    place = ["run_id", "repair", "node"]
    notes = _by_repair(plan, tables)
    flushed = notes.where("what = 'flushed'").groupBy(*place).agg(F.min("time").alias("flushed"))
    added = notes.where("what = 'entry added'").select(*place, "time")
    late = flushed.join(added, place, "left").groupBy("run_id")
    return tidy(plan, late.agg(total(F.lit(1), F.col("time") > F.col("flushed")).alias("value")))


@measure("notes", unit="s")
def latest_unsubscribing(plan: DataFrame, tables: Tables) -> DataFrame:
    """The longest time from a break to the start of its deferred unsubscriptions, in seconds."""
    begun = tables["notes"].where("what = 'unsubscribing' AND value RLIKE '^[0-9]+$'")
    begun = with_rows(plan.select("run_id").distinct(), begun)
    begun = begun.select("run_id", F.col("value").cast("int").alias("repair"), "time")
    waits = begun.join(tables["repairs"], ["run_id", "repair"]).groupBy("run_id")
    longest = F.round(F.max(F.col("time") - F.col("broken_at")), 6)
    return tidy(plan, waits.agg(longest.alias("value")))


@over("deliveries", unit="s")
def first_delivery_after(node: int, since: float) -> Column:
    """Seconds from an instant to the first event delivered to a node after it."""
    after = (F.col("node") == node) & (F.col("time") >= since)
    return F.min(F.when(after, F.col("time"))) - since
