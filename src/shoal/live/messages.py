"""Messages between brokers and clients, beside those of the protocols.

Every connection opens with :class:`Hello` and is answered by :class:`Welcome` or :class:`Refused`;
in between, who has a token proves it (:mod:`~shoal.live.proof`).
After that brokers exchange the messages of their layers, and heartbeats; clients subscribe, publish
and get deliveries.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from shoal.content import Event, Value
from shoal.stack.message import Age, Count, Message, Node

VERSIONS: Final = (3,)
"""Versions of this protocol that this code speaks."""

LONGEST: Final = 86_400.0
"""Longest absence, in seconds, after which a client is given what was published meanwhile."""
LAST_EPOCH: Final = 2**43
"""The last epoch that a life may have: in the year 2302."""
LAST_SUBSCRIPTION: Final = 2**31
"""The greatest number of a subscription: brokers keep four bytes for each."""
MOVES: Final = "moves"
"""The capability of a client to move when its broker is about to stop."""

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]
Time: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""Seconds of a wall clock; neither infinite nor not a number."""
Nonce: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=32)]
Promise: TypeAlias = Literal["best effort", "recovered"]
"""Promise of a subscription: see ``docs/recovery.md``."""
Policy: TypeAlias = Literal["drop oldest", "block", "disconnect"]
Window: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Queue: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]


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
    """A peer's layer asked for the connection, or it is for a few messages out of band."""
    who: Known
    time: Time
    """The sender's wall clock."""
    stack: Text = ""
    """Stack of a peer; both ends must agree on it."""
    capabilities: Annotated[tuple[Name, ...], msgspec.Meta(max_length=32)] = ()
    token_id: Annotated[bytes, msgspec.Meta(max_length=16)] = b""
    """Which token the sender will prove to hold; the token itself is never sent."""
    window: Window = 1024
    """Deliveries that a client takes before it has said that it consumed some."""
    queue: Queue = 10_000
    policy: Policy = "drop oldest"
    nonce: Nonce = b""


class Challenge(Message, frozen=True, tag="challenge"):
    """The answer to a Hello that names a token: the broker knows it, and asks for the proof."""

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
    limit: Annotated[int, msgspec.Meta(ge=0, le=1 << 30)] = 0
    """The largest frame that this broker takes."""
    token_id: Annotated[bytes, msgspec.Meta(max_length=16)] = b""
    """Which token the broker holds itself, for callers that want to know who it is."""
    proof: Nonce = b""


class Refused(Message, frozen=True, tag="refused"):
    """No: to a connection, or to the request of that number. ``others`` may be asked instead."""

    code: Name
    reason: Text
    request: Count = 0
    others: Sample = ()


class Bye(Message, frozen=True, tag="bye"):
    """The sender closes the connection, and says why."""

    reason: Text


STOPS: Final = "this broker stops"
"""Reason of a broker that stops, for a client that has moved and got all that there was."""


class Beat(Message, frozen=True, tag="beat"):
    """The sender is alive."""


class Others(Message, frozen=True, tag="others"):
    """Other brokers, for a client to turn to should its own die."""

    known: Sample


class Wave(Message, frozen=True, tag="wave"):
    """Answer this once all that can be reached through you have handled what came before it."""

    origin: Node
    number: Count


class Echo(Message, frozen=True, tag="echo"):
    """The answer to a :class:`Wave`."""

    origin: Node
    number: Count


class Life(Message, frozen=True, tag="life"):
    """The life of a broker that the sender has heard of; see :mod:`shoal.live.lives`.

    One message tells of one life, so that a broker that tells of many waits for its turn.
    """

    node: Node
    address: Annotated[str, msgspec.Meta(max_length=256)]
    epoch: Annotated[int, msgspec.Meta(ge=0, le=LAST_EPOCH)]
    age: Age = 0.0
    """Seconds since it began."""
    publishes: bool = False
    """Whether an event was published there."""
    ended: bool = False
    """Whether the broker has stopped in good order."""
    after_death: bool = False
    """Whether the life before it ended without a word."""


# Between a client and its broker


class Subscribe(Message, frozen=True, tag="want"):
    """Events that match this are to be delivered under this number."""

    subscription: Annotated[int, msgspec.Meta(ge=1, le=LAST_SUBSCRIPTION)]
    filter: Annotated[str, msgspec.Meta(max_length=32_768)]
    promise: Promise = "best effort"
    age: Annotated[float, msgspec.Meta(ge=0, le=LONGEST)] = 0.0
    """With the promise ``recovered``: seconds for which the client may have missed events."""
    ordered: bool = False
    """Whether each publisher's events are to come in its order (promise ``recovered`` only)."""


class Unsubscribe(Message, frozen=True, tag="unwant"):
    """The client no longer wants the subscription of this number."""

    subscription: Annotated[int, msgspec.Meta(ge=1, le=LAST_SUBSCRIPTION)]


class Publish(Message, frozen=True, tag="pub"):
    """An event. Requests that publish are numbered by the client, ascending."""

    request: Count
    values: dict[str, Value | None]
    body: bytes = b""
    held: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Brokers that are to hold the event before it is answered; if more than one, by
    :class:`Holds` instead of :class:`Accepted`."""


class Accepted(Message, frozen=True, tag="ok"):
    """The request of that number is carried out, and so are all publications before it."""

    request: Count


class Holds(Message, frozen=True, tag="holds"):
    """Answer to a publication with ``held=n``: so many brokers hold the event now."""

    request: Count


class Delivery(Message, frozen=True, tag="event"):
    """An event for these subscriptions."""

    subscriptions: tuple[int, ...]
    event: Event


class Consumed(Message, frozen=True, tag="took"):
    """The client has consumed so many more deliveries."""

    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Missed(Message, frozen=True, tag="missed"):
    """A number of deliveries (0: unknown) were lost, here or on their way to the broker."""

    count: Count
    reason: Text = "this client did not keep up"
    subscriptions: tuple[int, ...] = ()
    """Subscriptions that miss them; all of the client's if none is named."""
    publisher: Node = -1
    """The node whose events they are, if they are of one."""
    ago: Age = 0.0
    """Seconds since the last of them was published at the latest: the client may have been told."""


class Inspect(Message, frozen=True, tag="inspect"):
    """A request for the broker's state; with ``tables``, also for its routing table."""

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
    | Others
    | Welcome
    | Challenge
    | Leave
    | Settled
    | Holds
)
