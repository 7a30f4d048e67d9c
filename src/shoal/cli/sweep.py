"""``shoal sweep``: an experiment of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import JsonOption, console, print_json, table

if TYPE_CHECKING:
    from shoal.pipeline.judge.statistics import Estimate
    from shoal.pipeline.study import Study


def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment in TOML, see examples/sweep.toml.")],
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Few seeds, or as many as the file says.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="So many seeds instead.")] = None,
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local[N], spark://HOST:PORT, …")
    ] = "local[*]",
    out: Annotated[
        Path | None, typer.Option(help="The folder for tables and results (out/NAME).")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed before.")] = False,
    json: JsonOption = False,
) -> None:
    """Run an experiment of your own, sum it up and write a report.

    The file names a base configuration, variants to compare, the values to sweep and a number of
    seeds; the product is simulated on Spark, one run per seed. What is in the folder already is not
    simulated again, so a stopped sweep goes on where it was, and more seeds cost only themselves.

    Leaves `report.html`, `summary.csv`, `measures.parquet` and the recorded tables (`tables/`).
    `shoal measures` lists what the file's `measures` may name.

    Examples:

        shoal sweep examples/sweep.toml

        shoal sweep my.toml --seeds 50 --master spark://head:7077 --out /shared/my
    """
    from shoal.pipeline.plan.experiment_file import load_experiment
    from shoal.pipeline.study import study

    experiment = load_experiment(file)
    folder = out if out is not None else Path("out") / experiment.name
    words = ["shoal", "sweep", str(file), "--quick" if quick else "--full"]
    if seeds is not None:
        words += ["--seeds", str(seeds)]
    found = study(
        experiment,
        folder,
        [*words, "--out", str(folder)],
        "quick" if quick else "full",
        seeds=seeds,
        master=master,
        retry=retry,
    )
    if json:
        units = dict(zip(found.measures, found.units, strict=True))
        print_json({"title": found.title, "units": units, "rows": found.rows})
    else:
        _show(found)
    if found.sweep.failures:
        raise typer.Exit(1)


def _show(found: Study) -> None:
    from rich.markup import escape

    screen = console()
    keys = list(found.rows[0].point)
    headings = [_heading(*named) for named in zip(found.measures, found.units, strict=True)]
    rows = table("variant", *keys, *headings, title=f"{found.title} (mean ± 95% over seeds)")
    for row in found.rows:
        point = [str(row.point[key]) for key in keys]
        cells = [
            _text(row.values[name], 100.0 if unit == "share" else 1.0)
            for name, unit in zip(found.measures, found.units, strict=True)
        ]
        rows.add_row(escape(row.variant), *point, *cells)
    screen.print(rows)
    outcome = found.sweep
    done = f"{outcome.simulated:,} simulated, {outcome.reused:,} there already"
    screen.print(f"{done}; all of it in {escape(str(found.folder))}", soft_wrap=True)
    screen.print(f"Report: {escape(str(found.report))}", soft_wrap=True)
    for failure in outcome.failures[:5]:
        screen.print(f"[red]failed[/]: {escape(failure.error)}", soft_wrap=True)
        screen.print(f"    replay: {escape(failure.replay)}", soft_wrap=True)
    if len(outcome.failures) > 5:
        screen.print(f"[red]{len(outcome.failures) - 5:,} more failed[/], see the runs table")


def _heading(measure: str, unit: str) -> str:
    return f"{measure.replace('_', ' ')}, {'%' if unit == 'share' else unit}".removesuffix(", ")


def _text(estimate: Estimate | None, factor: float) -> str:
    if estimate is None:
        return "–"
    value = estimate.value * factor
    digits = 1 if abs(value) >= 10 else 3
    text = f"{value:,.{digits}f}"
    if estimate.high is not None:
        text += f" ± {(estimate.high - estimate.value) * factor:,.{digits}f}"
    return text
