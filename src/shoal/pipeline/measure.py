"""Measures: pure functions from the recorded tables to one number per run.

A measure takes the plan and the tables and gives a DataFrame ``experiment, variant, x, seed,
value``. It is registered under its function's name, may have parameters, and is computed by Spark
wherever the tables lie. What only one run looked at closely can tell (every message, every note) is
in :mod:`shoal.pipeline.closeup`; what needs the shape of the tree in :mod:`shoal.pipeline.cases`.

*Overhead* is what a changing tree costs: all messages but events, and misrouted events, from the
first change of a link on. Weights are those of Frey's Table 7.2, already in ``traffic.cost``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.errors import PipelineError
from shoal.stack.registry import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Tables: TypeAlias = Mapping[str, "DataFrame"]
Measure: TypeAlias = Callable[..., "DataFrame"]

TIDY = ("experiment", "variant", "x", "seed", "value")

_measures: dict[str, Measure] = {}


def measure(function: Measure) -> Measure:
    """Register a measure under its name."""
    _measures[function.__name__] = function
    return function


def measures() -> dict[str, str]:
    """All measures of whole runs, and what each one tells."""
    return {name: (f.__doc__ or "").strip().splitlines()[0] for name, f in _measures.items()}


def find_measure(name: str, parameters: Mapping[str, Any]) -> Measure:
    """The measure of that name; an unknown one, or an unknown parameter, is an error."""
    function = _measures.get(name)
    if function is None:
        raise PipelineError(f"unknown measure '{name}'{suggestion(name, list(_measures))}", "")
    known = list(inspect.signature(function).parameters)[2:]
    for parameter in parameters:
        if parameter not in known:
            raise PipelineError(
                f"measure '{name}' has no parameter '{parameter}'{suggestion(parameter, known)}", ""
            )
    return function


# Building blocks


def done(plan: DataFrame, tables: Tables) -> DataFrame:
    """The planned runs that went well, with what ``runs`` says of them."""
    runs = (
        tables["runs"]
        .where("status = 'done'")
        .select("run_id", "nodes", "reconfigurations", "diameter", "canonical")
    )
    return plan.join(runs, "run_id")


def tidy(runs: DataFrame, value: Column) -> DataFrame:
    """Runs with a value, in the form every measure has."""
    return runs.select("experiment", "variant", "x", "seed", value.cast("double").alias("value"))


def with_value(
    plan: DataFrame, tables: Tables, values: DataFrame, default: float | None
) -> DataFrame:
    """Runs that went well, joined to ``run_id, value``; ``default`` where there is no row."""
    found = done(plan, tables).join(values, "run_id", "left")
    value = F.col("value") if default is None else F.coalesce("value", F.lit(default))
    return tidy(found, value)


def started(tables: Tables) -> DataFrame:
    """When each run's tree first changed: ``run_id, start``."""
    changes = tables["links"].where("time > 0")
    return changes.groupBy("run_id").agg(F.min("time").alias("start"))


def bin_width(plan: DataFrame) -> DataFrame:
    """The width of each run's time bins: ``run_id, bin``."""
    width = F.get_json_object("configuration", "$.bin").cast("double")
    return plan.select("run_id", width.alias("bin")).distinct()


def traffic_of_change(plan: DataFrame, tables: Tables) -> DataFrame:
    """Traffic from the time bin of the first change on; all of it where nothing changes."""
    return (
        tables["traffic"]
        .join(F.broadcast(bin_width(plan)), "run_id")
        .join(started(tables), "run_id", "left")
        .where("start IS NULL OR time > start - bin + 1e-6")
    )


def overhead_of(plan: DataFrame, tables: Tables, weight: str, exclude: Sequence[str]) -> DataFrame:
    """Overhead per run, by a column of ``traffic``: ``run_id, value``."""
    amount = F.when(F.col("kind") == "event", F.col("misrouted")).otherwise(F.col(weight))
    counted = traffic_of_change(plan, tables).where(~F.col("kind").isin(list(exclude)))
    return counted.groupBy("run_id").agg(F.sum(amount).cast("double").alias("value"))


