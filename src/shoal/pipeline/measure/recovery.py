"""Measures of event recovery: what it brings back, how late, from whom, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.registry import (
    EVER,
    Tables,
    between,
    done,
    measure,
    of_kind,
    over,
    tidy,
    total,
    with_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DIGESTS = ("digest", "missing", "compare")
"""Gossip from neighbour to neighbour."""
NUMBERS = ("follow", "following", "again", "tally")
"""What noticing losses costs."""
GOSSIP = (*DIGESTS, *NUMBERS, "request")
"""All that a recovery sends but the copies."""


@over("deliveries", unit="share")
def recovered_share() -> Column:
    """Share of the deliveries that a recovery made."""
    recovered = F.sum(F.col("recovered").cast("double"))
    return F.try_divide(F.coalesce(recovered, F.lit(0.0)), F.count("recovered"))


@measure("deliveries", unit="s")
def recovery_delay(plan: DataFrame, tables: Tables, quantile: float = 0.5) -> DataFrame:
    """Seconds from the publication of recovered events to their delivery: a quantile."""
    published = tables["publications"].select(
        "run_id", "publisher", "sequence", F.col("time").alias("published")
    )
    late = with_rows(done(plan, tables).select("run_id"), tables["deliveries"]).where("recovered")
    both = late.join(published, ["run_id", "publisher", "sequence"])
    delay = F.percentile(F.col("time") - F.col("published"), F.lit(quantile))
    return tidy(plan, both.groupBy("run_id").agg(delay.alias("value")))


@over("traffic", unit="messages")
def gossip_per_hop(kinds: Sequence[str] = GOSSIP) -> Column:
    """Gossip messages sent for each link that an event crosses."""
    return F.try_divide(total("count", of_kind(kinds)), total("count", F.col("kind") == "event"))


@over("traffic", unit="bytes")
def gossip_bytes_per_hop(kinds: Sequence[str] = DIGESTS) -> Column:
    """Bytes of gossip for each link that an event crosses."""
    return F.try_divide(total("bytes", of_kind(kinds)), total("count", F.col("kind") == "event"))


@over("traffic", unit="messages")
def replies_per_hop() -> Column:
    """Copies sent for each link that an event crosses."""
    return F.try_divide(
        total("cost", F.col("kind") == "reply"), total("count", F.col("kind") == "event")
    )


@over("traffic", unit="bytes/s")
def gossip_rate(since: float = 0.0, until: float = EVER, kinds: Sequence[str] = GOSSIP) -> Column:
    """Bytes of gossip per second and node, in a span of time."""
    sent = total("bytes", of_kind(kinds) & between(since, until))
    return sent / F.max("dispatchers") / (until - since)


@over("traffic", unit="messages")
def asked_for() -> Column:
    """Messages that say what is missing, and requests."""
    return total("count", of_kind(("missing", "request")))


@over("notes", unit="share")
def served_by_publisher() -> Column:
    """Share of the recovered events whose copy the publisher itself sent."""
    recovered = F.col("what") == "recovered"
    own = total(F.lit(1.0), recovered & (F.col("value") == "publisher"))
    return F.try_divide(own, total(F.lit(1.0), recovered))
