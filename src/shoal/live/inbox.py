"""Requests and replies, made of events: a reply carries its request's address and number."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING

from shoal.content import Value
from shoal.live.errors import LiveError

if TYPE_CHECKING:
    from shoal.live.client import Bus
    from shoal.live.subscription import Received


class Inbox:
    """The address to which replies are sent, and those that arrived."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._address = secrets.token_hex(8)
        self._waiting: dict[int, asyncio.Future[Received]] = {}
        self._numbers = itertools.count(1)
        self._replies = bus.subscribe(f"inreplyto = '{self._address}'")
        self._task: asyncio.Task[None] | None = None

    async def ask(self, values: dict[str, Value | None], body: bytes, timeout: float) -> Received:
        """Publish a request and wait for its reply."""
        await self._replies.start()
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        number = next(self._numbers)
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(timeout):
                values |= {"replyto": self._address, "correlation": number}
                await self._bus._insist(values, body)
                return await future
        except TimeoutError:
            raise LiveError(f"no reply within {timeout:g} s; is anybody answering?") from None
        finally:
            self._waiting.pop(number, None)

    async def _listen(self) -> None:
        async for reply in self._replies:
            future = self._waiting.get(reply.get("correlation"))  # type: ignore[arg-type]  # a number
            if future is not None and not future.done():
                future.set_result(reply)

    async def stop(self) -> None:
        """Stop listening for replies."""
        if self._task is not None:
            self._task.cancel()
        await self._replies.stop()
