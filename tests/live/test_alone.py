"""A broker that has no link: it says why, once per reason, and stops at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from live_world import run

import shoal.overlay  # noqa: F401  # registers the overlays
from patience import CONDITION
from shoal.live import Broker
from shoal.live.settings import settings_from
from shoal.stack.registry import protocols
from shoal.testing import QUICK

OVERLAYS = [p.name for p in protocols("overlay") if "links" not in p.needs]


async def started(overlay: str, **settings: Any) -> Broker:
    """A broker whose layers wait for one another as long as they like."""
    patient = {"drain": 100_000.0, "overlay": {"name": overlay}}
    return await Broker(settings_from({**QUICK, **patient, **settings})).start()


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """Where connections are accepted and nothing is answered."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    try:
        yield "127.0.0.1:{}".format(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def stops(broker: Broker) -> None:
    """Told to stop, it does, although it may take much longer."""
    try:
        async with asyncio.timeout(CONDITION):
            await broker.drain()
    finally:
        await broker.stop()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_who_is_alone_has_nobody_to_wait_for(overlay: str) -> None:
    async def story() -> None:
        await stops(await started(overlay))
        async with mute() as address:
            await stops(await started(overlay, join=(address,)))
        other = await started(overlay)
        await stops(await started(overlay, join=(other.address,), limits={"frame": 4096}))
        await stops(other)

    run(story())
