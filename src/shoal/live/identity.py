"""Who a broker is: its name, the node id that follows from it, and the session it is in."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Final

from shoal.live.errors import LiveError
from shoal.stack import NodeId

ID_LIMIT: Final = 2**31 - 1
EVENTS_PER_MILLISECOND: Final = 1024
_START: Final = 1_704_067_200_000  # 2024-01-01 in milliseconds


def node_id(name: str) -> NodeId:
    """The node id of a name: a number names itself, other names are hashed."""
    if name.isascii() and name.isdigit() and int(name) <= ID_LIMIT:
        return int(name)
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % ID_LIMIT


def check_name(name: str) -> str:
    """A usable name: short, printable, no spaces."""
    if not name or len(name) > 64 or not name.isprintable() or any(c.isspace() for c in name):
        raise LiveError(f"the name {name!r} cannot be used; take up to 64 signs without spaces")
    return name


def random_name() -> str:
    """A name for a broker that was given none."""
    return f"broker-{secrets.token_hex(4)}"


def new_epoch() -> int:
    """A number larger than that of any earlier session under a clock that does not go back."""
    return time.time_ns() // 1_000_000 - _START


def first_sequence(epoch: int) -> int:
    """Where a session counts its events from: beyond all that an earlier one can have used."""
    return epoch * EVENTS_PER_MILLISECOND
