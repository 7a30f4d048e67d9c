"""What every message has.

Messages are frozen data: the simulator hands the object over, a live driver encodes it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Hops: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""Links crossed; what comes from a wire is held to it."""

HEADER_BYTES = 20
PAYLOAD_BYTES = 30


class Message(msgspec.Struct, frozen=True, tag=True, gc=False, array_like=True):
    """Base of all protocol messages. A subclass is named in the tables by its ``kind``.

    Frozen data cannot form cycles, so the garbage collector need not look at messages.
    """

    def weight(self) -> float:
        """The normalised cost of one transmission (Frey, Table 7.2: 1 a pattern or event)."""
        return 1.0

    def size(self) -> int:
        """Bytes on a simulated wire (Frey, section 15.1: 30 bytes and headers)."""
        return HEADER_BYTES + PAYLOAD_BYTES

    def involves(self) -> bool:
        """Whether handling it counts as taking part in a reconfiguration (Frey, section 7.3.5)."""
        return True

    @classmethod
    def kind(cls) -> str:
        """The name under which traffic of this type is recorded."""
        return cls.__name__.lower()
