"""Measures of what a run sends and delivers, and of what a changing tree costs.

*Overhead* is what a changing tree costs: all messages but events, and misrouted events, from the
first change of a link on. Weights are those of Frey's Table 7.2, already in ``traffic.cost``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.registry import (
    CHANGING,
    EVER,
    Tables,
    between,
    done,
    measure,
    of_kind,
    over,
    per_replacement,
    setting,
    tidy,
    total,
    with_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WASTED = "CASE WHEN kind = 'event' THEN misrouted ELSE {} END"


def overhead_by(weight: str, exclude: Sequence[str] = ()) -> Column:
    """Overhead, by a column of ``traffic``."""
    return total(F.expr(_WASTED.format(weight)), F.col(CHANGING) & ~of_kind(exclude))


# What a reconfiguration costs


@over("traffic", unit="messages")
def cost_per_rec(exclude: Sequence[str] = ()) -> Column:
    """Normalised overhead per reconfiguration (Frey, Table 7.2), misrouted events 1 each."""
    return per_replacement(overhead_by("cost", exclude))


@over("traffic", unit="messages")
def messages_per_rec(exclude: Sequence[str] = ()) -> Column:
    """Overhead messages per reconfiguration, each counted as one."""
    return per_replacement(overhead_by("count", exclude))


@over("traffic", unit="messages")
def overhead() -> Column:
    """Messages but events, by weight, and misrouted events, once the first link has changed."""
    return overhead_by("cost")


@over("traffic", unit="messages")
def kind_cost_per_rec(kinds: Sequence[str]) -> Column:
    """Normalised cost of the messages of some kinds per reconfiguration."""
    return per_replacement(total("cost", F.col(CHANGING) & of_kind(kinds)))


@over("traffic", unit="share")
def share_of_cost(kinds: Sequence[str]) -> Column:
    """Which part of the overhead some kinds of message make up; ``misrouted`` is one of them."""
    named = F.when(F.col("kind") == "event", F.lit("misrouted")).otherwise(F.col("kind"))
    amount = F.expr(_WASTED.format("cost"))
    part = total(amount, F.col(CHANGING) & named.isin(list(kinds)))
    return F.try_divide(part, overhead_by("cost"))


@over("repairs", unit="share")
def involved() -> Column:
    """Share of dispatchers that take part in a reconfiguration, on average."""
    return F.try_divide(F.mean("involved"), F.max("dispatchers"))


@over("repairs", unit="s")
def settle_time() -> Column:
    """The longest time from a break to the last message it caused; none if none caused any."""
    longest = F.max(F.col("last_message_at") - F.col("broken_at"))
    return F.when(longest > 0, longest)


@over("repairs", unit="nodes")
def path_length() -> Column:
    """Dispatchers on the reconfiguration path, on average."""
    return F.mean("path_length")


@over("runs", unit="1/s")
def breaks_per_link() -> Column:
    """How often a link breaks per second while the tree changes."""
    span = setting("topology.window[1]") - setting("topology.window[0]")
    return F.try_divide(F.max("reconfigurations"), span * (F.max("dispatchers") - 1))


# Traffic as a whole


@over("traffic", unit="events")
def misrouted(since: float = 0.0, until: float = EVER) -> Column:
    """Events sent over links beyond which nobody wants them; known on trees only."""
    found = total("misrouted", between(since, until))
    return F.when(F.max("diameter").isNotNull() | (found > 0), found)


@over("traffic", unit="events")
def misrouted_per_rec() -> Column:
    """Events sent where nobody wants them, per reconfiguration."""
    return per_replacement(total("misrouted", F.col(CHANGING)))


@over("traffic", unit="messages")
def overhead_to_goodput() -> Column:
    """Overhead for each useful transmission of an event, over the whole run."""
    useful = total(F.col("count") - F.col("misrouted"), F.col("kind") == "event")
    return F.try_divide(overhead_by("cost"), useful)


@over("traffic", unit="messages/s")
def traffic_rate(since: float = 0.0, until: float = EVER) -> Column:
    """Messages of all kinds per second, in a span of time."""
    return total("count", between(since, until)) / (until - since)


@over("traffic", unit="messages")
def kind_count(kinds: Sequence[str]) -> Column:
    """Messages of some kinds since the tree first changed (in all, if it does not)."""
    return total("count", F.col(CHANGING) & of_kind(kinds))


@over("traffic", unit="kinds")
def other_kinds(besides: Sequence[str]) -> Column:
    """How many kinds of message there are beyond events, (un)subscriptions and those named."""
    usual = ["event", "sub", "unsub", *besides]
    return F.size(F.collect_set(F.when(~of_kind(usual), F.col("kind"))))


@over("traffic", unit="kinds")
def kinds_seen(of: Sequence[str]) -> Column:
    """How many of these kinds of message a changing tree causes."""
    return F.size(F.collect_set(F.when(F.col(CHANGING) & of_kind(of), F.col("kind"))))


@measure(unit="messages")
def peak_traffic(
    plan: DataFrame, tables: Tables, since: float = 0.0, until: float = EVER
) -> DataFrame:
    """Messages of all kinds in the busiest time bin of a span."""
    rows = with_rows(plan.select("run_id").distinct(), tables["traffic"])
    bins = rows.where(between(since, until)).groupBy("run_id", "time")
    totals = bins.agg(F.sum("count").alias("count")).groupBy("run_id")
    return tidy(plan, totals.agg(F.max("count").alias("value")))


@measure(unit="messages/s")
def traffic_over_time(plan: DataFrame, tables: Tables) -> DataFrame:
    """Messages of all kinds per second, bin by bin; x is the time."""
    rows = with_rows(done(plan, tables), tables["traffic"])
    rows = rows.select(
        "run_id", F.col("bin_width").alias("bin"), F.round("time", 6).alias("x"), "count"
    )
    totals = rows.groupBy("run_id", "bin", "x").agg(F.sum("count").alias("count"))
    return tidy(plan, totals.select("run_id", "x", (F.col("count") / F.col("bin")).alias("value")))


# Delivery


def _owed(who: str) -> tuple[str, str]:
    """The columns for everybody, the stable core, or the others."""
    suffix = {"all": "", "core": "_core", "others": "_others"}.get(who)
    if suffix is None:
        raise PipelineError(f"delivery to '{who}' is not recorded", "use all, core or others")
    return f"owed{suffix}", f"received{suffix}"


@over("publications", unit="share")
def delivery(since: float = 0.0, until: float = EVER, who: str = "all") -> Column:
    """Deliveries made of those owed."""
    owed, received = _owed(who)
    span = between(since, until)
    return F.try_divide(total(received, span), total(owed, span))


@measure(unit="share")
def delivery_over_time(plan: DataFrame, tables: Tables, who: str = "all") -> DataFrame:
    """Deliveries made of those owed, by the tenth of a second of publication; x is the time."""
    owed, received = _owed(who)
    tenth = F.floor(F.col("time") * 10 + 1e-6) / 10
    rows = with_rows(plan.select("run_id").distinct(), tables["publications"])
    bins = rows.groupBy("run_id", tenth.alias("x"))
    return tidy(plan, bins.agg(F.try_divide(F.sum(received), F.sum(owed)).alias("value")))


@over("publications", unit="share")
def receivers(since: float = 0.0) -> Column:
    """Share of dispatchers that want an event, on average."""
    return F.try_divide(F.mean(F.when(F.col("time") >= since, F.col("owed"))), F.max("dispatchers"))


@over("runs", unit="share")
def receivers_expected() -> Column:
    """The share of dispatchers that want an event, by Frey's equation 7.1."""
    missed = 1 - setting("workload.patterns_per_subscriber") / setting("workload.patterns")
    matched = 1 - F.pow(missed, setting("workload.patterns_per_event"))
    return setting("workload.subscribers") * matched


# The tree and its tables


@over("runs", unit="links")
def diameter() -> Column:
    """The longest path of the initial tree, in links."""
    return F.max("diameter")


@measure(unit="0 or 1")
def canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if all tables at rest are those of the final tree and subscribers; 0 if not, or failed."""
    right = F.when(F.col("status") == "done", F.col("canonical").cast("int")).otherwise(0)
    return tidy(plan, tables["runs"].select("run_id", right.alias("value")))


@measure(unit="0 or 1")
def not_canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if a table at rest is wrong or the run failed; 0 if all are right."""
    return canonical(plan, tables).withColumn("value", 1 - F.col("value"))