def per_reconfiguration(plan: DataFrame, tables: Tables, values: DataFrame) -> DataFrame:
    """Divide ``run_id, value`` by the number of links replaced."""
    found = done(plan, tables).join(values, "run_id", "left")
    return tidy(found, F.try_divide(F.coalesce("value", F.lit(0.0)), F.col("reconfigurations")))


def within(since: float, until: float) -> Column:
    """Whether ``time`` lies in a span; bins and instants that start at ``until`` do not."""
    return (F.col("time") >= since - 1e-6) & (F.col("time") < until - 1e-6)


# What a reconfiguration costs


@measure
def cost_per_rec(plan: DataFrame, tables: Tables, exclude: Sequence[str] = ()) -> DataFrame:
    """Normalised overhead per reconfiguration (Frey, Table 7.2), misrouted events 1 each."""
    return per_reconfiguration(plan, tables, overhead_of(plan, tables, "cost", exclude))


@measure
def messages_per_rec(plan: DataFrame, tables: Tables, exclude: Sequence[str] = ()) -> DataFrame:
    """Overhead messages per reconfiguration, each counted as one."""
    return per_reconfiguration(plan, tables, overhead_of(plan, tables, "count", exclude))


@measure
def overhead(plan: DataFrame, tables: Tables) -> DataFrame:
    """Normalised overhead of a whole run."""
    return with_value(plan, tables, overhead_of(plan, tables, "cost", ()), 0.0)


@measure
def improvement(plan: DataFrame, tables: Tables, over: str = "SM") -> DataFrame:
    """By how many per cent a reconfiguration costs less than with another variant, seed by seed."""
    costs = cost_per_rec(plan, tables)
    reference = costs.where(F.col("variant") == over).select(
        "experiment", F.col("x").alias("at"), "seed", F.col("value").alias("reference")
    )
    same = ["experiment", "seed"]
    paired = costs.where(F.col("variant") != over).join(reference, same)
    paired = paired.where(F.col("x").eqNullSafe(F.col("at")))
    return tidy(paired, 100 * (1 - F.try_divide(F.col("value"), F.col("reference"))))


