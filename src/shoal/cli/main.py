"""``shoal``: the commands in one place, and what becomes of their errors.

Exit codes: 0 all is well, 1 a run or a check failed, 2 the input cannot be used, 3 a broker or a
Spark master cannot be reached, 4 a claim that was to be checked is not reproduced, 130 Ctrl-C.
"""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from traceback import extract_tb
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer.exceptions import TyperException

import shoal
from shoal import extras
from shoal.cli.advise import advise
from shoal.cli.bench import bench
from shoal.cli.broker import broker
from shoal.cli.chaos import chaos
from shoal.cli.doctor import doctor
from shoal.cli.filter import filter_app
from shoal.cli.match import match
from shoal.cli.measures import measures
from shoal.cli.output import shown, warn
from shoal.cli.protocols import protocols
from shoal.cli.pub import pub
from shoal.cli.report import report
from shoal.cli.reproduce import reproduce
from shoal.cli.simulate import simulate
from shoal.cli.sub import sub
from shoal.cli.sweep import sweep
from shoal.cli.top import top

app = typer.Typer(
    name="shoal",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"shoal {shoal.__version__}")
        raise typer.Exit


@app.callback()
def _shoal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and end.")
    ] = False,
) -> None:
    """Publish/subscribe by content, for networks that never hold still.

    Start with `shoal reproduce frey-routing --quick`: it simulates a published evaluation, judges
    each of its claims and writes a report. `shoal simulate` runs one network and sums it up.
    """


class _Stopped(Exception):  # noqa: N818  # Ctrl-C is no error
    """Ctrl-C with the command's own message, which Typer would drop."""


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def call(*arguments: object, **options: object) -> None:
        extra = _EXTRA.get(command)
        if extra is not None:
            extras.require(extra, f"shoal {command.__name__}")
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as stop:
            raise _Stopped(str(stop) or "stopped") from None

    return call


NEEDS: Final = {
    "simulate": (simulate, chaos, protocols),
    "spark": (reproduce, sweep, advise, report, match, measures),
    "broker": (broker,),
    "bench": (bench,),
}
"""The commands that need an extra, by extra; the others need none."""
_EXTRA: Final = {command: extra for extra, commands in NEEDS.items() for command in commands}

for panel, commands in {
    "Experiments": (reproduce, sweep, simulate, advise),
    "Checks": (doctor, chaos, bench),
    "The live network": (broker, pub, sub, top, report),
    "Content": (match,),
    "What there is": (protocols, measures),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(_stoppable(command))
app.add_typer(filter_app, rich_help_panel="Content")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error becomes one line and an exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every encoding has every sign
        sys.stdout.reconfigure(errors="replace")
    logging.getLogger().addFilter(_worth_saying)
    sys.exit(run(arguments))


def _worth_saying(record: logging.LogRecord) -> bool:
    """Whether it is none of py4j's records, with tracebacks, of a Ctrl-C while Spark was asked."""
    return not str(record.msg).endswith(" while sending command.")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C; a moment later while a module is loaded, or machine code made for a kernel.

    A compiled module would not survive it; LLVM's bindings would print the exception and go on.
    """
    caller = frame
    while caller is not None:
        file = caller.f_code.co_filename
        if file.startswith("<frozen importlib") or "/llvmlite/" in file:
            again = threading.Timer(0.05, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        caller = caller.f_back
    raise KeyboardInterrupt


def _warn(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A doubt about a filter is one line on standard error."""
    from shoal.content import FilterWarning

    if not issubclass(category, FilterWarning):
        _show_warning(message, category, *where, **more)
        return
    warn(str(message))


_show_warning = warnings.showwarning


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    from shoal.stack import StackError

    warnings.showwarning = _warn
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(words or ["--help"], prog_name="shoal", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "shoal"
        message = error.format_message().rstrip(".").removeprefix("Invalid value: ")
        file = re.search(r"unexpected extra .*\((\S+\.toml)", message)
        if file and command == "shoal broker":
            message = f"a file of settings is an option: shoal broker --config {file[1]}"
        return _complain(f"{message}; see {command} --help", 2)
    except (StackError, extras.MissingExtraError) as error:
        return _complain(str(error), 2)
    except (_Stopped, KeyboardInterrupt) as stop:
        return _complain(str(stop) or "stopped", 130)
    except BrokenPipeError:
        # Whoever read our output has gone, as in `shoal protocols | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}; check the path and its permissions", 2)
    except Exception as error:
        return _unforeseen(error)


def _unforeseen(error: Exception) -> int:
    """Errors of packages that are imported late, and bugs."""
    from shoal.content import FilterError
    from shoal.live.errors import DisconnectedError, LiveError
    from shoal.modules import files

    if isinstance(error, LiveError | FilterError):
        told = "; ".join([str(error), *getattr(error, "__notes__", ())])
        return _complain(told, 3 if isinstance(error, DisconnectedError) else 2)
    # Importing these classes would import the pipeline and the simulator.
    if type(error).__name__ == "PipelineError":
        return _complain(str(error), 2)
    if type(error).__name__ == "UnreachableMasterError":
        return _complain(str(error), 3)
    if type(error).__name__ == "InvariantViolation":
        return _complain(f"an invariant is violated: {error}", 1)
    if os.environ.get("SHOAL_TRACEBACK"):
        raise error
    try:
        what = str(error).strip().partition("\n")[0]
    except Exception:  # Spark's errors ask Java for their text, which may have ended
        what = "its text was lost with Spark"
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in files()]  # a protocol of the user's
    place = (own or frames)[-1]
    told = f"{type(error).__name__}{f': {what}' if what else ''}"
    where = f"{place.name}, {os.path.basename(place.filename)} line {place.lineno}"
    return _complain(f"unexpected {told} in {where} (SHOAL_TRACEBACK=1 shows all)", 1)


def _complain(message: str, code: int) -> int:
    """One line on standard error."""
    typer.secho("shoal: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(shown(message), err=True)
    return code


if __name__ == "__main__":
    main()
