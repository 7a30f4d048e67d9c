"""What every message has, and what a contact is.

Messages are frozen data: the simulator hands the object over, a live driver encodes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from shoal.content import Event

Hops: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""Links crossed; what comes from a wire is held to it."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
"""A number that only ascends, or of things that are counted."""
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
OLDEST: Final = 1e30
"""Largest age. Beside it all times round to nothing, so it does not grow while it is passed on."""
Age: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=OLDEST)]
"""Seconds since something happened."""
Node: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
"""A node's id; -1 for none."""

HEADER_BYTES = 20
PAYLOAD_BYTES = 30
WORD_BYTES = 4
"""A node's identifier, or a number (Frey, section 15.2.2)."""


class Contact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A node, and where it can be reached if its driver has addresses."""

    node: Node
    """The node's id; -1 where only its address is known."""
    address: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Message(msgspec.Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Base of all protocol messages. A subclass is named in the tables by its ``kind``.

    Frozen data cannot form cycles, so the garbage collector need not look at messages.
    """

    KIND: ClassVar[str] = ""
    """The name under which messages of this type are recorded; that of the class if empty."""
    BYTES: ClassVar[int] = HEADER_BYTES + PAYLOAD_BYTES
    """Size of each message of this type, unless it depends on what the message carries."""

    def events(self) -> tuple[Event, ...]:
        """The events that it carries; recording, access rules and loss act on these."""
        return ()

    def weight(self) -> float:
        """The normalised cost of one transmission (Frey, Table 7.2: 1 a pattern or event)."""
        return 1.0

    def size(self) -> int:
        """Bytes on a simulated wire (Frey, section 15.1: 30 bytes and headers)."""
        return self.BYTES

    def involves(self) -> bool:
        """Whether handling it counts as taking part in a reconfiguration (Frey, section 7.3.5)."""
        return True

    @classmethod
    def routine(cls) -> bool:
        """Whether nodes exchange it all the time, also when nothing happens (a beat, a sample).

        A simulation is at rest in spite of routine messages on their way.
        """
        return False

    @classmethod
    def kind(cls) -> str:
        """The name under which traffic of this type is recorded."""
        return cls.KIND or cls.__name__.lower()


class Routine(Message, frozen=True, tag=True):
    """Base of messages that nodes exchange all the time, also when nothing happens."""

    @classmethod
    def routine(cls) -> bool:
        """A simulation is at rest in spite of it."""
        return True


class Upkeep(Message, frozen=True, tag=True):
    """Base of messages that look after an overlay, or fetch what was lost: no table is repaired."""

    def involves(self) -> bool:
        """Handling it is no part of a reconfiguration."""
        return False


class RoutineUpkeep(Upkeep, frozen=True, tag=True):
    """Base of upkeep that goes on also when nothing happens."""

    @classmethod
    def routine(cls) -> bool:
        """A simulation is at rest in spite of it."""
        return True


class Heartbeat(Routine, frozen=True, tag=True):
    """Base of signs of life, sent over connections.

    The host keeps the last one of each connection, and no layer is called: see ``Host.heard`` and
    ``Host.last_beat``. A layer names it among its ``handlers`` beside ``kept_by_host``.
    """
