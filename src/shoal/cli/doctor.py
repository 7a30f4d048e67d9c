"""``shoal doctor``: is everything here, and how to get what is not?"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from shoal import extras
from shoal.cli.output import console

GIGABYTE = 1 << 30
ENOUGH_MEMORY = 2 * GIGABYTE
ENOUGH_DISK = 2 * GIGABYTE


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``missing`` stops the pipeline, ``poor`` only slows it down."""

    name: str
    state: Literal["good", "poor", "missing"]
    found: str
    cure: str = ""


def doctor(
    out: Annotated[Path, typer.Option(help="The folder whose disk is looked at.")] = Path("out"),
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and let it count to ten.")
    ] = False,
) -> None:
    """Check this machine: Python, compiler, optional packages, Java, Spark, memory, disk.

    Says what is missing and how to get it. Exit code 1 if something is missing that the pipeline
    cannot do without.

    Examples:

        shoal doctor

        shoal doctor --spark
    """
    from rich.markup import escape
    from rich.table import Table

    screen = console()
    signs = {"good": "[green]✓[/]", "poor": "[yellow]![/]", "missing": "[red]✗[/]"}
    findings = list(_findings(out, spark))
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        cure = f"\n[yellow]→ {escape(finding.cure)}[/]" if finding.cure else ""
        table.add_row(signs[finding.state], finding.name, escape(finding.found) + cure)
    screen.print(table)
    missing = [finding.name for finding in findings if finding.state == "missing"]
    if missing:
        screen.print(f"[red]missing[/]: {', '.join(missing)}")
        raise typer.Exit(1)


def _findings(out: Path, spark: bool) -> Iterator[Finding]:
    yield Finding("Python", "good", f"{sys.version.split()[0]}, {os.cpu_count()} cores")
    yield _compiled()
    yield _compiler()
    yield _extra("broker", "numpy", needed=False)
    yield _extra("simulate", "pyarrow", needed=True)
    pipeline = _extra("spark", "pyspark", needed=True)
    yield pipeline
    yield _extra("bench", "simpy", needed=False)
    java = _java()
    yield java
    if spark and "missing" not in (java.state, pipeline.state):
        yield _spark()
    yield _memory()
    yield _disk(out)


def _compiled() -> Finding:
    from shoal._pure import compiled

    if compiled():
        return Finding("compiled modules", "good", "in use")
    if os.environ.get("SHOAL_PURE"):
        return Finding("compiled modules", "poor", "SHOAL_PURE is set", "unset it to use them")
    cure = f"with a C compiler: {extras.build_line()} (same results, about twice as fast)"
    return Finding("compiled modules", "poor", "not built: running pure Python", cure)


def _compiler() -> Finding:
    found = shutil.which("cc") or shutil.which("gcc")
    if found:
        return Finding("C compiler", "good", found)
    return Finding("C compiler", "poor", "none, only needed to build", "apt-get install gcc")


def _extra(extra: str, shown: str, needed: bool) -> Finding:
    from importlib.metadata import version

    lacking = extras.missing(extra)
    if not lacking:
        return Finding(f"extra {extra}", "good", f"{shown} {version(shown)}")
    state: Literal["poor", "missing"] = "missing" if needed else "poor"
    cure = extras.install_line(extra)
    return Finding(f"extra {extra}", state, f"not installed: {', '.join(lacking)}", cure)


def _java() -> Finding:
    from shoal.pipeline.errors import PipelineError
    from shoal.pipeline.spark.java import find_java

    try:
        java = find_java()
    except PipelineError as error:
        return Finding("Java", "missing", error.cause, error.cure)
    return Finding("Java", "good", f"{java.version} from {java.source} ({java.runtime})")


def _spark() -> Finding:
    import time

    from shoal.pipeline.errors import PipelineError
    from shoal.pipeline.spark.session import spark_session

    started = time.perf_counter()
    try:
        with spark_session("local[1]") as session:
            counted = session.range(10).count()
            took = time.perf_counter() - started
    except PipelineError as error:
        return Finding("Spark", "missing", error.cause, error.cure)
    return Finding("Spark", "good", f"counted to {counted} {took:.1f} s after starting")


def _memory() -> Finding:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(n.split()[1]) * 1024 for n in lines if n.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{free / GIGABYTE:.1f} GB available"
    if free < ENOUGH_MEMORY:
        return Finding("memory", "poor", found, "Spark and two workers like 2 GB; close something")
    return Finding("memory", "good", found)


def _disk(out: Path) -> Finding:
    folder = out.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found = f"{free / GIGABYTE:.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK):
        cure = "choose another folder with --out"
        return Finding("disk", "missing", f"{folder} cannot be written to", cure)
    if free < ENOUGH_DISK:
        return Finding("disk", "poor", found, "a full reproduction likes 2 GB; see --out")
    return Finding("disk", "good", found)
