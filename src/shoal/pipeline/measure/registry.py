"""What a measure is: from the recorded tables to one number per run.

Most are one aggregate over the rows that one table has of a run, so that all measures over a table
take a single pass (:func:`per_run`); the others are DataFrame functions of their own. Either way::

    cost_per_rec(plan, tables)      # DataFrame: experiment, variant, x, seed, value
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.samples import measure_key
from shoal.stack.registry import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Tables: TypeAlias = Mapping[str, "DataFrame"]

TIDY = ("experiment", "variant", "x", "seed", "value")
"""Columns of a measure's values."""
EVER = 1e9
"""A time after the end of every run."""
CHANGING = "changing"
"""Column of :func:`run_rows`: whether the tree had begun to change."""


class Measure:
    """A registered measure; call it with a plan and tables, a case with a run."""

    given = 2
    """Arguments of its function that are no parameters of the measure."""

    def __init__(self, function: Callable[..., Any], unit: str, *tables: str) -> None:
        self.function = function
        self.tables = tables
        """Tables that it reads. One that is a DataFrame function names only those that a run does
        not record unless told to."""
        self.name = function.__name__
        self.summary = (function.__doc__ or "").strip().partition("\n")[0]
        self.unit = unit
        parameters = list(inspect.signature(function).parameters.values())[self.given :]
        self.parameters = [p.name for p in parameters]
        self.needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
        """The parameters that have no default."""
        _measures[self.name] = self

    def check(self, parameters: Mapping[str, Any]) -> None:
        """An error if it has no such parameters."""
        for parameter in parameters:
            if parameter not in self.parameters:
                near = suggestion(parameter, self.parameters)
                raise PipelineError(
                    f"measure '{self.name}' has no parameter '{parameter}'{near}",
                    "correct the claim or figure",
                )

    def __call__(self, *given: Any, **parameters: Any) -> Any:
        """The function's result; of a case, the value of one run."""
        return self.function(*given, **parameters)


class Frame(Measure):
    """A measure that is a DataFrame function of plan and tables."""

    def __call__(self, plan: DataFrame, tables: Tables, **parameters: Any) -> DataFrame:
        """The values of planned runs that went well: ``experiment, variant, x, seed, value``."""
        values: DataFrame = self.function(plan, tables, **parameters)
        return values


class Aggregate(Frame):
    """A measure that is an aggregate over a table's rows of a run."""

    given = 0

    def __init__(self, function: Callable[..., Column], unit: str, table: str) -> None:
        super().__init__(function, unit, table)
        self.table = table

    def __call__(self, plan: DataFrame, tables: Tables, **parameters: Any) -> DataFrame:
        return per_run(plan, tables, self.table, [Question(self.name, parameters)]).select(*TIDY)


@dataclass(frozen=True)
class Question:
    """A measure with its parameters, and the experiments in which it is asked for."""

    measure: str
    parameters: Mapping[str, Any]
    experiments: frozenset[str] = frozenset()
    """All if empty."""

    @property
    def key(self) -> str:
        """The name under which its values are kept."""
        return measure_key(self.measure, self.parameters)


_measures: dict[str, Measure] = {}


def over(table: str, unit: str = "") -> Callable[[Callable[..., Column]], Aggregate]:
    """Register a measure that is an aggregate over a table's rows of a run."""
    return lambda function: Aggregate(function, unit, table)


def measure(*tables: str, unit: str = "") -> Callable[[Callable[..., DataFrame]], Frame]:
    """Register a measure that is a DataFrame function of plan and tables."""
    return lambda function: Frame(function, unit, *tables)


def registered() -> list[Measure]:
    """All measures, by name."""
    return [found for _, found in sorted(_measures.items())]


def find_measure(name: str) -> Measure:
    """The measure of that name; an unknown one is an error that says what there is."""
    if name not in _measures:
        raise PipelineError(
            f"unknown measure '{name}'{suggestion(name, sorted(_measures))}", "name one of them"
        )
    return _measures[name]


