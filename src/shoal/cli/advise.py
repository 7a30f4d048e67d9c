"""``shoal advise``: which protocol for this network?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from shoal.pipeline.advise import Advice
    from shoal.pipeline.judge.statistics import Estimate

console = Console()


def advise(
    file: Annotated[Path, typer.Argument(help="A scenario in TOML, see examples/scenario.toml.")],
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each candidate.")] = 10,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    out: Annotated[Path, typer.Option(help="Where runs are kept and found again.")] = Path(
        "out/advise"
    ),
) -> None:
    """Recommend a protocol for a network of your own.

    Takes a scenario (nodes, topology and its changes, workload), simulates every stack that can be
    built on it with the same seeds, and recommends the one that delivers as well as the best with
    the fewest messages. Intervals are 95% over seeds.

    Example:

        shoal advise examples/scenario.toml --seeds 20
    """
    from shoal.pipeline.advise import advise as ask
    from shoal.pipeline.advise import candidates, load_scenario
    from shoal.pipeline.spark.session import spark_session

    scenario = load_scenario(file)
    candidates(scenario)  # refuse a bad scenario before Spark starts
    with spark_session(master) as spark:
        advice = ask(spark, scenario, out, seeds=seeds)
    _show(advice)


def _show(advice: Advice) -> None:
    table = Table(title=f"Candidates, best first (mean of {advice.seeds} seeds ± 95%)")
    table.add_column("stack")
    for name in ("delivery %", "messages/s", "overhead/s", "misrouted/s"):
        table.add_column(name, justify="right")
    table.add_column("tables")
    for candidate in advice.candidates:
        first = candidate is advice.recommended
        table.add_row(
            candidate.name,
            _text(candidate.delivery, 100.0, 2),
            _text(candidate.messages, 1.0, 1),
            _text(candidate.overhead, 1.0, 1),
            _text(candidate.misrouted, 1.0, 2),
            f"[red]wrong in {candidate.wrong_runs}[/]" if candidate.wrong_runs else "right",
            style="bold green" if first else None,
        )
    console.print(table)
    if advice.recommended is None:
        console.print(f"[yellow]No recommendation[/]: {advice.reason}.")
    else:
        console.print(f"Recommended: [bold]{advice.reason}[/].", soft_wrap=True)


def _text(estimate: Estimate | None, scale: float, digits: int) -> str:
    if estimate is None:
        return "–"
    text = f"{estimate.value * scale:.{digits}f}"
    if estimate.high is not None:
        text += f" ± {(estimate.high - estimate.value) * scale:.{digits}f}"
    return text
