"""The messages of DPS, in the order of the paper (a compiled module cannot define structs).

A group is named by its tree's attribute and the text of its label. ``at`` is the text of the group
that a message is for, as its receiver may be in many.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.routing.messages import Carrier
from shoal.stack.message import Age, Contact, Count, Hops, Message, Routine

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=8_192)]

START, DOWN, UP = 0, 1, 2
"""Directions that an event comes from: its publisher, the predecessor, or a successor."""


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """A node, and the text of the group it is known to be in."""

    text: Text
    contact: Contact


Pointers: TypeAlias = Annotated[tuple[Pointer, ...], msgspec.Meta(max_length=64)]
Contacts: TypeAlias = Annotated[tuple[Contact, ...], msgspec.Meta(max_length=64)]


class Branch(msgspec.Struct, frozen=True, array_like=True):
    """A successor group: who leads it, and the succview that leads into it."""

    text: Text
    term: Count
    leader: Contact
    pointers: Pointers


Branches: TypeAlias = Annotated[tuple[Branch, ...], msgspec.Meta(max_length=65_536)]


class Root(msgspec.Struct, frozen=True, array_like=True):
    """A tree and its owner; of two owners the one with the larger term counts."""

    attribute: Name
    term: Count
    owner: Contact


Roots: TypeAlias = Annotated[tuple[Root, ...], msgspec.Meta(max_length=256)]


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A node that somebody has heard of, and how many seconds ago."""

    contact: Contact
    age: Age


# Contact points (section 4.1)


class Point(msgspec.Struct, frozen=True, array_like=True):
    """A node that acts for a group of a tree."""

    attribute: Name
    contact: Contact


class Shuffle(Routine, frozen=True, tag="dps shuffle"):
    """Nodes, trees and contact points that the sender knows; some are wanted in return."""

    sender: Contact
    peers: Annotated[tuple[Peer, ...], msgspec.Meta(max_length=64)]
    roots: Roots
    points: Annotated[tuple[Point, ...], msgspec.Meta(max_length=64)]
    """Contact points in trees that the sender is in."""
    answer: bool


class Where(Message, frozen=True, tag="dps where"):
    """A random walk in search of a tree."""

    attribute: Name
    origin: Contact
    steps: Annotated[int, msgspec.Meta(ge=0, le=64)]


class Here(Message, frozen=True, tag="dps here"):
    """The end of a walk: the tree's owner and a node of the tree, or nothing."""

    attribute: Name
    root: Root | None
    point: Contact | None


class Owner(Message, frozen=True, tag="dps owner"):
    """The news that a tree has an owner; receivers pass it on."""

    root: Root


class Probe(Message, frozen=True, tag="dps probe"):
    """An owner asks whether the receiver owns the same tree."""

    attribute: Name
    origin: Contact


# Subscriptions (section 4.1, Subscription Scheme)


class FindGroup(Message, frozen=True, tag="dps find_group"):
    """Somebody looks for its place in a tree: a subscriber, or the leader of a whole group."""

    attribute: Name
    at: Text
    text: Text
    origin: Contact
    term: Count
    """Term of a leader that asks for its group; 0 for a subscriber."""
    hops: Hops
    down: bool
    """True if it comes from above, so that its place is not elsewhere."""


class Request(FindGroup, frozen=True, tag="dps request"):
    """FIND_GROUP as the subscriber itself sends it, recorded apart from what others pass on."""


class PlaceGroup(FindGroup, frozen=True, tag="dps place_group"):
    """FIND_GROUP of a leader for its whole group, also just to see whether its place is right."""

    @classmethod
    def routine(cls) -> bool:
        """Sent whether or not anything happens."""
        return True


class State(msgspec.Struct, frozen=True, array_like=True):
    """A group as its leader describes it to a member; views only for members that have views."""

    attribute: Name
    text: Text
    term: Count
    leader: Contact
    coleaders: Contacts
    members: Contacts = ()
    predview: Pointers = ()
    branches: Branches = ()


class SubscribeTo(Message, frozen=True, tag="dps subscribe_to"):
    """The subscriber's group exists: it is a member now."""

    state: State


class CreateGroup(Message, frozen=True, tag="dps create_group"):
    """The subscriber's group does not exist: it creates it below the sender's."""

    attribute: Name
    text: Text
    predview: Pointers
    adopted: Branches
    """Groups below the sender's that the new one includes."""


class Created(Message, frozen=True, tag="dps created"):
    """The new group is there, or will not be: its predecessor may go on."""

    attribute: Name
    at: Text
    text: Text
    leader: Contact
    accepted: bool


