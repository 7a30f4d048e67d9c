"""Computes all measures that claims and figures ask for, in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from copy import copy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.errors import PipelineError, python_error
from shoal.pipeline.judge.claims import Claim
from shoal.pipeline.judge.samples import Row, measure_key
from shoal.pipeline.measure.cases import ENTRIES, PLAN, Case, evaluate
from shoal.pipeline.measure.registry import (
    TIDY,
    Aggregate,
    Measure,
    Question,
    Tables,
    find_measure,
    per_run,
    registered,
    with_rows,
)
from shoal.pipeline.paper import Figure, Panel
from shoal.pipeline.progress import Progress
from shoal.pipeline.tables.dataframes import Tables as FolderTables
from shoal.record import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

for module in (
    *("air", "dps", "dps_cases", "dps_loads", "dps_traces", "graphs", "lstree_notes", "manet"),
    *("messages", "overlays", "peer_to_peer", "recovery", "reference_trees", "runs", "shopping"),
    "trees",
):
    import_module(f"shoal.pipeline.measure.{module}")  # registers its measures

SCHEMA = pa.schema(
    columns("measure string, experiment string, variant string, x double, seed int64, value double")
)
AT_A_TIME = 3
"""Parts that Spark computes at the same time."""
Part: TypeAlias = Callable[[], "DataFrame"]
"""Makes the DataFrame that answers some of the questions."""


def every_measure() -> list[Measure]:
    """All measures, by name."""
    return registered()


def check_defaults(measure: str) -> str:
    """The unit of a measure that needs no parameters; an error if it needs some, or is unknown."""
    found = find_measure(measure)
    if found.needed:
        raise PipelineError(
            f"measure '{measure}' needs {', '.join(found.needed)}, which only a claim can give",
            "choose another: shoal measures lists them",
        )
    return found.unit


def figures_of(experiment: str, measures: Iterable[str]) -> tuple[Figure, ...]:
    """A figure for each measure of an experiment, as no paper has drawn one."""
    found = []
    for number, measure in enumerate(map(find_measure, measures), 1):
        label = f"{measure.name.replace('_', ' ')} ({measure.unit})".removesuffix(" ()")
        panel = Panel(experiment, measure.name, label)
        found.append(Figure(str(number), measure.summary, (panel,)))
    return tuple(found)


def bounds_of(measure: str) -> tuple[float, float] | None:
    """The least and the greatest value that a measure can have, if there are such."""
    try:
        return (0.0, 1.0) if find_measure(measure).unit in ("share", "0 or 1") else None
    except PipelineError:
        return None


def questions(claims: Iterable[Claim], figures: Iterable[Figure]) -> list[Question]:
    """Everything that claims and figures want to know, each once."""
    wanted: dict[str, tuple[str, Mapping[str, Any], set[str]]] = {}

    def ask(measure: str, parameters: Mapping[str, Any], experiments: Iterable[str]) -> None:
        key = measure_key(measure, parameters)
        wanted.setdefault(key, (measure, parameters, set()))[2].update(experiments)

    for claim in claims:
        for check in claim.every_check():
            for term in check.terms():
                place = term.experiment or check.experiment
                ask(term.measure or check.measure, check.parameters, [place])
    for figure in figures:
        for panel in figure.panels:
            ask(panel.measure, panel.parameters, [panel.experiment])
    return [Question(m, p, frozenset(e)) for m, p, e in wanted.values()]


def measure_all(
    plan: DataFrame, tables: Tables, asked: Sequence[Question], progress: Progress | None = None
) -> pa.Table:
    """The answers, as rows of ``measure, experiment, variant, x, seed, value``."""
    progress = progress or Progress()
    kept = _Tables(plan, tables)
    cases = [question for question in asked if isinstance(find_measure(question.measure), Case)]
    parts: list[tuple[str, Part]] = []
    if cases:  # the longest first
        parts.append(
            (f"{len(cases)} that look at runs one by one", partial(_cases, plan, kept, cases))
        )
    parts += _aggregates(plan, kept, [q for q in asked if q not in cases])
    # One job each, a few at a time: together they would be one plan that takes longer to make than
    # to run, and one is put together while others run. They are too small for Spark to change its
    # mind on the way.
    with _setting(plan.sparkSession, "spark.sql.adaptive.enabled", "false"):
        try:
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                work = {pool.submit(_answer, part): name for name, part in parts}
                left = dict.fromkeys(work)
                _show(progress, len(parts), [work[each] for each in left])
                for done in as_completed(work):
                    del left[done]
                    _show(progress, len(parts), [work[each] for each in left])
                answers = [future.result() for future in work]
        finally:
            progress.stage("")
            kept.rows.unpersist()
    return pa.concat_tables([SCHEMA.empty_table(), *answers])


def _answer(part: Part) -> pa.Table:
    """Values of a part; an error keeps its text, which would be lost when Spark ends."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return part().toArrow().cast(SCHEMA)
    except Py4JError:  # its text cannot be asked for where Java has ended
        raise PipelineError(
            "Spark ended while it measured, perhaps for want of memory",
            "close other programs or take a --master with fewer cores, and run again",
        ) from None
    except PySparkException as error:
        cause = python_error(str(error)) or type(error).__name__
        raise PipelineError(
            f"a measure failed: {cause.removeprefix('RuntimeError: ')}",
            "mend it or leave it out (some measures are for certain protocols), and run again",
        ) from None


