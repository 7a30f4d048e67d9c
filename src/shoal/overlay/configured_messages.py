"""Messages and parameters of configured links (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.stack.message import Message, Seconds

Node: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class ConfiguredParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How configured links are kept."""

    tree: bool = True
    """Refuse or cut links that close a cycle; unless given, if the routing needs a tree."""
    reconnect: tuple[Seconds, Seconds] = (0.1, 5.0)
    """First and longest pause between attempts to connect, in seconds."""
    look: Seconds = 1.0
    """Seconds between looks for cycles; a link that closes one at two looks is cut."""
    settle: Seconds = 3.0
    """Seconds after which a starting node does without links that have not come about."""
    absence: Seconds = 30.0
    """Seconds that events are kept for a neighbour which restarts."""


class Link(Message, frozen=True, tag="links link"):
    """Who opened the connection wants a link."""

    root: Node
    """The root of the tree that the sender is in."""
    replaces: tuple[Node, Node] | None = None
    """The neighbour that the link stands in for, and the number of the repair."""


class Accept(Message, frozen=True, tag="links accept"):
    """The receiver's wish for a link is granted: both ends have it from now on."""

    root: Node


class Refuse(Message, frozen=True, tag="links refuse"):
    """The link would close a cycle."""


class Position(Message, frozen=True, tag="links position"):
    """Where the sender is in the tree of configured links."""

    root: Node
    distance: Node
    """Links between the sender and the root."""
    child: bool
    """Whether the receiver is on the sender's way to the root."""


class Ready(Message, frozen=True, tag="links ready"):
    """All that the sender's side wants has been announced over this new link."""


class Whole(Message, frozen=True, tag="links whole"):
    """The sender has all its configured links: events may be sent to it."""


class Leaving(Message, frozen=True, tag="links leaving"):
    """The sender is about to stop; until the link is closed it passes on what it gets."""

    opens: bool
    """Whether the sender will connect to the receiver when it is back."""


class Left(Message, frozen=True, tag="links left"):
    """The answer: the sender sends nothing more over this link, and it may be closed."""
