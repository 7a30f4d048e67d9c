"""Messages and parameters of the graph overlay (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.stack.message import Age, Contact, Count, Heartbeat, Message, Routine, Seconds


class GraphParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many links a node keeps, and how often it looks after them."""

    degree: Annotated[int, msgspec.Meta(ge=1, le=64)] = 5
    """Links that a node keeps, give or take one."""
    heartbeat: Seconds = 1.0
    """Seconds between signs of life."""
    patience: Annotated[float, msgspec.Meta(ge=2, le=1000)] = 4.0
    """Heartbeats after which a silent node is taken for dead."""
    shuffle: Seconds = 1.0
    """Seconds between exchanges of known nodes."""
    heal: Seconds = 10.0
    """Seconds between attempts to reach a node that was lost."""
    forget: Seconds = 30.0
    """Seconds after which a node that nobody hears from is forgotten."""


Known: TypeAlias = tuple[Contact, Count, Age]
"""A node that somebody has heard of, the start of it that was heard of (a later one replaces it),
and the seconds since it was known to be alive. A tuple, as nothing is made and read more often."""
Sample: TypeAlias = Annotated[tuple[Known, ...], msgspec.Meta(max_length=64)]


class Beat(Heartbeat, frozen=True, tag="graph beat"):
    """The sender is alive and has so many links."""

    degree: Count


class Shuffle(Routine, frozen=True, tag="graph shuffle"):
    """Nodes that the sender knows, itself first; ``answer`` asks for some in return."""

    known: Sample
    answer: bool


class Probe(Routine, frozen=True, tag="graph probe"):
    """Out of band, to a node that was lost: is it there? Itself, and some that it knows."""

    known: Sample


class Found(Message, frozen=True, tag="graph found"):
    """The answer to a probe: the sender is there, and knows these."""

    known: Sample


class Ask(Message, frozen=True, tag="graph ask"):
    """The sender wants a link, urgently if it has too few; itself, and some that it knows."""

    known: Sample
    degree: Count
    urgent: bool


class Accept(Message, frozen=True, tag="graph accept"):
    """The receiver's wish for a link is granted: both ends have it from now on."""

    known: Sample
    degree: Count


class Refuse(Message, frozen=True, tag="graph refuse"):
    """The sender has links enough; some others may have room."""

    known: Sample


class Part(Message, frozen=True, tag="graph part"):
    """The sender gives up the connection to make room for another."""


class Leave(Message, frozen=True, tag="graph leave"):
    """The sender is about to leave the network; the heir is to be linked to in its place."""

    heir: Contact | None


class Left(Message, frozen=True, tag="graph left"):
    """The answer to a leave: the sender sends no event any more, and the connection may end."""
