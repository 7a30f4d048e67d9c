"""``shoal match``: files of events against files of subscriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def match(
    events: Annotated[Path, typer.Argument(help="Events: Parquet, JSON lines or CSV.")],
    subscriptions: Annotated[Path, typer.Argument(help="Subscriptions: an id and a filter each.")],
    out: Annotated[Path, typer.Option(help="A new folder for the result, in Parquet.")],
    event_id: Annotated[
        str | None,
        typer.Option(help="The events' id column; without one, numbers: in Parquet the rows'."),
    ] = None,
    id_column: Annotated[str, typer.Option("--id", help="The subscriptions' id column.")] = "id",
    filter_column: Annotated[
        str, typer.Option("--filter", help="The column with their filters.")
    ] = "filter",
    counts: Annotated[
        bool, typer.Option("--counts", help="How many match each event, not which.")
    ] = False,
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local[N], spark://HOST:PORT, …")
    ] = "local[*]",
) -> None:
    """Find which subscriptions match which events.

    A column of the events is an attribute; a null is an absent one. The result has a row per match
    (`event`, `subscription`), or per event with `--counts` (`event`, `matches`).

    Examples:

        shoal match edits.json.gz subscriptions.csv --out matches

        shoal match events.parquet subscriptions.parquet --event-id id --counts --out counts
    """
    from shoal.pipeline.match.files import check_paths, match_files
    from shoal.pipeline.progress import ConsoleProgress
    from shoal.pipeline.spark.session import check_master, spark_session

    check_master(master)
    check_paths(events, subscriptions, out)  # before Spark has started
    with ConsoleProgress() as progress:
        progress.stage("Starting Spark")
        with spark_session(master) as spark:
            found = match_files(
                spark, events, subscriptions, out,
                event_id=event_id, id_column=id_column, filter_column=filter_column,
                output="counts" if counts else "pairs", progress=progress,
            )  # fmt: skip
    for hint in found.hints:
        typer.echo(f"shoal: {hint}", err=True)
    if found.malformed:
        lines = "line is" if found.malformed == 1 else "lines are"
        typer.echo(f"shoal: {found.malformed:,} {lines} malformed and left out", err=True)
    typer.echo(
        f"{found.matches:,} matches of {found.events:,} events and "
        f"{found.subscriptions:,} subscriptions in {found.out}"
    )
