"""Measures: from the recorded tables to one number per run.

Most are one aggregate over the rows that one table has of a run, so that all measures over a table
take a single pass (:func:`per_run`); the others are DataFrame functions of their own. Either way::

    cost_per_rec(plan, tables)      # DataFrame: experiment, variant, x, seed, value

What only runs looked at closely can tell (every message, every note) is in
:mod:`shoal.pipeline.closeup`; what needs the shape of the tree in :mod:`shoal.pipeline.cases`.

*Overhead* is what a changing tree costs: all messages but events, and misrouted events, from the
first change of a link on. Weights are those of Frey's Table 7.2, already in ``traffic.cost``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.errors import PipelineError
from shoal.stack.registry import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Tables: TypeAlias = Mapping[str, "DataFrame"]

TIDY = ("experiment", "variant", "x", "seed", "value")
EVER = 1e9


class Measure:
    """A registered measure; call it with a plan and tables."""

    def __init__(self, function: Callable[..., Any], table: str | None) -> None:
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().splitlines()[0]
        self.table = table
        """The table it aggregates; None for a DataFrame function of its own."""
        self._function = function
        first = 0 if table else 2
        self.parameters = list(inspect.signature(function).parameters)[first:]

    def check(self, parameters: Mapping[str, Any]) -> None:
        """An error if it has no such parameters."""
        for parameter in parameters:
            if parameter not in self.parameters:
                raise PipelineError(
                    f"measure '{self.name}' has no parameter '{parameter}'"
                    f"{suggestion(parameter, self.parameters)}",
                    "correct the claim or figure",
                )

    def aggregate(self, **parameters: Any) -> Column:
        """The aggregate over its table's rows of a run."""
        column: Column = self._function(**parameters)
        return column

    def __call__(self, plan: DataFrame, tables: Tables, **parameters: Any) -> DataFrame:
        """The values of planned runs that went well: ``experiment, variant, x, seed, value``."""
        if self.table is None:
            frame: DataFrame = self._function(plan, tables, **parameters)
            return frame
        asked = [Asked(self.name, self, parameters, None)]
        return per_run(plan, tables, self.table, asked).select(*TIDY)


class Asked(NamedTuple):
    """A measure to be computed: under which key, with which parameters, in which experiments."""

    key: str
    measure: Measure
    parameters: Mapping[str, Any]
    experiments: frozenset[str] | None


_measures: dict[str, Measure] = {}


def over(table: str) -> Callable[[Callable[..., Column]], Measure]:
    """Register a measure that is an aggregate over a table's rows of a run."""

    def register(function: Callable[..., Column]) -> Measure:
        return _measures.setdefault(function.__name__, Measure(function, table))

    return register


def measure(function: Callable[..., DataFrame]) -> Measure:
    """Register a measure that is a DataFrame function of plan and tables."""
    return _measures.setdefault(function.__name__, Measure(function, None))


def measures() -> dict[str, str]:
    """All measures, and what each one tells."""
    return {name: found.summary for name, found in sorted(_measures.items())}


def find_measure(name: str) -> Measure:
    """The measure of that name; an unknown one is an error that says what there is."""
    if name not in _measures:
        raise PipelineError(
            f"unknown measure '{name}'{suggestion(name, sorted(_measures))}", "name one of them"
        )
    return _measures[name]


def per_run(plan: DataFrame, tables: Tables, table: str, asked: Sequence[Asked]) -> DataFrame:
    """Several measures of one table in one pass, as tidy rows with the key in ``measure``."""
    rows = run_rows(plan, tables, table)
    values = [a.measure.aggregate(**a.parameters).cast("double") for a in asked]
    found = rows.groupBy("run_id").agg(*(v.alias(f"v{i}") for i, v in enumerate(values)))
    answers = []
    for i, a in enumerate(asked):
        answer = F.struct(F.lit(a.key).alias("measure"), F.col(f"v{i}").alias("value"))
        if a.experiments is not None:
            answer = F.when(F.col("experiment").isin(sorted(a.experiments)), answer)
        answers.append(answer)
    each = with_rows(plan, found).withColumn("a", F.explode(F.array_compact(F.array(*answers))))
    return each.select("a.measure", "experiment", "variant", "x", "seed", "a.value")


