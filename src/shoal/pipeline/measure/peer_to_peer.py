"""Measures of trees that build themselves while nodes come and go (Frey, chapters 12, 14, 15).

The *measured interval* is the workload's publish window; the whole run, from the first change of
the tree on, if it has none. An overlay *reconfiguration* is a link that comes up in it: each join
brings one, and each repair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.overlay.lstree_search import REPAIRS
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.cases import ENTRIES, Value, case, mean
from shoal.pipeline.measure.registry import (
    CHANGING,
    EVER,
    TIDY,
    Tables,
    beside,
    between,
    done,
    measure,
    of_kind,
    over,
    run_rows,
    setting,
    tidy,
    total,
    with_rows,
)
from shoal.pipeline.measure.run_view import Run, neighbours_of
from shoal.simulation.topology import ways_to
from shoal.stack.host import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SUBSCRIPTIONS: Final = ("sub", "unsub")
ROUTING: Final = (*SUBSCRIPTIONS, "activate", "flush", "rec", "recack")
"""Kinds of message that repair tables; all others but events are the overlay's."""


def _measured() -> Column:
    """Whether a row's time lies in the measured interval."""
    since = F.coalesce(F.col("since"), F.lit(0.0))
    until = F.coalesce(F.col("until"), F.lit(EVER))
    return (F.col("time") >= since - 1e-6) & (F.col("time") < until)


def measured_traffic() -> Column:
    """Whether a row of traffic counts: in the interval, and after the tree began to change."""
    return F.col(CHANGING) & _measured()


def _kinds(part: str) -> Sequence[str]:
    """The kinds of message of a part of the cost."""
    parts = {"all": ROUTING, "subscriptions": SUBSCRIPTIONS, "activate": ("activate",)}
    if part != "misrouted" and part not in parts:
        named = ", ".join([*parts, "misrouted"])
        raise PipelineError(f"no part '{part}' of the unit cost", f"use one of: {named}")
    return parts.get(part, ())


def per_reconfiguration(plan: DataFrame, tables: Tables, amount: Column | str) -> DataFrame:
    """The sum over measured traffic, divided by the links that came up."""
    rows = run_rows(plan, tables, "traffic").groupBy("run_id")
    amounts = rows.agg(total(amount, measured_traffic()).alias("amount"))
    links = with_rows(done(plan, tables), tables["links"]).where("change = 'up' AND time > 0")
    counts = links.where(_measured()).groupBy("run_id").agg(F.count("*").alias("links"))
    value = F.try_divide(F.col("amount"), F.col("links"))
    return tidy(plan, amounts.join(counts, "run_id").select("run_id", value.alias("value")))


@measure(unit="messages")
def unit_cost(plan: DataFrame, tables: Tables, part: str = "all") -> DataFrame:
    """Cost of repairing tables per overlay reconfiguration (Table 7.2), misrouted events 1 each."""
    kinds, events = _kinds(part), part in ("all", "misrouted")
    wasted = F.when(F.col("kind") == "event", F.col("misrouted") if events else F.lit(0))
    amount = wasted.when(of_kind(kinds), F.col("cost")).otherwise(0.0)
    return per_reconfiguration(plan, tables, amount)


@measure(unit="ratio")
def activate_balance(plan: DataFrame, tables: Tables, against: str = "TDU") -> DataFrame:
    """Subscriptions saved against another variant, for each pattern that ACTIVATE carries."""
    costs = unit_cost(plan, tables, part="subscriptions")
    mine = beside(costs, costs.where(F.col("variant") == against), "other")
    carried = unit_cost(plan, tables, part="activate")
    both = beside(mine, carried, "carried", "variant")
    value = F.try_divide(F.col("other") - F.col("value"), F.col("carried"))
    return both.withColumn("value", value).where("carried > 0").select(*TIDY)


@over("traffic", unit="bytes")
def routing_bytes() -> Column:
    """Bytes of messages that repair tables, in the measured interval."""
    return total("bytes", measured_traffic() & of_kind(ROUTING))


