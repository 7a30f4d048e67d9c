"""``shoal sweep``: an experiment of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.pipeline.judge.statistics import Estimate
    from shoal.pipeline.plan.experiment import PlannedRun
    from shoal.pipeline.simulate.sweep import SweepOutcome

MEASURES = {
    "delivery": ("delivery %", 100.0),
    "overhead": ("overhead", 1.0),
    "misrouted": ("misrouted", 1.0),
    "settle_time": ("settled after, s", 1.0),
}
"""What the summary shows, its heading and the factor to show it with."""


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment in TOML, see examples/sweep.toml.")],
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Few seeds, or as many as the file says.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="So many seeds instead.", show_default=False)
    ] = None,
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local[N], spark://HOST:PORT, …")
    ] = "local[*]",
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for tables and results (out/NAME).", show_default=False),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed before.")] = False,
) -> None:
    """Run an experiment of your own and sum it up.

    The file names a base configuration, variants to compare, the values to sweep and a number of
    seeds; the product is simulated on Spark, one run per seed. What is in the folder already is not
    simulated again, so a stopped sweep goes on where it was, and more seeds cost only themselves.

    Leaves the recorded tables (`tables/`), the plan and the measures (`measures.parquet`) behind,
    for any tool that reads Parquet.

    Examples:

        shoal sweep examples/sweep.toml

        shoal sweep my.toml --seeds 50 --master spark://head:7077 --out /shared/my
    """
    from shoal.pipeline.plan.experiment import plan, write_plan
    from shoal.pipeline.plan.experiment_file import load_experiment
    from shoal.pipeline.simulate.sweep import sweep as simulate_all
    from shoal.pipeline.spark.session import check_master, spark_session

    experiment = load_experiment(file)
    runs = plan([experiment], "quick" if quick else "full", seeds)
    check_master(master)
    folder = out if out is not None else Path("out") / experiment.name
    write_plan(runs, folder)
    with spark_session(master, folder) as spark:
        outcome = simulate_all(spark, runs, folder, retry=retry)
        values = _measure(spark, _labelled(runs), folder)
    _show(experiment.title, values, outcome, folder)
    if outcome.failures:
        raise typer.Exit(1)


def _labelled(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Runs with every swept value in the variant's name: one row of the summary each."""
    import json
    from dataclasses import replace

    labelled = []
    for run in runs:
        point = [f"{key} = {value}" for key, value in json.loads(run.point).items()]
        labelled.append(replace(run, variant="\t".join([run.variant, *point]), x=None))
    return labelled


def _measure(
    spark: SparkSession, runs: Sequence[PlannedRun], folder: Path
) -> dict[str, dict[str, Estimate]]:
    """Row of the summary -> measure -> mean and interval over seeds."""
    from shoal.pipeline.measure.compute import Question, measure_all, to_rows, write_values
    from shoal.pipeline.plan.experiment import plan_frame
    from shoal.pipeline.tables.dataframes import Tables

    asked = [Question(name, {}, frozenset({runs[0].experiment})) for name in MEASURES]
    table = measure_all(plan_frame(spark, runs), Tables(spark, folder), asked)
    write_values(table, folder)
    found: dict[str, dict[str, list[float]]] = {run.variant: {} for run in runs}
    for measure, _, variant, _, _, value in to_rows(table):
        if value is not None:
            found[variant].setdefault(measure, []).append(value)
    return {
        variant: {measure: _mean(values) for measure, values in by_measure.items()}
        for variant, by_measure in found.items()
    }


def _mean(values: Sequence[float]) -> Estimate:
    import numpy as np

    from shoal.pipeline.judge.statistics import jackknife

    array = np.array(values)
    return jackknife(lambda kept: float(array[kept].mean()), len(values))


def _show(
    title: str,
    values: Mapping[str, Mapping[str, Estimate]],
    outcome: SweepOutcome,
    folder: Path,
) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(title=f"{title} (mean ± 95% over seeds)", title_justify="left")
    table.add_column("variant")
    for part in next(iter(values)).split("\t")[1:]:
        table.add_column(part.partition(" = ")[0], justify="right")
    for heading, _ in MEASURES.values():
        table.add_column(heading, justify="right")
    for variant, measured in values.items():
        name, *point = variant.split("\t")
        cells = [_text(measured.get(m), factor) for m, (_, factor) in MEASURES.items()]
        table.add_row(escape(name), *(p.partition(" = ")[2] for p in point), *cells)
    console.print(table)
    done = f"{outcome.simulated:,} simulated, {outcome.reused:,} there already"
    console.print(f"{done}; tables and measures in [bold]{escape(str(folder))}[/]", soft_wrap=True)
    for failure in outcome.failures[:5]:
        console.print(f"[red]failed[/]: {escape(failure.error)}", soft_wrap=True)
        console.print(f"    replay: {escape(failure.replay)}", soft_wrap=True)
    if len(outcome.failures) > 5:
        console.print(f"[red]{len(outcome.failures) - 5:,} more failed[/], see the runs table")


def _text(estimate: Estimate | None, factor: float) -> str:
    if estimate is None:
        return "–"
    value = estimate.value * factor
    digits = 1 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}"
    if estimate.high is not None:
        text += f" ± {(estimate.high - estimate.value) * factor:,.{digits}f}"
    return text
