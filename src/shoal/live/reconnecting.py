"""A client's connection to its broker: made, lost, and made again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

from shoal.live.client_handshake import Greeter, Greeting
from shoal.live.connection import Connection
from shoal.live.errors import FATAL, DisconnectedError, LiveError, RefusedError, UnreachableError
from shoal.live.messages import Known, Settle
from shoal.live.requests import Requests
from shoal.live.settings import Limits
from shoal.live.subscription import Gap, Subscription
from shoal.live.wire import encode

log = logging.getLogger("shoal.live")
MARGIN: Final = 240.0
"""Seconds within which a broker reports a loss. Losses of the last MARGIN seconds before a broker
was last heard are for the next broker to report."""


class Backoff:
    """Growing pauses with jitter, so that many who lost one broker do not all return at once."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._pause = first

    def next(self) -> float:
        """The next pause."""
        pause, self._pause = self._pause, min(self._longest, 2 * self._pause)
        return pause * random.uniform(0.5, 1.5)

    def reset(self) -> None:
        """Begin again with the shortest pause: a connection was made."""
        self._pause = self._first


class Reconnecting:
    """Stays connected to one of several brokers, and subscribes again after a loss."""

    def __init__(self, greeter: Greeter) -> None:
        self._greeter = greeter
        self._why = ""
        """Reason why the last attempt to connect failed."""
        self.patience = greeter.options.patience
        self._backoff = Backoff(*greeter.options.reconnect)
        self._requests = Requests()
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._connection: Connection | None = None
        """Connection for publications and subscriptions; None while there is no broker."""
        self._greeting: Greeting | None = None
        self._up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._closing = False
        self._taken = 0
        """Deliveries consumed since the broker was last told."""
        self._used = 0.0
        """Time at which the current broker was connected."""
        self._since = 0.0
        """Time up to which earlier brokers have reported all losses."""
        self.dropped = 0
        """Deliveries that the broker dropped since this client did not keep up."""
        self.reconnects = 0
        """Connections lost so far."""
        self.broker: Known | None = None
        self._heart: asyncio.Task[None] | None = None

    @property
    def others(self) -> Mapping[str, str]:
        """Names of further brokers, by address, as the last one told."""
        return self._greeter.others

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first = self._loop.create_future()
        self._task = asyncio.create_task(self._run())
        self._heart = asyncio.create_task(self._beat())
        try:
            async with asyncio.timeout(self.patience):
                await self._first
        except TimeoutError:
            await self.close()
            raise DisconnectedError(
                self._why or f"no broker answers at {', '.join(self._greeter.given)}"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def _run(self) -> None:
        """Connect, and connect again, until closed."""
        at = 0
        while True:
            # Brokers that others announced are tried when none answers that the user gave.
            given = len(self._greeter.given)
            addresses = self._greeter.addresses()
            at %= len(addresses)
            address = addresses[at]
            try:
                await self._connect(address)
            except LiveError as error:
                first = self._first is not None and not self._first.done()
                self._why = str(error)
                hopeless = isinstance(error, RefusedError) and error.code in FATAL
                unreachable = isinstance(error, UnreachableError)
                if at >= given:
                    if hopeless:
                        self._greeter.others.pop(address, None)
                elif hopeless or (first and given == 1 and not unreachable):
                    self._give_up(error)
                    return
                log.log(logging.INFO if first else logging.WARNING, "%s; trying on", error)
                at += 1
            else:
                self._backoff.reset()
                if self._first is not None and not self._first.done():
                    self._first.set_result(None)
                self._lost(await self._until_lost())
                self.reconnects += 1
                at = (at + 1) % given if at < given else 0
            await asyncio.sleep(self._backoff.next())

    async def _connect(self, address: str) -> None:
        self._use(await self._greeter.greet(address, self._received))
        for subscription in list(self._subscriptions.values()):
            self._ask(subscription)
            subscription._put(Gap(None, "the connection was lost"))
        self._up.set()

    def _away_for(self) -> float:
        """Seconds since the time up to which earlier brokers have reported all losses."""
        return self._loop.time() - self._since

    def _use(self, greeting: Greeting) -> None:
        """Make this broker the client's."""
        now = self._loop.time()
        if self._greeting is None:
            self._since = now
        elif self._greeting.connection.heard - self._used > MARGIN:
            self._since = self._greeting.connection.heard - MARGIN
        self._used = now
        welcome = greeting.welcome.result()
        self.broker = welcome.who
        self._greeter.limits = Limits(frame=max(1024, welcome.limit))
        self._greeting, self._connection = greeting, greeting.connection
        self._taken = 0

    async def _until_lost(self) -> str:
        """Wait until the connection is lost; returns the reason."""
        assert self._greeting is not None
        return await self._greeting.lost

    async def settled(self) -> None:
        """Wait until every broker of the network knows this client's subscriptions.

        An event that is published anywhere after that finds its way here.
        """
        connection = await self._connected()
        request = self._requests.number()
        future = self._requests.expect(request, in_order=False)
        connection.send(encode(Settle(request)))
        await future

    def _give_up(self, error: LiveError) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
        self._closing = True
        self._lost(str(error))
        self._up.set()
        self._requests.end(str(error))
        for subscription in list(self._subscriptions.values()):
            subscription._fail(error)

    def _lost(self, reason: str) -> None:
        """There is no connection any more."""
        self._connection = None
        self._up.clear()
        log.info("connection lost: %s", reason)
        self._requests.lost(reason)

    async def close(self) -> None:
        """Close the connection, and end all requests and subscriptions."""
        self._closing = True
        tasks = [t for t in (self._task, self._heart) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._greeting is not None:
            self._greeting.connection.close("done")
        self._lost("closed")
        self._up.set()  # wakes those that wait for a connection: there will be none
        self._requests.end("the connection is closed")
        for subscription in list(self._subscriptions.values()):
            await subscription.stop()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            connection = self._heard_on()
            if connection is not None and not connection.gone:
                connection.beat(10.0)

    def _heard_on(self) -> Connection | None:
        """The connection on which to hear from a broker, and to show signs of life."""
        return self._connection

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.gone:
            if self._closing:
                raise DisconnectedError("the connection is closed")
            try:
                async with asyncio.timeout(self.patience):
                    while self._connection is None or self._connection.gone:
                        if self._closing:
                            raise DisconnectedError("the connection is closed")
                        self._up.clear()
                        await self._up.wait()
            except TimeoutError:
                raise DisconnectedError(
                    f"not connected for {self.patience:g} s; is the broker running?"
                ) from None
        return self._connection

    def _ask(self, subscription: Subscription) -> asyncio.Future[None]:
        raise NotImplementedError

    def _received(self, frames: list[memoryview], greeting: Greeting) -> None:
        raise NotImplementedError
