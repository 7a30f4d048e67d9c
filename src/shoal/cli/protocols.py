"""``shoal protocols``: what a stack can be built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from shoal.stack import Protocol

KINDS = ("topology", "overlay", "routing", "reconfiguration", "recovery")


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def protocols(
    kind: Annotated[
        str | None,
        typer.Argument(help=f"Only {', '.join(KINDS)}.", autocompletion=_kinds, show_default=False),
    ] = None,
    module: Annotated[
        list[str] | None, typer.Option(help="A Python file with protocols of your own.")
    ] = None,
) -> None:
    """List the protocols, what they need, and their parameters with defaults.

    Any of these names works in `shoal simulate` and in the sections of a configuration file.

    Examples:

        shoal protocols

        shoal protocols routing --module my_protocol.py
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    import shoal.simulation  # noqa: F401  # registers the protocols
    from shoal.simulation.modules import load_module
    from shoal.stack.registry import protocols as registered
    from shoal.stack.registry import suggestion

    if kind is not None and kind not in KINDS:
        raise typer.BadParameter(f"unknown kind of protocol '{kind}'{suggestion(kind, [*KINDS])}")
    for name in module or ():
        load_module(name)
    console = Console(highlight=False)
    for each in KINDS:
        found = [p for p in registered() if p.kind == each]
        if kind not in (None, each) or not (found or kind):
            continue
        console.print(f"[bold]{each}[/]" if found else f"no {each} is registered")
        for protocol in found:
            lines = [escape(protocol.summary)]
            if protocol.needs:
                lines.append(f"[dim]needs[/] {', '.join(sorted(protocol.needs))}")
            lines += [escape(line) for line in _parameters(protocol)]
            console.print(f"  [cyan]{protocol.name}[/]")
            console.print(Padding("\n".join(lines), (0, 0, 1, 6)))


def _parameters(protocol: Protocol) -> list[str]:
    """``name = default``, in the order in which they are declared."""
    import msgspec

    lines = []
    for field in msgspec.structs.fields(protocol.parameters):
        if field.default is not msgspec.NODEFAULT:
            lines.append(f"{field.name} = {_value(field.default)}")
        elif field.default_factory is not msgspec.NODEFAULT:
            lines.append(f"{field.name} = {_value(field.default_factory())}")
        else:
            lines.append(f"{field.name} (required)")
    return lines


def _value(value: Any) -> str:
    """As it is written in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