class Cede(Message, frozen=True, tag="dps cede"):
    """A group is about to be created: groups below the receiver's that it includes are to be its.

    Each group that is asked passes it on to groups below it, and answers to the origin.
    """

    attribute: Name
    at: Text
    text: Text
    above: Text
    """Text of the group that the new one is created below."""
    origin: Contact


class Ceded(Message, frozen=True, tag="dps ceded"):
    """What a group has ceded to a new one, and the groups below that were asked as well."""

    attribute: Name
    at: Text
    text: Text
    by: Text
    branches: Annotated[tuple[Branch, ...], msgspec.Meta(max_length=256)]
    asked: Annotated[tuple[Text, ...], msgspec.Meta(max_length=256)]


class Placed(Routine, frozen=True, tag="dps placed"):
    """A group's place is below the sender's."""

    attribute: Name
    text: Text
    predview: Pointers


class Adopted(Message, frozen=True, tag="dps adopted"):
    """A group has a new predecessor, which knows it already."""

    attribute: Name
    text: Text
    predview: Pointers


class GossipSub(Message, frozen=True, tag="dps gossip_sub"):
    """A change of the views, gossiped among the members of a group."""

    attribute: Name
    at: Text
    members: Contacts
    branches: Branches
    gone: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)]
    """Successor groups that are no longer below this one."""
    hops: Hops


# Publications (section 4.1, Publication Scheme)


class Publish(Carrier, frozen=True, tag="dps publish"):
    """An event on its way between groups."""

    attribute: Name
    at: Text
    came: Text
    """Text of the group that the event came from; empty if it came from none."""
    direction: Annotated[int, msgspec.Meta(ge=0, le=2)]
    hops: Hops


class PublishGroup(Carrier, frozen=True, tag="dps publish_group"):
    """An event on its way inside a group."""

    attribute: Name
    at: Text
    came: Text
    direction: Annotated[int, msgspec.Meta(ge=0, le=2)]
    hops: Hops
    rounds: Hops
    """Number of times that the event was forwarded in this group."""


# Leaders (section 4.2.1)


class Leader(Message, frozen=True, tag="dps leader"):
    """A group has a leader: sent to its members and to adjacent groups."""

    attribute: Name
    text: Text
    term: Count
    leader: Contact
    coleaders: Contacts


class Sync(Message, frozen=True, tag="dps sync"):
    """The leader's views, or what has changed in them, for a co-leader."""

    attribute: Name
    text: Text
    term: Count
    joined: Annotated[tuple[Contact, ...], msgspec.Meta(max_length=65_536)]
    left: Annotated[tuple[int, ...], msgspec.Meta(max_length=65_536)]
    branches: Branches
    gone: Annotated[tuple[Text, ...], msgspec.Meta(max_length=65_536)]
    predview: Pointers


class Handover(Message, frozen=True, tag="dps handover"):
    """A leader that wants nothing any more asks a member to lead."""

    attribute: Name
    text: Text
    term: Count


class Leave(Message, frozen=True, tag="dps leave"):
    """The sender is no longer a member."""

    attribute: Name
    text: Text


class Left(Message, frozen=True, tag="dps left"):
    """The group of this text is no longer below the receiver's: it moved, or is dissolved.

    The groups below a dissolved one are the receiver's now.
    """

    attribute: Name
    at: Text
    text: Text
    origin: Contact
    dissolved: bool
    branches: Branches


class Gone(Message, frozen=True, tag="dps gone"):
    """A dissolved group is no longer needed by its predecessor."""

    attribute: Name
    text: Text


# Signs of life (section 4.3)


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """A group that the sender is in, and whether it wants the group's events itself."""

    attribute: Name
    text: Text
    subscribed: bool


class Beat(Routine, frozen=True, tag="dps beat"):
    """A member lives: sent to the leader of its groups."""

    sender: Contact
    groups: Annotated[tuple[Membership, ...], msgspec.Meta(max_length=65_536)]


class BeatAnswer(Routine, frozen=True, tag="dps beat answer"):
    """The leader lives: the groups as they are, and those that it does not lead."""

    states: Annotated[tuple[State, ...], msgspec.Meta(max_length=65_536)]
    denied: Annotated[tuple[State, ...], msgspec.Meta(max_length=65_536)]
    """Groups that the sender does not lead, each with the leader it knows; term 0 if none."""


class Report(Routine, frozen=True, tag="dps report"):
    """A group lives: sent by its leader to the leader of its predecessor."""

    attribute: Name
    at: Text
    branch: Branch


class ReportAnswer(Routine, frozen=True, tag="dps report answer"):
    """The predecessor lives. ``move``: the group's place is below this one now."""

    attribute: Name
    text: Text
    accepted: bool
    predview: Pointers
    move: Pointer | None
