"""The radio channel: which nodes sense a transmission, and which receive its frame. Compiled.

Nodes in range sense a transmission until its end, but not in its first microseconds
(``DETECTION``): a node whose wait for the channel ends then transmits too. A receiver locks to the
first frame that it hears. A frame that overlaps is interference to that one, and lost itself.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import math

from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import inlined, kernel, unpack
from shoal.simulation.air.flood import drop_first_pending, is_first, pass_on_later
from shoal.simulation.air.movement import look
from shoal.simulation.air.queueing import (
    become_busy,
    become_idle,
    drop_first,
    finish,
    put,
    resume,
    retry,
    wake_at,
)
from shoal.simulation.air.reception import decay, uniform
from shoal.simulation.air.timers import set_timer


@inlined
def judge(air, node, interference, now):
    """Add up the bit errors since the last call in the frame that a receiver is locked to."""
    nodes, levels = air.nodes, air.levels
    noise = air.real[s.NOISE] + interference
    if noise > 0.0 and nodes[node, s.SPOILT] == 0:
        ratio = levels[node, s.SIGNAL] / noise
        header_end = air.frames[nodes[node, s.HEARING], s.STARTED] + air.whole[s.PREAMBLE]
        levels[node, s.DECAY] += decay(
            ratio, air.real[s.RATE], nodes[node, s.HEARD_SINCE], now, header_end
        )
    nodes[node, s.HEARD_SINCE] = now


@inlined
def lock(air, node, frame, power, now):
    """A receiver begins to read a frame."""
    air.nodes[node, s.HEARING] = frame
    air.nodes[node, s.HEARD_SINCE] = now
    air.nodes[node, s.SPOILT] = 0
    air.levels[node, s.SIGNAL] = power
    air.levels[node, s.DECAY] = 0.0


@inlined
def sense(air, row, node, frame, power, now):
    """A transmission begins at a node in range."""
    nodes, levels, real, counts = air.nodes, air.levels, air.real, air.counts
    before = levels[node, s.POWER]
    levels[node, s.POWER] = before + power
    nodes[node, s.SIGNALS] += 1
    if nodes[node, s.IDLE_FROM] != s.NEVER and before + power >= real[s.SENSED]:
        become_busy(air, node, now)
    if not nodes[node, s.RUNS]:
        return
    if nodes[node, s.SENDING] != s.NOBODY:
        if power >= 1.0:
            counts[row, s.DEAF] += 1
        return
    if nodes[node, s.HEARING] == s.NOBODY:
        if power >= 1.0:
            if power >= real[s.LOCKED] * (real[s.NOISE] + before):
                lock(air, node, frame, power, now)
            else:
                counts[row, s.COLLISIONS] += 1
        return
    if air.whole[s.CAPTURE] == s.CAPTURE_OFF:
        nodes[node, s.SPOILT] = 1
    else:
        signal = levels[node, s.SIGNAL]
        judge(air, node, before - signal, now)
        began = air.frames[nodes[node, s.HEARING], s.STARTED]
        noise = real[s.NOISE] + before + power - signal
        if now < began + air.whole[s.DETECTION] and signal < real[s.LOCKED] * noise:
            nodes[node, s.SPOILT] = 2
        if (
            air.whole[s.CAPTURE] == s.CAPTURE_STRONGEST
            and power >= 1.0
            and power >= real[s.STRONGER] * (real[s.NOISE] + before)
        ):
            counts[row, s.COLLISIONS] += 1
            lock(air, node, frame, power, now)
            return
    if power >= 1.0:
        counts[row, s.COLLISIONS] += 1


@inlined
def begin(air, row, node, frame, now):
    """A node starts to transmit."""
    nodes, frames, gain, ears, whole = air.nodes, air.frames, air.gain, air.ears, air.whole
    number = air.numbers[s.TRANSMISSIONS]
    air.numbers[s.TRANSMISSIONS] = number + 1
    frames[frame, s.STARTED] = now
    frames[frame, s.NUMBER] = number
    if nodes[node, s.HEARING] != s.NOBODY:
        nodes[node, s.HEARING] = s.NOBODY
        air.counts[row, s.DEAF] += 1
    nodes[node, s.SENDING] = frame
    nodes[node, s.IDLE_FROM] = s.NEVER
    if not nodes[node, s.WAITING]:
        nodes[node, s.ACCESS_AT] = s.NEVER
    set_timer(air.heap, whole[s.NODES] + node, now + frames[frame, s.AIRTIME])
    count = nodes[node, s.NEAR]
    nodes[node, s.EARS] = count
    for k in range(count):
        other = air.near[node, k]
        ears[node, k] = other
        level = power = 1.0
        if whole[s.PROPAGATION] == s.PATH_LOSS:
            level = power = gain[node, k]
            if whole[s.FADING]:
                power *= -math.log1p(-uniform(air.keys[s.FADING_KEY], number, other))
                level = power
        elif whole[s.PROPAGATION] == s.GIVEN:
            level = gain[node, k]
        gain[whole[s.NODES] + node, k] = level
        sense(air, row, other, frame, power, now)


@inlined
def hear_end(air, row, frame, other, level, now):
    """The frame that a receiver was locked to ends; whether it is intact."""
    nodes, keys = air.nodes, air.keys
    nodes[other, s.HEARING] = s.NOBODY
    intact = nodes[other, s.SPOILT] == 0
    lost = s.COLLISIONS
    if intact and air.levels[other, s.DECAY] > 0.0:
        chance = uniform(keys[s.RECEPTION_KEY], air.frames[frame, s.NUMBER], other)
        intact = chance < math.exp(-air.levels[other, s.DECAY])
    if intact and air.whole[s.PROPAGATION] == s.GIVEN:
        intact = uniform(keys[s.FADING_KEY], air.frames[frame, s.NUMBER], other) < level
        lost = s.FADED
    garbled = not intact and nodes[other, s.SPOILT] != 2
    nodes[other, s.GARBLED] = now + air.whole[s.EIFS] - air.whole[s.DIFS] if garbled else 0
    if not intact:
        air.counts[row, lost] += 1
    return intact


@inlined
def is_new(air, row, sender, frame, other, now):
    """An intact frame at a receiver: acknowledge it if need be; whether its node must have it."""
    nodes, frames, whole = air.nodes, air.frames, air.whole
    target = frames[frame, s.TARGET]
    if frame < whole[s.NODES]:  # an acknowledgement
        if target == other and nodes[other, s.WAITING]:
            finish(air, other)
            resume(air, other, now)
        return False
    air.counts[row, s.RECEPTIONS] += 1
    if target == s.NOBODY:
        return True
    if target != other:
        until = now + whole[s.SIFS] + whole[s.ACK_AIRTIME]
        nodes[other, s.RESERVED] = max(nodes[other, s.RESERVED], until)
        return False
    nodes[other, s.ACKNOWLEDGES] = sender
    set_timer(air.heap, whole[s.NODES] + other, now + whole[s.SIFS])
    known = frames[frame, s.FLAGS] & s.ARRIVED
    frames[frame, s.FLAGS] |= s.ARRIVED
    return not known


@inlined
def write_down(air, node, frame, other, intact):
    """Log the outcome of a frame at a node in range of its sender."""
    place = air.numbers[s.LOGGED]
    air.numbers[s.LOGGED] = place + 1
    air.log[place, s.LOG_START] = air.frames[frame, s.STARTED]
    air.log[place, s.LOG_SENDER] = node
    air.log[place, s.LOG_RECEIVER] = other
    air.log[place, s.LOG_INTACT] = intact
    kind = 0 if air.frames[frame, s.TARGET] == s.NOBODY else 1
    air.log[place, s.LOG_KIND] = 2 if frame < air.whole[s.NODES] else kind


@inlined
def end(air, row, node, now):
    """A transmission ends; how many nodes have a new frame, listed in ``out``."""
    nodes, levels, frames, whole = air.nodes, air.levels, air.frames, air.whole
    frame = nodes[node, s.SENDING]
    nodes[node, s.SENDING] = s.NOBODY
    set_timer(air.heap, whole[s.NODES] + node, s.NEVER)
    received = 0
    given = whole[s.PROPAGATION] == s.GIVEN
    for k in range(nodes[node, s.EARS]):
        other = air.ears[node, k]
        level = air.gain[whole[s.NODES] + node, k]
        before = levels[other, s.POWER]
        nodes[other, s.SIGNALS] -= 1
        after = before - (1.0 if given else level)
        levels[other, s.POWER] = after if nodes[other, s.SIGNALS] else 0.0
        hearing = nodes[other, s.HEARING]
        if hearing != s.NOBODY:
            judge(air, other, max(0.0, before - levels[other, s.SIGNAL]), now)
        intact = hearing == frame and hear_end(air, row, frame, other, level, now)
        if whole[s.LOGS] and (given or level >= 1.0):
            write_down(air, node, frame, other, intact)
        if intact and is_new(air, row, node, frame, other, now):
            air.out[received] = other
            received += 1
        if (
            nodes[other, s.IDLE_FROM] == s.NEVER
            and nodes[other, s.SENDING] == s.NOBODY
            and levels[other, s.POWER] < air.real[s.SENSED]
        ):
            become_idle(air, other, now)
    if frame >= whole[s.NODES]:
        air.numbers[s.FRAME] = frame
        air.numbers[s.SENDER] = node
        if frames[frame, s.TARGET] == s.NOBODY or not nodes[node, s.RUNS]:
            finish(air, node)
        else:
            nodes[node, s.WAITING] = 1
            wake_at(air, node, now + whole[s.ACK_TIMEOUT])
    if levels[node, s.POWER] < air.real[s.SENSED]:
        become_idle(air, node, now)
    return received


@inlined
def access(air, row, node, now):
    """A node's turn on the channel has come: transmit the first frame that is not too old."""
    nodes, frames = air.nodes, air.frames
    while (
        nodes[node, s.HEAD] != s.NOBODY
        and frames[nodes[node, s.HEAD], s.EXPIRES] < now
        and nodes[node, s.ATTEMPTS] == 0
    ):
        drop_first(air, node)
        air.counts[row, s.EXPIRED] += 1
    if nodes[node, s.HEAD] != s.NOBODY:
        nodes[node, s.ATTEMPTS] += 1
        air.counts[row, s.FRAMES] += 1
        begin(air, row, node, nodes[node, s.HEAD], now)


