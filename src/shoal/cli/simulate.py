"""``shoal simulate``: one run, summed up on the screen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import JsonOption, console, print_json, table, warn
from shoal.cli.settings import assign, choose

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from shoal.simulation import RunConfig, RunResult
    from shoal.simulation.run import Simulation


def _protocol(kind: str, what: str) -> Any:
    """An option that names a protocol, and completes the name."""

    def complete(incomplete: str) -> list[str]:
        import shoal.simulation  # noqa: F401  # registers the protocols
        from shoal.stack import protocols

        return [p.name for p in protocols(kind) if p.name.startswith(incomplete)]  # type: ignore[arg-type]  # one of the kinds

    return typer.Option(help=what, autocompletion=complete, metavar="NAME")


def simulate(
    file: Annotated[
        Path | None, typer.Argument(help="A configuration in TOML, see examples/run.toml.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.")] = None,
    duration: Annotated[float | None, typer.Option(help="Simulated seconds.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random draws.")] = None,
    topology: Annotated[
        str | None, _protocol("topology", "Who can reach whom, and when: shoal protocols topology.")
    ] = None,
    overlay: Annotated[
        str | None, _protocol("overlay", "What builds and heals links: shoal protocols overlay.")
    ] = None,
    routing: Annotated[
        str | None, _protocol("routing", "What forwards events: shoal protocols routing.")
    ] = None,
    reconfiguration: Annotated[
        str | None, _protocol("reconfiguration", "What repairs tables when a link is replaced.")
    ] = None,
    recovery: Annotated[
        str | None, _protocol("recovery", "What fetches lost events; none if not given.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any key, e.g. topology.rate=10. May be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    module: Annotated[
        list[str] | None,
        typer.Option(help="A Python file with protocols of your own. May be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep the recorded tables in this folder.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            help="Run a recorded run of --out again and compare fingerprints.", metavar="RUN_ID"
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the tree of static-tree or radio-range, or the groups of dps, as SVG."
        ),
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Show the run as a film: links, colours, messages (FILE.html, or FILE.svg)."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Simulate one network and sum up what happened.

    Options override the file; what neither names has the defaults of Frey's Table 7.1. The same
    configuration gives the same fingerprint on every machine.

    Examples:

        shoal simulate --nodes 200 --reconfiguration strawman --set topology.rate=10

        shoal simulate examples/run.toml --seed 7 --out out/one

        shoal simulate --replay 5d53a1 --out out

        shoal simulate --topology full-mesh --overlay lstree --nodes 40 --animate tree.html
    """
    from shoal.simulation import parse_config
    from shoal.simulation.animation import Film

    screen = console()
    if replay is not None:
        _replay(screen, replay, out if out is not None else Path("out"))
        return
    raw = _read(file) if file is not None else {}
    for key, value in {"nodes": nodes, "duration": duration, "seed": seed}.items():
        if value is not None:
            raw[key] = value
    choose(raw, topology=topology, overlay=overlay, routing=routing)
    choose(raw, reconfiguration=reconfiguration, recovery=recovery)
    for setting in set_ or ():
        assign(raw, setting, _default_section)
    if isinstance(raw.setdefault("modules", []), list):  # else it is refused below
        raw["modules"] = [*raw["modules"], *(module or ())]
    if picture is not None:
        parse_config(raw)
        _picture_settings(raw)
    for file, endings in ((picture, (".svg",)), (animate, (".html", ".svg"))):
        if file is not None and file.suffix not in endings:
            raise typer.BadParameter(f"{file} is written as {' or '.join(endings)}; name it so")
    if animate is not None:
        raw["data_plane"] = "objects"
        if not os.access(animate.parent, os.W_OK):  # better now than after the run
            raise typer.BadParameter(f"cannot write to {animate.parent}; choose another folder")
    config = parse_config(raw)
    for text in config.warnings():
        warn(text)
    if out is not None:
        from shoal.pipeline.tables.store import Store

        Store(out).prepare()  # better now than after the run
    film = Film()
    result = _run(config, None if animate is None else film.watch)
    if animate is not None:
        film.write(animate)
    if picture is not None:
        _draw(result, picture)
    if json:
        print_json(result.summary())
    else:
        _show(screen, config, result)
    if out is not None:
        _keep(config, result, out)
    if out is not None and not json:
        screen.print(f"tables in [bold]{out}/tables[/]", soft_wrap=True)
    if result.canonical is False:
        raise typer.Exit(1)


def _run(config: RunConfig, watch: Callable[[Simulation], None] | None = None) -> RunResult:
    """Simulate, with a line on standard error: at once on a terminal, elsewhere after a second."""
    from threading import Timer

    from shoal.pipeline.progress import ConsoleProgress
    from shoal.simulation import simulate as run

    with ConsoleProgress() as progress:
        told = f"Simulating {config.nodes:,} nodes for {config.duration:g} s"
        late = Timer(1.0, progress.stage, (told,))  # kernels may have to be compiled first
        late.daemon = True
        if progress.console.is_terminal:
            progress.stage(told)
        else:
            late.start()
        try:
            return run(config, watch)
        finally:
            late.cancel()


