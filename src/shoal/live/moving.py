"""A client's move to another broker, when its own is about to stop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from shoal.live.client_handshake import Greeting
from shoal.live.connection import Connection
from shoal.live.errors import LiveError
from shoal.live.messages import Consumed, Moved
from shoal.live.reconnecting import Reconnecting
from shoal.live.subscription import Gap
from shoal.live.wire import encode

log = logging.getLogger("shoal.live")
LAST_WINDOW: Final = 1_000_000
"""Deliveries that a broker about to stop may send unconsumed, so that it can send all it has."""
LAST_WORDS: Final = 60.0
"""Seconds after which the client itself closes the connection that it has moved away from."""


class Moving(Reconnecting):
    """Moves to another broker when its own asks it to, without losing an event."""

    _moving: asyncio.Task[None] | None = None
    _old: Greeting | None = None
    """Connection to the broker that this client moves, or moved last, away from."""

    def _leave(self, old: Greeting) -> None:
        """A broker asks this client to move: begin, unless it moves already."""
        moves = self._moving is not None and not self._moving.done()
        if old is self._greeting and not moves and not self._closing:
            self._old = old
            self._connection = None  # publications wait for the next one
            self._up.clear()
            self._moving = asyncio.create_task(self._move(old))

    async def _move(self, old: Greeting) -> None:
        """Subscribe at another broker while the old one still delivers; then leave the old one."""
        old.connection.send(encode(Consumed(LAST_WINDOW)))
        new = await self._greet_another(old.address)
        if new is not None:
            try:
                await self._answers_of(old)
            except asyncio.CancelledError:  # closed meanwhile: nobody else knows this connection
                new.connection.close("done", polite=False)
                raise
            self._use(new)
            for subscription in list(self._subscriptions.values()):
                self._ask(subscription)
            numbers = list(self._subscriptions)
            old.lost.add_done_callback(lambda _: self._parted(old, numbers))
            self._up.set()
            settling = asyncio.create_task(self.settled())
            settling.add_done_callback(lambda done: done.cancelled() or done.exception())
            over: list[asyncio.Future[Any]] = [settling, new.lost]
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            settling.cancel()
        old.connection.send(encode(Moved()))
        self._loop.call_later(LAST_WORDS, lambda: old.connection.close("moved", polite=False))

    def _parted(self, old: Greeting, numbers: list[int]) -> None:
        """The old broker's connection has ended: report a gap unless it had delivered all."""
        if not (old.parted or self._closing):
            for number in numbers:
                subscription = self._subscriptions.get(number)
                if subscription is not None:
                    subscription._put(Gap(None, "the connection was lost"))

    async def _greet_another(self, address: str) -> Greeting | None:
        """A connection to another broker; None if there is none."""
        addresses = self._greeter.addresses()
        at = addresses.index(address) if address in addresses else len(addresses)
        for other in addresses[at + 1 :] + addresses[:at]:
            try:
                return await self._greeter.greet(other, self._received)
            except LiveError as error:
                log.info("%s; not moving there", error)
        return None

    async def _answers_of(self, old: Greeting) -> None:
        """Wait until the old broker has answered all requests, or its connection is lost."""
        waiting = self._requests.waiting()
        if waiting:
            answered = asyncio.ensure_future(asyncio.wait(waiting))
            both: list[asyncio.Future[Any]] = [answered, old.lost]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            answered.cancel()
        self._requests.lost(f"{old.address} has stopped")

    async def _until_lost(self) -> str:
        """Wait until the connection is lost; a move to another broker does not count as that."""
        while True:
            greeting = self._greeting
            reason = await super()._until_lost()
            if self._moving is not None:
                await asyncio.wait([self._moving])
            if greeting is self._greeting:
                return reason

    def _heard_on(self) -> Connection | None:
        """During a move the old broker's connection, as its last answers are waited for."""
        if self._connection is None and self._old is not None:
            return self._old.connection
        return super()._heard_on()

    async def close(self) -> None:
        """Close the connections, and end all requests and subscriptions."""
        self._closing = True
        if self._moving is not None:
            self._moving.cancel()
            await asyncio.gather(self._moving, return_exceptions=True)
        if self._old is not None:
            self._old.connection.close("done")
        await super().close()
