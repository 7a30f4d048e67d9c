"""``shoal top``: a live view of brokers, links, rates and tables."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shoal.cli import access
from shoal.cli.access import connected
from shoal.cli.output import JsonOption, console, print_json, shown, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.live.client import Bus
    from shoal.live.status import Reached, Status

HEADINGS: Final = (
    *("links", "clients", "pub/s", "deliv/s", "fwd/s", "filters", "entries"),
    *("queued", "waiting", "dropped", "CPU %", "MB"),
)
NARROW: Final = (
    *("links", "cli-\nents", "pub\n/s", "deliv\n/s", "fwd\n/s", "fil-\nters", "en-\ntries"),
    *("que-\nued", "wait-\ning", "drop-\nped", "CPU\n%", "MB"),
)
"""These headings on two lines each, so that a broker's row fits eighty columns."""
NO_LINKS: Final = "This routing keeps no links: brokers are those connected just now."


def top(
    broker: access.BrokerOption = access.DEFAULT,
    expect: access.ExpectOption = "",
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 1.0,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many looks.")] = None,
    token: access.TokenOption = "",
    ca: access.CaOption = None,
    cert: access.CertOption = None,
    key: access.KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show the brokers of a network and how busy they are, until Ctrl-C.

    Starts at one broker and follows the links from there; where a routing keeps no links, it
    follows the connections that are open just now. With `--json` it looks once (or `--count` times)
    and prints what each broker says of itself.

    Example:

        shoal top --broker 127.0.0.1:7464
    """
    import asyncio
    import contextlib

    from rich.live import Live

    from shoal.live.errors import LiveError, RefusedError

    async def look() -> None:
        buses: dict[str, Bus] = {}
        before: dict[int, Status] = {}
        looks = 0
        buses[broker] = await connected(broker, token, ca, cert, key, expect)
        out = console()
        with contextlib.ExitStack() as screen:
            live = None
            if out.is_terminal and not json:
                live = screen.enter_context(Live(console=out, auto_refresh=False, screen=True))
            while True:
                found: dict[int, Status] = {}
                waiting = dict.fromkeys(buses, "")
                while waiting:
                    address, name = waiting.popitem()
                    try:
                        if address not in buses:
                            buses[address] = await connected(
                                address, token, ca, cert, key, name, patience=1.0
                            )
                        async with asyncio.timeout(1.0):
                            state = await buses[address].inspect()
                    except (LiveError, TimeoutError) as error:
                        if address == broker and isinstance(error, RefusedError):
                            raise
                        if address != broker and address in buses:
                            await buses.pop(address).close()
                        continue
                    if state.node not in found:
                        found[state.node] = state
                        # Where a broker says its neighbours are is its word: nothing is shown
                        # to anybody there who is not the neighbour of that name.
                        near: list[Reached] = [*state.links, *state.reached]
                        waiting |= {li.address: li.name for li in near if li.node not in found}
                if json:
                    print_json(list(found.values()))
                elif live is not None:
                    live.update(view(found, before), refresh=True)
                else:
                    out.print(view(found, before))
                before = found
                looks += 1
                if looks >= (count or (1 if json else math.inf)):
                    break
                await asyncio.sleep(interval)
        for bus in buses.values():
            await bus.close()

    asyncio.run(look())


def view(found: dict[int, Status], before: dict[int, Status]) -> RenderableType:
    """Brokers and links as tables."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group

    boxed: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0} if sys.stdout.isatty() else {}
    recovering = any(state.recovery for state in found.values())
    recording = any(state.recording != "off" for state in found.values())
    brokers = table(
        "broker",
        *(NARROW if boxed else HEADINGS),
        *(["lost"] if recovering else []),
        *(["recording"] if recording else []),
        title="1 broker" if len(found) == 1 else f"{len(found)} brokers",
        **boxed,
    )
    brokers.columns[0].no_wrap = True
    overlays = table("broker", "overlay", left=2, **boxed)
    links = table(
        *("from", "to", "up for", "sent", "received", "waiting", "dropped", "clock"),
        title="links",
        left=2,
        **boxed,
    )
    for node, state in sorted(found.items()):
        old = before.get(node)
        span = state.time - old.time if old else 0.0

        def rate(now: float, then: float, span: float = span) -> str:
            return f"{(now - then) / span:,.0f}" if span > 0 else "–"

        same = old or state
        name, address = _cell(state.name), _cell(state.address)
        brokers.add_row(
            f"{name}\n[dim]{address}[/]" if boxed else f"{name} {address}",
            str(len(state.links)),
            str(len(state.clients)),
            rate(state.published, same.published),
            rate(state.delivered, same.delivered),
            rate(state.forwarded, same.forwarded),
            f"{state.filters:,}",
            f"{state.entries:,}",
            f"{sum(client.queued for client in state.clients):,}",
            f"{state.waiting / max(state.room, 1):.0%}",
            f"{sum(c.dropped for c in state.clients) + sum(li.dropped for li in state.links):,}",
            f"{100 * (state.cpu - same.cpu) / span:.0f}" if span > 0 else "–",
            f"{state.memory / 1e6:.0f}",
            *([_lost(state.recovery)] if recovering else []),
            *([_cell(state.recording)] if recording else []),
        )
        overlays.add_row(name, _overlay(state))
        for link in state.links:
            if node < link.node or link.node not in found:
                links.add_row(
                    name,
                    _cell(link.name),
                    f"{link.since:,.0f} s",
                    f"{link.sent:,}",
                    f"{link.received:,}",
                    f"{link.waiting:,} B",
                    f"{link.dropped:,}",
                    f"[yellow]{link.skew:+.0f} s[/]" if link.skew else "ok",
                )
    if not any("/" in state.stack.partition(" ")[0] for state in found.values()):  # no overlay
        return Group(brokers, "", NO_LINKS)
    return Group(brokers, "", links, "", overlays)


def _overlay(state: Status) -> str:
    """The overlay's state in a line; of a list, its length."""
    told = {
        name: len(value) if isinstance(value, list) else value
        for name, value in state.overlay.items()
    }
    return _cell("; ".join(f"{name}: {value}" for name, value in told.items()))


def _cell(text: str) -> str:
    """What a broker says, as a cell of a table."""
    from rich.markup import escape

    return escape(shown(text))


def _lost(told: dict[str, float]) -> str:
    """A recovery's work: events lost, recovered and given up; its buffer and traffic."""
    if not told:
        return "–"
    return (
        f"{told['lost']:,.0f} lost\n{told['recovered']:,.0f} recovered\n"
        f"{told['unrecoverable']:,.0f} given up\n{told['buffered_events']:,.0f} kept\n"
        f"{told['gossip_bytes'] / 1e3:,.0f} kB gossip"
    )
