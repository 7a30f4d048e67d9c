"""A client's session at its broker: what it wants and what it publishes.

What it is sent is in :mod:`shoal.live.outbox`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from shoal.content import AttributeFilter, Attributes, FilterError
from shoal.live.connection import Connection
from shoal.live.errors import ProtocolError, RefusedError
from shoal.live.messages import (
    MOVES,
    Accepted,
    Beat,
    Bye,
    Consumed,
    FromClient,
    Hello,
    Holds,
    Inspect,
    Moved,
    Publish,
    Refused,
    Report,
    Settle,
    Settled,
    Subscribe,
    Unsubscribe,
)
from shoal.live.numbers import Numbered
from shoal.live.ordering import Ordering
from shoal.live.outbox import Outbox
from shoal.live.settings import check_recovers
from shoal.live.turns import TURN
from shoal.live.wire import FROM_BROKER, encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.security import Principal

_decoder = msgspec.msgpack.Decoder(FromClient)
HELD: Final = 1024
"""Publications that wait for a slow client before the publisher is read no further."""
HELD_BYTES: Final = 1 << 18
"""Bytes of such publications, likewise."""
SETTLING: Final = 1024
"""Questions of one client whether its subscriptions are settled that may wait at a time."""
UNREAD: Final = 4 << 20
"""Bytes that may wait in a client's socket when it is sent one more answer."""

BUSY: Final = 1.0
"""Seconds by which a client's absence is taken for longer than it was, in favour of the client."""


