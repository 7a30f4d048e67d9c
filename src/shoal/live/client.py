"""The client: publish, and iterate over what others publish.

::

    async with shoal.connect("127.0.0.1:7464") as bus:
        await bus.publish(room="lab1", temperature=31)
        async with bus.subscribe("temperature > 30 AND room LIKE 'lab%'") as hot:
            async for event in hot:
                print(event["room"], event["temperature"])

If its connection is lost, a client connects again and subscribes again; each subscription then
reports a gap. What happens to a client that does not keep up is set by ``when_full``; events
dropped for it are reported as a gap with their number.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.content import AttributeFilter, Event, Value
from shoal.live import messages, security
from shoal.live.client_handshake import Greeter, Options, decoder
from shoal.live.connection import Connection
from shoal.live.errors import LiveError, RefusedError
from shoal.live.inbox import Inbox
from shoal.live.moving import Moving
from shoal.live.status import Status
from shoal.live.subscription import Gap, Received, Subscription
from shoal.live.values import checked
from shoal.live.wire import content_of, encode, parse_address
from shoal.stack.registry import plain

WINDOW: Final = 1024
"""Publications under way at a time in :meth:`Bus.publish_many`."""


class Bus(Moving):
    """A connection to a network, through any of its brokers. Made by :func:`shoal.connect`."""

    _inbox: Inbox | None = None

    async def close(self) -> None:
        """Leave."""
        if self._inbox is not None:
            await self._inbox.stop()
        await super().close()

    async def __aenter__(self) -> Bus:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # Publishing

    async def publish(
        self,
        attributes: Mapping[str, Value | None] | None = None,
        /,
        *,
        body: bytes = b"",
        held: int = 1,
        **more: Value | None,
    ) -> None:
        """Publish an event; returns when the broker has taken it, raises if it refuses.

        With ``held=n``, returns when the buffers of n brokers hold it, so that n - 1 of them may
        die. If too few do within 5 s, that is a RefusedError with the code ``held``; the event
        is published all the same.
        """
        if type(held) is not int or not 1 <= held <= 64:
            raise LiveError(f"held = {held!r} brokers; from 1 to 64 can be asked for")
        await self._insist({**(attributes or {}), **more}, body, held)

    async def _insist(self, values: Mapping[str, Value | None], body: bytes, held: int = 1) -> None:
        """Publish; if the broker refuses because it is about to stop, at the next one."""
        while True:
            try:
                await self._publish(values, body, held=held)
                return
            except RefusedError as error:
                if error.code != "leaving":
                    raise

    async def publish_many(
        self, events: Iterable[Mapping[str, Value | None]], *, body: bytes = b""
    ) -> int:
        """Publish events without waiting for the answer to each; returns their number.

        If one fails, no more are sent, and the error's ``taken`` is the number that the broker has
        accepted. Events sent after a refused one may be among them.
        """
        under_way: deque[tuple[asyncio.Future[Any], Mapping[str, Value | None]]] = deque()
        taken = 0
        try:
            for values in events:
                under_way.append((self._publish(values, body, await self._connected()), values))
                if len(under_way) >= WINDOW:
                    await asyncio.wait([under_way[WINDOW // 2][0]])
                    while under_way and under_way[0][0].done():
                        await self._accepted_by_somebody(*under_way.popleft(), body)
                        taken += 1
            while under_way:
                await self._accepted_by_somebody(*under_way.popleft(), body)
                taken += 1
        except Exception as error:
            # One of them may have failed; what became of the others is known when all are done.
            answers = await asyncio.gather(*(f for f, _ in under_way), return_exceptions=True)
            taken += sum(not isinstance(answer, BaseException) for answer in answers)
            if isinstance(error, LiveError):
                error.taken = taken
            error.add_note(f"{taken} of the events were taken by the broker")
            raise
        return taken

    async def _accepted_by_somebody(
        self, future: asyncio.Future[Any], values: Mapping[str, Value | None], body: bytes
    ) -> None:
        try:
            await future
        except RefusedError as error:
            if error.code != "leaving":
                raise
            await self._insist(values, body)

    def _publish(
        self,
        values: Mapping[str, Value | None],
        body: bytes,
        on: Connection | None = None,
        held: int = 1,
    ) -> asyncio.Future[Any]:
        attributes = checked(values, body)
        if on is None:
            if self._connection is None or self._connection.gone:
                return asyncio.ensure_future(self._publish_later(attributes, body, held))
            on = self._connection
        request = self._requests.number()
        frame = encode(messages.Publish(request, attributes, body, held))
        most = self._greeter.limits.frame
        if len(frame) > most:
            raise RefusedError(
                "size",
                f"the event has {len(frame)} bytes; this broker takes {most}: "
                "send less, or raise its limits.frame",
            )
        future = self._requests.expect(request, in_order=held == 1)
        on.send(frame)
        return future

    async def _publish_later(
        self, values: Mapping[str, Value | None], body: bytes, held: int
    ) -> None:
        await self._publish(values, body, await self._connected(), held)

    # Subscribing

    def subscribe(
        self,
        filter: str | AttributeFilter,
        *,
        gaps: bool = False,
        promise: messages.Promise = "best effort",
        ordered: bool = False,
    ) -> Subscription:
        """Events that match a filter: ``async for event in bus.subscribe("temperature > 30")``.

        With ``gaps`` the iterator also yields a :class:`Gap` wherever events may be missing;
        ``subscription.missed`` and ``.gaps`` count them in any case. With the promise
        ``"recovered"``, what was published while this client was connected to no broker is fetched
        when it is again, as far as some broker still holds it; brokers need a recovery for that.
        ``ordered`` events of one publisher come in its order: those after a lost one wait until
        that is fetched or reported as a gap. A filter that cannot be read raises a
        :class:`~shoal.content.FilterError` with the place and a hint.
        """
        if promise not in ("best effort", "recovered"):
            raise LiveError(f"promise = '{promise}' is none of 'best effort' and 'recovered'")
        if ordered and promise != "recovered":
            raise LiveError("ordered=True needs promise='recovered': else nobody waits for losses")
        read = filter if isinstance(filter, AttributeFilter) else AttributeFilter(filter)
        return Subscription(self, read, bool(gaps), promise, bool(ordered))

    async def _subscribe(self, subscription: Subscription) -> None:
        number = subscription.number
        await self._connected()
        self._subscriptions[number] = subscription
        try:
            await self._ask(subscription)
        except RefusedError:
            self._subscriptions.pop(number, None)
            raise
        except BaseException:  # nobody waits for it any more, but the broker may have heard it
            self._unsubscribe(subscription)
            raise

    def _ask(self, subscription: Subscription) -> asyncio.Future[None]:
        number = subscription.number
        future = self._requests.expect_subscribed(number)
        if self._connection is not None:
            age, now = 0.0, self._loop.time()
            if subscription.since is None:
                subscription.since = now
            elif subscription.promise == "recovered":
                age = min(self._away_for(), now - subscription.since, messages.LONGEST)
            asked = messages.Subscribe(
                number, subscription.filter.text, subscription.promise, age, subscription.ordered
            )
            self._connection.send(encode(asked))
        return future

    def _unsubscribe(self, subscription: Subscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is None:
            return
        if self._connection is not None and not self._connection.gone:
            self._connection.send(encode(messages.Unsubscribe(subscription.number)))
        for _ in range(subscription._waiting()):
            self._consumed()

    def _abandon(self, number: int, waiting: int) -> None:
        """Unsubscribe for a subscription that was garbage-collected, maybe in another thread."""

        def forget() -> None:
            if self._connection is not None and not self._connection.gone:
                self._connection.send(encode(messages.Unsubscribe(number)))
            for _ in range(waiting):
                self._consumed()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(forget)

    def _consumed(self) -> None:
        """Count a delivery as consumed; each half window the broker is told, and sends more."""
        self._taken += 1
        if 2 * self._taken >= self._greeter.options.window and self._connection is not None:
            self._connection.send(encode(messages.Consumed(self._taken)))
            self._taken = 0

    # Requests

    async def request(
        self,
        attributes: Mapping[str, Value | None] | None = None,
        /,
        *,
        body: bytes = b"",
        timeout: float = 5.0,
        **more: Value | None,
    ) -> Received:
        """Publish an event and wait for the first reply to it (see :meth:`reply`)."""
        if self._inbox is None:
            self._inbox = Inbox(self)
        return await self._inbox.ask({**(attributes or {}), **more}, body, timeout)

    async def reply(
        self,
        to: Received,
        attributes: Mapping[str, Value | None] | None = None,
        /,
        *,
        body: bytes = b"",
        **more: Value | None,
    ) -> None:
        """Answer an event that was sent by :meth:`request`."""
        if not isinstance(to.get("replyto"), str):
            raise LiveError("this event wants no reply: it was published, not requested")
        answer = {"inreplyto": to["replyto"], "correlation": to.get("correlation")}
        await self._insist({**(attributes or {}), **more, **answer}, body)

    async def inspect(self, *, tables: bool = False) -> Status:
        """The broker's state; with ``tables``, also its routing table."""
        connection = await self._connected()
        request = self._requests.number()
        future = self._requests.expect(request)
        connection.send(encode(messages.Inspect(request, tables)))
        return msgspec.json.decode(await future, type=Status)

    # Messages of the broker

    def _received(self, frames: list[memoryview], greeting: Any) -> None:
        decode = decoder.decode
        for frame in frames:
            message = decode(frame)
            if type(message) is messages.Delivery:
                self._deliver(message)
            elif isinstance(message, messages.Accepted):
                self._requests.accepted(message.request)
            elif isinstance(message, messages.Refused):
                error = RefusedError(message.code, message.reason)
                self._requests.refused(message.request, error)
            elif isinstance(message, messages.Missed):
                self._missed(message)
            elif isinstance(message, messages.Report):
                self._requests.answered(message.request, message.status)
            elif isinstance(message, messages.Others):
                self._greeter.learn(message.known)
            elif isinstance(message, messages.Settled | messages.Holds):
                self._requests.answered(message.request)
            elif isinstance(message, messages.Leave):
                self._leave(greeting)
            elif isinstance(message, messages.Bye):
                greeting.parted = message.reason == messages.STOPS
                greeting.connection.close(message.reason, polite=False)

    def _missed(self, message: messages.Missed) -> None:
        self.dropped += message.count
        publisher = message.publisher if message.publisher >= 0 else None
        gap = Gap(message.count or None, message.reason, publisher)
        for number in message.subscriptions or list(self._subscriptions):
            subscription = self._subscriptions.get(number)
            if subscription is not None and subscription._is_news(gap, message.ago):
                subscription._put(gap)

    def _deliver(self, message: messages.Delivery) -> None:
        event: Event = message.event
        values = getattr(event.content, "values", {})
        received = Received(values, event.body, event.publisher, event.sequence)
        # One delivery counts once, however many subscriptions it is for.
        first = True
        for number in message.subscriptions:
            subscription = self._subscriptions.get(number)
            if subscription is not None:
                if not first:
                    self._taken -= 1
                subscription._put(received)
                first = False
        if first:
            self._consumed()


