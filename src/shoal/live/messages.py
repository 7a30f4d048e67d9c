"""What brokers and clients say to each other beside the routing protocols' own messages.

Every connection opens with :class:`Hello` and is answered by :class:`Welcome` or :class:`Refused`;
in between, who has a token proves it (:mod:`~shoal.live.proof`).
After that peers exchange the messages of their routing, heartbeats and what they know of others;
clients subscribe, publish and get deliveries.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from shoal.content import Event, Value
from shoal.stack import Message

VERSIONS: Final = (2,)
"""Versions of this protocol that this code speaks."""

MOVES: Final = "moves"
"""The capability of a client to move when its broker is about to stop."""

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]
Node: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Time: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""Seconds of a wall clock; neither infinite nor not a number."""
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=32)]
Policy: TypeAlias = Literal["drop oldest", "block", "disconnect"]


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A broker that somebody has heard of, and how many seconds ago it was known to be alive."""

    node: Node
    name: Name
    address: Annotated[str, msgspec.Meta(max_length=256)]
    epoch: Count
    age: Annotated[float, msgspec.Meta(ge=0)] = 0.0


Sample: TypeAlias = Annotated[tuple[Known, ...], msgspec.Meta(max_length=64)]


class Hello(Message, frozen=True, tag="hello"):
    """The first frame of whoever opened a connection."""

    versions: Annotated[tuple[int, ...], msgspec.Meta(max_length=16)]
    role: Literal["peer", "client"]
    purpose: Literal["link", "talk"]
    """A peer wants to be a neighbour, or only to exchange a few messages out of band."""
    who: Known
    time: Time
    """The sender's wall clock."""
    stack: Text = ""
    """How a peer routes; both ends must agree on it."""
    capabilities: Annotated[tuple[Name, ...], msgspec.Meta(max_length=32)] = ()
    token_id: Annotated[bytes, msgspec.Meta(max_length=16)] = b""
    """Which token the sender will prove to hold; the token itself is never sent."""
    degree: Count = 0
    urgent: bool = False
    """A peer with too few links asks for room to be made."""
    replaces: tuple[Node, Count] | None = None
    """The neighbour that this link stands in for, and the number of the repair."""
    window: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1024
    """Deliveries that a client takes before it has said that it consumed some."""
    queue: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 10_000
    policy: Policy = "drop oldest"
    nonce: Nonce = b""
    root: Node = -1
    """On configured links: the root of the tree that the sender is in."""


class Challenge(Message, frozen=True, tag="challenge"):
    """The answer to who names a token: the broker knows it, and asks the caller to prove it."""

    who: Known
    nonce: Nonce
    proof: Nonce


class Proof(Message, frozen=True, tag="proof"):
    """The answer to a challenge."""

    proof: Nonce


class Welcome(Message, frozen=True, tag="welcome"):
    """The connection is accepted, under this version."""

    version: int
    who: Known
    time: Time
    capabilities: tuple[Name, ...] = ()
    degree: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 0
    """The largest frame that this broker takes."""
    token_id: Annotated[bytes, msgspec.Meta(max_length=16)] = b""
    """Which token the broker holds itself, for callers that want to know who it is."""
    proof: Nonce = b""
    root: Node = -1


class Refused(Message, frozen=True, tag="refused"):
    """No: to a connection, or to the request of that number. ``others`` may be asked instead."""

    code: Name
    reason: Text
    request: Count = 0
    others: Sample = ()


class Bye(Message, frozen=True, tag="bye"):
    """The sender closes the connection, and says why."""

    reason: Text


class Beat(Message, frozen=True, tag="beat"):
    """The sender is alive and has so many links."""

    degree: Count = 0


class Shuffle(Message, frozen=True, tag="shuffle"):
    """Brokers that the sender knows; ``answer`` asks for some in return."""

    known: Sample
    answer: bool = False


class Position(Message, frozen=True, tag="position"):
    """Where the sender is in the tree of configured links."""

    root: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    distance: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    """Links between the sender and the root."""
    child: bool
    """The receiver is on the sender's way to the root."""


class Wave(Message, frozen=True, tag="wave"):
    """Answer this once all that can be reached through you have handled what came before it."""

    origin: Node
    number: Count


class Echo(Message, frozen=True, tag="echo"):
    """The answer to a :class:`Wave`."""

    origin: Node
    number: Count


class Leaving(Message, frozen=True, tag="leaving"):
    """The sender is about to stop, or to close this link. It passes on what it has got."""

    heir: Known | None = None
    """On a graph, the broker to be linked to in its place."""
    dials: bool = False
    """On configured links: it will connect to the receiver when it is back."""


class Left(Message, frozen=True, tag="left"):
    """The answer: the sender sends nothing more over this link, and it may be closed."""


class Ready(Message, frozen=True, tag="ready"):
    """All that the sender's side wants has been announced over this new link."""


class Whole(Message, frozen=True, tag="whole"):
    """The sender has all its configured links: events may be sent to it."""


# Between a client and its broker


class Subscribe(Message, frozen=True, tag="want"):
    """Events that match this are to be delivered under this number."""

    subscription: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    filter: Annotated[str, msgspec.Meta(max_length=32_768)]


class Unsubscribe(Message, frozen=True, tag="unwant"):
    """No longer."""

    subscription: Annotated[int, msgspec.Meta(ge=1, le=2**31)]


class Publish(Message, frozen=True, tag="pub"):
    """An event. Requests that publish are numbered by the client, ascending."""

    request: Count
    values: dict[str, Value | None]
    body: bytes = b""


class Accepted(Message, frozen=True, tag="ok"):
    """The request of that number is carried out, and so are all publications before it."""

    request: Count


class Delivery(Message, frozen=True, tag="event"):
    """An event for these subscriptions."""

    subscriptions: tuple[int, ...]
    event: Event


class Consumed(Message, frozen=True, tag="took"):
    """The client has consumed so many more deliveries."""

    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Missed(Message, frozen=True, tag="missed"):
    """So many deliveries were dropped here, since the client was too slow.

    0 means an unknown number: the broker had lost all its links.
    """

    count: Count


class Inspect(Message, frozen=True, tag="inspect"):
    """How is the broker? With ``tables``, also every entry of its routing table."""

    request: Count
    tables: bool = False


class Report(Message, frozen=True, tag="report"):
    """The answer: a status in JSON."""

    request: Count
    status: bytes


class Leave(Message, frozen=True, tag="leave"):
    """The broker is about to stop: move to another one, and say :class:`Moved`."""


class Moved(Message, frozen=True, tag="moved"):
    """The client is settled at another broker, or has none to move to."""


class Settle(Message, frozen=True, tag="settle"):
    """Answer this once every broker knows what this client has subscribed to before."""

    request: Count


class Settled(Message, frozen=True, tag="settled"):
    """The answer."""

    request: Count


FromClient: TypeAlias = (
    Publish | Consumed | Subscribe | Unsubscribe | Inspect | Beat | Bye | Moved | Settle
)
ToClient: TypeAlias = (
    Delivery
    | Accepted
    | Refused
    | Missed
    | Report
    | Beat
    | Bye
    | Shuffle
    | Welcome
    | Challenge
    | Leave
    | Settled
)
DepartureMessage: TypeAlias = Wave | Echo | Leaving | Left | Ready | Whole
