"""A link to a neighbouring broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from shoal.live.connection import Connection
from shoal.live.messages import Beat, Bye, DepartureMessage, Known, Position, Shuffle
from shoal.live.turns import TURN
from shoal.live.wire import ENVELOPE, LENGTH, encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.security import Principal

_DEPARTURES: Final = frozenset(get_args(DepartureMessage))
_OWN: Final = frozenset({Beat, Shuffle, Position, Bye, *_DEPARTURES})
"""The links' own messages; all others are routing's."""


class Peer:
    """One neighbour (or, out of band, another broker) over one connection.

    A link lives exactly as long as its connection: both ends see it come and go with it, so a
    neighbour that restarts, or a connection that is made anew, starts from empty tables on both.
    """

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        who: Known,
        principal: Principal,
        *,
        linked: bool,
        dialled: bool,
        degree: int,
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.who = who
        self.principal = principal
        self.linked = linked
        self.dialled = dialled
        self.degree = degree
        self.since = connection.loop.time()
        self.sent = self.received_count = self.beats = self.dropped = 0
        self.ready = False
        """It has announced what its side wants."""
        self.leaves = False
        """The link is about to be closed, by either end."""
        self.dropped_for = ""
        """Why this end closes it."""
        self.parted = False
        """The other end is about to close it, and is sent nothing more."""
        self.left = False
        """It will send nothing more, since this broker is about to stop."""
        self._congested = False
        self._largest = connection.limits.frame + ENVELOPE + LENGTH.size

    @property
    def node(self) -> int:
        """The neighbour's node id."""
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
                broker.routed(self, message)
            elif isinstance(message, Beat):
                self.degree = message.degree
                self.beats += 1
            elif isinstance(message, Shuffle):
                self.beats += 1
                broker.shuffled(self, message)
            elif isinstance(message, Position):
                self.beats += 1
                broker.positioned(self, message)
            elif type(message) in _DEPARTURES:
                self.beats += 1
                broker.departures.handle(self, message)
            else:
                self.connection.close(f"left: {message.reason}", polite=False)
                return

    def send(self, message: Any) -> int:
        """Send a message of the routing: its bytes, 0 if it was dropped.

        Events are dropped where the neighbour does not read.
        """
        frame = encode(message)
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
        self.sent += 1
        connection.send(frame)
        return len(frame)

    def tell(self, message: Any) -> None:
        """Send a message of the links' own; who asks for more of them than it reads has to go."""
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
        self.broker.peer_closed(self, reason)