class Session(Outbox):
    """One connected client."""

    def __init__(
        self, broker: Broker, connection: Connection, hello: Hello, principal: Principal
    ) -> None:
        super().__init__(broker, connection, hello)
        self.principal = principal
        self.filters = Numbered()
        self.published = 0
        self._scanning = 0
        """Steps that its filters take on their own."""
        self._characters = 0
        """Characters of its filters."""
        self.moved = MOVES not in hello.capabilities
        """Whether the client is settled at another broker, or does not know how to move."""
        self._settling: list[int] = []
        """Requests of :class:`~shoal.live.messages.Settle` that wait for their answer."""
        self._tokens = broker.settings.limits.rate
        self._began = self._refilled = connection.loop.time()
        self._waits_for: dict[Outbox, None] = {}
        """Slow clients that must not miss what this one publishes."""
        self._held: deque[tuple[Publish, int]] = deque()
        """Publications that wait for them, and the size of each."""
        self._held_bytes = 0
        self._holding = False
        self._ordering: Ordering | None = None
        """For subscriptions that want each publisher's events in order."""

    # From the client

    def received(self, frames: list[memoryview]) -> None:
        """Handle frames of the client; if that takes long, leave the rest for the next turn."""
        decode, time = _decoder.decode, self.connection.loop.time
        accepted = -1
        turn_ends = time() + TURN
        for at, frame in enumerate(frames):
            if at and time() > turn_ends:
                self.connection.defer(frames[at:])
                frames = frames[:at]
                break
            message = decode(frame)
            if type(message) is Publish:
                if self._held or self._waits_for:
                    self._hold_back(message, len(frame))
                    continue
                try:
                    self._publish(message, len(frame))
                except RefusedError as error:
                    self._accept(accepted)
                    accepted = -1
                    self._refuse(message.request, error)
                else:
                    accepted = message.request
                    self.published += 1
            elif type(message) is Consumed:
                self.credit += message.count
                if self._queue or self._missed:
                    self._drain()
            elif type(message) is not Subscribe:
                self._accept(accepted)
                accepted = -1
                self._other(message)
            elif self.connection.may_subscribe or not self.broker.turns.crowded():
                self._accept(accepted)
                accepted = -1
                began = self.connection.loop.time()
                self._subscribe(message)
                self.broker.turns.spend(self.connection.loop.time() - began)
            else:
                self.connection.defer(frames[at:], subscribing=True)
                frames = frames[:at]
                break
        self._accept(accepted)
        if self.broker.settings.limits.rate:
            self._throttle(len(frames))

    def _publish(self, message: Publish, size: int) -> None:
        broker, values, body = self.broker, message.values, message.body
        limits, held = broker.settings.limits, message.held
        if size - len(body) > limits.text:
            limits.check_text(size - len(body))
        if len(values) > limits.attributes:
            raise RefusedError(
                "size",
                f"the event has {len(values)} attributes; at most {limits.attributes} are taken",
            )
        if broker.departures.leaving:
            raise RefusedError("leaving", "this broker is about to stop; publish at another one")
        content = Attributes(values)
        if not self.principal.may_publish(content):
            raise self.principal.refuse_publication()
        if held == 1:
            broker.publish_for(self, content, body)
            return
        check_recovers(broker.stack)
        event = broker.publish_for(self, content, body)
        recovery = broker.layers.recovery
        assert recovery is not None
        recovery.secure(event, message.held, partial(self._secured, message))

    def _secured(self, message: Publish, nodes: int) -> None:
        """So many brokers hold an event that this client published."""
        if self.connection.gone:
            return
        if nodes >= message.held:
            self._answer(Holds(message.request))
        else:
            few = (
                f"{nodes} of {message.held} brokers hold the event, which is published all the same"
            )
            self._refuse(message.request, RefusedError("held", few))

    # While a client that must not miss anything is slow

    def wait_for(self, slow: Outbox) -> None:
        """Publish nothing more until there is room for it there."""
        self._waits_for[slow] = None

    def no_longer_wait_for(self, slow: Outbox) -> None:
        """There is room again, or its time is up."""
        self._waits_for.pop(slow, None)
        if self._held and not self._waits_for:
            self.connection.loop.call_soon(self._publish_held)

    def _hold_back(self, message: Publish, size: int) -> None:
        self._held.append((message, size))
        self._held_bytes += size
        if not self._holding and (len(self._held) >= HELD or self._held_bytes >= HELD_BYTES):
            self._holding = True
            self.connection.pause()

    def _publish_held(self) -> None:
        """Publish what was held back, until somebody is too slow again or others want a turn."""
        accepted = -1
        turn_ends = self.connection.loop.time() + TURN
        while self._held and not self._waits_for:
            message, size = self._held.popleft()
            self._held_bytes -= size
            try:
                self._publish(message, size)
            except RefusedError as error:
                self._accept(accepted)
                accepted = -1
                self._refuse(message.request, error)
            else:
                self.published += 1
                accepted = message.request
            if self.connection.loop.time() > turn_ends and self._held and not self._waits_for:
                self.connection.loop.call_soon(self._publish_held)
                break
        self._accept(accepted)
        if self._holding and len(self._held) < HELD and self._held_bytes < HELD_BYTES:
            self._holding = False
            self.connection.resume()

    def _other(self, message: FromClient) -> None:
        if isinstance(message, Unsubscribe):
            filter = self.filters.pop(message.subscription)
            if self._ordering is not None:
                self._ordering.remove(message.subscription)
            if isinstance(filter, AttributeFilter):
                self._scanning -= self.broker.edge.scan(filter)
                self._count(-len(filter.text))
                self.broker.unsubscribe(self, message.subscription, filter)
        elif isinstance(message, Inspect):
            try:
                self.broker.check_may_inspect(self.principal)
            except RefusedError as error:
                self._refuse(message.request, error)
                return
            status = msgspec.json.encode(self.broker.status(message.tables))
            if len(status) > FROM_BROKER:
                too_large = f"the report has {len(status)} bytes; leave out tables"
                self._refuse(message.request, RefusedError("size", too_large))
            else:
                self._answer(Report(message.request, status))
        elif isinstance(message, Settle):
            self._settling.append(message.request)
            if len(self._settling) > SETTLING:
                raise ProtocolError(f"{SETTLING} questions wait for an answer; no more")
            if len(self._settling) == 1:
                self.broker.spawn(self._settle())
        elif isinstance(message, Moved):
            self.moved = True
        elif isinstance(message, Bye):
            self.connection.close(f"client left: {message.reason}")
        else:
            assert isinstance(message, Beat), message

    async def _settle(self) -> None:
        """Answer those who ask whether every broker knows their subscriptions, once all do."""
        while self._settling and not self.connection.gone:
            asked = len(self._settling)
            await self.broker.departures.waves.settled()
            for request in self._settling[:asked]:
                self._answer(Settled(request))
            del self._settling[:asked]

    def _subscribe(self, message: Subscribe) -> None:
        try:
            self._try_to_subscribe(message)
        except FilterError as error:
            self._refuse(message.subscription, RefusedError("filter", str(error)))
        except RefusedError as error:
            self._refuse(message.subscription, error)

    def _try_to_subscribe(self, message: Subscribe) -> None:
        number = message.subscription
        if number in self.filters:
            raise RefusedError("number", f"subscription {number} is there already")
        if len(self.filters) >= self.broker.settings.limits.subscriptions:
            raise RefusedError(
                "limit", f"a client may have {len(self.filters)} subscriptions, and it has"
            )
        filter = self.principal.may_subscribe(AttributeFilter(message.filter))
        self.broker.settings.limits.check_filter(filter)
        self._check_scan(filter)
        self._check_size(filter)
        age = 0.0
        if message.promise == "recovered":
            check_recovers(self.broker.stack)
            if message.age:
                # What was said since the welcome may have been on its way ever since. A busy broker
                # looks a moment later than now; the client knows what it has, so more does no harm.
                age = message.age + self.connection.loop.time() - self._began + BUSY
        kept = self.broker.subscribe(self, number, filter, age)
        if message.ordered and message.promise == "recovered":
            if self._ordering is None:
                self._ordering = Ordering(self.broker, self.deliver)
                self.deliver = self._ordering.deliver  # type: ignore[method-assign]  # if asked for
            self._ordering.add(number, kept)
        self.filters.put(number, kept)
        self._scanning += self.broker.edge.scan(filter)
        self._count(len(filter.text))
        self._accept(number)
        if age:
            self.broker.deliver_again(self, number, filter, age)

    def _check_size(self, filter: AttributeFilter) -> None:
        """Refuse a filter where those of all clients, and this client's, are too long together."""
        limit, edge, size = self.broker.settings.limits.memory, self.broker.edge, len(filter.text)
        greedy = self._characters + size > limit // len(self.broker.sessions)
        if edge.characters + size > (limit if greedy else 2 * limit):
            raise RefusedError(
                "limit",
                f"the filters of all clients here have {edge.characters:,} characters; no more "
                "than limits.memory are taken",
            )

    def _count(self, characters: int) -> None:
        """This client's filters have become longer by so many characters."""
        self._characters += characters
        self.broker.edge.characters += characters

    def _check_scan(self, filter: AttributeFilter) -> None:
        """Refuse a filter that has to be asked on its own, where all and this client have many."""
        limits, broker = self.broker.settings.limits, self.broker
        others = broker.edge.scanning
        if others + limits.cost <= limits.scan:
            return
        steps = limits.scan_of(filter)
        # As if every broker that is known had as many clients: all of them ask these filters.
        share = limits.scan // (len(broker.sessions) * (1 + broker.known()))
        greedy = others + steps > limits.scan and self._scanning + steps > share
        if steps and (greedy or others + steps > 2 * limits.scan) and filter not in broker.edge:
            raise RefusedError(
                "cost",
                f"the filter may take {steps / 1e6:,.1f} million steps on an event, and the others "
                f"here take {others / 1e6:,.1f} of {limits.scan / 1e6:,.1f} million: do without "
                "functions and LIKE with '_', or raise limits.scan",
            )

    def _accept(self, request: int) -> None:
        """Accept the request of that number, if there is one."""
        if request >= 0:
            self._answer(Accepted(request))

    def restrict(self, principal: Principal) -> None:
        """Other rules hold from now on; subscriptions keep what they still allow."""
        self.principal = principal
        self.withhold(principal.may_receive)
        if self._ordering is not None:
            self._ordering.withhold(principal.may_receive)
        if self.policy == "block" and not self.broker.may_block(principal):
            self.policy = "drop oldest"
        for number, filter in list(self.filters.items()):
            assert isinstance(filter, AttributeFilter), filter
            kept: AttributeFilter | None
            try:
                kept = principal.may_subscribe(filter)
                self.broker.settings.limits.check_filter(kept)
            except (RefusedError, FilterError):
                kept = None
            if kept is filter:
                continue
            self.filters.pop(number)
            self._scanning -= self.broker.edge.scan(filter)
            self._count(-len(filter.text))
            self.broker.unsubscribe(self, number, filter)
            if kept is not None:
                self._count(len(kept.text))
                narrowed = self.broker.subscribe(self, number, kept)
                self.filters.put(number, narrowed)
                self._scanning += self.broker.edge.scan(kept)
                if self._ordering is not None:
                    self._ordering.narrow(number, narrowed)

    def _refuse(self, request: int, error: RefusedError) -> None:
        self._answer(Refused(error.code, str(error)[:1000], request))

    def _answer(self, message: Accepted | Holds | Refused | Report | Settled) -> None:
        """Answer the client, unless it asks on and on and reads no answers."""
        if self._congested and self.connection.waiting() > UNREAD:
            self.connection.close("it asks, and does not read the answers", polite=False)
        else:
            self.connection.send(encode(message))

    def _throttle(self, frames: int) -> None:
        """Read no more for as long as the client is ahead of its rate."""
        now = self.connection.loop.time()
        rate = self.broker.settings.limits.rate
        self._tokens = min(rate, self._tokens + (now - self._refilled) * rate) - frames
        self._refilled = now
        if self._tokens < 0:
            self.connection.pause()
            self.connection.loop.call_later(-self._tokens / rate, self.connection.resume)

    def closed(self, reason: str) -> None:
        self._forget()
        if self._ordering is not None:
            self._ordering.close()
        self._count(-self._characters)
        self._held.clear()
        for slow in list(self._waits_for):
            slow.unblock(self)
        self._waits_for.clear()
        self.broker.session_closed(self, reason)
