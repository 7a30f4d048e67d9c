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

    Claims may use every measure. `measures` of an experiment (`shoal sweep`) and `shoal report
    --measure` use parameters' defaults, so they take the measures that need no parameter.

    Example:

        shoal measures delivery
    """
    from difflib import get_close_matches

    from rich.markup import escape

    from shoal.pipeline.measure.compute import every_measure

    every = every_measure()
    found = [m for m in every if name is None or name in m.name]
    if not found:
        near = get_close_matches(name or "", [m.name for m in every], n=1)
        cure = f"did you mean '{near[0]}'?" if near else "leave it out to see all"
        raise typer.BadParameter(f"no measure's name holds '{name}'; {cure}")
    if json:
        fields = ("name", "unit", "summary", "parameters", "needed")
        print_json([{field: getattr(m, field) for field in fields} for m in found])
        return
    rows = table("measure", "unit", "what it tells", "parameters", left=4)
    rows.columns[0].no_wrap = True
    for each in found:
        parameters = (f"{p} (needed)" if p in each.needed else p for p in each.parameters)
        rows.add_row(each.name, each.unit, escape(each.summary), ", ".join(parameters))
    console().print(rows)
