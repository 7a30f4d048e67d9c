"""Channels, and fans: the channels of a node that a message takes at once."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shoal.stack.layer import Layer
    from shoal.stack.message import Message
    from shoal.stack.node import Node

NONE: Final = -1
"""No place in a fan is skipped."""
ROUTINE: Final = -2
"""No place is skipped, and the message does not keep a run from being at rest."""
KEPT: Final = -3
"""A heartbeat: as a routine message, but no layer is called when it arrives."""
NOBODY: Final[list[Layer]] = []
"""The receivers of a fan over which nothing has come."""


class Channel:
    """One direction of a connection, from when it is made to when it breaks.

    A message in flight when its channel breaks is lost, also if the same pair is connected again:
    that is another channel.
    """

    def __init__(self, source: int, target: int, node: Node | None) -> None:
        self.source = source
        self.target = target
        self.node = node
        """The life of the target that receives; None if none does."""
        self.up = True
        self.delay = 0
        self.ns_per_byte = 0.0
        self.free_at = 0
        self.quality = 1.0
        """The share of events that get through; all other messages are repeated until they do."""
        self.held: list[Message] | None = None
        """Messages that wait for a network that is cut to be whole again; None if none would."""
        self.back: Channel | None = None
        """The channel of the other direction, until both ends are gone."""
        self.gone = False
        """Whether its sender's end is closed."""
        self.heard = 0
        """When the last heartbeat arrived that came over another fan than ``carrier``."""
        self.beat: object = None
        """The last heartbeat that arrived so."""
        self.carrier: Fan | None = None
        """The fan over which heartbeats come."""
        self._alone: Fan | None = None

    def alone(self) -> Fan:
        """The fan of this channel only."""
        if self._alone is None:
            self._alone = Fan([self])
        return self._alone

    def last_heard(self) -> int:
        """When the last heartbeat arrived; when the channel came up if none has."""
        carrier = self.carrier
        return self.heard if carrier is None else max(self.heard, carrier.beat_at)

    def last_beat(self) -> object:
        """The last heartbeat that arrived, if one has."""
        carrier = self.carrier
        return self.beat if carrier is None or carrier.beat_at < self.heard else carrier.beat

    def leave_carrier(self) -> None:
        """Heartbeats come over another fan from now on."""
        carrier = self.carrier
        if carrier is not None:
            if carrier.beat_at >= self.heard:
                self.heard = carrier.beat_at
                self.beat = carrier.beat
            carrier.carries = False
            self.carrier = None

    def end(self) -> None:
        """The sender closes its end. Once both ends are closed, the pair's references are cut."""
        self.leave_carrier()
        if self._alone is not None:
            self._alone.whole = False
            self._alone = None
        self.gone = True
        back = self.back
        if back is not None and back.gone:
            back.back = None
            self.back = None

    def take_down(self) -> None:
        """From now on everything in flight is lost."""
        self.up = False
        if self._alone is not None:
            self._alone.whole = False

    def hold(self) -> None:
        """From now on everything in flight waits."""
        self.take_down()
        self.held = []

    def restore(self) -> list[Message]:
        """What is in flight arrives again, and what has waited is handed out to be sent again."""
        held = self.held or []
        self.held = None
        self.up = True
        self._alone = None
        return held


class Fan:
    """Channels of one node that a message takes at once: queued, counted and handed out together.

    What lies at their far ends is looked up once per kind of message, not once per message; in a
    large network nearly all time goes into waiting for memory.
    """

    def __init__(self, channels: list[Channel]) -> None:
        self.source = channels[0].source if channels else -1
        self.channels = channels
        self.targets = [channel.target for channel in channels]
        self.packed: bytes | None = None
        """The targets, once :meth:`pack` was asked."""
        self.places: dict[int, int] | None = None
        """Per target its place, once :meth:`locate` was asked."""
        self.size = len(channels)
        self.missing = 0
        """How many neighbours were meant that were not linked."""
        self.whole = True
        """Whether all channels are known to be up still."""
        self.kind: object = None
        """The type of message whose receivers were looked up last."""
        for channel in channels:
            if not channel.up:
                self.whole = False
        self.receivers: list[Layer] = NOBODY
        """The layers that handle this kind of message at the far ends."""
        self.carries = False
        """Whether it is the carrier of each of its channels: heartbeats are kept here, once."""
        self.beat_at = -1
        """When the last heartbeat arrived over all channels, while it was their carrier."""
        self.beat: object = None
        self.counted_bin: object = None
        """The recorder's time bin in which its targets were counted last."""
        self.uncounted = NONE
        """The place that was not counted then."""

    def locate(self) -> dict[int, int]:
        """Note the places of all targets: few fans are asked for them."""
        places = self.places = {target: place for place, target in enumerate(self.targets)}
        return places

    def pack(self) -> bytes:
        """The targets in as little memory as they take, as heartbeats are counted all the time."""
        packed = self.packed = array("i", self.targets).tobytes()
        return packed

    def carry(self) -> None:
        """From now on heartbeats to these channels come over this fan."""
        for channel in self.channels:
            channel.leave_carrier()
            channel.carrier = self
        self.carries = True

    def prepare(self, kind: type[Message]) -> None:
        """Look up the receivers."""
        self.kind = kind
        nodes = [channel.node for channel in self.channels]
        self.receivers = [node.layer(kind) for node in nodes if node is not None]


class Direct(Fan):
    """The way out of band from one node to all others: no connection is needed.

    It has what is below and nothing else of a fan, as there is one per node.
    """

    def __init__(
        self, source: int, layers: list[list[Layer | None]], handled_by: dict[type[Message], int]
    ) -> None:
        self.source = source
        self.kind = None
        self.layers = layers
        """Per place and target the layer that receives; None while none does."""
        self.handled_by = handled_by
        """Per type of message the place."""