@inlined
def acknowledge(air, row, node, now):
    """Send the acknowledgement that is due."""
    to = air.nodes[node, s.ACKNOWLEDGES]
    air.nodes[node, s.ACKNOWLEDGES] = s.NOBODY
    set_timer(air.heap, air.whole[s.NODES] + node, s.NEVER)
    if to != s.NOBODY:
        air.frames[node, s.TARGET] = to
        air.counts[row, s.ACKNOWLEDGEMENTS] += 1
        begin(air, row, node, node, now)


@inlined
def go_on(air, until):
    """As :func:`advance`, on the unpacked arrays."""
    nodes, heap, numbers, whole, pending = air.nodes, air.heap, air.numbers, air.whole, air.pending
    count = whole[s.NODES]
    row, row_end = 0, 0
    while True:
        timer = heap[0, 0]
        now = heap[2, timer]
        floods = numbers[s.PENDING] > 0 and pending[0, 0] <= now
        if floods:
            now = pending[0, 0]
        if now > until:
            return s.DONE
        numbers[s.NOW] = now
        if now >= row_end:
            row = now // whole[s.BIN]
            row_end = (row + 1) * whole[s.BIN]
            if row >= air.counts.shape[0]:
                return s.FULL
        if floods:
            if numbers[s.FREE] == s.NOBODY:
                return s.FULL
            node, event = pending[0, 2], pending[0, 3]
            drop_first_pending(pending, numbers)
            numbers[s.LAST] = now
            air.counts[row, s.SUBMITTED] += 1
            put(air, row, node, s.NOBODY, whole[s.FLOOD_AIRTIME], 0, event, now)
            continue
        if numbers[s.NEXT_LOOK] <= now:
            at = now - now % whole[s.STEP]
            if look(air, at) > air.near.shape[1]:
                return s.CROWDED
            numbers[s.NEXT_LOOK] = at + whole[s.STEP]
        if timer < count:
            if nodes[timer, s.ACCESS_AT] != now:
                set_timer(heap, timer, nodes[timer, s.ACCESS_AT])
                continue
            nodes[timer, s.ACCESS_AT] = s.NEVER
            set_timer(heap, timer, s.NEVER)
            if not nodes[timer, s.WAITING]:
                access(air, row, timer, now)
            elif retry(air, row, timer, now):
                numbers[s.LAST] = now
                if not air.frames[numbers[s.FRAME], s.FLAGS] & s.QUIET:
                    return s.UNREACHABLE
            continue
        node = timer - count
        if nodes[node, s.SENDING] == s.NOBODY:
            acknowledge(air, row, node, now)
            continue
        if numbers[s.PENDING] + nodes[node, s.EARS] > pending.shape[0]:
            return s.FULL
        if whole[s.LOGS] and numbers[s.LOGGED] + nodes[node, s.EARS] > air.log.shape[0]:
            return s.FULL
        event = air.frames[nodes[node, s.SENDING], s.EVENT]
        received = end(air, row, node, now)
        if received == 0:
            continue
        numbers[s.LAST] = now
        if event == s.NOBODY:
            numbers[s.RECEIVERS] = received
            return s.RECEIVED
        for k in range(received):
            if is_first(air.seen, event, air.out[k]):
                pass_on_later(air, air.out[k], event, now)


@kernel
def advance(memory, until):
    """Go on up to and including a time, or until a node must act; returns why it stopped."""
    air = unpack(memory)
    outcome = go_on(air, until)
    at = air.heap[2, air.heap[0, 0]]
    if air.numbers[s.PENDING] > 0 and air.pending[0, 0] < at:
        at = air.pending[0, 0]
    air.numbers[s.NEXT_AT] = at
    return outcome
