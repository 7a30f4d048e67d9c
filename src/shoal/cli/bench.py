"""``shoal bench``: measurements beside other systems, printed as ratios."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer


def folder() -> Path:
    """Folder of the benchmarks: in the installed package, or beside it in a source tree."""
    import shoal

    package = Path(shoal.__file__).parent
    installed = package / "benchmarks"
    return installed if installed.is_dir() else package.parents[1] / "benchmarks"


def names(incomplete: str = "") -> list[str]:
    """The benchmarks there are, by the names of their files."""
    found = (file.stem for file in folder().glob("[!_]*.py"))
    return sorted(name for name in found if name.startswith(incomplete))


def bench(
    name: Annotated[
        str, typer.Argument(help=f"Which one: {', '.join(names())}.", autocompletion=names)
    ],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the numbers here, as one flat object.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, wider noise.")] = False,
) -> None:
    """Measure Shoal beside other systems, in the same run.

    Times are CPU times where the peers run on one core; repeats alternate between the systems and
    the medians are shown, each number as soon as it is known. Run it on a quiet machine.

    Examples:

        shoal bench simulation

        shoal bench simulation --quick --json numbers.json
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from shoal.pipeline.progress import ConsoleProgress, stage
    from shoal.stack.registry import suggestion

    if name not in names():
        raise typer.BadParameter(f"no benchmark '{name}'{suggestion(name, names())}")
    if json_file is not None:
        json_file.open("a").close()  # better now than after minutes of measuring
    run: Callable[..., Iterator[dict[str, float]]] = _load(name).run
    numbers: dict[str, float] = {}
    console = Console(highlight=False)
    working: AbstractContextManager[object]
    if console.is_terminal:
        columns = (SpinnerColumn(), TextColumn(f"measuring {name}"), TimeElapsedColumn())
        working = spinner = Progress(*columns, console=console, transient=True)
        spinner.add_task("")
    else:
        working = stage(ConsoleProgress(), f"Measuring {name}")
    with working:
        for more in run(quick=quick):
            for key, value in more.items():
                console.print(f"{key.replace('_', ' '):<64}{_text(value):>14}", soft_wrap=True)
            numbers |= more
    if json_file is not None:
        json_file.write_text(json.dumps(numbers, indent=2) + "\n")


def _load(name: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    path = folder() / f"{name}.py"
    spec = spec_from_file_location(f"shoal.benchmarks.{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
