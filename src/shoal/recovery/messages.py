"""The messages of all recoveries.

Digests, what is missing and comparisons travel from neighbour to neighbour; everything else goes
out of band. What comes from a wire is bounded: no list is longer than any node would send.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from shoal.content import AnyFilter, Event
from shoal.stack.message import (
    HEADER_BYTES,
    PAYLOAD_BYTES,
    Age,
    Contact,
    Hops,
    Node,
    RoutineUpkeep,
    Upkeep,
)

LONGEST = 1000
"""Entries of a digest, at most."""
FILTERS = 64
"""Filters in a message, at most."""
BATCH = 64
"""Events in a reply, at most."""
HAVE = 256
"""Sequence numbers that a hole names as had, at most."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=2**62)]
Id: TypeAlias = tuple[Node, Number]
Filters: TypeAlias = Annotated[tuple[AnyFilter, ...], msgspec.Meta(max_length=FILTERS)]
Route: TypeAlias = Literal["subscribers", "publisher", "random", "direct"]


# Numbers


class Follow(RoutineUpkeep, frozen=True, tag="recovery-follow"):
    """To a publisher: number the events that match these filters; the follower wants them.

    Out of band, or back along the route of its events where its address is not known.
    """

    follower: Contact
    publisher: Node
    filters: Filters
    ages: Annotated[tuple[Age, ...], msgspec.Meta(max_length=FILTERS)]
    """Per filter, the seconds for which the follower has wanted it."""
    after: Annotated[tuple[Number, ...], msgspec.Meta(max_length=FILTERS)]
    """Per filter, the publisher's sequence number up to which the follower lacks nothing."""
    hops: Hops

    def size(self) -> int:
        """A filter is as large as a subscription's."""
        return HEADER_BYTES + (PAYLOAD_BYTES + 6) * len(self.filters)


class Start(msgspec.Struct, frozen=True, array_like=True):
    """How a publisher numbers a filter's events, and from where on."""

    filter: AnyFilter
    index: Number
    """The name of the filter in the publisher's marks; -1 if it numbers no more filters."""
    first: Number
    """The follower should have, or get, all that match beyond this sequence number ..."""
    before: Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
    """... where the count was this ..."""
    sequence: Number
    """... up to now, where this is the publisher's last sequence number ..."""
    count: Number
    """... and this the count."""
    unsure: bool = False
    """Whether there were events before that, since the follower wants them, which the publisher no
    longer keeps: some may have matched."""


class Following(RoutineUpkeep, frozen=True, tag="recovery-following"):
    """The answer, out of band."""

    publisher: Contact
    starts: Annotated[tuple[Start, ...], msgspec.Meta(max_length=FILTERS)]
    uptime: Age
    """Seconds since the publisher started; of what it published before that it knows nothing."""

    def size(self) -> int:
        """A filter and five numbers each."""
        return HEADER_BYTES + (PAYLOAD_BYTES + 20) * len(self.starts)


class Again(RoutineUpkeep, frozen=True, tag="recovery-again"):
    """To a publisher: the follower still wants the filters with these names of the publisher's.

    With each, the publisher's sequence number up to which the follower has its count.
    """

    follower: Contact
    known: Annotated[tuple[tuple[Number, Number], ...], msgspec.Meta(max_length=LONGEST)]

    def size(self) -> int:
        """Two numbers each."""
        return HEADER_BYTES + 8 * len(self.known)


class Tally(RoutineUpkeep, frozen=True, tag="recovery-tally"):
    """A publisher's numbers: (index, count, last sequence number) per filter, as far as new.

    Sent when it has fallen silent, and in answer to :class:`Again`. A filter that it does not know
    has the count -1.
    """

    numbers: Annotated[tuple[tuple[Number, Number, Number], ...], msgspec.Meta(max_length=LONGEST)]
    final: bool = False
    """The publisher stops in good order: these are its last numbers for ever."""

    def size(self) -> int:
        """Three numbers each."""
        return HEADER_BYTES + 12 * len(self.numbers)


# Gossip


