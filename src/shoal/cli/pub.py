"""``shoal pub``: publish events from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import access
from shoal.cli.access import connected

if TYPE_CHECKING:
    from shoal.content import Value


def pub(
    attributes: Annotated[
        list[str] | None,
        typer.Argument(help="One event; without, JSON lines are read.", metavar="NAME=VALUE…"),
    ] = None,
    broker: access.BrokerOption = access.DEFAULT,
    expect: access.ExpectOption = "",
    body: Annotated[str, typer.Option(help="The event's body.")] = "",
    cloudevents: Annotated[
        bool, typer.Option("--cloudevents", help="The lines are CloudEvents.")
    ] = False,
    token: access.TokenOption = "",
    ca: access.CaOption = None,
    cert: access.CertOption = None,
    key: access.KeyOption = None,
) -> None:
    """Publish one event, or one for every JSON object on standard input.

    A value that looks like a number, true, false or null is one; quote it twice for text.

    Examples:

        shoal pub room=lab1 temperature=31.5

        shoal pub --broker 127.0.0.1:7465 < events.jsonl
    """
    import asyncio

    from shoal.live.errors import LiveError

    one = parse(attributes or [])
    if cloudevents and (attributes or body):
        raise LiveError("--cloudevents reads whole events, body included; give them as JSON lines")

    async def publish() -> int:
        async with await connected(broker, token, ca, cert, key, expect) as bus:
            if attributes:
                await bus.publish(one, body=body.encode(errors="surrogateescape"))
                return 1
            if cloudevents:
                count = 0
                for values, data in cloud_lines():
                    await bus.publish(values, body=data)
                    count += 1
                return count
            return await bus.publish_many(lines(), body=body.encode(errors="surrogateescape"))

    count = asyncio.run(publish())
    if not attributes:
        typer.echo(f"published {count} event{'s' * (count != 1)}", err=True)


def parse(words: list[str]) -> dict[str, Value | None]:
    """``room=lab1 temperature=31`` as attributes."""
    from shoal.live.errors import LiveError

    found: dict[str, Value | None] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise LiveError(f"'{word}' is not NAME=VALUE; write it like temperature=31")
        found[name] = scalar(text)
    return found


def scalar(text: str) -> Any:
    """A number, boolean or null where the text is one in JSON; text otherwise."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, dict | list) else value


def cloud_lines() -> Iterator[tuple[dict[str, Value | None], bytes]]:
    """Attributes and body of each CloudEvent from standard input."""
    from shoal.live.cloudevents import from_structured
    from shoal.live.errors import LiveError

    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            try:
                event = from_structured(line)
            except LiveError as error:
                raise LiveError(f"line {number} of the input: {error}") from None
            yield event


def lines() -> Iterator[dict[str, Any]]:
    """JSON objects from standard input."""
    from shoal.live.errors import LiveError

    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LiveError(f"line {number} of the input is not JSON: {error}") from None
        if not isinstance(event, dict):
            raise LiveError(f"line {number} of the input is no JSON object")
        yield event
