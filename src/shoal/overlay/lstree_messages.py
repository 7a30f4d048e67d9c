"""Messages and parameters of LSTree (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import msgspec

from shoal.overlay.lstree_relation import DEEPEST, LONGEST
from shoal.overlay.lstree_strategies import BREAK_MIN, check_sequence
from shoal.stack.message import HEADER_BYTES, WORD_BYTES, Contact, Count, RoutineUpkeep, Upkeep

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Depth: TypeAlias = Annotated[float, msgspec.Meta(ge=-DEEPEST, le=DEEPEST)]
Length: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LONGEST)]
WireColour: TypeAlias = tuple[Length, Count, Count]
Contacts: TypeAlias = Annotated[tuple[Contact, ...], msgspec.Meta(max_length=4096)]
Reason: TypeAlias = Literal["colour", "busy", "full", "leaf", "self"]


class LSTreeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instance, the limits on degree, and how often a node looks after itself."""

    instance: Annotated[str, msgspec.Meta(min_length=1, max_length=16)] = "RDGM"
    """Strategies in order: see :mod:`~shoal.overlay.lstree_strategies`."""
    max_degree: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 5
    """Neighbours from which on a node refuses children; 0 for no limit."""
    min_degree: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 2
    """Neighbours below which a node refuses children, where the instance has BreakMinDegree."""
    depth: Literal["real", "integer"] = "real"
    """Real depths that candidates may lower, or hop counts."""
    ancestors: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """Length of the Ancestor Chain."""
    ancestor_probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """How often Regional asks an ancestor rather than a sibling."""
    global_size: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Entries of the Global cache."""
    global_period: Seconds = 30.0
    """Seconds between updates, and between pings, of the Global cache."""
    global_fanout: Annotated[int, msgspec.Meta(ge=0, le=10)] = 2
    """Nodes that an update goes to."""
    global_repropagation: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.3
    """How often an update is passed on."""
    references: Annotated[int, msgspec.Meta(ge=0, le=64)] = 3
    """Nodes named in an update, or by a full candidate."""
    pings: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 4
    """Nodes that are pinged in a period: entries of the Global cache in turn, and in place of one
    of them a node that no longer answered, if there is one."""
    busy_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """How often a busy candidate is asked again."""
    busy_wait: Seconds = 0.1
    """Seconds before a busy candidate is asked again."""
    request_timeout: Seconds = 0.5
    """Seconds after which a candidate that does not answer is given up."""
    early_merge: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 1.0
    """Seconds after which a new root looks for another tree once, early; 0 for not at all."""
    merge_period: Seconds = 10.0
    """Seconds between a root's regular attempts to find another tree."""
    recolour: Seconds = 3600.0
    """Seconds after which a root changes its colour, so that depths are drawn anew."""
    heartbeat: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.0
    """Seconds between signs of life; 0 where the driver reports every failure."""
    patience: Annotated[float, msgspec.Meta(ge=2, le=1000)] = 4.0
    """Heartbeats after which a silent neighbour is presumed dead."""

    def __post_init__(self) -> None:
        check_sequence(self.instance, self.max_degree, self.least())

    def least(self) -> int:
        """The limit MINDEGREE, 0 if it is off."""
        return self.min_degree if BREAK_MIN in self.instance else 0


AGREE: Final = ("instance", "depth", "heartbeat", "patience")
"""Parameters that are the same at all nodes: how orphans search, and when a node is dead."""


class ParentRequest(Upkeep, frozen=True, tag="lstree request"):
    """PARENTREQUEST, out of band: may the sender be your child?"""

    BYTES: ClassVar[int] = HEADER_BYTES + 7 * WORD_BYTES

    requester: Contact
    epoch: Count
    request: Count
    """Number of this request in the requester's life."""
    colour: WireColour
    depth: Depth
    break_max: bool = False
    break_min: bool = False


