"""Brokers whose clocks disagree: links work, and from a bound on somebody is told."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest
from live_world import run, until

from shoal.live import Broker
from shoal.live.messages import VERSIONS, Hello, Known, Welcome
from shoal.live.settings import Limits
from shoal.live.wire import LENGTH, encode, parse_address
from shoal.overlay.configured_messages import Link
from shoal.testing import TREE, Network


async def introduce(broker: Broker, ahead: float) -> asyncio.StreamWriter:
    """Be a neighbour whose clock is so many seconds ahead."""
    reader, writer = await asyncio.open_connection(*parse_address(broker.address))
    me = Known(77, "77", "127.0.0.1:1", 2**40)
    hello = Hello(VERSIONS, "peer", "link", me, time.time() + ahead, stack=broker.described)
    writer.write(encode(hello))
    (length,) = LENGTH.unpack(await reader.readexactly(4))
    msgspec.msgpack.decode(await reader.readexactly(length), type=Welcome)
    writer.write(encode(Link(77)))
    await until(lambda: 77 in broker.links, "the link")
    return writer


@pytest.mark.parametrize(
    ("bound", "ahead", "said"),
    [
        (5.0, 4.0, ""),
        (5.0, -4.0, ""),
        (5.0, 6.5, "is 6.5 s ahead"),
        (5.0, -7.5, "is 7.5 s behind"),
        (2.0, 4.0, "is 4.0 s ahead"),
        (60.0, 50.0, ""),
    ],
)
def test_a_clock_that_is_off_by_more_than_the_bound_is_told_of(
    bound: float, ahead: float, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Network(1, **TREE, limits=Limits(skew=bound)) as network:
            broker = network.brokers[0]
            writer = await introduce(broker, ahead)
            warnings = [r.getMessage() for r in caplog.records if "clock" in r.getMessage()]
            assert len(warnings) == bool(said), warnings
            assert not said or said in warnings[0]
            (link,) = broker.status().links
            assert link.skew == pytest.approx(ahead if said else 0.0, abs=1.0)
            writer.transport.abort()

    run(story())


def test_a_clock_is_told_of_once_and_forgotten_when_it_is_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Network(1, **TREE) as network:
            broker = network.brokers[0]
            for ahead, warnings in ((9.0, 1), (9.0, 1), (0.0, 1), (9.0, 2)):
                writer = await introduce(broker, ahead)
                (link,) = broker.status().links
                assert link.skew == pytest.approx(ahead, abs=1.0)
                assert sum("clock" in r.getMessage() for r in caplog.records) == warnings
                writer.transport.abort()
                await until(lambda: not broker.links, "the link to go")

    run(story())