def run_rows(plan: DataFrame, tables: Tables, table: str) -> DataFrame:
    """Runs that went well, each with its rows of a table and one row of nulls.

    ``changing`` says of a row with a time whether the tree had begun to change by then; where it
    never does, everything counts.
    """
    facts = done(plan, tables)
    if table == "runs":
        return facts
    if table in ("traffic", "messages", "notes"):
        changes = tables["links"].where("time > 0").groupBy("run_id")
        facts = facts.join(changes.agg(F.min("time").alias("start")), "run_id", "left")
    rows = with_rows(facts, tables[table]).unionByName(facts, allowMissingColumns=True)
    if table not in ("traffic", "messages", "notes"):
        return rows
    # A row of traffic is a time bin; the one in which the change falls counts.
    early = F.get_json_object("configuration", "$.bin").cast("double") - 1e-6
    slack = early if table == "traffic" else F.lit(0.0)
    begun = F.col("start").isNull() | (F.col("time") > F.col("start") - slack - 1e-12)
    return rows.withColumn("changing", begun)


def done(plan: DataFrame, tables: Tables) -> DataFrame:
    """The planned runs that went well, each once, with what ``runs`` says of them."""
    facts = ("run_id", "reconfigurations", "diameter", "canonical")
    runs = tables["runs"].where("status = 'done'")
    runs = runs.select(*facts, F.col("nodes").alias("dispatchers"))  # traffic has its own nodes
    return F.broadcast(plan.select("run_id", "configuration").distinct()).join(runs, "run_id")


def with_rows(runs: DataFrame, rows: DataFrame) -> DataFrame:
    """A table's rows of some runs. The runs are few: they go to the rows, not the rows to them."""
    return rows.join(F.broadcast(runs), "run_id")


def tidy(plan: DataFrame, values: DataFrame) -> DataFrame:
    """``run_id, value`` (and ``x``, for an axis of the measure's own) as every measure has it."""
    runs = plan.drop("x") if "x" in values.columns else plan
    joined = with_rows(runs, values).withColumn("value", F.col("value").cast("double"))
    return joined.select(*TIDY)


# Building blocks


def total(amount: Column | str, where: Column) -> Column:
    """A sum over some of the rows; 0 if there are none."""
    column = F.col(amount) if isinstance(amount, str) else amount
    return F.coalesce(F.sum(F.when(where, column.cast("double"))), F.lit(0.0))


def per_replacement(amount: Column) -> Column:
    """Divided by the number of links replaced."""
    return F.try_divide(amount, F.max("reconfigurations"))


def between(since: float, until: float) -> Column:
    """Whether ``time`` lies in a span; bins and instants that start at ``until`` do not."""
    return (F.col("time") >= since - 1e-6) & (F.col("time") < until - 1e-6)


def of_kind(kinds: Sequence[str]) -> Column:
    """Whether a message is of one of these kinds."""
    return F.col("kind").isin(list(kinds))


def setting(path: str) -> Column:
    """A number of the run's configuration."""
    return F.get_json_object(F.max("configuration"), f"$.{path}").cast("double")


CHANGING = "changing"
_WASTED = "CASE WHEN kind = 'event' THEN misrouted ELSE {} END"


def overhead_by(weight: str, exclude: Sequence[str] = ()) -> Column:
    """Overhead, by a column of ``traffic``."""
    return total(F.expr(_WASTED.format(weight)), F.col(CHANGING) & ~of_kind(exclude))


# What a reconfiguration costs


@over("traffic")
def cost_per_rec(exclude: Sequence[str] = ()) -> Column:
    """Normalised overhead per reconfiguration (Frey, Table 7.2), misrouted events 1 each."""
    return per_replacement(overhead_by("cost", exclude))


