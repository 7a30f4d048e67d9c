"""The arrays that the data plane works on, and how they are made and enlarged.

Sets of nodes and of patterns are rows of 64-bit words. A *slot* is one entry of a node's list of
sources (neighbours, or directions in which subscriptions lie), in the order in which the objects
keep them; a *channel* is one direction of one link during one epoch.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Words: TypeAlias = npt.NDArray[np.uint64]
Longs: TypeAlias = npt.NDArray[np.int64]
Ints: TypeAlias = npt.NDArray[np.int32]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Reals: TypeAlias = npt.NDArray[np.float64]

PARENT = -1
"""Stands for the parent among the chosen slots."""

DONE, BIN, FULL_QUEUE, FULL_LOG, TWICE = range(5)
"""Why ``advance`` returned: nothing left to do; end of a time bin; no room for messages on their
way, or in a log; an event reached an application twice."""

ALL_OF_THEM, UNPUBLISHED = -1, -2
"""Special values of ``Events.reachable``: all receivers; none, as its publisher had crashed."""


class Setup(NamedTuple):
    """What the kernel has to know of a run; the same for all events."""

    tree: bool
    owes_publisher: bool
    ttl: int
    ttl_deterministic: int
    ttl_probabilistic: int
    either: bool
    key: np.uint64
    """Key of the draws that choose links."""
    loss_key: np.uint64
    """Key of the draws that lose messages on bad links."""
    transmission: int
    """Nanoseconds that a link is busy with one event."""
    usual: int
    """Nanoseconds from sending to arrival on a free link of the usual delay."""
    plain: bool
    """Whether every link has that delay, no bandwidth limit and no loss."""
    watches: bool
    """Whether nodes count what they send and miss (adaptive routing)."""
    keeps_deliveries: bool
    keeps_messages: bool


class Nodes(NamedTuple):
    """One row per node."""

    limits: Ints
    """[node, (slots in use, horizon, links to use, links a publisher uses)]."""
    link: Ints
    """[node, slot, (the neighbour at the other end, the channel to it; -1: none)]."""
    leaf: Bytes
    """[node, slot]: whether that neighbour has no other link."""
    parent: Ints
    """[node, (parent, channel)]; -1: none."""
    mask: Words
    """[node, slot, level, word]: patterns in that direction; level is distance - 1."""
    leaf_mask: Words
    """[node, slot, word]: what a leaf wants."""
    local: Words
    """[node, word]: what the node itself wants."""
    crashed: Bytes
    component: Ints
    reached: Words
    """[word]: the nodes that an event was sent to in the current time bin."""
    duplicates: Longs
    watched: Longs
    """[node, (copies of events sent, wanted events known of, those of them missed)]."""
    last: Ints
    """[node, publisher]: the last event that came, by its number (adaptive routing only)."""


class Channels(NamedTuple):
    """One row per channel."""

    ends: Ints
    """[channel, (source, target, whether it is up, unused)]."""
    times: Longs
    """[channel, (delay, when it is free)]."""
    quality: Reals
    beyond: Words
    """[channel, word]: the nodes beyond it (trees only)."""


class Events(NamedTuple):
    """One row per event of the run."""

    time: Longs
    publisher: Ints
    sequence: Ints
    start: Longs
    end: Longs
    numbers: Ints
    bits: Words
    draws: Words
    """State of the draws that choose links, the event's id already mixed in."""
    owed: Words
    wanted: Words
    version: Longs
    received: Words
    reachable: Ints
    """Receivers that links led to when it was published; or ALL_OF_THEM, or UNPUBLISHED."""
    in_flight: Ints
    before: Ints
    """Its publisher's earlier event that it names, so that nodes notice losses; -1: none."""
    place: Ints
    """The row of ``seen`` that the event uses while it is in flight."""


class Flights(NamedTuple):
    """Messages on their way: a ring in order of time for the usual delay, a heap for the others."""

    ring: Longs
    """[place, (at, order)]."""
    ring_what: Ints
    """[place, (channel, event, hops, deterministic)]."""
    heap: Longs
    heap_what: Ints


class Logs(NamedTuple):
    """Deliveries and messages, one row each, where a run records them."""

    delivery_time: Longs
    delivery: Ints
    """[row, (event, node, hops)]."""
    message_time: Longs
    message: Ints
    """[row, (channel, event, hops, deterministic)]."""


class State(NamedTuple):
    """Everything that the compiled kernel reads and writes, beside the setup."""

    nodes: Nodes
    channels: Channels
    events: Events
    flights: Flights
    logs: Logs
    subscribers: Words
    """[pattern, word]: who wants it."""
    seen: Words
    """[place, word]: which nodes an event in flight has visited."""
    promised: Words
    """[place, word]: nodes that it has visited, or will before the next control event."""
    places: Ints
    """Stack of unused rows of ``seen``."""
    picks: Ints
    """Scratch space of the link choice."""
    now: Longs
    """The counters below."""


# Columns of Nodes.limits, Nodes.link, Nodes.watched, Channels.ends and Channels.times.
SLOTS, HORIZON, FANOUT, PUBLISHER_FANOUT = range(4)
NEIGHBOUR, CHANNEL = range(2)
SENT_COPIES, WANTED, MISSED = range(3)
FROM, TO, UP = range(3)
DELAY, FREE_AT = range(2)

# Indices into State.now. From COUNTS_FROM on are counters, set back to 0 when they are read.
# DUPLICATES and ENDS take three each: copies, their hops, and the deterministic ones of these.
NOW, ORDER, HEAD, TAIL, HEAP, NEXT, NEXT_ORDER, FREE_PLACES, VERSION, COMPONENTS, DUE = range(11)
DELIVERIES, WRONG_EVENT, WRONG_NODE, BIN_NUMBER, COUNTS_FROM = range(11, 16)
HANDLED, LOST, SENT, MISROUTED, REACHED, UNLINKED, MESSAGES = range(COUNTS_FROM, 22)
DUPLICATES, ENDS, COUNTERS = range(22, 29, 3)


def words(count: int) -> int:
    """Words that a set of so many members takes."""
    return (count + 63) // 64


def pattern_words(patterns: int) -> int:
    """Words of a set of patterns: a multiple of four, which are compared at once."""
    return 4 * ((words(patterns) + 3) // 4)


def grown(array: Any, axis: int, size: int) -> Any:
    """A larger copy along one axis; what is new is zero."""
    shape = list(array.shape)
    shape[axis] = size
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger


def make_flights(room: int) -> Flights:
    """Room for messages on their way; a power of two."""
    return Flights(
        ring=np.zeros((room, 2), np.int64),
        ring_what=np.zeros((room, 4), np.int32),
        heap=np.zeros((room, 2), np.int64),
        heap_what=np.zeros((room, 4), np.int32),
    )
