"""``shoal report``: what happened on a network, live or simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import console, table


def report(
    folders: Annotated[
        list[Path], typer.Argument(help="What brokers recorded, or the output of simulations.")
    ],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", help="Which measures; by default the usual ones."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where recordings are put together, as tables.")] = Path(
        "out/live"
    ),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the numbers here.")
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Also write report.html, with all runs side by side.")
    ] = False,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
) -> None:
    """Measure what brokers recorded, as simulations are measured.

    The recordings of all brokers of a network are put together, with what was owed to whom, and
    the same measures are computed over them as over simulated runs. Name the folders of both, and
    they stand side by side.

    Examples:

        shoal report logs/

        shoal report broker-1/ broker-2/ --measure delivery --measure route_length

        shoal report logs/ simulated/ --page
    """
    from shoal.cli.reproduce import show
    from shoal.experiments.trees import CLAIMS
    from shoal.pipeline.measure.live import USUAL, check_asked, measured
    from shoal.pipeline.progress import ConsoleProgress
    from shoal.pipeline.report.side_by_side import OVER_TIME, judged, side_by_side
    from shoal.pipeline.spark.session import check_master, spark_session

    names = measure or list(USUAL)
    asked = list(dict.fromkeys((*names, *OVER_TIME) if page else names))
    check_master(master)
    check_asked(folders, asked)  # before Spark has started
    with ConsoleProgress() as progress:
        progress.stage("Starting Spark")
        with spark_session(master) as spark:
            rows = measured(spark, folders, out, asked, CLAIMS if page else (), progress)
    shown = table("run", "stack", *names, title="What happened", left=2)
    for row in rows:
        values = [row.values.get(name) for name in names]
        shown.add_row(row.run, row.stack, *("–" if v is None else f"{v:.4g}" for v in values))
    console().print(shown)
    if page:
        judgements = judged(rows, CLAIMS)
        if judgements:
            show(judgements)
        words = ["shoal", "report", *map(str, folders), "--page", "--out", str(out)]
        typer.echo(f"Report: {side_by_side(rows, asked, out, words, judgements)}")
    if json_file is not None:
        found = [{"run": row.run, "stack": row.stack, **row.values} for row in rows]
        json_file.write_text(json.dumps(found, indent=2) + "\n")
