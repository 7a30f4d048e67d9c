"""``shoal chaos``: random trouble for every protocol, held to the oracle, for as long as asked."""

from __future__ import annotations

import itertools
import json
import logging
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from shoal.cli.output import console, table
from shoal.cli.settings import assign, choose
from shoal.pipeline.progress import lasting

if TYPE_CHECKING:
    from shoal.live.chaos import LiveChaos
    from shoal.simulation.chaos import History


def chaos(
    minutes: Annotated[
        float, typer.Option(min=0.01, max=525_600, help="How long; each stack runs at least once.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The first seed; each round takes the next.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Steps in each history.")] = 40,
    overlay: Annotated[
        str | None, typer.Option(help="Only this overlay; with --live, that of the brokers.")
    ] = None,
    routing: Annotated[str | None, typer.Option(help="Only this routing.")] = None,
    reconfiguration: Annotated[str | None, typer.Option(help="Only this protocol.")] = None,
    recovery: Annotated[
        str | None,
        typer.Option(
            help="Only this recovery, and only with one: `all` for all; with --live, the brokers'."
        ),
    ] = None,
    module: Annotated[
        list[str] | None, typer.Option(help="A Python file that registers protocols; repeatable.")
    ] = None,
    replay: Annotated[
        str | None, typer.Option(help="Replay a history, as printed by a failure (JSON).")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Broker processes under faults, with hostile clients.")
    ] = False,
    brokers: Annotated[int, typer.Option(min=2, max=64, help="With --live: how many.")] = 12,
    every: Annotated[
        float, typer.Option(min=0.5, help="With --live: seconds from fault to fault.")
    ] = 5.0,
    promise: Annotated[
        Literal["best effort", "recovered"], typer.Option(help="With --live: what is promised.")
    ] = "best effort",
    virtual: Annotated[
        bool,
        typer.Option("--virtual", help="With --live: in this process, in minutes that cost less."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="With --live: any setting of brokers.", metavar="KEY=VALUE"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --live: the table as JSON.")
    ] = False,
) -> None:
    """Break every protocol if it can be broken.

    Small networks meet random subscriptions, publications and trouble, all overlapping: links of a
    given tree are replaced; nodes of an overlay that builds itself start, crash, stand still or are
    cut off. Once quiet, the overlay must be whole again, tables must be exactly those of the final
    tree and subscribers, and every event must reach exactly those who want it. Above a recovery,
    links lose events; once quiet, whatever a node still holds must have reached all who lack it. A
    failure is shrunk to the fewest steps and printed with the command that replays it (exit code
    1).

    With `--live`, brokers run as processes of this machine. Every few seconds one is killed,
    stopped for a while or told to stop, and comes back. Honest clients publish and subscribe
    beside hostile ones, and a table says what became of every event (exit code 1 if one came twice
    or to the wrong client, or if a broker ended by itself). With `--promise recovered`, connections
    between brokers are also cut, delayed and lose events (exit code 1 also if an event was lost
    without a gap, or not delivered though a broker held it). With `--virtual`, the same brokers run
    in this process on links in memory, and the minutes are those of a clock that jumps to whatever
    is due next: hundreds of faults take seconds.

    Examples:

        shoal chaos --minutes 2

        shoal chaos --reconfiguration informed --seed 1000

        shoal chaos --overlay graph --routing flooding

        shoal chaos --recovery combined-pull

        shoal chaos --live --minutes 10

        shoal chaos --live --overlay graph --promise recovered --minutes 10

        shoal chaos --live --virtual --promise recovered --minutes 2 --every 2
    """
    if live:
        others: dict[str, object] = {"--routing": routing, "--reconfiguration": reconfiguration}
        others |= {"--module": module, "--replay": replay}
        if idle := [name for name, value in others.items() if value]:
            raise typer.BadParameter(f"{' and '.join(idle)} and --live do not go together")
        settings: dict[str, Any] = {}
        for setting in set_ or ():
            assign(settings, setting)
        choose(settings, recovery=recovery)
        from shoal.live.chaos import LiveChaos
        from shoal.live.settings import OVERLAY

        overlay = overlay or OVERLAY
        asked: dict[str, Any] = {"promise": promise, "overlay": overlay, "settings": settings}
        run = LiveChaos(brokers=brokers, seed=seed, every=every, **asked)
        _live(run, minutes, seed, as_json, virtual)
        return
    if set_:
        raise typer.BadParameter("--set is for brokers: add --live")
    from shoal.modules import load_module
    from shoal.simulation import chaos as trouble

    for path in module or ():
        load_module(path)
    if replay is not None:
        _replay(replay)
        return
    wanted = (overlay, routing, reconfiguration)
    subjects = [
        subject
        for subject in (*trouble.subjects(), *trouble.recovery_subjects())
        if all(name in (None, is_) for name, is_ in zip(wanted, subject, strict=False))
        and (recovery in (None, subject.recovery) or (recovery == "all" and subject.recovery))
    ]
    if not subjects:
        names = " + ".join(name for name in (*wanted, recovery) if name is not None)
        raise typer.BadParameter(f"no stack with {names}; see `shoal protocols` for what there is")
    histories = 0
    started = time.monotonic()
    failed: tuple[History, str] | None = None
    with lasting(minutes * 60, f"Trouble on {len(subjects)} stacks") as tell:
        for number in itertools.count(seed):
            for subject in subjects:
                history, found = trouble.trial(subject, number, steps)
                histories += 1
                if found is not None:
                    failed = history, found
                    break
            spent = time.monotonic() - started
            tell(spent, f"{histories:,} histories, seed {number}")
            if failed is not None or spent >= minutes * 60:
                break
    if failed is not None:
        _report(failed[0], number, failed[1], module or [])
        raise typer.Exit(1)
    console().print(
        f"[green]{histories:,} histories[/] of {steps} steps on {len(subjects)} stacks, "
        f"seeds {seed} to {number}: all as the oracle says."
    )


def _report(history: History, seed: int, found: str, modules: list[str]) -> None:
    """A failure, as short as it can be made, with the command that replays it."""
    from shoal.simulation import chaos as trouble

    short = trouble.shrink(history)
    console().print(f"[red]seed {seed}[/], {history.subject}: {found}", soft_wrap=True)
    for line in short:
        console().print(f"    {line}", highlight=False)
    text = json.dumps(trouble.describe(history, short))
    options = "".join(f"--module {shlex.quote(module)} " for module in modules)
    console().print(
        f"replay: shoal chaos {options}--replay {shlex.quote(text)}",
        soft_wrap=True,
        highlight=False,
    )


def _replay(text: str) -> None:
    """Carry out the steps of a printed history and say what the oracle finds."""
    from shoal.simulation import chaos as trouble
    from shoal.simulation.invariants import InvariantViolation

    try:
        subject, ground, steps = trouble.read(json.loads(text))
        found = trouble.failure(trouble.play(subject, ground, []), steps)
    except InvariantViolation as violation:
        found = str(violation)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise typer.BadParameter(
            f"not a history as printed by `shoal chaos`: {error!r}; copy the whole line"
        ) from None
    if found is not None:
        console().print(f"[red]fails[/]: {found}", soft_wrap=True)
        raise typer.Exit(1)
    console().print("[green]as the oracle says[/]")


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Within the block a logger tells errors only: clients lose connections, of course."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _live(run: LiveChaos, minutes: float, seed: int, as_json: bool, virtual: bool) -> None:
    """Trouble for a live network, and the table of what became of its events."""
    import asyncio

    import msgspec

    from shoal.live.virtual import VirtualLoop

    with quiet("shoal.live"), lasting(minutes * 60, "Trouble for brokers") as tell:

        def show(now: LiveChaos) -> None:
            got = sum(sum(listener.got.values()) for listener in now.listeners)
            text = (
                f"{len(now.publications):,} events, {got:,} deliveries, {now.faults.total()} faults"
            )
            tell(now.seconds(), text)

        trouble = run.run(minutes * 60, show)
        if virtual:
            with VirtualLoop(seed) as loop:
                found = loop.run(trouble)
        else:
            found = asyncio.run(trouble)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(found.faults.items()))
        console().print(
            f"{len(run.brokers)} brokers, {found.seconds:g} s, seed {seed}; faults: {faults}"
        )
        shown = table("", "count", "of those owed")
        shown.add_row("sent", f"{found.sent:,}", "")
        shown.add_row("sent without an answer", f"{found.unsure:,}", "")
        rows = {
            "owed: sent × subscriber that wants it": found.owed,
            "delivered": found.delivered,
            "reported as gap": found.gap,
            "lost": found.lost,
            "not delivered though held": found.held,
            "duplicated": found.duplicated,
            "misdelivered": found.misdelivered,
        }
        for name, count in rows.items():
            share = f"{100 * count / found.owed:.3f} %" if found.owed else ""
            shown.add_row(name, f"{count:,}", share)
        shown.add_row("gaps that were never closed", f"{found.open_gaps:,}", "")
        console().print(shown)
    for words in found.crashed:
        Console(stderr=True).print(f"[red]ended by itself[/]: {words}", soft_wrap=True)
    if not found.right:
        if virtual:
            typer.echo(f"the same again: {run.command(minutes * 60)}", err=True)
        raise typer.Exit(1)