@over("traffic")
def messages_per_rec(exclude: Sequence[str] = ()) -> Column:
    """Overhead messages per reconfiguration, each counted as one."""
    return per_replacement(overhead_by("count", exclude))


@over("traffic")
def overhead() -> Column:
    """Normalised overhead of a whole run."""
    return overhead_by("cost")


@measure
def improvement(plan: DataFrame, tables: Tables, over: str = "SM") -> DataFrame:
    """By how many per cent a reconfiguration costs less than with another variant, seed by seed."""
    costs = cost_per_rec(plan, tables)
    reference = costs.where(F.col("variant") == over).select(
        "experiment", F.col("x").alias("at"), "seed", F.col("value").alias("reference")
    )
    paired = costs.where(F.col("variant") != over).join(reference, ["experiment", "seed"])
    paired = paired.where(F.col("x").eqNullSafe(F.col("at")))
    value = 100 * (1 - F.try_divide(F.col("value"), F.col("reference")))
    return paired.withColumn("value", value).select(*TIDY)


@over("traffic")
def kind_cost_per_rec(kinds: Sequence[str]) -> Column:
    """Normalised cost of the messages of some kinds per reconfiguration."""
    return per_replacement(total("cost", F.col(CHANGING) & of_kind(kinds)))


@over("traffic")
def share_of_cost(kinds: Sequence[str]) -> Column:
    """Which part of the overhead some kinds of message make up; ``misrouted`` is one of them."""
    named = F.when(F.col("kind") == "event", F.lit("misrouted")).otherwise(F.col("kind"))
    amount = F.expr(_WASTED.format("cost"))
    part = total(amount, F.col(CHANGING) & named.isin(list(kinds)))
    return F.try_divide(part, overhead_by("cost"))


@over("repairs")
def involved() -> Column:
    """Share of dispatchers that take part in a reconfiguration, on average."""
    return F.try_divide(F.mean("involved"), F.max("dispatchers"))


@over("repairs")
def settle_time() -> Column:
    """The longest time from a break to the last message it caused, in seconds."""
    return F.max(F.col("last_message_at") - F.col("broken_at"))


@over("repairs")
def path_length() -> Column:
    """Dispatchers on the reconfiguration path, on average."""
    return F.mean("path_length")


@over("runs")
def breaks_per_link() -> Column:
    """How often a link breaks per second while the tree changes."""
    span = setting("overlay.window[1]") - setting("overlay.window[0]")
    return F.try_divide(F.max("reconfigurations"), span * (F.max("dispatchers") - 1))


# Traffic as a whole


@over("traffic")
def misrouted(since: float = 0.0, until: float = EVER) -> Column:
    """Events sent where nobody wants them, in a span of time."""
    return total("misrouted", between(since, until))


@over("traffic")
def misrouted_per_rec() -> Column:
    """Events sent where nobody wants them, per reconfiguration."""
    return per_replacement(total("misrouted", F.col(CHANGING)))


@over("traffic")
def overhead_to_goodput() -> Column:
    """Overhead for each useful transmission of an event, over the whole run."""
    useful = total(F.col("count") - F.col("misrouted"), F.col("kind") == "event")
    return F.try_divide(overhead_by("cost"), useful)


@over("traffic")
def traffic_rate(since: float = 0.0, until: float = EVER) -> Column:
    """Messages of all kinds per second, in a span of time."""
    return total("count", between(since, until)) / (until - since)


@over("traffic")
def kind_count(kinds: Sequence[str]) -> Column:
    """Messages of some kinds since the tree first changed (in all, if it does not)."""
    return total("count", F.col(CHANGING) & of_kind(kinds))


@over("traffic")
def other_kinds(besides: Sequence[str]) -> Column:
    """How many kinds of message there are beyond events, (un)subscriptions and those named."""
    usual = ["event", "sub", "unsub", *besides]
    return F.size(F.collect_set(F.when(~of_kind(usual), F.col("kind"))))


