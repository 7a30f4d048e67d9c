"""``shoal reproduce``: a paper's experiments, its claims judged, a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _papers(incomplete: str) -> list[str]:
    """Names of papers: each has a file of claims."""
    import shoal

    folder = Path(shoal.__file__).parent / "experiments"
    names = (f.name.partition(".")[0].replace("_", "-") for f in folder.glob("*.claims.yaml"))
    return sorted(name for name in names if name.startswith(incomplete))


def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Which papers: {', '.join(_papers(''))}. All if none is named.",
            autocompletion=_papers,
            show_default=False,
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
    seeds: Annotated[
        int | None, typer.Option(min=1, help="So many seeds instead.", show_default=False)
    ] = None,
) -> None:
    """Reproduce published results and judge every claim.

    Simulates the experiments of the papers on Spark, computes their figures from the recorded
    tables, and decides for each claim whether it is reproduced, with intervals over seeds. Leaves
    `report.html` (one file, opens anywhere) and `claims.json` in the folder. What is there already
    is not simulated again.

    Examples:

        shoal reproduce frey-routing --quick --out out

        shoal reproduce frey-routing --full --master spark://head:7077 --out /shared/frey
    """
    from shoal.pipeline.reproduce import reproduce as run

    run(
        papers or [],
        claims=claim or [],
        tier="quick" if quick else "full",
        master=master,
        out=out,
        seeds=seeds,
    )
