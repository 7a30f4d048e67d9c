"""``shoal reproduce``: a paper's experiments, its claims judged, a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import console, table

if TYPE_CHECKING:
    from shoal.pipeline.judge.verdicts import Judgement


def _papers(incomplete: str) -> list[str]:
    """Names of papers."""
    from shoal.experiments import MODULES

    return [name for name in MODULES if name.startswith(incomplete)]


def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Which papers: {', '.join(_papers(''))}. All if none is named.",
            autocompletion=_papers,
            metavar="[PAPER]…",
        ),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(help="Only this claim, and what it needs. May be repeated.", metavar="ID"),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick/--full", help="Few points and seeds (minutes), or the paper's own."),
    ] = True,
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local[N], spark://HOST:PORT, …")
    ] = "local[*]",
    out: Annotated[Path, typer.Option(help="The folder for tables and results.")] = Path("out"),
    seeds: Annotated[int | None, typer.Option(min=1, help="So many seeds instead.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run again what failed before.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with code 4 unless every claim judged is reproduced."),
    ] = False,
) -> None:
    """Reproduce published results and judge every claim.

    Simulates the experiments of the papers on Spark, computes their figures from the recorded
    tables, and decides for each claim whether it is reproduced, with intervals over seeds. Leaves
    `report.html` (one file, opens anywhere) and `claims.json` in the folder. What is there already
    is not simulated again.

    Examples:

        shoal reproduce frey-routing --quick --out out

        shoal reproduce frey-routing --full --master spark://head:7077 --out /shared/frey

        shoal reproduce costa-picco --claim S-F3-01 --check
    """
    from shoal.experiments import MODULES, find_paper
    from shoal.pipeline.reproduce import reproduce as run

    found = run(
        [find_paper(name) for name in papers or MODULES],
        claims=claim or [],
        tier="quick" if quick else "full",
        master=master,
        out=out,
        seeds=seeds,
        retry=retry,
    )
    show(found.judgements)
    failed = len(found.sweep.failures)
    if failed:
        typer.echo(
            f"{failed} runs failed; the report lists how to replay them, --retry runs them again.",
            err=True,
        )
    typer.echo(f"Verdicts: {found.claims}")
    typer.echo(f"Report:   {found.report}")
    if check and any(judgement.verdict != "reproduced" for judgement in found.judgements):
        raise typer.Exit(4)


def show(judgements: Sequence[Judgement]) -> None:
    """Print the claims as a table, and how many fared how."""
    from rich.markup import escape

    from shoal.pipeline.report.page import number

    screen = console()
    heads = ["claim", "verdict", "measured", "95% interval", "expected", "seeds"]
    several = any(found.claim.readings for found in judgements)
    rows = table(*heads, *(["other readings"] * several), left=2, box=None)
    for column in (*rows.columns[3:5], *rows.columns[6:]):
        column.justify = "left"
    for found in judgements:
        interval = f"{number(found.low)} … {number(found.high)}" if found.low is not None else "–"
        rows.add_row(
            found.claim.id,
            f"[{COLOURS[found.verdict]}]{found.verdict}[/]{' (means)' * found.means_only}",
            number(found.value),
            interval,
            escape(number(found.expected)),
            str(found.seeds or "–"),
            *([escape(_others(found))] * several),
        )
    screen.print(rows)
    screen.print(summary(judgements))


def _others(found: Judgement) -> str:
    """Values of a claim in the readings in which it is not judged."""
    from shoal.pipeline.judge.claims import ANY
    from shoal.pipeline.report.page import SYMBOLS, number

    told = [f"{name} {number(o.value)} {SYMBOLS[o.verdict]}" for name, o in found.others]
    if not told and found.claim.readings:
        return "does not depend on it" if ANY in found.claim.readings else "judged in all"
    return "; ".join(told)


def summary(judgements: Sequence[Judgement]) -> str:
    """Number of claims per verdict, in one line."""
    from shoal.pipeline.judge.decisions import VERDICTS

    counts = []
    for verdict in VERDICTS:
        alike = [judgement for judgement in judgements if judgement.verdict == verdict]
        means = sum(judgement.means_only for judgement in alike)
        marked = f" ({means} by means only)" if means else ""
        if alike:
            counts.append(f"[bold]{len(alike)}[/] {verdict}{marked}")
    return ", ".join(counts)


COLOURS = {
    "reproduced": "green",
    "order only": "yellow",
    "undecided": "blue",
    "not reproduced": "red",
    "not run": "bright_black",
}