@over("traffic", unit="bytes")
def overlay_bytes() -> Column:
    """Bytes of messages that maintain the overlay, in the measured interval."""
    return total("bytes", measured_traffic() & ~of_kind((*ROUTING, "event")))


@over("traffic", unit="messages")
def kind_sent(kinds: Sequence[str], since: float = 0.0, until: float = EVER) -> Column:
    """Messages of some kinds in a span of time."""
    return total("count", of_kind(kinds) & between(since, until))


@over("publications", unit="share")
def receivers_awake() -> Column:
    """Share of the nodes that are up that want an event, on average."""
    awake = F.max("dispatchers") * setting("topology.churn.up")
    return F.try_divide(F.mean("owed"), awake)


def _bins(plan: DataFrame, tables: Tables, kinds: Column) -> DataFrame:
    """Bytes per run and time bin, of some kinds of message."""
    rows = run_rows(plan, tables, "traffic").where(measured_traffic() & kinds)
    return rows.groupBy("run_id", "time", F.col("bin_width").alias("width")).agg(
        F.sum("bytes").alias("bytes")
    )


@measure(unit="bytes/s")
def reconfiguration_peak(plan: DataFrame, tables: Tables, above: float = 0.0) -> DataFrame:
    """Bytes per second of all but events that a share ``above`` of the time bins exceeds."""
    bins = _bins(plan, tables, F.col("kind") != "event")
    spans = done(plan, tables).select("run_id", (F.col("until") - F.col("since")).alias("span"))
    ordered = bins.groupBy("run_id", "width").agg(
        F.sort_array(F.collect_list("bytes"), asc=False).alias("all")
    )
    place = F.floor(F.lit(above) * F.col("span") / F.col("width")).cast("int") + 1
    peak = F.when(place <= F.size("all"), F.element_at("all", place)).otherwise(0)
    found = ordered.join(spans, "run_id")
    return tidy(plan, found.select("run_id", (peak / F.col("width")).alias("value")))


@over("traffic", unit="bytes/s")
def event_level() -> Column:
    """Bytes per second of events, on average over the measured interval."""
    events = total("bytes", measured_traffic() & (F.col("kind") == "event"))
    return F.try_divide(events, F.max("until") - F.max("since"))


@measure(unit="bytes/s")
def bytes_over_time(plan: DataFrame, tables: Tables, events: bool = False) -> DataFrame:
    """Bytes per second of events, or of all else, bin by bin; x is the time."""
    which = F.col("kind") == "event" if events else F.col("kind") != "event"
    bins = _bins(plan, tables, which)
    value = (F.col("bytes") / F.col("width")).alias("value")
    return tidy(plan, bins.select("run_id", F.round("time", 6).alias("x"), value))


# Run by run


def within(run: Run, time: float) -> bool:
    """Whether a time lies in the measured interval of a run."""
    window = run.configuration["workload"].get("publish_window") or (0.0, float("inf"))
    return bool(window[0] <= time < window[1])


class Rejoining(NamedTuple):
    """An orphan that has found a new parent."""

    child: int
    lost: int
    new: int
    broken_at: float
    joined_at: float
    before: frozenset[int]
    """The neighbours of the lost parent when it was lost."""


def _rejoinings(run: Run) -> list[Rejoining]:
    """The repairs of the measured interval: links made for one, and what their child had lost."""
    neighbours: dict[int, set[int]] = {}
    at_loss: dict[int, tuple[float, frozenset[int]]] = {}
    orphans: dict[int, tuple[int, float, frozenset[int]]] = {}
    found: list[Rejoining] = []
    for change in run.links:
        a, b, time = change["a"], change["b"], change["time"]
        if change["change"] == "down":
            for end, other in ((a, b), (b, a)):
                # A node that crashes loses all its links at one instant.
                since, before = at_loss.get(end, (-1.0, frozenset()))
                if since != time:
                    before = frozenset(neighbours.get(end, ()))
                    at_loss[end] = (time, before)
                orphans[other] = (end, time, before)
            neighbours.get(a, set()).discard(b)
            neighbours.get(b, set()).discard(a)
            continue
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
        repair = change["repair"]
        if repair is not None and within(run, time):
            child = repair // REPAIRS
            new = b if child == a else a
            lost, broken_at, before = orphans.get(child, (LOCAL, time, frozenset()))
            end = child if child in (a, b) else LOCAL
            found.append(Rejoining(end, lost, new, broken_at, time, before))
    return found


