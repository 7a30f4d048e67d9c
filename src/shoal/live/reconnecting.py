"""A client's connection to its broker: made, lost, and made again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from shoal.live import security
from shoal.live.connection import Connection, User
from shoal.live.dialling import hung_up, open_connection
from shoal.live.errors import (
    FATAL,
    DisconnectedError,
    ImpostorError,
    LiveError,
    RefusedError,
    UnreachableError,
)
from shoal.live.messages import (
    MOVES,
    VERSIONS,
    Challenge,
    Consumed,
    Hello,
    Known,
    Moved,
    Policy,
    Refused,
    Settle,
    ToClient,
    Welcome,
)
from shoal.live.proof import Caller
from shoal.live.settings import Limits
from shoal.live.subscription import Gap, Subscription
from shoal.live.wire import ENVELOPE, FROM_BROKER, encode, parse_address

log = logging.getLogger("shoal.live")
decoder = msgspec.msgpack.Decoder(ToClient)
LAST_WINDOW: Final = 1_000_000
"""Window granted to a broker that is about to stop, so that it can send all it still has."""
MARGIN: Final = 240.0
"""Seconds within which a broker reports losses. Of losses in the last MARGIN seconds before a
broker was last heard, the next broker has to report."""
LAST_WORDS: Final = 60.0
"""Seconds that a broker may take to close a connection that the client has moved away from."""


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
    """Stays connected to one of some brokers, with all subscriptions."""

    def __init__(
        self,
        addresses: list[str],
        *,
        name: str,
        token: str,
        tls: ssl.SSLContext | None,
        window: int,
        queue: int,
        when_full: Policy,
        patience: float,
        reconnect: tuple[float, float],
        broker: str,
    ) -> None:
        self._addresses = addresses
        self.others: dict[str, str] = {}
        """Names of further brokers, by address, as the last one told."""
        self._why = ""
        """Why the last attempt to connect failed."""
        self._name = name
        self._token = token
        self._tls = tls
        self._broker_names = [name.strip() for name in broker.split(",") if name.strip()]
        self._window, self._queue, self._policy = window, queue, when_full
        self.patience = patience
        self._backoff = Backoff(*reconnect)
        self._limits = Limits()
        self._numbers = itertools.count(1)
        """Request numbers, shared by publications, subscriptions and inspections."""
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        """Publications (which the broker accepts in order) and inspections."""
        self._subscribing: dict[int, asyncio.Future[None]] = {}
        self._holding: dict[int, asyncio.Future[Any]] = {}
        """Publications that several brokers are to hold; each is answered on its own."""
        self._settling: dict[int, asyncio.Future[None]] = {}
        self._connection: Connection | None = None
        """Connection for publications and subscriptions; None while there is no broker."""
        self._greeting: _Greeting | None = None
        self._moving: asyncio.Task[None] | None = None
        self._old: _Greeting | None = None
        """The broker that this client moves or moved away from."""
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
        self.broker: Known | None = None
        self._heart: asyncio.Task[None] | None = None

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
                self._why or f"no broker answers at {', '.join(self._addresses)}"
            ) from None
        except BaseException:
            await self.close()
            raise

    async def _run(self) -> None:
        """Connect, and connect again, until closed."""
        at = 0
        while True:
            # Those that brokers told of are for when none answers of those that the user gave.
            given = len(self._addresses)
            addresses = [*self._addresses, *self.others]
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
                        self.others.pop(address, None)
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

    def _learn(self, known: Iterable[Known]) -> None:
        """The broker tells of others; those that may be asked instead are remembered."""
        names = self._broker_names
        self.others = {
            other.address: other.name
            for other in known
            if _is_address(other.address)
            and other.address not in self._addresses
            and (not names or other.name in names)
        }

    async def _connect(self, address: str) -> None:
        self._use(await self._greet(address))
        for subscription in list(self._subscriptions.values()):
            self._ask(subscription)
            subscription._put(Gap(None, "the connection was lost"))
        self._up.set()

    async def _greet(self, address: str) -> _Greeting:
        """A connection to a broker that has welcomed this client."""
        connection = await open_connection(address, self._limits, self._tls)
        learned = self.others.get(address)
        names = self._broker_names if learned is None else [learned]
        try:
            if self._tls is not None:
                security.check_server(connection.certificate, parse_address(address)[0], names)
        except ImpostorError as error:
            connection.close("its certificate is for another", polite=False)
            raise ImpostorError(f"{address}: {error}") from None
        caller = Caller(self._token, connection)
        greeting = _Greeting(self, connection, address, caller, names)
        connection.taken_by(greeting, self._limits.frame + ENVELOPE)
        me = Known(-1, self._name, "", 0)
        hello = Hello(
            VERSIONS,
            "client",
            "link",
            me,
            time.time(),
            capabilities=(MOVES,),
            token_id=caller.token_id,
            nonce=caller.nonce,
            window=self._window,
            queue=self._queue,
            policy=self._policy,
        )
        caller.introduced(hello)
        connection.send(encode(hello))
        try:
            async with asyncio.timeout(self._limits.handshake):
                welcome = await greeting.welcome
        except TimeoutError:
            connection.close("no answer", polite=False)
            raise UnreachableError(f"{address} does not answer; is a broker there?") from None
        except ImpostorError as error:
            raise ImpostorError(f"{address}: {error}") from None
        except RefusedError as error:
            raise RefusedError(error.code, f"{address} refuses: {error}") from None
        except DisconnectedError as error:
            raise hung_up(address, error) from None
        except asyncio.CancelledError:  # closed meanwhile: nobody else knows this connection
            connection.close("done", polite=False)
            raise
        connection.taken_by(greeting, welcome.limit + FROM_BROKER)
        return greeting

    def _away_for(self) -> float:
        """Seconds since something was published that no broker so far may have told of."""
        return self._loop.time() - self._since

    def _use(self, greeting: _Greeting) -> None:
        """Make this broker the client's."""
        now = self._loop.time()
        if self._greeting is None:
            self._since = now
        elif self._greeting.connection.heard - self._used > MARGIN:
            self._since = self._greeting.connection.heard - MARGIN
        self._used = now
        welcome = greeting.welcome.result()
        self.broker = welcome.who
        self._limits = Limits(frame=max(1024, welcome.limit))
        self._greeting, self._connection = greeting, greeting.connection
        self._taken = 0

    async def _until_lost(self) -> str:
        """Wait until there is no connection any more, also if the client moves meanwhile."""
        while True:
            greeting = self._greeting
            assert greeting is not None
            reason = await greeting.lost
            if self._moving is not None:
                await asyncio.wait([self._moving])
            if greeting is self._greeting:
                return reason

    # A broker that is about to stop

    def _leave(self, old: _Greeting) -> None:
        """A broker asks this client to move to another one."""
        if old is self._greeting and (self._moving is None or self._moving.done()):
            self._old = old
            self._connection = None  # publications wait for the next one
            self._up.clear()
            self._moving = asyncio.create_task(self._move(old))

    async def _move(self, old: _Greeting) -> None:
        """Settle at another broker while the old one still delivers, then let go of the old."""
        old.connection.send(encode(Consumed(LAST_WINDOW)))
        new = await self._greet_another(old.address)
        if new is not None:
            await self._answers_of(old)
            self._use(new)
            for subscription in list(self._subscriptions.values()):
                self._ask(subscription)
                if old.lost.done():
                    subscription._put(Gap(None, "the connection was lost"))
            self._up.set()
            settling = asyncio.create_task(self._settled())
            settling.add_done_callback(lambda done: done.cancelled() or done.exception())
            over: list[asyncio.Future[Any]] = [settling, new.lost]
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            settling.cancel()
        old.connection.send(encode(Moved()))
        self._loop.call_later(LAST_WORDS, lambda: old.connection.close("moved", polite=False))

    async def _greet_another(self, address: str) -> _Greeting | None:
        """A connection to another broker; None if there is none."""
        addresses = [*self._addresses, *self.others]
        at = addresses.index(address) if address in addresses else len(addresses)
        for other in addresses[at + 1 :] + addresses[:at]:
            try:
                return await self._greet(other)
            except LiveError as error:
                log.info("%s; not moving there", error)
        return None

    async def _answers_of(self, old: _Greeting) -> None:
        """Wait until the old broker has answered all requests, or no longer can."""
        asked = [*self._pending.values(), *self._holding.values(), *self._settling.values()]
        waiting = [future for future in asked if not future.done()]
        if waiting:
            answered = asyncio.ensure_future(asyncio.wait(waiting))
            both: list[asyncio.Future[Any]] = [answered, old.lost]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            answered.cancel()
        self._no_more_answers(f"{old.address} has stopped")

    async def _settled(self) -> None:
        """Wait until every broker knows this client's subscriptions."""
        connection = await self._connected()
        request = next(self._numbers)
        future = self._settling[request] = self._loop.create_future()
        connection.send(encode(Settle(request)))
        await future

    def _give_up(self, error: LiveError) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
        self._closing = True
        self._lost(str(error))
        self._up.set()
        self._no_answers(str(error))
        for subscription in list(self._subscriptions.values()):
            subscription._fail(error)

    def _no_answers(self, reason: str) -> None:
        """Fail all pending subscriptions: no broker will be asked again."""
        asked, self._subscribing = self._subscribing, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(DisconnectedError(f"not subscribed: {reason}"))

    def _lost(self, reason: str) -> None:
        """Fail all requests under way: each may have been carried out or not."""
        self._connection = None
        self._up.clear()
        log.info("connection lost: %s", reason)
        # Those that wait will be asked again; the others' answers will not come any more.
        asked = self._subscribing.items()
        self._subscribing = {number: future for number, future in asked if not future.done()}
        self._no_more_answers(reason)

    def _no_more_answers(self, reason: str) -> None:
        """Fail all requests without an answer: each may have been carried out or not."""
        waiting = [*self._pending.values(), *self._holding.values(), *self._settling.values()]
        self._pending, self._holding, self._settling = {}, {}, {}
        for future in waiting:
            if not future.done():
                future.set_exception(
                    DisconnectedError(f"connection lost ({reason}) before the broker answered")
                )

    async def close(self) -> None:
        """Close the connection, and end all requests and subscriptions."""
        self._closing = True
        tasks = [t for t in (self._task, self._heart, self._moving) if t is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for greeting in (self._old, self._greeting):
            if greeting is not None:
                greeting.connection.close("done")
        self._lost("closed")
        self._up.set()  # who waits for a connection waits in vain
        self._no_answers("the connection is closed")
        for subscription in list(self._subscriptions.values()):
            await subscription.stop()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            connection = self._connection
            if connection is None and self._old is not None and self._moving is not None:
                connection = self._old.connection  # whose last answers are waited for
            if connection is not None and not connection.gone:
                connection.beat(10.0)

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

    def _received(self, frames: list[memoryview], greeting: _Greeting) -> None:
        raise NotImplementedError


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except LiveError:
        return False
    return True


class _Greeting(User):
    """A client's connection: first its answer, then everything else."""

    def __init__(
        self,
        bus: Reconnecting,
        connection: Connection,
        address: str,
        caller: Caller,
        names: Sequence[str],
    ) -> None:
        self._bus = bus
        self.connection = connection
        self.address = address
        self._caller = caller
        self._names = names
        self.welcome: asyncio.Future[Welcome] = connection.loop.create_future()
        self.lost: asyncio.Future[str] = connection.loop.create_future()

    def received(self, frames: list[memoryview]) -> None:
        if not self.welcome.done():
            try:
                welcome = self._greeted(decoder.decode(frames.pop(0)))
            except RefusedError as error:
                self.welcome.set_exception(error)
                self.connection.close(str(error))
                return
            if welcome is not None:
                self.welcome.set_result(welcome)
        if frames:
            self._bus._received(frames, self)

    def _greeted(self, answer: Any) -> Welcome | None:
        """The broker's welcome, once it is known to be one that is meant."""
        if isinstance(answer, Refused):
            raise RefusedError(answer.code, answer.reason)
        if not isinstance(answer, Welcome | Challenge):
            raise LiveError("the other end is no Shoal broker")
        if self._names and answer.who.name not in self._names:
            raise ImpostorError(
                f"broker '{answer.who.name}' is there, not {' or '.join(map(repr, self._names))}"
            )
        if isinstance(answer, Challenge):
            self.connection.send(encode(self._caller.answer(answer)))
            return None
        if not self._caller.proven:
            raise ImpostorError(
                f"broker '{answer.who.name}' has no access rules, so it does not know the token; "
                "leave the token out if this is the broker you mean"
            )
        return answer

    def closed(self, reason: str) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(DisconnectedError(reason))
        if not self.lost.done():
            self.lost.set_result(reason)
