"""Options by which the commands of the live network reach a broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from shoal.live.client import Bus

BrokerOption = Annotated[
    str, typer.Option("--broker", help="A broker; several, with commas, are tried in turn.")
]
TokenOption = Annotated[
    str, typer.Option(help="Who you are, for brokers with access rules.", envvar="SHOAL_TOKEN")
]
CaOption = Annotated[Path | None, typer.Option(help="Use TLS; who signs certificates there.")]
CertOption = Annotated[Path | None, typer.Option(help="A certificate that says who you are.")]
KeyOption = Annotated[Path | None, typer.Option(help="Its key, if not in the same file.")]
ExpectOption = Annotated[
    str, typer.Option(help="The name of the broker that you mean; another is not talked to.")
]
DEFAULT = "127.0.0.1:7464"


async def connected(
    broker: str,
    token: str,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    expect: str,
    patience: float = 5.0,
    **more: Any,
) -> Bus:
    """The connection that these options ask for; a line says so if it takes more than a second."""
    import asyncio

    from shoal.live.client import connect

    told = f"Waiting {patience:g} s for a broker at {broker} …"
    late = asyncio.get_running_loop().call_later(1.0, lambda: typer.echo(told, err=True))
    if patience <= 1.0:
        late.cancel()
    try:
        return await connect(
            broker, token=token, ca=ca, cert=cert, key=key, broker=expect, patience=patience, **more
        )
    finally:
        late.cancel()
