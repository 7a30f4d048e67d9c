"""``shoal measures``: what can be computed from recorded tables."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.output import JsonOption, console, print_json, table


def measures(
    name: Annotated[str | None, typer.Argument(help="Only those whose name holds this.")] = None,
    json: JsonOption = False,
) -> None:
    """List the measures: what each tells of a run, and its unit.

    Any of these names may stand in `measures` of an experiment (`shoal sweep`), in `shoal report
    --measure` and in claims. Those that have parameters show them; a sweep uses their defaults.

    Example:

        shoal measures delivery
    """
    from rich.markup import escape

    from shoal.pipeline.measure.compute import every_measure

    found = [m for m in every_measure() if name is None or name in m.name]
    if not found:
        raise typer.BadParameter(f"no measure's name holds '{name}'; leave it out to see all")
    if json:
        print_json(found)
        return
    rows = table("measure", "unit", "what it tells", "parameters", left=4)
    for each in found:
        rows.add_row(each.name, each.unit, escape(each.summary), ", ".join(each.parameters))
    console().print(rows)
