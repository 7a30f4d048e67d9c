"""``shoal broker``: a node of the live network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.access import DEFAULT
from shoal.cli.settings import assign, choose

if TYPE_CHECKING:
    from shoal.live.broker import Broker

TOKEN = 16
"""Characters of a token that cannot be guessed from what somebody on the wire sees."""


def broker(
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where peers and clients connect; port 0 takes a free one.", show_default=DEFAULT
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            help="Where others reach it, if that is not where it listens.", metavar="HOST[:PORT]"
        ),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(
            help="A broker of the network to join; the others become known.", metavar="HOST:PORT"
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="A fixed neighbour, for trees. Alternatives follow after commas.",
            metavar="HOST:PORT",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name of its own; with TLS, that of its certificate.")
    ] = None,
    module: Annotated[
        list[str] | None,
        typer.Option(help="A Python file that registers protocols of your own.", metavar="FILE"),
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(
            help="Who becomes a neighbour: lstree, graph, … (shoal protocols overlay).",
            show_default="lstree, or links with --link",
        ),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(help="subscription-forwarding on a tree, semi-probabilistic on a graph, …"),
    ] = None,
    reconfiguration: Annotated[
        str | None, typer.Option(help="How a tree repairs its tables: strawman, timed, …")
    ] = None,
    recovery: Annotated[
        str | None, typer.Option(help="How lost events are fetched (shoal protocols recovery).")
    ] = None,
    degree: Annotated[
        int | None,
        typer.Option(
            help="Neighbours: to keep on a graph, or from which on an LSTree sends others away.",
            show_default="5",
        ),
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            help="The broker at the root of a ShopParent tree (--set overlay.root=NAME).",
            metavar="NAME",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Any settings, in TOML.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting, e.g. limits.rate=100.", metavar="KEY=VALUE"),
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="This broker's certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, if not in the same file.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Who signs certificates here.")] = None,
    access: Annotated[Path | None, typer.Option(help="Tokens and access rules, in TOML.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="What it proves itself with to other brokers, without TLS.",
            envvar="SHOAL_BROKER_TOKEN",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS.")
    ] = False,
    record: Annotated[Path | None, typer.Option(help="Record what happens in this folder.")] = None,
    run: Annotated[
        str | None, typer.Option(help="The run that recorded rows belong to.", show_default="live")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Answer Prometheus here, at /metrics.", metavar="HOST:PORT")
    ] = None,
    example_config: Annotated[
        bool,
        typer.Option("--example-config", help="Print every setting with its default, and end."),
    ] = False,
    hash_token: Annotated[
        bool, typer.Option("--hash-token", help="Hash a token from standard input, and end.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
) -> None:
    """Run a broker until it is stopped.

    Alone it serves its clients; with `--join` it becomes part of a network that keeps itself
    connected while brokers come and go, and brings every event to all who want it; with `--link`
    the links are yours to say.

    Examples:

        shoal broker

        shoal broker --listen 127.0.0.1:7465 --join 127.0.0.1:7464

        shoal broker --link host:7464
    """
    if hash_token:
        from shoal.live.errors import LiveError
        from shoal.live.security import hash_token as hashed

        secret = sys.stdin.readline().strip()
        if len(secret) < TOKEN:
            raise LiveError(
                f"a token of {len(secret)} characters can be guessed; take {TOKEN} or more, e.g. "
                "from: openssl rand -hex 16"
            )
        typer.echo(hashed(secret))
        return
    if example_config:
        from shoal.live.example import example_config as example
        from shoal.live.settings import Settings

        typer.echo(example(Settings(listen=DEFAULT)), nl=False)
        return
    raw = _raw(config, set_ or [])
    raw.setdefault("listen", DEFAULT)
    if isinstance(raw.setdefault("modules", []), list):  # else it is refused below
        raw["modules"] = [*raw["modules"], *(module or ())]
    given = {
        "listen": listen,
        "advertise": advertise,
        "join": tuple(join) if join else None,
        "links": tuple(link) if link else None,
        "name": name,
        "certificate": cert,
        "key": key,
        "authority": ca,
        "access": access,
        "token": token,
        "insecure": insecure or None,
        "metrics": metrics,
        "record": record,
        "run": run,
    }
    raw |= {field: value for field, value in given.items() if value is not None}
    choose(raw, overlay=overlay, routing=routing)
    choose(raw, reconfiguration=reconfiguration, recovery=recovery)
    if degree is not None:
        from shoal.live.settings import OVERLAY, settings_from

        named = settings_from(raw).overlay.get("name")  # as it follows from the other settings
        raw["overlay"] = {
            **raw.get("overlay", {}),
            "max_degree" if named == OVERLAY else "degree": degree,
        }
    if root:
        from shoal.live.errors import LiveError

        if len(root) > 1:
            raise LiveError("a tree has one root: give --root once; others may be its heirs")
        if isinstance(raw.setdefault("overlay", {}), dict):
            raw["overlay"] = {**raw["overlay"], "root": root[0]}
    _logging(verbose)
    _runner()(_serve(raw))


def _raw(config: Path | None, settings: list[str]) -> dict[str, Any]:
    import tomllib

    from shoal.live.errors import LiveError
    from shoal.modules import beside

    raw: dict[str, Any] = {}
    if config is not None:
        try:
            raw = beside(tomllib.loads(config.read_text("utf-8-sig")), config.parent)
        except (ValueError, RecursionError) as error:
            raise LiveError(f"{config} is not TOML: {error}") from None
    for setting in settings:
        assign(raw, setting)
    return raw


def _logging(verbose: bool) -> None:
    import logging
    import warnings

    from shoal.cli.output import shown
    from shoal.content import FilterWarning

    class Plain(logging.Formatter):
        """Names and reasons come from strangers."""

        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # of logging
            """The line, without control characters."""
            return shown(super().formatMessage(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Plain("%(asctime)s %(message)s"))
    warnings.simplefilter("ignore", FilterWarning)  # about filters of clients, who were told
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


def _runner() -> Any:
    """``asyncio.run``, on uvloop where that is installed."""
    import asyncio

    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


def _return_freed_memory() -> None:
    """Let arrays that the index no longer needs go back to the operating system.

    The C library alone keeps what was freed for the next time: a quarter of a large broker. Arrays
    of a few pages and more are to be mapped, which means that the heap must not grow by more than
    that at a time, or they would be cut from what it has grown by.
    """
    import ctypes

    mmap_threshold, top_pad = -3, -2  # M_MMAP_THRESHOLD and M_TOP_PAD of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 32 * 1024)
        mallopt(top_pad, 16 * 1024)
    except (AttributeError, OSError, TypeError):
        return  # another C library


async def _serve(raw: dict[str, Any]) -> None:
    import asyncio
    import gc
    import signal

    from shoal.live.broker import Broker
    from shoal.live.settings import settings_from

    _return_freed_memory()
    broker = Broker(settings_from(raw))
    await broker.start()
    gc.collect()
    gc.freeze()  # modules and code never become garbage: do not look at them again and again
    loop = asyncio.get_running_loop()

    def told_to_stop() -> None:
        """Stop in good order at the first signal, at once at the second."""
        again = broker.departures.leaving
        asyncio.ensure_future(broker.stop() if again else broker.drain())  # noqa: RUF006  # awaited by until_stopped

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told_to_stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: asyncio.ensure_future(_reload(broker)))
    typer.echo(f"broker '{broker.name}' (node {broker.node}) listens on {broker.address}")
    if broker.metrics_address:
        typer.echo(f"metrics are at {broker.metrics_address}/metrics")
    sys.stdout.flush()
    await broker.until_stopped()


async def _reload(broker: Broker) -> None:
    import logging

    from shoal.live.errors import LiveError

    try:
        await broker.reload()
    except LiveError as error:
        logging.getLogger("shoal.live").error("nothing was read again: %s", error)
