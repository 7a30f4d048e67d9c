"""Messages of a move from one parent to another (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.stack.message import Count, Message

Id: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Path: TypeAlias = Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=1024)]


class Flush(Message, frozen=True, tag="parent-flush"):
    """FLUSH: climbs to the root behind what was sent up before; answered by :class:`Flushed`.

    ``waits``: it stays behind a node that still gets events from an old parent.
    """

    path: Path
    request: Count
    waits: bool


class Flushed(Message, frozen=True, tag="parent-flushed"):
    """FLUSHED: takes the path of a :class:`Flush` back, behind the events sent down before."""

    path: Path
    request: Count


class Settled(Message, frozen=True, tag="parent-settled"):
    """The sender, which has moved, gets from its new parent all that it wants."""


class Moved(Message, frozen=True, tag="parent-moved"):
    """The sender has another parent from now on."""

    parent: Id
    request: Count


class Leaving(Message, frozen=True, tag="parent-leaving"):
    """The sender stops: its children should find another parent, and its parent has room."""
