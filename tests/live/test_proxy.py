"""The proxy that damages connections stops quietly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.live.messages import Beat
from shoal.live.proxy import Proxy
from shoal.live.wire import LENGTH, encode


def test_a_proxy_that_stops_while_it_carries_reports_nothing_to_the_loop() -> None:
    told: list[dict[str, Any]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        proxy = await Proxy(f"{host}:{port}", frames=False).start()
        reader, writer = await asyncio.open_connection(*proxy.address.split(":"))
        writer.write(b"carried")
        assert await reader.readexactly(7) == b"carried"
        await proxy.stop()
        assert await reader.read() == b""
        writer.close()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(story())
    assert told == []


class Writer:
    """The end of a connection that notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written += [data] if data else []

    def is_closing(self) -> bool:
        return False

    def write_eof(self) -> None:
        pass

    async def drain(self) -> None:
        pass


def passed_on(data: bytes) -> list[bytes]:
    async def story() -> list[bytes]:
        reader, writer = asyncio.StreamReader(), Writer()
        reader.feed_data(data)
        reader.feed_eof()
        with pytest.raises(ConnectionError):
            await Proxy("127.0.0.1:9")._pass_on(reader, writer, [])  # type: ignore[arg-type]
        return writer.written

    return asyncio.run(story())


def test_frames_that_came_together_go_on_together() -> None:
    """When the connection onward breaks, asyncio logs a warning for each write."""
    frames = encode(Beat()) * 1000
    assert passed_on(frames) == [frames]


@pytest.mark.parametrize("introduction", [b"\x97\xa1\xa4", b"\xc1", b"\x95\xa5hello"])
def test_an_introduction_that_is_none_passes(introduction: bytes) -> None:
    """What msgspec raises for bytes that are no UTF-8 is no MsgspecError."""
    frame = LENGTH.pack(len(introduction)) + introduction
    assert passed_on(frame) == [frame]
