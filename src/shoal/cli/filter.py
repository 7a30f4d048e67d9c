"""``shoal filter``: what a filter means, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.output import JsonOption, console, print_json

filter_app = typer.Typer(name="filter", help="What a filter means, without a network.")


@filter_app.callback()
def _filter() -> None:
    """What a filter means, without a network."""


@filter_app.command()
def explain(
    filter: Annotated[str, typer.Argument(help="A filter, e.g. \"room LIKE 'lab%'\".")],
    event: Annotated[
        str | None, typer.Option(help="An event's attributes as JSON, or @FILE that holds them.")
    ] = None,
    covers: Annotated[
        list[str] | None, typer.Option(help="Another filter to compare with. May be repeated.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say how a filter is read, why it matches an event or does not, and what it covers.

    Examples:

        shoal filter explain "temperature > 30 AND room LIKE 'lab%'" --event '{"temperature": 31}'

        shoal filter explain "x > 5" --covers "x > 7" --covers "x > 3"
    """
    from rich.markup import escape

    from shoal.content import AttributeFilter

    found = AttributeFilter(filter)
    facts: dict[str, Any] = {"filter": found.text, "cost": found.cost()}
    screen = console()
    lines = [f"reads as  {escape(found.text)}", f"cost      {found.cost():,} steps at most"]
    if event is not None:
        why = found.explain(_attributes(event))
        facts |= {"matches": why.matched, "reasons": why.reasons}
        colour = "green" if why.matched else "red"
        head, *reasons = str(why).splitlines()
        lines += [f"[{colour}]{head}[/]", *map(escape, reasons)]
    compared = []
    for text in covers or ():
        other = AttributeFilter(text)
        relation = _relation(found, other)
        compared.append({"filter": other.text, "relation": relation})
        lines.append(f"{relation} {escape(other.text)}")
    if json:
        print_json({**facts, "compared": compared})
    else:
        screen.print("\n".join(lines), soft_wrap=True)
    if event is not None and not facts["matches"]:
        raise typer.Exit(1)


def _attributes(text: str) -> dict[str, Any]:
    """The attributes of an event, from JSON."""
    import json

    if text.startswith("@"):
        text = Path(text[1:]).read_text("utf-8")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f"--event is not JSON: {error}; write it like '{{\"temperature\": 31}}'"
        ) from None
    if not isinstance(found, dict) or any(isinstance(v, dict | list) for v in found.values()):
        raise typer.BadParameter(
            '--event must be a JSON object of text, numbers and booleans, e.g. {"temperature": 31}'
        )
    return found


def _relation(one: Any, other: Any) -> str:
    if one == other or (one.covers(other) and other.covers(one)):
        return "is the same as"
    if one.covers(other):
        return "covers"
    if other.covers(one):
        return "is covered by"
    return "overlaps" if one.overlaps(other) else "has no event in common with"