def per_run(plan: DataFrame, tables: Tables, table: str, asked: Sequence[Question]) -> DataFrame:
    """Several measures of one table in one pass, as tidy rows with the key in ``measure``."""
    rows = run_rows(plan, tables, table)
    values = [find_measure(a.measure).function(**a.parameters).cast("double") for a in asked]
    found = rows.groupBy("run_id").agg(*(v.alias(f"v{i}") for i, v in enumerate(values)))
    answers = []
    for i, a in enumerate(asked):
        answer = F.struct(F.lit(a.key).alias("measure"), F.col(f"v{i}").alias("value"))
        if a.experiments:
            answer = F.when(F.col("experiment").isin(sorted(a.experiments)), answer)
        answers.append(answer)
    each = with_rows(plan, found).withColumn("a", F.explode(F.array_compact(F.array(*answers))))
    return each.select("a.measure", "experiment", "variant", "x", "seed", "a.value")


def run_rows(plan: DataFrame, tables: Tables, table: str) -> DataFrame:
    """Runs that went well, each with its rows of a table and one row of nulls.

    :data:`CHANGING` is true in rows with a time from the first change of the tree on; in all of
    them, if it never changes.
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
    early = F.col("bin_width") - 1e-6
    slack = early if table == "traffic" else F.lit(0.0)
    begun = F.col("start").isNull() | (F.col("time") > F.col("start") - slack - 1e-12)
    return rows.withColumn(CHANGING, begun)


def done(plan: DataFrame, tables: Tables) -> DataFrame:
    """The planned runs that went well, each once, with what ``runs`` says of them.

    ``since`` and ``until`` are the workload's publish window, if it has one, and ``bin_width`` the
    seconds of a time bin.
    """
    facts = ("run_id", "reconfigurations", "diameter", "canonical")
    runs = tables["runs"].where("status = 'done'")
    runs = runs.select(*facts, F.col("nodes").alias("dispatchers"))  # traffic has its own nodes
    planned = plan.select("run_id", "configuration").distinct()
    for name, path in (  # read here, as a run has many rows
        ("since", "workload.publish_window[0]"),
        ("until", "workload.publish_window[1]"),
        ("bin_width", "bin"),
    ):
        value = F.get_json_object("configuration", f"$.{path}").cast("double")
        planned = planned.withColumn(name, value)
    return F.broadcast(planned).join(runs, "run_id")


def with_rows(runs: DataFrame, rows: DataFrame) -> DataFrame:
    """A table's rows of some runs. The runs are few: they go to the rows, not the rows to them."""
    return rows.join(F.broadcast(runs), "run_id")


def tidy(plan: DataFrame, values: DataFrame) -> DataFrame:
    """``run_id, value`` (and ``x``, for an axis of the measure's own) as every measure has it."""
    runs = plan.drop("x") if "x" in values.columns else plan
    joined = with_rows(runs, values).withColumn("value", F.col("value").cast("double"))
    return joined.select(*TIDY)


def beside(values: DataFrame, others: DataFrame, name: str, *same: str) -> DataFrame:
    """Values, each with that of ``others`` at the same point and seed as a column of that name.

    ``same`` lists further columns that are to be the same.
    """
    keys = ["experiment", "seed", *same]
    theirs = others.select(*keys, F.col("x").alias("at"), F.col("value").alias(name))
    return values.join(theirs, keys).where(F.col("x").eqNullSafe(F.col("at"))).drop("at")


# Building blocks


def total(amount: Column | str, where: Column | None = None) -> Column:
    """A sum over all or some of the rows; 0 if there are none."""
    column = (F.col(amount) if isinstance(amount, str) else amount).cast("double")
    return F.coalesce(F.sum(column if where is None else F.when(where, column)), F.lit(0.0))


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