class Connecting:
    """Result of :func:`connect`: await it, or enter it as a context."""

    def __init__(self, make: Callable[[], Bus]) -> None:
        self._make = make
        self._buses: list[Bus] = []

    def __await__(self) -> Generator[Any, None, Bus]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Bus:
        bus = self._make()
        await bus._start()
        self._buses.append(bus)
        return bus

    async def __aexit__(self, *error: object) -> None:
        await self._buses.pop().close()


def connect(
    address: str = "127.0.0.1:7464",
    *,
    name: str = "",
    token: str = "",
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    broker: str = "",
    window: int = 1024,
    queue: int = 10_000,
    when_full: messages.Policy = "drop oldest",
    patience: float = 30.0,
    reconnect: tuple[float, float] = (0.1, 5.0),
) -> Connecting:
    """Connect to a network: ``async with shoal.connect("host:7464") as bus``.

    Several addresses, separated by commas, are tried in turn, for ``patience`` seconds; later also
    those that brokers announce. A broker sends up to ``window`` events that are not consumed yet.
    ``queue`` more wait at the broker. When that is full, ``when_full`` says what happens:
    ``"drop oldest"``, ``"disconnect"`` or ``"block"`` (publishers at the same broker wait). With
    ``ca`` the connection uses TLS, and the broker's certificate must be signed by it and carry the
    name ``broker`` (one of several, after commas) or, if none is given, the host of the address.
    ``token`` or ``cert`` say who this client is; a token is proven, never sent, and only to a
    broker that knows it.
    """
    given = {
        "address": address, "name": name or f"client-{secrets.token_hex(4)}", "token": token,
        "broker": broker, "window": window, "queue": queue, "when_full": when_full,
        "patience": patience, "reconnect": reconnect,
    }  # fmt: skip
    try:
        options = msgspec.convert(given, Options)
        content_of(options)
    except msgspec.ValidationError as error:
        raise LiveError(plain(error, Options)) from None
    except UnicodeEncodeError as error:
        raise LiveError(f"{error.object!a:.80} has half a surrogate pair") from None
    for one in address.split(","):
        parse_address(one.strip())

    def make() -> Bus:
        tls = None
        if ca is not None or cert is not None:
            files = [None if path is None else Path(path) for path in (cert, key, ca)]
            tls = security.client_context(*files)
        return Bus(Greeter(options, tls))

    return Connecting(make)


__all__ = ["Bus", "Connecting", "Gap", "Received", "Subscription", "connect"]
