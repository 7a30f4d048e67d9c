"""A node's queue and its access to the channel: 802.11's distributed coordination function.

A node with a frame to send waits until the channel has been idle for DIFS, and then for a random
number of slots, which it counts only while the channel is idle. After a frame that it could not
read it waits for EIFS in place of DIFS, as another node may be about to acknowledge that frame.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import inlined, kernel, unpack
from shoal.simulation.air.flood import is_first
from shoal.simulation.air.reception import below
from shoal.simulation.air.timers import set_timer


@inlined
def draw_slots(air, node):
    """A new back-off."""
    nodes = air.nodes
    nodes[node, s.DRAWN] += 1
    limit = nodes[node, s.WINDOW] + 1
    nodes[node, s.SLOTS] = below(air.keys[s.BACKOFF_KEY], limit, node, nodes[node, s.DRAWN])


@inlined
def wake_at(air, node, at):
    """Let a node transmit at a time; its timer is set only if that is earlier."""
    air.nodes[node, s.ACCESS_AT] = at
    if at < air.heap[2, node]:
        set_timer(air.heap, node, at)


@inlined
def become_idle(air, node, now):
    """The channel is free: go on counting slots after DIFS or EIFS."""
    nodes, whole = air.nodes, air.whole
    start = max(now, nodes[node, s.RESERVED], nodes[node, s.GARBLED]) + whole[s.DIFS]
    nodes[node, s.IDLE_FROM] = start
    if not nodes[node, s.WAITING] and nodes[node, s.HEAD] != s.NOBODY:
        wake_at(air, node, start + nodes[node, s.SLOTS] * whole[s.SLOT])


@inlined
def become_busy(air, node, now):
    """The channel is taken: keep the slots that are left."""
    nodes = air.nodes
    passed = now - nodes[node, s.IDLE_FROM]
    slots = nodes[node, s.SLOTS]
    if passed > 0 and slots:
        nodes[node, s.SLOTS] = slots - min(slots, passed // air.whole[s.SLOT])
    nodes[node, s.IDLE_FROM] = s.NEVER
    nodes[node, s.BUSY_SINCE] = now
    if not nodes[node, s.WAITING] and nodes[node, s.ACCESS_AT] > now + air.whole[s.DETECTION]:
        nodes[node, s.ACCESS_AT] = s.NEVER  # a node about to transmit has not sensed it yet


@inlined
def drop_first(air, node):
    """The first frame of a queue is done with: its row is free."""
    nodes, frames, numbers = air.nodes, air.frames, air.numbers
    frame = nodes[node, s.HEAD]
    nodes[node, s.HEAD] = frames[frame, s.NEXT]
    if nodes[node, s.HEAD] == s.NOBODY:
        nodes[node, s.TAIL] = s.NOBODY
    nodes[node, s.QUEUED] -= 1
    nodes[node, s.ATTEMPTS] = 0
    if not frames[frame, s.FLAGS] & s.ROUTINE:
        numbers[s.UNSENT] -= 1
    frames[frame, s.NEXT] = numbers[s.FREE]
    numbers[s.FREE] = frame


@inlined
def finish(air, node):
    """A frame was sent, or given up: back off before the next."""
    drop_first(air, node)
    air.nodes[node, s.WINDOW] = air.whole[s.SMALLEST_WINDOW]
    air.nodes[node, s.WAITING] = 0
    draw_slots(air, node)


@inlined
def resume(air, node, now):
    """Count a new back-off from now on, if the channel is idle."""
    nodes = air.nodes
    nodes[node, s.ACCESS_AT] = s.NEVER
    if nodes[node, s.IDLE_FROM] != s.NEVER:
        start = max(nodes[node, s.IDLE_FROM], now)
        nodes[node, s.IDLE_FROM] = start
        if nodes[node, s.HEAD] != s.NOBODY:
            wake_at(air, node, start + nodes[node, s.SLOTS] * air.whole[s.SLOT])


@inlined
def retry(air, row, node, now):
    """No acknowledgement came: try again after a longer back-off, or give up; True if so."""
    nodes, numbers, whole = air.nodes, air.numbers, air.whole
    given_up = nodes[node, s.ATTEMPTS] >= whole[s.LIMIT]
    if given_up:
        air.counts[row, s.GIVEN_UP] += 1
        numbers[s.FRAME] = nodes[node, s.HEAD]
        numbers[s.SENDER] = node
        finish(air, node)
    else:
        air.counts[row, s.RETRIES] += 1
        nodes[node, s.WAITING] = 0
        nodes[node, s.WINDOW] = min(2 * nodes[node, s.WINDOW] + 1, whole[s.LARGEST_WINDOW])
        draw_slots(air, node)
    resume(air, node, now)
    return given_up


@inlined
def put(air, row, node, target, airtime, flags, event, now):
    """Put a frame into a node's queue; its row in ``frames``, or NOBODY if the queue is full.

    The caller has made sure that there is a free row.
    """
    nodes, frames, numbers, whole = air.nodes, air.frames, air.numbers, air.whole
    if nodes[node, s.QUEUED] >= whole[s.QUEUE]:
        air.counts[row, s.QUEUE_DROPS] += 1
        return s.NOBODY
    frame = numbers[s.FREE]
    numbers[s.FREE] = frames[frame, s.NEXT]
    frames[frame, s.SOURCE] = node
    frames[frame, s.TARGET] = target
    frames[frame, s.AIRTIME] = airtime
    frames[frame, s.EXPIRES] = s.NEVER if flags & s.LASTING else now + whole[s.LIFETIME]
    frames[frame, s.NEXT] = s.NOBODY
    frames[frame, s.FLAGS] = flags
    frames[frame, s.EVENT] = event
    if not flags & s.ROUTINE:
        numbers[s.UNSENT] += 1
    nodes[node, s.QUEUED] += 1
    if nodes[node, s.TAIL] != s.NOBODY:
        frames[nodes[node, s.TAIL], s.NEXT] = frame
        nodes[node, s.TAIL] = frame
        return frame
    nodes[node, s.HEAD] = frame
    nodes[node, s.TAIL] = frame
    if nodes[node, s.IDLE_FROM] == s.NEVER:
        if nodes[node, s.SLOTS] == 0 and nodes[node, s.SENDING] == s.NOBODY:
            if now < nodes[node, s.BUSY_SINCE] + whole[s.DETECTION]:
                wake_at(air, node, now)  # it has not sensed yet that the channel is taken
            else:
                draw_slots(air, node)
    else:
        at = nodes[node, s.IDLE_FROM] + nodes[node, s.SLOTS] * whole[s.SLOT]
        wake_at(air, node, max(at, now))
    return frame


@kernel
def submit(memory, node, target, airtime, flags, now):
    """Queue a frame of a node, see ``put``; NOBODY also if its radio is off."""
    air = unpack(memory)
    if not air.nodes[node, s.RUNS]:
        return s.NOBODY
    return put(air, now // air.whole[s.BIN], node, target, airtime, flags, s.NOBODY, now)


@kernel
def publish(memory, event, publisher, sequence, now):
    """Begin a flood: queue an event's first frame."""
    air = unpack(memory)
    row = now // air.whole[s.BIN]
    air.events[event, 0] = publisher
    air.events[event, 1] = sequence
    is_first(air.seen, event, publisher)
    air.counts[row, s.SUBMITTED] += 1
    put(air, row, publisher, s.NOBODY, air.whole[s.FLOOD_AIRTIME], 0, event, now)


@kernel
def switch_off(memory, node):
    """A node's radio is off: what it had to send is lost, but for a frame under way."""
    air = unpack(memory)
    nodes = air.nodes
    while nodes[node, s.HEAD] != s.NOBODY and nodes[node, s.HEAD] != nodes[node, s.SENDING]:
        drop_first(air, node)
    nodes[node, s.RUNS] = 0
    nodes[node, s.WAITING] = 0
    nodes[node, s.HEARING] = s.NOBODY
    nodes[node, s.ACKNOWLEDGES] = s.NOBODY