@case("links", unit="share")
def reconnected_within(run: Run, seconds: float) -> Value:
    """Share of orphans that have a new parent within some seconds of noticing their loss."""
    noticed = run.configuration["topology"].get("notice_most") or 0.0
    delays = [r.joined_at - r.broken_at - noticed for r in _rejoinings(run)]
    return mean(delay <= seconds for delay in delays)


@case("links", unit="share")
def attached_to_neighbours(run: Run) -> Value:
    """Share of repairs whose new parent was a neighbour of the lost one when that was lost."""
    return mean(r.new in r.before for r in _rejoinings(run))


@case("links", unit="share")
def repairs_by_orphans(run: Run) -> Value:
    """Share of the links made for a repair one end of which was an end of the lost link."""
    return mean(r.child != LOCAL and r.lost != LOCAL for r in _rejoinings(run))


def _patterns(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"number=(\d+)", text)]


@case("links", "messages", unit="errors")
def carried_errors(run: Run, kind: str, source: int, target: int, patterns: Sequence[int]) -> Value:
    """Patterns too many or too few in a kind of message over a hop, since the tree changed."""
    changes = [change["time"] for change in run.links if change["time"] > 0]
    carried = [
        number
        for m in run.messages
        if m["kind"] == kind
        and (m["source"], m["target"]) == (source, target)
        and m["time"] >= min(changes)
        for number in _patterns(m["content"])
    ]
    errors = sum(number not in patterns for number in carried)
    return errors + sum(carried.count(number) != 1 for number in patterns)


@case("links", "messages", ENTRIES, unit="errors")
def activation_errors(run: Run, both_sides: bool = False) -> Value:
    """Patterns in which P1 and P2 differ from what the two sides of a lost link want.

    With ``both_sides`` only those count that both sides want, which belong in neither set.
    """
    wanted = {(n, pattern) for n, peer, pattern in run.entries() if peer == LOCAL}
    links = set(map(frozenset, run.initial_links))
    errors = repairs = 0
    changes = {c["repair"]: c for c in run.links if c["change"] == "down"}
    for repair in run.repairs:
        old = changes[repair.number]
        links.discard(frozenset((old["a"], old["b"])))
        near, far = repair.head[-1], repair.tail[0]
        side = ways_to(neighbours_of(map(tuple, links)), repair.head[0]).keys()
        here = {number for n, p in wanted if n in side for number in _patterns(_named(p))}
        there = {number for n, p in wanted if n not in side for number in _patterns(_named(p))}
        sent: dict[tuple[int, int], set[int]] = {}
        for m in run.messages:
            if m["kind"] == "activate" and repair.begins <= m["time"] < repair.ends:
                sent[m["source"], m["target"]] = set(_patterns(m["content"]))
        due = {(near, far): here - there}
        if near != repair.head[0]:
            due[repair.head[0], near] = here ^ there
        for hop in sent.keys() | due.keys():
            found = sent.get(hop, set())
            if both_sides:
                errors += len(found & here & there)
            else:
                errors += len(found ^ due.get(hop, set()))
        repairs += 1
        links.add(frozenset((near, far)))
    return errors if repairs else None


def _named(pattern: str) -> str:
    """The text of a filter in a note, as messages have it."""
    return re.sub(r"^pattern (\d+)$", r"number=\1", pattern)