class Digest(RoutineUpkeep, frozen=True, tag="recovery-digest"):
    """The gossiper holds these events that match a filter: (publisher, sequence number, age)."""

    gossiper: Contact
    round: Number
    filter: AnyFilter | None
    """None: an answer to a comparison, for its receiver alone."""
    held: Annotated[tuple[tuple[Node, Number, Age], ...], msgspec.Meta(max_length=LONGEST)]
    hops: Hops

    def size(self) -> int:
        """A filter, and an id with its age each."""
        return HEADER_BYTES + PAYLOAD_BYTES + 10 * len(self.held)


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """Events of a publisher that somebody lacks: ``count`` that match, between two others."""

    publisher: Node
    filter: Annotated[int, msgspec.Meta(ge=0, lt=FILTERS)]
    """Which of the message's filters they match."""
    after: Number
    before: Number
    count: Number
    have: Annotated[tuple[Number, ...], msgspec.Meta(max_length=HAVE)] = ()
    """Sequence numbers in between that are not missing."""


class Missing(RoutineUpkeep, frozen=True, tag="recovery-missing"):
    """The seeker lacks events; whoever holds some sends them, and passes on what is left."""

    seeker: Contact
    round: Number
    route: Route
    filters: Filters
    holes: Annotated[tuple[Hole, ...], msgspec.Meta(max_length=LONGEST)]
    hops: Hops

    def size(self) -> int:
        """The filters, and five numbers for a hole."""
        had = sum(len(hole.have) for hole in self.holes)
        return HEADER_BYTES + PAYLOAD_BYTES * len(self.filters) + 16 * len(self.holes) + 2 * had


class Compare(RoutineUpkeep, frozen=True, tag="recovery-compare"):
    """A walk from node to node: each answers the seeker with what it holds for these filters."""

    seeker: Contact
    round: Number
    filters: Filters
    ages: Annotated[tuple[Age, ...], msgspec.Meta(max_length=FILTERS)]
    """Per filter, the seconds for which the seeker has wanted it."""
    complete: Annotated[
        tuple[tuple[Contact, Number, Number], ...], msgspec.Meta(max_length=LONGEST)
    ]
    """Per publisher, between which sequence numbers (the second included) nothing is lacking."""
    steps: Annotated[int, msgspec.Meta(ge=0, le=64)]
    """Nodes that it still visits."""

    def size(self) -> int:
        """The filters with their ages, and three numbers for a publisher."""
        return HEADER_BYTES + (PAYLOAD_BYTES + 2) * len(self.filters) + 12 * len(self.complete)


# Copies


class Request(Upkeep, frozen=True, tag="recovery-request"):
    """The sender wants copies of these events, as far as they match one of the filters."""

    ids: Annotated[tuple[Id, ...], msgspec.Meta(max_length=LONGEST)]
    filters: Filters

    def size(self) -> int:
        """Ids and filters."""
        return HEADER_BYTES + 8 * len(self.ids) + PAYLOAD_BYTES * len(self.filters)


class Hold(Upkeep, frozen=True, tag="recovery-hold"):
    """A publisher asks to keep one of its events, and to confirm that (:class:`Held`)."""

    event: Event
    age: Age

    def events(self) -> tuple[Event, ...]:
        """The event."""
        return (self.event,)


class Held(Upkeep, frozen=True, tag="recovery-held"):
    """To a publisher: the sender keeps its event of this number."""

    sequence: Number


class Reply(Upkeep, frozen=True, tag="recovery-reply"):
    """Copies of events, with their ages, and ids that were asked for and do not match."""

    copies: Annotated[tuple[tuple[Event, Age], ...], msgspec.Meta(max_length=BATCH)]
    declined: Annotated[tuple[Id, ...], msgspec.Meta(max_length=LONGEST)] = ()

    def events(self) -> tuple[Event, ...]:
        """The copies."""
        return tuple(event for event, _ in self.copies)

    def weight(self) -> float:
        """One per event, as on its way."""
        return float(max(len(self.copies), 1))

    def size(self) -> int:
        """The size of the events, and some bytes for each."""
        return HEADER_BYTES + (PAYLOAD_BYTES + 2) * len(self.copies) + 8 * len(self.declined)
