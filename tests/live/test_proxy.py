"""The proxy that damages connections stops quietly."""

from __future__ import annotations

import asyncio
from typing import Any

from shoal.live.proxy import Proxy


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
