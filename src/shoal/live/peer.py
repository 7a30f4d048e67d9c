"""Another broker at the other end of one connection.

Every message between brokers comes and goes here: decoded and encoded, and its events held to what
the other broker may bring and receive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from shoal.live.connection import Connection, User
from shoal.live.errors import ProtocolError
from shoal.live.messages import Beat, Bye, Echo, Known, Life, Wave
from shoal.live.turns import TURN
from shoal.live.wire import ENVELOPE, LENGTH, encode
from shoal.stack import Heartbeat

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.live.broker import Broker
    from shoal.live.security import Principal
    from shoal.stack import Message

log = logging.getLogger("shoal.live")

OWN: Final = (Beat, Bye, Wave, Echo, Life)
"""The messages of brokers beside those of their layers."""
_OWN: Final = frozenset(OWN)


def filters_of(message: Any) -> Iterator[object]:
    """All that a message carries, its filters among it."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        yield from value if isinstance(value, tuple) else (value,)


class Peer(User):
    """Another broker, connected because a layer asked for it or (``talks``) to be out of band.

    A connection is one life of both ends: a broker that restarts, or a connection that is made
    anew, starts from nothing on both.
    """

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        who: Known,
        principal: Principal,
        *,
        talks: bool,
        dialled: bool,
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.who = who
        self.principal = principal
        self.talks = talks
        self.dialled = dialled
        self.since = connection.loop.time()
        self.sent = 0
        """Messages of layers that were sent, routine ones left out."""
        self.received_count = 0
        """Messages that came, of whatever kind."""
        self.beats = 0
        """Routine messages, and brokers' own, among the messages received."""
        self.dropped = 0
        """Events that were not sent since the other end did not read."""
        self.closing = False
        """Whether this end has said goodbye: it then handles only events still on their way."""
        self.last_beat: Heartbeat | None = None
        """The last heartbeat of its overlay."""
        self._congested = False
        self._largest = connection.limits.frame + ENVELOPE + LENGTH.size

    @property
    def node(self) -> int:
        """The other broker's node id."""
        return self.who.node

    @property
    def ending(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return bool(self.connection.reason)

    def received(self, frames: list[memoryview]) -> None:
        broker = self.broker
        decode, time = broker.decoder.decode, self.connection.loop.time
        turn_ends = time() + TURN
        for at, frame in enumerate(frames):
            if at and time() > turn_ends:
                self.connection.defer(frames[at:])
                return
            self.received_count += 1
            message = decode(frame)
            if type(message) not in _OWN:
                self._handle(message)
                continue
            self.beats += 1
            if isinstance(message, Bye):
                self.connection.close(f"left: {message.reason}")
                self.connection.settle()
                return
            if isinstance(message, Life):
                if not self.talks:
                    broker.lives.heard(self, message)
            elif not isinstance(message, Beat) and self.node in broker.links:
                broker.departures.waves.receive(self, message)

    def _handle(self, message: Any) -> None:
        """A message for one of this broker's layers."""
        broker = self.broker
        if not broker.running:
            return  # on a connection that is being closed; an answer would open another
        events = message.events()
        if events:
            if not self._may_bring(message, events):
                return
        elif self.closing:
            return
        elif broker.settings.limits.stricter:
            for filter in filters_of(message):
                broker.settings.limits.check_filter(filter)
        if type(message) in broker.routine:
            self.beats += 1
            if isinstance(message, Heartbeat):
                self.last_beat = message
        if broker.recording is not None:
            broker.recording.received(message)
        broker.layers.receive(self.node, message)
        if not broker.departures.whole:
            broker.departures.look_whole()

    def _may_bring(self, message: Any, events: tuple[Event, ...]) -> bool:
        """Whether the events of a message are taken from this peer."""
        broker = self.broker
        routed = type(message) in broker.over_links
        if routed and self.talks:
            raise ProtocolError("events travel over links only")
        if getattr(message, "hops", 0) > broker.settings.limits.hops:
            broker.cycles += 1
            if broker.cycles == 1:
                log.warning("an event crossed %d links: do links form a cycle?", message.hops)
            return False
        new = not (routed and broker.came is not None)
        for event in events:
            if not self.principal.may_publish(event.content):
                return False
            if routed and broker.came is not None:
                new = broker.came.first(event.publisher, event.sequence) or new
        broker.cycles += not new
        return new

    def send(self, message: Message) -> None:
        """Send a layer's message, if its events are for this peer to receive.

        Events are dropped where the other end does not read.
        """
        broker, connection = self.broker, self.connection
        events = message.events()
        for event in events:
            if not self.principal.may_receive(event.content):
                return
        frame = broker.host.frame_of(message)
        if len(frame) > self._largest:
            size = len(frame) - LENGTH.size
            connection.close(f"a message of {size} bytes was to be sent; raise limits.frame")
            return
        room = connection.limits.queue_bytes
        if self._congested and connection.waiting() > room:
            if events:
                self.dropped += 1
            else:
                # Tables would go wrong if these were dropped; without the link they are right.
                connection.close(f"does not read: {room} bytes wait", polite=False)
            return
        if events:
            broker.forwarded += 1
        if type(message) not in broker.routine:
            self.sent += 1
        connection.send(frame)
        if broker.recording is not None:
            broker.recording.sent(message, len(frame))

    def send_own(self, message: Any) -> None:
        """Send a message of the brokers' own; who asks for more of them than it reads has to go."""
        waiting = self.connection.waiting() if self._congested else 0
        if waiting > self.connection.limits.queue_bytes:
            self.connection.close(f"does not read: {waiting} bytes wait", polite=False)
        else:
            self.connection.send(encode(message))

    def congested(self, yes: bool) -> None:
        self._congested = yes

    def closed(self, reason: str) -> None:
        if self.talks:
            self.broker.out_of_band.ended(self)
        else:
            self.broker.peers.closed(self, reason)
