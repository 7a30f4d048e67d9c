"""A node's queue and its access to the channel: 802.11's distributed coordination function.

A node with a frame to send waits until the channel has been idle for DIFS and a random number of
slots, which it counts while the channel is idle only. After a frame that it could not read it waits
for EIFS from the end of that frame, as the frame may be about to be acknowledged.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import inlined, kernel, unpack
from shoal.simulation.air.reception import below
from shoal.simulation.air.timers import set_timer

# Numba compiles global constants, not attributes of modules.
NEVER, NOBODY, SLOTS, IDLE_FROM = s.NEVER, s.NOBODY, s.SLOTS, s.IDLE_FROM
ACCESS_AT, RESERVED, SENDING, HEARING = s.ACCESS_AT, s.RESERVED, s.SENDING, s.HEARING
HEAD, TAIL, QUEUED, WINDOW, ATTEMPTS = s.HEAD, s.TAIL, s.QUEUED, s.WINDOW, s.ATTEMPTS
WAITING, ACKNOWLEDGES, DRAWN, GARBLED = s.WAITING, s.ACKNOWLEDGES, s.DRAWN, s.GARBLED
RUNS, SOURCE, TARGET, AIRTIME, EXPIRES = s.RUNS, s.SOURCE, s.TARGET, s.AIRTIME, s.EXPIRES
NEXT, FLAGS, EVENT, ROUTINE, FREE = s.NEXT, s.FLAGS, s.EVENT, s.ROUTINE, s.FREE
UNSENT, FRAME, SENDER, SLOT, DIFS, EIFS = s.UNSENT, s.FRAME, s.SENDER, s.SLOT, s.DIFS, s.EIFS
SMALLEST_WINDOW, LARGEST_WINDOW, LIMIT = s.SMALLEST_WINDOW, s.LARGEST_WINDOW, s.LIMIT
QUEUE, BIN, LIFETIME, BACKOFF_KEY = s.QUEUE, s.BIN, s.LIFETIME, s.BACKOFF_KEY
QUEUE_DROPS, RETRIES, GIVEN_UP = s.QUEUE_DROPS, s.RETRIES, s.GIVEN_UP
LASTING, DETECTION, BUSY_SINCE = s.LASTING, s.DETECTION, s.BUSY_SINCE


@inlined
def draw_slots(air, node):
    """A new back-off."""
    nodes = air.nodes
    nodes[node, DRAWN] += 1
    limit = nodes[node, WINDOW] + 1
    nodes[node, SLOTS] = below(air.keys[BACKOFF_KEY], limit, node, nodes[node, DRAWN])


@inlined
def wake_at(air, node, at):
    """The node may transmit at a time; its timer need not be told of a later one."""
    air.nodes[node, ACCESS_AT] = at
    if at < air.heap[2, node]:
        set_timer(air.heap, node, at)


@inlined
def become_idle(air, node, now):
    """The channel is free: go on counting slots after DIFS or EIFS."""
    nodes, whole = air.nodes, air.whole
    start = max(now, nodes[node, RESERVED], nodes[node, GARBLED]) + whole[DIFS]
    nodes[node, IDLE_FROM] = start
    if not nodes[node, WAITING] and nodes[node, HEAD] != NOBODY:
        wake_at(air, node, start + nodes[node, SLOTS] * whole[SLOT])


@inlined
def become_busy(air, node, now):
    """The channel is taken: keep the slots that are left."""
    nodes = air.nodes
    passed = now - nodes[node, IDLE_FROM]
    slots = nodes[node, SLOTS]
    if passed > 0 and slots:
        nodes[node, SLOTS] = slots - min(slots, passed // air.whole[SLOT])
    nodes[node, IDLE_FROM] = NEVER
    nodes[node, BUSY_SINCE] = now
    if not nodes[node, WAITING] and nodes[node, ACCESS_AT] > now + air.whole[DETECTION]:
        nodes[node, ACCESS_AT] = NEVER  # a node about to transmit has not sensed it yet


@inlined
def drop_first(air, node):
    """The first frame of a queue is done with: its row is free."""
    nodes, frames, numbers = air.nodes, air.frames, air.numbers
    frame = nodes[node, HEAD]
    nodes[node, HEAD] = frames[frame, NEXT]
    if nodes[node, HEAD] == NOBODY:
        nodes[node, TAIL] = NOBODY
    nodes[node, QUEUED] -= 1
    nodes[node, ATTEMPTS] = 0
    if not frames[frame, FLAGS] & ROUTINE:
        numbers[UNSENT] -= 1
    frames[frame, NEXT] = numbers[FREE]
    numbers[FREE] = frame


@inlined
def finish(air, node):
    """A frame was sent, or given up: back off before the next."""
    drop_first(air, node)
    air.nodes[node, WINDOW] = air.whole[SMALLEST_WINDOW]
    air.nodes[node, WAITING] = 0
    draw_slots(air, node)


@inlined
def resume(air, node, now):
    """A back-off was drawn while the channel may be idle already."""
    nodes = air.nodes
    nodes[node, ACCESS_AT] = NEVER
    if nodes[node, IDLE_FROM] != NEVER:
        start = max(nodes[node, IDLE_FROM], now)
        nodes[node, IDLE_FROM] = start
        if nodes[node, HEAD] != NOBODY:
            wake_at(air, node, start + nodes[node, SLOTS] * air.whole[SLOT])


@inlined
def retry(air, row, node, now):
    """No acknowledgement came: try again after a longer back-off, or give up; True if so."""
    nodes, numbers, whole = air.nodes, air.numbers, air.whole
    given_up = nodes[node, ATTEMPTS] >= whole[LIMIT]
    if given_up:
        air.counts[row, GIVEN_UP] += 1
        numbers[FRAME] = nodes[node, HEAD]
        numbers[SENDER] = node
        finish(air, node)
    else:
        air.counts[row, RETRIES] += 1
        nodes[node, WAITING] = 0
        nodes[node, WINDOW] = min(2 * nodes[node, WINDOW] + 1, whole[LARGEST_WINDOW])
        draw_slots(air, node)
    resume(air, node, now)
    return given_up


@inlined
def put(air, row, node, target, airtime, flags, event, now):
    """Put a frame into a node's queue; its row in ``frames``, or NOBODY if the queue is full.

    The caller has made sure that there is a free row.
    """
    nodes, frames, numbers, whole = air.nodes, air.frames, air.numbers, air.whole
    if nodes[node, QUEUED] >= whole[QUEUE]:
        air.counts[row, QUEUE_DROPS] += 1
        return NOBODY
    frame = numbers[FREE]
    numbers[FREE] = frames[frame, NEXT]
    frames[frame, SOURCE] = node
    frames[frame, TARGET] = target
    frames[frame, AIRTIME] = airtime
    frames[frame, EXPIRES] = NEVER if flags & LASTING else now + whole[LIFETIME]
    frames[frame, NEXT] = NOBODY
    frames[frame, FLAGS] = flags
    frames[frame, EVENT] = event
    if not flags & ROUTINE:
        numbers[UNSENT] += 1
    nodes[node, QUEUED] += 1
    if nodes[node, TAIL] != NOBODY:
        frames[nodes[node, TAIL], NEXT] = frame
        nodes[node, TAIL] = frame
        return frame
    nodes[node, HEAD] = frame
    nodes[node, TAIL] = frame
    if nodes[node, IDLE_FROM] == NEVER:
        if nodes[node, SLOTS] == 0 and nodes[node, SENDING] == NOBODY:
            if now < nodes[node, BUSY_SINCE] + whole[DETECTION]:
                wake_at(air, node, now)  # it has not sensed yet that the channel is taken
            else:
                draw_slots(air, node)
    else:
        at = nodes[node, IDLE_FROM] + nodes[node, SLOTS] * whole[SLOT]
        wake_at(air, node, max(at, now))
    return frame


@kernel
def submit(memory, node, target, airtime, flags, event, now):
    """Queue a frame of a node; see ``put``."""
    air = unpack(memory)
    return put(air, now // air.whole[BIN], node, target, airtime, flags, event, now)


@kernel
def switch_off(memory, node):
    """A node's radio is off: what it had to send is lost, but for a frame under way."""
    air = unpack(memory)
    nodes = air.nodes
    while nodes[node, HEAD] != NOBODY and nodes[node, HEAD] != nodes[node, SENDING]:
        drop_first(air, node)
    nodes[node, RUNS] = 0
    nodes[node, WAITING] = 0
    nodes[node, HEARING] = NOBODY
    nodes[node, ACKNOWLEDGES] = NOBODY