class Accept(Upkeep, frozen=True, tag="lstree accept"):
    """The receiver may be the sender's child; the first message over the sender's connection."""

    epoch: Count
    """The life of the requester that asked."""
    request: Count
    parent: Contact
    parent_epoch: Count
    colour: WireColour
    depth: Depth
    ancestors: Contacts
    siblings: Contacts
    known: Contacts
    """Some of the sender's Global cache."""

    def size(self) -> int:
        named = len(self.ancestors) + len(self.siblings) + len(self.known)
        return HEADER_BYTES + WORD_BYTES * (8 + named)


class Refuse(Upkeep, frozen=True, tag="lstree refuse"):
    """Refusal, and why. A full candidate names children, a leaf its parent, a leaving one both."""

    request: Count
    reason: Reason
    candidates: Contacts = ()

    def size(self) -> int:
        return HEADER_BYTES + WORD_BYTES * (2 + len(self.candidates))


class Attach(Upkeep, frozen=True, tag="lstree attach"):
    """Answer to ACCEPT: the sender is the receiver's child from now on."""

    BYTES: ClassVar[int] = HEADER_BYTES + 2 * WORD_BYTES

    request: Count
    repair: Annotated[int, msgspec.Meta(ge=-1, le=2**62)] = -1
    moves: bool = False
    """The sender has a parent that stops, and is a child only once it is welcome."""


class Welcome(Upkeep, frozen=True, tag="lstree welcome"):
    """The sender has made its end of the link to a node that moves."""

    BYTES: ClassVar[int] = HEADER_BYTES + WORD_BYTES

    request: Count


class Heir(Upkeep, frozen=True, tag="lstree heir"):
    """The sender, the root, stops: the receiver, its child, is to be root and its parent."""

    BYTES: ClassVar[int] = HEADER_BYTES


class Leave(Upkeep, frozen=True, tag="lstree leave"):
    """The sender is not, or no longer, the receiver's child or parent; ``goes``: it stops."""

    BYTES: ClassVar[int] = HEADER_BYTES + WORD_BYTES

    request: Count = 0
    """The request whose acceptance comes too late; 0 for a connection that is there."""
    goes: bool = False


class Drop(Upkeep, frozen=True, tag="lstree drop"):
    """The receiver is no longer the sender's child; ``anew``: it is to forget its colour, too."""

    BYTES: ClassVar[int] = HEADER_BYTES

    anew: bool = False


class Regional(Upkeep, frozen=True, tag="lstree regional"):
    """From a parent: its colour, depth and ancestors, and all its children."""

    colour: WireColour
    depth: Depth
    ancestors: Contacts
    siblings: Contacts

    def size(self) -> int:
        return HEADER_BYTES + WORD_BYTES * (4 + len(self.ancestors) + len(self.siblings))


class Sighting(Upkeep, frozen=True, tag="lstree sighting"):
    """Towards the root: a node of another tree, one that this tree can join."""

    BYTES: ClassVar[int] = HEADER_BYTES + 4 * WORD_BYTES

    contact: Contact
    colour: WireColour


class Update(RoutineUpkeep, frozen=True, tag="lstree update"):
    """Nodes for the Global cache, the one that begins it first."""

    known: Contacts

    def size(self) -> int:
        return HEADER_BYTES + WORD_BYTES * len(self.known)


class Ping(RoutineUpkeep, frozen=True, tag="lstree ping"):
    """Is the receiver there?"""

    BYTES: ClassVar[int] = HEADER_BYTES + 4 * WORD_BYTES

    contact: Contact
    colour: WireColour


class Pong(RoutineUpkeep, frozen=True, tag="lstree pong"):
    """The sender is there."""

    BYTES: ClassVar[int] = HEADER_BYTES + 4 * WORD_BYTES

    contact: Contact
    colour: WireColour


class Beat(RoutineUpkeep, frozen=True, tag="lstree beat"):
    """The sender is alive."""

    BYTES: ClassVar[int] = HEADER_BYTES
