"""Another broker at the other end of one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shoal.live.connection import Connection
from shoal.live.messages import Beat, Bye, Echo, Known, Wave
from shoal.live.turns import TURN
from shoal.live.wire import ENVELOPE, LENGTH, encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.security import Principal

OWN: Final = (Beat, Bye, Wave, Echo)
"""The messages of brokers beside those of their layers."""
_OWN: Final = frozenset(OWN)


class Peer:
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
        """Of these, the brokers' own and the routine ones."""
        self.dropped = 0
        """Events that were not sent since the other end did not read."""
        self.closing = False
        """This end has said goodbye, and takes events that are on their way, and nothing else."""
        self._congested = False
        self._largest = connection.limits.frame + ENVELOPE + LENGTH.size

    @property
    def node(self) -> int:
        """The other broker's node id."""
        return self.who.node

    def received(self, frames: list[memoryview]) -> None:
        """See :class:`~shoal.live.connection.User`."""
        broker = self.broker
        decode = broker.decoder.decode
        turn_ends = self.connection.loop.time() + TURN
        for at, frame in enumerate(frames):
            if at and self.connection.loop.time() > turn_ends:
                self.connection.defer(frames[at:])
                return
            self.received_count += 1
            message = decode(frame)
            if type(message) not in _OWN:
                broker.receive(self, message)
                continue
            self.beats += 1
            if isinstance(message, Bye):
                self.connection.close(f"left: {message.reason}")
                self.connection.settle()
                return
            if not isinstance(message, Beat) and self.node in broker.links:
                broker.departures.waves.receive(self, message)

    def send(self, message: Any, frame: bytes) -> int:
        """Send a layer's message: its bytes, 0 if it was dropped.

        Events are dropped where the other end does not read.
        """
        connection = self.connection
        if len(frame) > self._largest:
            size = len(frame) - LENGTH.size
            connection.close(f"a message of {size} bytes was to be sent; raise limits.frame")
            return 0
        if self._congested:
            room = connection.limits.queue_bytes
            if connection.waiting() > room:
                if message.events():
                    self.dropped += 1
                    return 0
                # Tables would go wrong if these were dropped; without the link they are right.
                connection.close(f"does not read: {room} bytes wait", polite=False)
                return 0
        if type(message) not in self.broker.routine:
            self.sent += 1
        connection.send(frame)
        return len(frame)

    def tell(self, message: Any) -> None:
        """Send a message of the brokers' own; who asks for more of them than it reads has to go."""
        waiting = self.connection.waiting() if self._congested else 0
        if waiting > self.connection.limits.queue_bytes:
            self.connection.close(f"does not read: {waiting} bytes wait", polite=False)
        else:
            self.connection.send(encode(message))

    def congested(self, yes: bool) -> None:
        """See :class:`~shoal.live.connection.User`."""
        self._congested = yes

    def closed(self, reason: str) -> None:
        """See :class:`~shoal.live.connection.User`."""
        if self.talks:
            self.broker.out_of_band.ended(self)
        else:
            self.broker.peers.closed(self, reason)