@measure
def kind_per_rec(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """Messages of some kinds per reconfiguration."""
    counted = traffic_of_change(plan, tables).where(F.col("kind").isin(list(kinds)))
    values = counted.groupBy("run_id").agg(F.sum("count").cast("double").alias("value"))
    return per_reconfiguration(plan, tables, values)


@measure
def kind_cost_per_rec(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """Normalised cost of the messages of some kinds per reconfiguration."""
    counted = traffic_of_change(plan, tables).where(F.col("kind").isin(list(kinds)))
    values = counted.groupBy("run_id").agg(F.sum("cost").alias("value"))
    return per_reconfiguration(plan, tables, values)


@measure
def share_of_cost(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """Which part of the overhead some kinds of message make up; ``misrouted`` is one of them."""
    amount = F.when(F.col("kind") == "event", F.col("misrouted")).otherwise(F.col("cost"))
    kind = F.when(F.col("kind") == "event", F.lit("misrouted")).otherwise(F.col("kind"))
    values = (
        traffic_of_change(plan, tables)
        .groupBy("run_id")
        .agg(
            F.sum(F.when(kind.isin(list(kinds)), amount).otherwise(0.0)).alias("part"),
            F.sum(amount.cast("double")).alias("whole"),
        )
        .select("run_id", F.try_divide("part", "whole").alias("value"))
    )
    return with_value(plan, tables, values, None)


@measure
def involved(plan: DataFrame, tables: Tables) -> DataFrame:
    """Share of dispatchers that take part in a reconfiguration, on average."""
    mean = tables["repairs"].groupBy("run_id").agg(F.mean("involved").alias("mean"))
    return tidy(done(plan, tables).join(mean, "run_id"), F.try_divide("mean", "nodes"))


@measure
def settle_time(plan: DataFrame, tables: Tables) -> DataFrame:
    """The longest time from a break to the last message it caused, in seconds."""
    longest = F.max(F.col("last_message_at") - F.col("broken_at"))
    return with_value(
        plan, tables, tables["repairs"].groupBy("run_id").agg(longest.alias("value")), None
    )


@measure
def path_length(plan: DataFrame, tables: Tables) -> DataFrame:
    """Dispatchers on the reconfiguration path, on average."""
    mean = tables["repairs"].groupBy("run_id").agg(F.mean("path_length").alias("value"))
    return with_value(plan, tables, mean, None)


@measure
def breaks_per_link(plan: DataFrame, tables: Tables) -> DataFrame:
    """How often a link breaks per second while the tree changes."""
    window = F.from_json(F.get_json_object("configuration", "$.overlay.window"), "array<double>")
    span = F.coalesce(F.get(window, F.lit(1)) - F.get(window, F.lit(0)), F.lit(4.0))
    rate = F.try_divide(F.col("reconfigurations"), span * (F.col("nodes") - 1))
    return tidy(done(plan, tables), rate)


# Traffic as a whole


@measure
def misrouted(plan: DataFrame, tables: Tables, since: float = 0.0, until: float = 1e9) -> DataFrame:
    """Events sent where nobody wants them, in a span of time."""
    counted = tables["traffic"].where(within(since, until))
    values = counted.groupBy("run_id").agg(F.sum("misrouted").cast("double").alias("value"))
    return with_value(plan, tables, values, 0.0)


@measure
def misrouted_per_rec(plan: DataFrame, tables: Tables) -> DataFrame:
    """Events sent where nobody wants them, per reconfiguration."""
    values = traffic_of_change(plan, tables).groupBy("run_id")
    return per_reconfiguration(
        plan, tables, values.agg(F.sum("misrouted").cast("double").alias("value"))
    )


@measure
def overhead_to_goodput(plan: DataFrame, tables: Tables) -> DataFrame:
    """Overhead for each useful transmission of an event, over the whole run."""
    goodput = (
        tables["traffic"]
        .where("kind = 'event'")
        .groupBy("run_id")
        .agg(F.sum(F.col("count") - F.col("misrouted")).alias("goodput"))
    )
    spent = overhead_of(plan, tables, "cost", ()).join(goodput, "run_id")
    values = spent.select("run_id", F.try_divide("value", "goodput").alias("value"))
    return with_value(plan, tables, values, None)


@measure
def traffic_rate(
    plan: DataFrame, tables: Tables, since: float = 0.0, until: float = 1e9
) -> DataFrame:
    """Messages of all kinds per second, in a span of time."""
    counted = tables["traffic"].where(within(since, until))
    values = counted.groupBy("run_id").agg((F.sum("count") / (until - since)).alias("value"))
    return with_value(plan, tables, values, 0.0)


@measure
def peak_traffic(
    plan: DataFrame, tables: Tables, since: float = 0.0, until: float = 1e9
) -> DataFrame:
    """Messages of all kinds in the busiest time bin of a span."""
    bins = tables["traffic"].where(within(since, until)).groupBy("run_id", F.round("time", 6))
    totals = bins.agg(F.sum("count").alias("count")).groupBy("run_id")
    return with_value(plan, tables, totals.agg(F.max("count").cast("double").alias("value")), 0.0)


@measure
def traffic_over_time(plan: DataFrame, tables: Tables) -> DataFrame:
    """Messages of all kinds per second, bin by bin; x is the time."""
    width = F.get_json_object("configuration", "$.bin").cast("double")
    counted = (
        done(plan, tables)
        .drop("x")
        .join(tables["traffic"].select("run_id", F.round("time", 6).alias("x"), "count"), "run_id")
    )
    keys = ("experiment", "variant", "seed", "x", width.alias("bin"))
    totals = counted.groupBy(*keys).agg(F.sum("count").alias("count"))
    return tidy(totals, F.col("count") / F.col("bin"))


@measure
def kind_count(plan: DataFrame, tables: Tables, kinds: Sequence[str]) -> DataFrame:
    """Messages of some kinds since the tree first changed (in all, if it does not)."""
    counted = traffic_of_change(plan, tables).where(F.col("kind").isin(list(kinds)))
    values = counted.groupBy("run_id").agg(F.sum("count").cast("double").alias("value"))
    return with_value(plan, tables, values, 0.0)


@measure
def other_kinds(plan: DataFrame, tables: Tables, besides: Sequence[str]) -> DataFrame:
    """How many kinds of message there are beyond events, (un)subscriptions and those named."""
    usual = ["event", "sub", "unsub", *besides]
    counted = tables["traffic"].where(~F.col("kind").isin(usual))
    values = counted.groupBy("run_id").agg(F.count_distinct("kind").alias("value"))
    return with_value(plan, tables, values, 0.0)


@measure
def kinds_seen(plan: DataFrame, tables: Tables, of: Sequence[str]) -> DataFrame:
    """How many of these kinds of message a changing tree causes."""
    counted = traffic_of_change(plan, tables).where(F.col("kind").isin(list(of)))
    values = counted.groupBy("run_id").agg(F.count_distinct("kind").alias("value"))
    return with_value(plan, tables, values, 0.0)


# Delivery


def _owed(who: str) -> tuple[str, str]:
    """The columns for everybody, the stable core, or the others."""
    suffix = {"all": "", "core": "_core", "others": "_others"}.get(who)
    if suffix is None:
        raise PipelineError(f"delivery to '{who}' is not recorded", "use all, core or others")
    return f"owed{suffix}", f"received{suffix}"


@measure
def delivery(
    plan: DataFrame, tables: Tables, since: float = 0.0, until: float = 1e9, who: str = "all"
) -> DataFrame:
    """Deliveries made of those owed, for events published in a span of time."""
    owed, received = _owed(who)
    published = tables["publications"].where(within(since, until)).groupBy("run_id")
    share = F.try_divide(F.sum(received), F.sum(owed))
    return with_value(plan, tables, published.agg(share.alias("value")), None)


@measure
def delivery_over_time(plan: DataFrame, tables: Tables, who: str = "all") -> DataFrame:
    """Deliveries made of those owed, by the tenth of a second of publication; x is the time."""
    owed, received = _owed(who)
    tenth = (F.floor(F.col("time") * 10 + 1e-6) / 10).alias("x")
    published = (
        done(plan, tables)
        .drop("x")
        .join(tables["publications"].select("run_id", tenth, owed, received), "run_id")
    )
    bins = published.groupBy("experiment", "variant", "seed", "x")
    shares = bins.agg(F.try_divide(F.sum(received), F.sum(owed)).alias("share"))
    return tidy(shares, F.col("share"))


@measure
def receivers(plan: DataFrame, tables: Tables, since: float = 0.0) -> DataFrame:
    """Share of dispatchers that want an event, on average."""
    published = tables["publications"].where(F.col("time") >= since).groupBy("run_id")
    wanted = published.agg(F.mean("owed").alias("owed"))
    return tidy(done(plan, tables).join(wanted, "run_id"), F.try_divide("owed", "nodes"))


@measure
def receivers_expected(plan: DataFrame, tables: Tables) -> DataFrame:
    """The share of dispatchers that want an event, by Frey's equation 7.1."""

    def setting(name: str) -> Column:
        return F.get_json_object("configuration", f"$.workload.{name}").cast("double")

    missed = 1 - setting("patterns_per_subscriber") / setting("patterns")
    matched = 1 - F.pow(missed, setting("patterns_per_event"))
    return tidy(done(plan, tables), setting("subscribers") * matched)


# The tree and its tables


@measure
def diameter(plan: DataFrame, tables: Tables) -> DataFrame:
    """The longest path of the initial tree, in links."""
    return tidy(done(plan, tables), F.col("diameter"))


def _wrong_tables(plan: DataFrame, tables: Tables) -> DataFrame:
    """All planned runs and whether their tables came out right; a failed run's did not."""
    runs = tables["runs"].select(
        "run_id",
        F.when(F.col("status") == "done", F.col("canonical")).otherwise(False).alias("right"),
    )
    return plan.join(runs, "run_id")


@measure
def canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if all tables at rest are those of the final tree and subscribers, 0 if one is not."""
    return tidy(_wrong_tables(plan, tables), F.col("right").cast("int"))


@measure
def not_canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if a table at rest is wrong, 0 if all are right."""
    return tidy(_wrong_tables(plan, tables), 1 - F.col("right").cast("int"))


def union(frames: Iterable[DataFrame]) -> DataFrame | None:
    """All rows of some frames; None if there are none."""
    whole: DataFrame | None = None
    for frame in frames:
        whole = frame if whole is None else whole.unionByName(frame)
    return whole
