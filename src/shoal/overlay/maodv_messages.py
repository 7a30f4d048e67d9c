"""Messages and parameters of MAODV and WiTree (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.stack.message import HEADER_BYTES, WORD_BYTES, Count, Node, Upkeep

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Ids: TypeAlias = Annotated[tuple[Node, ...], msgspec.Meta(max_length=4096)]
Distance: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
WireLabel: TypeAlias = tuple[Count, Count, Count, Count, Distance]

LABEL = 4 * WORD_BYTES
"""Bytes of a label: generation, leader, sequence number and distance."""


class MaodvParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Periods, timeouts and numbers of attempts."""

    hello: Seconds = 1.0
    """Seconds between two hellos of a node."""
    patience: Annotated[float, msgspec.Meta(ge=1.5, le=1000)] = 2.0
    """Hellos after which a silent neighbour is lost; two in AODV, as MAODV has it."""
    group_hello: Seconds = 5.0
    """Seconds between two group hellos of a leader."""
    reply_wait: Seconds = 1.0
    """Seconds in which a node that looks for a parent collects replies."""
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    """Repetitions of a request without reply before the network counts as partitioned."""
    confirm_wait: Seconds = 0.5
    """Seconds in which an activation or a handover must be answered."""
    jitter: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.01
    """Seconds, drawn at random up to this, that a node waits before it passes a broadcast on."""
    failures: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    """Frames in a row that a neighbour does not acknowledge, after which it is lost."""


class Control(Upkeep, frozen=True):
    """A message that maintains the tree; no part of a reconfiguration of tables."""

    def size(self) -> int:
        """Bytes of header, label, and a word for every number and every node of a list."""
        layout = _LAYOUTS.get(type(self))
        if layout is None:
            fields = self.__struct_fields__
            lists = tuple(name for name in fields if name in ("children", "path"))
            words = len(fields) - len(lists) - ("label" in fields)
            layout = HEADER_BYTES + WORD_BYTES * words + LABEL * ("label" in fields), lists
            _LAYOUTS[type(self)] = layout
        size, lists = layout
        for name in lists:
            size += WORD_BYTES * len(getattr(self, name))
        return size


_LAYOUTS: dict[type[Control], tuple[int, tuple[str, ...]]] = {}
"""Bytes of what every message of a type has, and the names of its lists, per type."""


class Periodic(Control, frozen=True):
    """A message that nodes broadcast also when nothing happens."""

    @classmethod
    def routine(cls) -> bool:
        """It does not keep a simulation from being at rest."""
        return True


class Hello(Periodic, frozen=True, tag="maodv hello"):
    """The sender is there, has this parent (or asks it to be), this label and these children."""

    beat: Count
    parent: Node
    number: Count
    """Number of the sender's attachment to its parent, or of the last that it tried."""
    label: WireLabel
    children: Ids


class Grph(Periodic, frozen=True, tag="maodv grph"):
    """GRPH, a group hello: the leader of a tree and its latest sequence number.

    From a member of that tree it carries the sender's own label; other nodes pass it on unchanged.
    """

    beat: Count
    label: WireLabel
    member: bool


class Rreq(Control, frozen=True, tag="maodv rreq"):
    """RREQ: who can be the requester's parent? ``number`` tells its requests apart."""

    requester: Node
    number: Count
    label: WireLabel


class Rrep(Control, frozen=True, tag="maodv rrep"):
    """RREP: ``far`` can be the requester's parent.

    Its offer is to the node from which it heard the request: the first of the path, if there is
    one, or the requester.
    """

    requester: Node
    number: Count
    far: Node
    offer: Count
    label: WireLabel
    path: Ids
    """Nodes that passed the reply on, the one at the new link first."""


class Mact(Control, frozen=True, tag="maodv mact"):
    """MACT: the sender takes up an offer and wants to be the receiver's child."""

    number: Count
    offer: Count
    label: WireLabel
    repair: Annotated[int, msgspec.Meta(ge=-1, le=2**62)]


class Confirm(Control, frozen=True, tag="maodv confirm"):
    """CONFIRM: the receiver is the sender's child from now on."""

    beat: Count
    number: Count
    label: WireLabel


class Leave(Control, frozen=True, tag="maodv leave"):
    """LEAVE: the attachment of this number between sender and receiver does not exist."""

    number: Count


class Handover(Control, frozen=True, tag="maodv handover"):
    """HANDOVER, from a root to its child: be the root in my place, and I am your child.

    The role passes on along ``path``; the last node there is to attach to ``far``.
    """

    number: Count
    """Number of the receiver's attachment to the sender, which ends."""
    back: Count
    """Number of the sender's attachment to the receiver, which begins."""
    label: WireLabel
    step: Distance
    """Distance by which each node of the path is nearer to the leader than the one before."""
    path: Ids
    far: Node
    """Node that made the offer; LOCAL: the last node looks for a parent itself."""
    offer: Count
    repair: Annotated[int, msgspec.Meta(ge=-1, le=2**62)]


class Taken(Control, frozen=True, tag="maodv taken"):
    """TAKEN, the answer to HANDOVER: the receiver is the sender's child from now on."""

    beat: Count
    back: Count
    label: WireLabel


class Merge(Control, frozen=True, tag="maodv merge"):
    """MERGE, to the leader: the first node of the path hears a tree that prevails."""

    label: WireLabel
    path: Ids
