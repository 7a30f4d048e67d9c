"""The arrays of the radio channel: the meaning of each column and number.

Times are whole nanoseconds. ``NEVER`` stands for a time that does not come, ``NOBODY`` for no frame
and no node. All arrays are parts of one, the memory: a call that passes one array is quick.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np


class Air(NamedTuple):
    """All arrays, by name."""

    nodes: Any
    """Transmitter, receiver and queue, a row per node."""
    levels: Any
    """Power that the receiver senses, a row per node."""
    frames: Any
    """Frames, a row each."""
    near: Any
    """Nodes that sense a node's transmissions, a row per node."""
    gain: Any
    """Power or link quality for each of ``near``, then for each of ``ears``."""
    ears: Any
    """Nodes that sense a node's transmission under way, a row per node."""
    heap: Any
    """Timers: the heap, the position of each timer in it, and the time of each."""
    numbers: Any
    whole: Any
    real: Any
    keys: Any
    counts: Any
    """Counters, a row per time bin; see ``COUNTS``."""
    out: Any
    """Nodes that received the last frame."""
    places: Any
    """Position in metres, a row per node."""
    grid: Any
    """Scratch space to sort nodes by position."""
    legs: Any
    """Tracks of nodes; see :mod:`~shoal.simulation.air.movement`."""
    events: Any
    """Floods on arrays: publisher and number per event; see :mod:`~shoal.simulation.air.flood`."""
    seen: Any
    pending: Any
    log: Any
    """Outcome of each frame at each node in range, if logging is on."""


KINDS: Final[dict[str, Any]] = {
    "levels": np.float64,
    "gain": np.float64,
    "real": np.float64,
    "places": np.float64,
    "legs": np.float64,
    "keys": np.uint64,
    "events": np.uint64,
    "seen": np.uint64,
}
"""Arrays that do not hold signed whole numbers, and their types."""

NEVER: Final = 1 << 62
NOBODY: Final = -1

# A node's row in ``nodes``.
SLOTS: Final = 0  # slots of back-off still to wait
IDLE_FROM: Final = 1  # when counting slots begins or began; NEVER while the channel is busy
ACCESS_AT: Final = 2  # when it may transmit, or gives up waiting for an acknowledgement
SIGNALS: Final = 3  # transmissions of others that it senses
RESERVED: Final = 4  # until when a heard frame reserves the channel for its acknowledgement
SENDING: Final = 5  # the frame that it transmits
HEARING: Final = 6  # the frame that its receiver is locked to
HEARD_SINCE: Final = 7  # until when what it hears has been judged
SPOILT: Final = 8  # whether that frame is lost for sure
HEAD: Final = 9  # the first frame of its queue
TAIL: Final = 10  # the last
QUEUED: Final = 11  # how many there are
WINDOW: Final = 12  # contention window, in slots
ATTEMPTS: Final = 13  # transmissions of the first frame so far
WAITING: Final = 14  # whether it waits for an acknowledgement
ACKNOWLEDGES: Final = 15  # to whom it is about to send one
DRAWN: Final = 16  # back-offs drawn so far
GARBLED: Final = 17  # end of its wait, less DIFS, after a frame that it could not read
NEAR: Final = 18  # how many nodes sense its transmissions
EARS: Final = 19  # how many sense the one under way
RUNS: Final = 20  # whether its radio is on
LEG: Final = 21  # the part of its track that it is on
LAST_LEG: Final = 22  # one behind its last
BUSY_SINCE: Final = 23  # when the channel was taken
NODE_FIELDS: Final = 24

# Its row in ``levels``.
POWER: Final = 0  # all that it senses, relative to the weakest frame that can be received
SIGNAL: Final = 1  # of that the frame that it is locked to
DECAY: Final = 2  # minus the logarithm of the chance that this frame is whole so far
LEVEL_FIELDS: Final = 3

# A frame's row in ``frames``. The first rows are the nodes' acknowledgements.
SOURCE: Final = 0
TARGET: Final = 1  # NOBODY: a broadcast
AIRTIME: Final = 2
EXPIRES: Final = 3  # when it is too old to be sent
STARTED: Final = 4  # when its transmission began
NEXT: Final = 5  # the one behind it in the queue, or in the list of free rows
FLAGS: Final = 6
NUMBER: Final = 7  # of its transmission
EVENT: Final = 8  # flooding on arrays: the event; NOBODY: a frame that nodes handle
FRAME_FIELDS: Final = 9