def _show(progress: Progress, parts: int, left: Sequence[str]) -> None:
    """Show which parts are done, and which are being measured."""
    if left:
        now = ", ".join(left[:AT_A_TIME])
        progress.stage(f"Measuring: {parts - len(left)} of {parts} steps done; now {now}")


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of the session within the block."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


class _Tables(Mapping[str, "DataFrame"]):
    """The recorded tables; those :meth:`of` some experiments leave out files of the others.

    Spark caches ``runs`` alone. Of other tables a measure needs few columns and files: to read them
    again costs less than to cache all.
    """

    def __init__(self, plan: DataFrame, tables: Tables) -> None:
        self._tables = tables
        self.rows = tables["runs"].persist()
        self._runs: dict[str, set[str]] = {}
        """Runs of each experiment."""
        for row in plan.select("experiment", "run_id").toArrow().to_pylist():
            self._runs.setdefault(row["experiment"], set()).add(row["run_id"])

    def of(self, experiments: Iterable[str]) -> Tables:
        """The tables without the files in which no run of these experiments is."""
        narrowed = copy(self)
        if isinstance(self._tables, FolderTables):
            runs = set[str]().union(*(self._runs.get(name, ()) for name in experiments))
            narrowed._tables = self._tables.only(runs)
        return narrowed

    def __getitem__(self, name: str) -> DataFrame:
        return self.rows if name == "runs" else self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _aggregates(
    plan: DataFrame, tables: _Tables, asked: Sequence[Question]
) -> Iterator[tuple[str, Part]]:
    """Parts for the measures that SQL computes: one part per table, or per measure of its own."""
    by_table: dict[str, list[Question]] = {}
    for question in asked:
        found = find_measure(question.measure)
        found.check(question.parameters)
        if isinstance(found, Aggregate):
            by_table.setdefault(found.table, []).append(question)
        else:
            yield question.measure, partial(_alone, plan, tables, question)
    for table, together in by_table.items():
        yield f"{len(together)} over {table}", partial(_together, plan, tables, table, together)


def _alone(plan: DataFrame, tables: _Tables, question: Question) -> DataFrame:
    found = find_measure(question.measure)
    mine, theirs = _of(plan, question.experiments), tables.of(question.experiments)
    values: DataFrame = found(mine, theirs, **question.parameters)
    return values.select(F.lit(question.key).alias("measure"), *TIDY)


def _together(plan: DataFrame, tables: _Tables, table: str, asked: Sequence[Question]) -> DataFrame:
    experiments = frozenset[str]().union(*(a.experiments for a in asked))
    return per_run(_of(plan, experiments), tables.of(experiments), table, asked)


def _of(plan: DataFrame, experiments: Iterable[str]) -> DataFrame:
    return plan.where(F.col("experiment").isin(sorted(experiments)))


def _cases(plan: DataFrame, tables: _Tables, asked: Sequence[Question]) -> DataFrame:
    """The measures that look at one run at a time.

    All that they need of a run comes to one worker, row after row: Spark sorts it, on disk if it
    must, and no more than one run is ever in memory.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted: dict[str, list[Question]] = {}
    needed: dict[str, set[str]] = {}
    """Per part the experiments of which a case reads it."""
    for question in asked:
        case = find_measure(question.measure)
        assert isinstance(case, Case)
        case.check(question.parameters)
        for part in case.parts:
            needed.setdefault(part, set()).update(question.experiments)
        for experiment in question.experiments:
            wanted.setdefault(experiment, []).append(question)
    done = tables["runs"].where("status = 'done'").select("run_id")
    runs = _of(plan, wanted).join(done, "run_id")
    rows = _packed(PLAN, runs.select("run_id", "configuration", *TIDY[:-1]))
    for name, experiments in sorted(needed.items()):
        ids = _of(runs, experiments).select("run_id").distinct()
        mine = with_rows(ids, _part(tables.of(experiments), name))
        rows = rows.unionByName(_packed(name, mine), allowMissingColumns=True)
    together = rows.repartition("run_id").sortWithinPartitions("run_id", "table", "place")
    answers = from_arrow_schema(SCHEMA)
    return together.mapInArrow(partial(evaluate, wanted=wanted, schema=SCHEMA), answers)


def _part(tables: Tables, name: str) -> DataFrame:
    """A table's rows; those of ``notes`` in two parts, with and without :data:`ENTRIES`."""
    if name not in ("notes", ENTRIES):
        return tables[name]
    on_entries = F.col("what").isin("entry added", "entry removed")
    return tables["notes"].where(on_entries if name == ENTRIES else ~on_entries)


def _packed(name: str, rows: DataFrame) -> DataFrame:
    """Rows of a table as one column of that name, so that those of several tables can be sorted."""
    columns = [column for column in rows.columns if column != "run_id"]
    return rows.select(
        "run_id",
        F.lit(name).alias("table"),
        F.monotonically_increasing_id().alias("place"),
        F.struct(*columns).alias(name),
    )


def to_rows(values: pa.Table) -> Iterator[Row]:
    """The answers as rows for the judge."""
    columns = [values[name].to_pylist() for name in SCHEMA.names]
    return zip(*columns, strict=True)


def write_values(values: pa.Table, out: Path) -> Path:
    """Write the answers to ``measures.parquet``."""
    path = out / "measures.parquet"
    pq.write_table(values, path, compression="zstd")
    return path
