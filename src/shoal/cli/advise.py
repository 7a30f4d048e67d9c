"""``shoal advise``: which protocol for this network?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import JsonOption, console, print_json, table

if TYPE_CHECKING:
    from shoal.pipeline.advise import Advice
    from shoal.pipeline.judge.statistics import Estimate


def advise(
    file: Annotated[Path, typer.Argument(help="A scenario in TOML, see examples/scenario.toml.")],
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each candidate.")] = 10,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    out: Annotated[Path, typer.Option(help="Where runs are kept and found again.")] = Path(
        "out/advise"
    ),
    json: JsonOption = False,
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
    from shoal.pipeline.progress import ConsoleProgress
    from shoal.pipeline.spark.session import spark_session

    scenario = load_scenario(file)
    candidates(scenario)  # refuse a bad scenario before Spark starts
    with ConsoleProgress() as progress:
        progress.stage("Starting Spark")
        with spark_session(master) as spark:
            advice = ask(spark, scenario, out, seeds=seeds, progress=progress)
    if json:
        chosen = advice.recommended.name if advice.recommended is not None else None
        print_json({"recommended": chosen, **asdict(advice)})
    else:
        _show(advice)


def _show(advice: Advice) -> None:
    screen = console()
    rows = table(
        *("stack", "delivery %", "messages/s", "overhead/s", "misrouted/s", "tables"),
        title=f"Candidates, best first (mean of {advice.seeds} seeds ± 95%)",
    )
    for candidate in advice.candidates:
        first = candidate is advice.recommended
        rows.add_row(
            candidate.name,
            _text(candidate.delivery, 100.0, 2),
            _text(candidate.messages, 1.0, 1),
            _text(candidate.overhead, 1.0, 1),
            _text(candidate.misrouted, 1.0, 2),
            f"[red]wrong in {candidate.wrong_runs}[/]" if candidate.wrong_runs else "right",
            style="bold green" if first else None,
        )
    screen.print(rows)
    if advice.recommended is None:
        screen.print(f"[yellow]No recommendation[/]: {advice.reason}.")
    else:
        screen.print(f"Recommended: [bold]{advice.reason}[/].", soft_wrap=True)


def _text(estimate: Estimate | None, scale: float, digits: int) -> str:
    if estimate is None:
        return "–"
    text = f"{estimate.value * scale:.{digits}f}"
    if estimate.high is not None:
        text += f" ± {(estimate.high - estimate.value) * scale:.{digits}f}"
    return text