ROUTINE: Final = 1  # it does not keep the network from being at rest
ARRIVED: Final = 2  # its target has received it, and must not get it again
QUIET: Final = 4  # the sender is not told that it did not arrive
LASTING: Final = 8  # it waits in the queue for as long as it takes

# ``numbers``
NOW: Final = 0
FREE: Final = 1  # the first free row of ``frames``
UNSENT: Final = 2  # frames that keep the network from being at rest
TRANSMISSIONS: Final = 3
NEXT_LOOK: Final = 4  # when positions are looked at next
RECEIVERS: Final = 5  # entries in ``out``
FRAME: Final = 6  # the frame that they received, or that was given up
SENDER: Final = 7
PENDING: Final = 8  # flooding on arrays: events that nodes are about to pass on
POSTED: Final = 9  # and how many there have been
LAST: Final = 10  # when a node last did something
LOGGED: Final = 11  # rows of ``log``
NEXT_AT: Final = 12  # when ``advance`` has something to do again
NUMBERS: Final = 16

# A row of ``log``.
LOG_START: Final = 0
LOG_SENDER: Final = 1
LOG_RECEIVER: Final = 2
LOG_INTACT: Final = 3
LOG_KIND: Final = 4  # 0: a broadcast, 1: a frame for one node, 2: an acknowledgement
LOG_FIELDS: Final = 5

# What ``advance`` returns.
DONE: Final = 0  # all is done up to the time given
RECEIVED: Final = 1  # a frame was received
UNREACHABLE: Final = 2  # a frame was given up after its last attempt
CROWDED: Final = 3  # ``near`` is too narrow
FULL: Final = 4  # ``frames`` or a log is full

# ``whole``: settings that are whole numbers.
NODES: Final = 0
SLOT: Final = 1
SIFS: Final = 2
DIFS: Final = 3
EIFS: Final = 4  # in place of DIFS after a frame that could not be read
SMALLEST_WINDOW: Final = 5
LARGEST_WINDOW: Final = 6
LIMIT: Final = 7  # of attempts
QUEUE: Final = 8
ACK_AIRTIME: Final = 9
ACK_TIMEOUT: Final = 10
PREAMBLE: Final = 11
DETECTION: Final = 12  # the part of a preamble in which a receiver locks to it
CAPTURE: Final = 13
PROPAGATION: Final = 14
FADING: Final = 15
STEP: Final = 16  # between two looks at positions
BIN: Final = 17
LIFETIME: Final = 18  # of a frame in the queue
FLOOD_AIRTIME: Final = 19  # of flooding on arrays
LOGS: Final = 20  # whether what becomes of every frame is written down in ``log``
WHOLE: Final = 21

CAPTURE_OFF: Final = 0
CAPTURE_FIRST: Final = 1
CAPTURE_STRONGEST: Final = 2

DISC: Final = 0
PATH_LOSS: Final = 1
GIVEN: Final = 2  # links and their qualities

# ``real``: settings that are not.
NOISE: Final = 0
SENSED: Final = 1  # power from which on the channel is busy
LOCKED: Final = 2  # ratio of signal to noise that a receiver locks to
STRONGER: Final = 3  # ratio at which it leaves one frame for another
RATE: Final = 4  # bit/s
REACH: Final = 5  # metres
EXPONENT: Final = 6
FARTHEST: Final = 7  # metres beyond which nothing is sensed
JITTER: Final = 8  # nanoseconds, the longest, of flooding on arrays
REAL: Final = 9

# ``keys``: of the draws of chance.
BACKOFF_KEY: Final = 0
RECEPTION_KEY: Final = 1
FADING_KEY: Final = 2
JITTER_KEY: Final = 3

# Columns of ``counts``, one row per time bin.
COUNTS: Final = (
    "frames",
    "acknowledgements",
    "receptions",
    "collisions",
    "deaf",
    "faded",
    "retries",
    "given_up",
    "queue_drops",
    "expired",
)
FRAMES, ACKNOWLEDGEMENTS, RECEPTIONS, COLLISIONS, DEAF, FADED, RETRIES, GIVEN_UP = range(8)
QUEUE_DROPS: Final = 8
EXPIRED: Final = 9
SUBMITTED: Final = 10  # by floods on arrays; the last column, which is not in the tables
