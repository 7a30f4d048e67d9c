"""``shoal protocols``: what a stack can be built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shoal.cli.output import JsonOption, console, print_json, table

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.stack import Protocol

KINDS: Final = ("topology", "overlay", "routing", "reconfiguration", "recovery")


def _names(incomplete: str) -> list[str]:
    import shoal.simulation  # noqa: F401  # registers the protocols
    from shoal.stack.registry import protocols as registered

    names = [*KINDS, *(protocol.name for protocol in registered())]
    return [name for name in names if name.startswith(incomplete)]


def protocols(
    which: Annotated[
        str | None,
        typer.Argument(
            help=f"A protocol, or one of the kinds: {', '.join(KINDS)}.",
            autocompletion=_names,
            metavar="[NAME]",
        ),
    ] = None,
    module: Annotated[
        list[str] | None, typer.Option(help="A Python file with protocols of your own.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the protocols, or describe one: what it needs, and each of its parameters.

    Any of these names works in `shoal simulate` and in the sections of a configuration file.

    Examples:

        shoal protocols

        shoal protocols semi-probabilistic

        shoal protocols routing --module my_protocol.py
    """
    import shoal.simulation  # noqa: F401  # registers the protocols
    from shoal.modules import load_module
    from shoal.stack.registry import protocols as registered
    from shoal.stack.registry import suggestion

    for name in module or ():
        load_module(name)
    known = registered()
    chosen = [p for p in known if which in (None, p.kind, p.name)]
    if not chosen and which not in KINDS:
        near = suggestion(str(which), sorted({*KINDS, *(p.name for p in known)}))
        raise typer.BadParameter(f"no protocol or kind of protocol is called '{which}'{near}")
    if json:
        print_json([_described(protocol) for protocol in chosen])
        return
    out = console()
    if not chosen:
        out.print(f"no {which} is registered")
    for kind in KINDS:
        found = [protocol for protocol in chosen if protocol.kind == kind]
        if found:
            out.print(f"[bold]{kind}[/]")
        for protocol in found:
            _show(out, protocol, whole=which == protocol.name)


def _described(protocol: Protocol) -> dict[str, Any]:
    from shoal.stack.describe import parameters

    return {
        "kind": protocol.kind,
        "name": protocol.name,
        "summary": protocol.summary,
        "needs": sorted(protocol.needs),
        "provides": sorted(protocol.provides),
        "parameters": parameters(protocol.parameters),
    }


def _show(out: Console, protocol: Protocol, whole: bool) -> None:
    """A few lines on a protocol; a table of its parameters if it was asked for by name."""
    from rich.markup import escape
    from rich.padding import Padding

    from shoal.stack.describe import parameters

    described = parameters(protocol.parameters)
    lines = [escape(protocol.summary)]
    for word, names in (("needs", protocol.needs), ("provides", protocol.provides)):
        if names and (whole or word == "needs"):
            lines.append(f"[dim]{word}[/] {', '.join(sorted(names))}")
    if not whole:
        lines += [
            escape(f"{p.name} (required)" if p.required else f"{p.name} = {_value(p.default)}")
            for p in described
        ]
    out.print(f"  [cyan]{protocol.name}[/]")
    out.print(Padding("\n".join(lines), (0, 0, 1, 6), expand=False))
    if whole and described:
        rows = table("parameter", "default", "values", "meaning", left=4)
        rows.columns[0].no_wrap = True
        for p in described:
            default = "required" if p.required else _value(p.default)
            values = f"{p.type} {p.range}".strip()
            rows.add_row(p.name, escape(default), escape(values), escape(p.meaning))
        out.print(rows)


def _value(value: Any) -> str:
    """A default as TOML writes it; None, which TOML cannot write, is "not set"."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
