"""Messages and parameters of the ring (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.stack.message import (
    HEADER_BYTES,
    WORD_BYTES,
    Contact,
    Count,
    RoutineUpkeep,
    Seconds,
    Upkeep,
)

Key: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class RingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a ring looks after itself."""

    heartbeat: Seconds = 1.0
    """Seconds between signs of life."""
    patience: Annotated[float, msgspec.Meta(ge=2, le=1000)] = 4.0
    """Heartbeats after which a silent node is taken for dead."""
    reply: Seconds = 0.5
    """Seconds within which a node that is asked something answers."""
    heal: Seconds = 10.0
    """Seconds between attempts to reach a node that was lost."""
    successors: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """Successors, and predecessors, that a node knows."""


class RingPeer(msgspec.Struct, frozen=True, array_like=True):
    """A node on the ring."""

    contact: Contact
    position: Key
    epoch: Count = 0
    """The node's start; a later one replaces it."""


Peers: TypeAlias = Annotated[tuple[RingPeer, ...], msgspec.Meta(max_length=64)]


class RingChange(Upkeep, frozen=True, tag="ring change"):
    """The sender's lists, as in :class:`Stabilise`, sent as soon as they have changed."""

    me: RingPeer
    predecessors: Peers
    successors: Peers
    answer: bool

    def size(self) -> int:
        """Grows with the nodes it names."""
        return HEADER_BYTES + WORD_BYTES * (1 + len(self.predecessors) + len(self.successors))


class Stabilise(RingChange, frozen=True, tag="ring stabilise"):
    """The sender, and the nodes before and after it; ``answer`` asks for the same in return."""

    @classmethod
    def routine(cls) -> bool:
        """Sent whether or not anything happens; what must be waited for has a timer."""
        return True


class RingLeave(Upkeep, frozen=True, tag="ring leave"):
    """The sender leaves the ring."""

    me: RingPeer


class Ping(RoutineUpkeep, frozen=True, tag="ring ping"):
    """Out of band: is the receiver there?"""

    me: RingPeer


class Pong(RoutineUpkeep, frozen=True, tag="ring pong"):
    """The sender is there: answer to a probe."""

    me: RingPeer


class FindOwner(RoutineUpkeep, frozen=True, tag="ring find"):
    """Whose is this key? ``token`` returns with the answer."""

    me: RingPeer
    key: Key
    token: Count


class KeyOwner(RoutineUpkeep, frozen=True, tag="ring owner"):
    """The sender's: it owns the keys after its predecessor's position up to its own."""

    me: RingPeer
    predecessor: RingPeer
    token: Count


class Nearer(RoutineUpkeep, frozen=True, tag="ring nearer"):
    """The key is not the sender's; nodes that it knows nearest to the key, on either side."""

    me: RingPeer
    peers: Peers
    token: Count

    def size(self) -> int:
        """Grows with the nodes it names."""
        return HEADER_BYTES + WORD_BYTES * (2 + len(self.peers))
