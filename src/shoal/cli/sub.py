"""``shoal sub``: see events in a shell."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import access
from shoal.cli.access import connected
from shoal.cli.output import shown

if TYPE_CHECKING:
    from shoal.live.subscription import Received


def sub(
    filter: Annotated[str, typer.Argument(help='What to see, e.g. "temperature > 30".')] = "TRUE",
    broker: access.BrokerOption = access.DEFAULT,
    expect: access.ExpectOption = "",
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    cloudevents: Annotated[
        bool, typer.Option("--cloudevents", help="Print CloudEvents; leave others out.")
    ] = False,
    when_full: Annotated[
        str, typer.Option(help="If too slow: 'drop oldest', 'block' or 'disconnect'.")
    ] = "drop oldest",
    token: access.TokenOption = "",
    ca: access.CaOption = None,
    cert: access.CertOption = None,
    key: access.KeyOption = None,
) -> None:
    """Print every event that matches a filter, one JSON object a line.

    A body is shown as `$body`. Where events are missing, that is said on standard error.

    Examples:

        shoal sub "temperature > 30 AND room LIKE 'lab%'"

        shoal sub --broker 127.0.0.1:7465 --count 10
    """
    import asyncio

    from shoal.content import AttributeFilter
    from shoal.live.subscription import Gap

    wanted = AttributeFilter(filter)  # better refused before a connection is made

    anything = sys.stdout.encoding.lower().startswith("utf")  # else an event may not be shown

    async def show() -> None:
        left = count
        async with (
            await connected(broker, token, ca, cert, key, expect, when_full=when_full) as bus,
            bus.subscribe(wanted, gaps=True) as events,
        ):
            async for event in events:
                if isinstance(event, Gap):
                    many = "events" if event.count is None else f"{event.count} events"
                    why = shown(event.reason)
                    typer.echo(f"shoal: {many} may be missing here: {why}", err=True)
                    continue
                found = _cloud(event) if cloudevents else _plain(event)
                if found is None:
                    continue
                # JSON has neither NaN nor infinities.
                for name, value in found.items():
                    if isinstance(value, float) and not math.isfinite(value):
                        found[name] = None
                print(json.dumps(found, ensure_ascii=not anything), flush=True)
                if left is not None:
                    left -= 1
                    if not left:
                        return

    asyncio.run(show())


def _plain(event: Received) -> dict[str, Any]:
    found: dict[str, Any] = dict(event.attributes)
    if event.body:
        found["$body"] = event.body.decode(errors="backslashreplace")
    return found


def _cloud(event: Received) -> dict[str, Any] | None:
    from shoal.live.cloudevents import to_structured
    from shoal.live.errors import LiveError

    try:
        return to_structured(event.attributes, event.body)
    except LiveError as error:
        print(f"shoal: left out: {error}", file=sys.stderr)
        return None