def _picture_settings(raw: dict[str, Any]) -> None:
    """Make the run record the notes that a picture is drawn from."""
    from shoal.simulation import RunConfig
    from shoal.stack import StackError

    topology = raw.get("topology", {})
    notes = ["notes"]
    if raw.get("routing", {}).get("name") == "dps":
        notes.append("messages")
    elif topology.get("name") == "static-tree":
        topology.setdefault("detail", True)
    elif topology.get("name") == "radio-range":
        topology.setdefault("inspect", [raw.get("duration", RunConfig().duration)])
    else:
        raise StackError(
            "--picture draws trees of nodes on a plane, or of groups; "
            "use --topology static-tree, or --routing dps"
        )
    raw["record"] = [*dict.fromkeys([*raw.get("record", RunConfig().record), *notes])]


def _draw(result: RunResult, picture: Path) -> None:
    from shoal.pipeline.report.groups_picture import groups_picture
    from shoal.pipeline.report.tree_picture import tree_picture
    from shoal.stack import StackError

    notes = result.tables["notes"].to_pylist()
    if "messages" in result.tables and any(note["what"] == "group" for note in notes):
        drawn = groups_picture(notes, result.tables["messages"].to_pylist())
    else:
        drawn = tree_picture(notes)
    try:
        picture.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise StackError(f"cannot write {picture}: {error.strerror or error}") from None


def _read(file: Path) -> dict[str, Any]:
    """A configuration file; modules that it names lie beside it."""
    from shoal.modules import beside
    from shoal.pipeline.plan.experiment_file import read_toml
    from shoal.stack import StackError

    raw = read_toml(file)
    if "experiment" in raw:
        raise StackError(f"{file} is an experiment of many runs; use `shoal sweep {file}`")
    return beside(raw, file.parent)


def _default_section(kind: str) -> dict[str, Any]:
    """Section that ``--set topology.rate=10`` changes if no topology was named."""
    from shoal.simulation import RunConfig

    default = getattr(RunConfig(), kind, None)
    return dict(default) if isinstance(default, dict) else {}


def _keep(config: RunConfig, result: RunResult, out: Path) -> None:
    from shoal.pipeline.tables.store import Store
    from shoal.simulation.result import run_row

    store = Store(out)
    with store.lock():
        if result.run_id not in store.inventory().done:
            store.write(result.run_id, result.tables, run_row(config, result, None))


def _replay(screen: Console, run_id: str, out: Path) -> None:
    """Run again what was recorded; another fingerprint, or an error, is exit code 1."""
    from shoal.pipeline.tables.dataframes import find_configuration
    from shoal.pipeline.tables.store import Store
    from shoal.simulation.config import code_version

    config = find_configuration(out, run_id)
    store = Store(out)
    rows = store.rows(store.inventory(), ["run_id", "fingerprint", "code"]).to_pylist()
    recorded = next((row for row in rows if row["run_id"].startswith(run_id)), None)
    result = _run(config)
    _show(screen, config, result)
    if recorded is None or recorded["fingerprint"] is None:
        screen.print("no fingerprint was recorded to compare with: the run failed or never ran")
    elif recorded["fingerprint"] == result.fingerprint:
        screen.print("[green]same fingerprint[/] as recorded")
    else:
        screen.print(f"[red]another fingerprint[/]: recorded was {recorded['fingerprint']}")
        if recorded["code"] != code_version():
            screen.print("it was recorded by another version of Shoal's sources")
        raise typer.Exit(1)


def _show(screen: Console, config: RunConfig, result: RunResult) -> None:
    """Traffic, deliveries, invariants, fingerprint."""
    from rich.markup import escape
    from rich.table import Table

    summary = result.summary()
    stack = " / ".join(p.name for p in config.stack().protocols() if p.name != "given")
    screen.print(
        f"[bold]{escape(stack)}[/]: {config.nodes:,} nodes, {config.duration:g} s, "
        f"seed {config.seed}"
    )
    amounts = ("messages", "misrouted", "cost", "bytes")
    traffic = table("kind", *amounts, title="traffic", footer=True)
    for row in summary.traffic:
        traffic.add_row(row.kind, *(_amount(getattr(row, name)) for name in amounts))
    for column, name in zip(traffic.columns[1:], amounts, strict=True):
        known = [value for row in summary.traffic if (value := getattr(row, name)) is not None]
        column.footer = _amount(sum(known) if known else None)
    traffic.columns[0].footer = "all"
    screen.print(traffic)
    facts = Table.grid(padding=(0, 2))
    for name, value in summary.facts():
        colour = {"held": "green", "violated": "red"}.get(value.partition(":")[0])
        word, colon, rest = value.partition(":")
        facts.add_row(name, f"[{colour}]{word}[/]{colon}{escape(rest)}" if colour else value)
    screen.print(facts)


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
