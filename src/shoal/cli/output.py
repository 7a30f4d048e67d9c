"""Output of commands: tables for people, JSON for programs.

On a terminal a table takes the terminal's width and folds what does not fit. Into a pipe or file it
is plain and as wide as its content.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]

WIDE: Final = 4096
"""Columns of output that no terminal shows."""


def console() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


def table(
    *columns: str, title: str | None = None, left: int = 1, footer: bool = False, **options: Any
) -> Table:
    """A table whose first ``left`` columns hold names, the others numbers; nothing is cut off."""
    from rich.table import Table

    if not sys.stdout.isatty():
        options = {"box": None, "padding": (0, 2, 0, 0), **options}
    found = Table(title=title, title_justify="left", show_footer=footer, **options)
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "left" if place < left else "right"
        found.add_column(name, justify=justify, overflow="fold")
    return found


def shown(text: str) -> str:
    """What somebody else wrote, on one line and without signs that would steer a terminal."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))


def warn(text: str) -> None:
    """One line on standard error about what is allowed, and probably not meant."""
    typer.secho("shoal: warning: ", fg=typer.colors.YELLOW, bold=True, nl=False, err=True)
    typer.echo(shown(text), err=True)


def print_json(value: object) -> None:
    """One JSON document on standard output; NaN and infinities, which JSON has not, are null."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=1))


def _plain(value: object) -> object:
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
