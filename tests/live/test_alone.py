"""A broker that has no link: it says why, once per reason, and stops at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from live_world import run, until

import shoal
import shoal.overlay
import shoal.routing  # protocols are registered
from patience import CONDITION
from shoal.live import Broker
from shoal.live.processes import free_port
from shoal.live.settings import settings_from
from shoal.stack.registry import protocols
from shoal.testing import QUICK

MERGE = {"merge_period": 0.2}
FAST: dict[str, dict[str, Any]] = {
    "graph": {"shuffle": 0.1, "heal": 0.2},
    "links": {"reconnect": (0.02, 0.1)},
    "dhtree": {"heal": 0.2},
    "lstree": MERGE,
    "overcast": MERGE,
    "overcast-g": MERGE,
    "shopparent": {"period": 0.1},
    "dps": {"interval": (0.2, 0.4), "timeout": 0.2, "shuffle": 0.1},
}
"""Per protocol that tries its contacts again, parameters with which it soon does."""
ALONE = [p.name for p in protocols("routing") if "reach" in p.needs]
OVERLAYS = [p.name for p in protocols("overlay") if not p.needs & {"links", "air"}]


async def started(overlay: str, **settings: Any) -> Broker:
    """A broker whose layers wait for one another as long as they like."""
    patient = {"drain": 100_000.0, "overlay": {"name": overlay}}
    return await Broker(settings_from({**QUICK, **patient, **settings})).start()


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """Where connections are accepted and nothing is answered."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def stops(broker: Broker) -> None:
    """Told to stop, it does, although it may take much longer."""
    try:
        async with asyncio.timeout(CONDITION):
            await broker.drain()
    finally:
        await broker.stop()


def reasons(caplog: pytest.LogCaptureFixture, least: int = logging.WARNING) -> list[str]:
    """Why there is no link, as often as that is logged at this level or above."""
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    return [line for level, line in lines if level >= least and line.startswith("no link: ")]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_who_is_alone_has_nobody_to_wait_for(
    overlay: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await stops(await started(overlay))
        async with mute() as address:
            await stops(await started(overlay, join=(address,)))
        other = await started(overlay)
        refused = await started(overlay, join=(other.address,), limits={"frame": 4096})
        await until(lambda: bool(reasons(caplog)), "it is refused")
        await stops(refused)
        await stops(other)

    run(story())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_brokers_of_a_network_of_one_know_a_subscription_at_once(overlay: str) -> None:
    async def story() -> None:
        broker = await started(overlay)
        async with shoal.connect(broker.address) as bus, bus.subscribe("x > 1"):
            async with asyncio.timeout(CONDITION):
                await bus.settled()
        await broker.stop()

    run(story())


@pytest.mark.parametrize(
    "stack",
    [
        *({"overlay": {"name": name, **FAST[name]}} for name in OVERLAYS if name in FAST),
        *({"routing": {"name": name, **FAST[name]}} for name in ALONE),
    ],
    ids=lambda stack: next(iter(stack.values()))["name"],
)
def test_why_a_contact_cannot_be_joined_is_said_once_per_reason(
    stack: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "shoal.live")

    async def tried_on(said: int) -> None:
        await until(lambda: len(reasons(caplog)) == said, "it is said")
        assert reasons(caplog)[-1].endswith("; trying on")
        tried = len(reasons(caplog, logging.DEBUG))
        await until(lambda: len(reasons(caplog, logging.DEBUG)) > tried, "it tries on")
        assert len(reasons(caplog)) == said

    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        raw = {**QUICK, **stack}
        async with Broker(settings_from({**raw, "join": (address,)})):
            await tried_on(1)
            assert f"{address} cannot be reached" in reasons(caplog)[0]
            stricter = {**raw, "listen": address, "limits": {"frame": 4096}}
            async with Broker(settings_from(stricter)):
                await tried_on(2)
                assert "events and filters of the same size" in reasons(caplog)[1]

    run(story())


@pytest.mark.parametrize("overlay", ["lstree", "graph", "overcast", "dhtree"])
def test_who_is_to_join_itself_alone_is_told(
    overlay: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        for host in ("127.0.0.1", "localhost"):  # under its address, and under another name for it
            port = free_port()
            settings = {"listen": f"127.0.0.1:{port}", "join": (f"{host}:{port}",)}
            broker = await started(overlay, **settings)
            await until(lambda port=port: f":{port}: that is" in "".join(reasons(caplog)), "told")
            await stops(broker)

    run(story())
    assert len(reasons(caplog)) == 2
    assert all("that is this broker itself; give --join another" in r for r in reasons(caplog))