@over("traffic")
def kinds_seen(of: Sequence[str]) -> Column:
    """How many of these kinds of message a changing tree causes."""
    return F.size(F.collect_set(F.when(F.col(CHANGING) & of_kind(of), F.col("kind"))))


@measure
def peak_traffic(
    plan: DataFrame, tables: Tables, since: float = 0.0, until: float = EVER
) -> DataFrame:
    """Messages of all kinds in the busiest time bin of a span."""
    rows = with_rows(plan.select("run_id").distinct(), tables["traffic"])
    bins = rows.where(between(since, until)).groupBy("run_id", "time")
    totals = bins.agg(F.sum("count").alias("count")).groupBy("run_id")
    return tidy(plan, totals.agg(F.max("count").alias("value")))


@measure
def traffic_over_time(plan: DataFrame, tables: Tables) -> DataFrame:
    """Messages of all kinds per second, bin by bin; x is the time."""
    width = F.get_json_object("configuration", "$.bin").cast("double")
    rows = with_rows(done(plan, tables), tables["traffic"])
    rows = rows.select("run_id", width.alias("bin"), F.round("time", 6).alias("x"), "count")
    totals = rows.groupBy("run_id", "bin", "x").agg(F.sum("count").alias("count"))
    return tidy(plan, totals.select("run_id", "x", (F.col("count") / F.col("bin")).alias("value")))


# Delivery


def _owed(who: str) -> tuple[str, str]:
    """The columns for everybody, the stable core, or the others."""
    suffix = {"all": "", "core": "_core", "others": "_others"}.get(who)
    if suffix is None:
        raise PipelineError(f"delivery to '{who}' is not recorded", "use all, core or others")
    return f"owed{suffix}", f"received{suffix}"


@over("publications")
def delivery(since: float = 0.0, until: float = EVER, who: str = "all") -> Column:
    """Deliveries made of those owed, for events published in a span of time."""
    owed, received = _owed(who)
    span = between(since, until)
    return F.try_divide(total(received, span), total(owed, span))


@measure
def delivery_over_time(plan: DataFrame, tables: Tables, who: str = "all") -> DataFrame:
    """Deliveries made of those owed, by the tenth of a second of publication; x is the time."""
    owed, received = _owed(who)
    tenth = F.floor(F.col("time") * 10 + 1e-6) / 10
    rows = with_rows(plan.select("run_id").distinct(), tables["publications"])
    bins = rows.groupBy("run_id", tenth.alias("x"))
    return tidy(plan, bins.agg(F.try_divide(F.sum(received), F.sum(owed)).alias("value")))


@over("publications")
def receivers(since: float = 0.0) -> Column:
    """Share of dispatchers that want an event, on average."""
    return F.try_divide(F.mean(F.when(F.col("time") >= since, F.col("owed"))), F.max("dispatchers"))


@over("runs")
def receivers_expected() -> Column:
    """The share of dispatchers that want an event, by Frey's equation 7.1."""
    missed = 1 - setting("workload.patterns_per_subscriber") / setting("workload.patterns")
    matched = 1 - F.pow(missed, setting("workload.patterns_per_event"))
    return setting("workload.subscribers") * matched


# The tree and its tables


@over("runs")
def diameter() -> Column:
    """The longest path of the initial tree, in links."""
    return F.max("diameter")


@measure
def canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if all tables at rest are those of the final tree and subscribers; 0 if not, or failed."""
    right = F.when(F.col("status") == "done", F.col("canonical").cast("int")).otherwise(0)
    return tidy(plan, tables["runs"].select("run_id", right.alias("value")))


@measure
def not_canonical(plan: DataFrame, tables: Tables) -> DataFrame:
    """1 if a table at rest is wrong or the run failed; 0 if all are right."""
    return canonical(plan, tables).withColumn("value", 1 - F.col("value"))
