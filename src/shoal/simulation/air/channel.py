"""The radio channel: who hears what becomes of a transmission. Compiled.

A transmission is sensed by all nodes in range until its end, but not in its first microseconds
(``DETECTION``): a node whose wait for the channel ends then transmits too. A receiver locks to the
first frame that it hears; a frame that overlaps is interference to the first, and lost itself.
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

# Numba compiles global constants, not attributes of modules.
NEVER, NOBODY, IDLE_FROM, ACCESS_AT = s.NEVER, s.NOBODY, s.IDLE_FROM, s.ACCESS_AT
SIGNALS, RESERVED, SENDING, HEARING = s.SIGNALS, s.RESERVED, s.SENDING, s.HEARING
HEARD_SINCE, SPOILT, HEAD, ATTEMPTS = s.HEARD_SINCE, s.SPOILT, s.HEAD, s.ATTEMPTS
WAITING, ACKNOWLEDGES, GARBLED, NEAR = s.WAITING, s.ACKNOWLEDGES, s.GARBLED, s.NEAR
EARS, RUNS, POWER, SIGNAL, DECAY, TARGET = s.EARS, s.RUNS, s.POWER, s.SIGNAL, s.DECAY, s.TARGET
AIRTIME, EXPIRES, STARTED, FLAGS, NUMBER = s.AIRTIME, s.EXPIRES, s.STARTED, s.FLAGS, s.NUMBER
EVENT, ARRIVED, QUIET, NOW, FREE = s.EVENT, s.ARRIVED, s.QUIET, s.NOW, s.FREE
TRANSMISSIONS, NEXT_LOOK, RECEIVERS, FRAME = s.TRANSMISSIONS, s.NEXT_LOOK, s.RECEIVERS, s.FRAME
SENDER, PENDING, LAST, DONE, RECEIVED = s.SENDER, s.PENDING, s.LAST, s.DONE, s.RECEIVED
UNREACHABLE, CROWDED, FULL, NODES, SIFS = s.UNREACHABLE, s.CROWDED, s.FULL, s.NODES, s.SIFS
ACK_AIRTIME, ACK_TIMEOUT, PREAMBLE = s.ACK_AIRTIME, s.ACK_TIMEOUT, s.PREAMBLE
DETECTION, CAPTURE, PROPAGATION, FADING = s.DETECTION, s.CAPTURE, s.PROPAGATION, s.FADING
STEP, BIN, FLOOD_AIRTIME, CAPTURE_OFF = s.STEP, s.BIN, s.FLOOD_AIRTIME, s.CAPTURE_OFF
CAPTURE_STRONGEST, PATH_LOSS, GIVEN, NOISE = s.CAPTURE_STRONGEST, s.PATH_LOSS, s.GIVEN, s.NOISE
SENSED, LOCKED, STRONGER, RATE = s.SENSED, s.LOCKED, s.STRONGER, s.RATE
RECEPTION_KEY, FADING_KEY, EXPIRED = s.RECEPTION_KEY, s.FADING_KEY, s.EXPIRED
SUBMITTED, FRAMES, ACKNOWLEDGEMENTS = s.SUBMITTED, s.FRAMES, s.ACKNOWLEDGEMENTS
RECEPTIONS, COLLISIONS, DEAF, FADED = s.RECEPTIONS, s.COLLISIONS, s.DEAF, s.FADED

EIFS, DIFS = s.EIFS, s.DIFS
LOGS, LOGGED, LOG_START, LOG_SENDER = s.LOGS, s.LOGGED, s.LOG_START, s.LOG_SENDER
LOG_RECEIVER, LOG_INTACT, LOG_KIND = s.LOG_RECEIVER, s.LOG_INTACT, s.LOG_KIND


@inlined
def judge(air, node, interference, now):
    """Add what interference has done to the frame that a receiver is locked to."""
    nodes, levels = air.nodes, air.levels
    noise = air.real[NOISE] + interference
    if noise > 0.0 and nodes[node, SPOILT] == 0:
        ratio = levels[node, SIGNAL] / noise
        header_end = air.frames[nodes[node, HEARING], STARTED] + air.whole[PREAMBLE]
        levels[node, DECAY] += decay(
            ratio, air.real[RATE], nodes[node, HEARD_SINCE], now, header_end
        )
    nodes[node, HEARD_SINCE] = now


@inlined
def lock(air, node, frame, power, now):
    """A receiver begins to read a frame."""
    air.nodes[node, HEARING] = frame
    air.nodes[node, HEARD_SINCE] = now
    air.nodes[node, SPOILT] = 0
    air.levels[node, SIGNAL] = power
    air.levels[node, DECAY] = 0.0


@inlined
def sense(air, row, node, frame, power, now):
    """A transmission begins at a node in range."""
    nodes, levels, real, counts = air.nodes, air.levels, air.real, air.counts
    before = levels[node, POWER]
    levels[node, POWER] = before + power
    nodes[node, SIGNALS] += 1
    if nodes[node, IDLE_FROM] != NEVER and before + power >= real[SENSED]:
        become_busy(air, node, now)
    if not nodes[node, RUNS]:
        return
    if nodes[node, SENDING] != NOBODY:
        if power >= 1.0:
            counts[row, DEAF] += 1
        return
    if nodes[node, HEARING] == NOBODY:
        if power >= 1.0:
            if power >= real[LOCKED] * (real[NOISE] + before):
                lock(air, node, frame, power, now)
            else:
                counts[row, COLLISIONS] += 1
        return
    if air.whole[CAPTURE] == CAPTURE_OFF:
        nodes[node, SPOILT] = 1
    else:
        signal = levels[node, SIGNAL]
        judge(air, node, before - signal, now)
        began = air.frames[nodes[node, HEARING], STARTED]
        noise = real[NOISE] + before + power - signal
        if now < began + air.whole[DETECTION] and signal < real[LOCKED] * noise:
            nodes[node, SPOILT] = 2
        if (
            air.whole[CAPTURE] == CAPTURE_STRONGEST
            and power >= 1.0
            and power >= real[STRONGER] * (real[NOISE] + before)
        ):
            counts[row, COLLISIONS] += 1
            lock(air, node, frame, power, now)
            return
    if power >= 1.0:
        counts[row, COLLISIONS] += 1


@inlined
def begin(air, row, node, frame, now):
    """A node starts to transmit."""
    nodes, frames, gain, ears, whole = air.nodes, air.frames, air.gain, air.ears, air.whole
    number = air.numbers[TRANSMISSIONS]
    air.numbers[TRANSMISSIONS] = number + 1
    frames[frame, STARTED] = now
    frames[frame, NUMBER] = number
    if nodes[node, HEARING] != NOBODY:
        nodes[node, HEARING] = NOBODY
        air.counts[row, DEAF] += 1
    nodes[node, SENDING] = frame
    nodes[node, IDLE_FROM] = NEVER
    if not nodes[node, WAITING]:
        nodes[node, ACCESS_AT] = NEVER
    set_timer(air.heap, whole[NODES] + node, now + frames[frame, AIRTIME])
    count = nodes[node, NEAR]
    nodes[node, EARS] = count
    for k in range(count):
        other = air.near[node, k]
        ears[node, k] = other
        level = power = 1.0
        if whole[PROPAGATION] == PATH_LOSS:
            level = power = gain[node, k]
            if whole[FADING]:
                power *= -math.log1p(-uniform(air.keys[FADING_KEY], number, other))
                level = power
        elif whole[PROPAGATION] == GIVEN:
            level = gain[node, k]
        gain[whole[NODES] + node, k] = level
        sense(air, row, other, frame, power, now)


@inlined
def hear_end(air, row, frame, other, level, now):
    """The frame that a receiver was locked to ends; whether it is intact."""
    nodes, keys = air.nodes, air.keys
    nodes[other, HEARING] = NOBODY
    intact = nodes[other, SPOILT] == 0
    lost = COLLISIONS
    if intact and air.levels[other, DECAY] > 0.0:
        chance = uniform(keys[RECEPTION_KEY], air.frames[frame, NUMBER], other)
        intact = chance < math.exp(-air.levels[other, DECAY])
    if intact and air.whole[PROPAGATION] == GIVEN:
        intact = uniform(keys[FADING_KEY], air.frames[frame, NUMBER], other) < level
        lost = FADED
    garbled = not intact and nodes[other, SPOILT] != 2
    nodes[other, GARBLED] = now + air.whole[EIFS] - air.whole[DIFS] if garbled else 0
    if not intact:
        air.counts[row, lost] += 1
    return intact


@inlined
def is_new(air, row, sender, frame, other, now):
    """An intact frame at a receiver: acknowledge it if need be; whether its node must have it."""
    nodes, frames, whole = air.nodes, air.frames, air.whole
    target = frames[frame, TARGET]
    if frame < whole[NODES]:  # an acknowledgement
        if target == other and nodes[other, WAITING]:
            finish(air, other)
            resume(air, other, now)
        return False
    air.counts[row, RECEPTIONS] += 1
    if target == NOBODY:
        return True
    if target != other:
        until = now + whole[SIFS] + whole[ACK_AIRTIME]
        nodes[other, RESERVED] = max(nodes[other, RESERVED], until)
        return False
    nodes[other, ACKNOWLEDGES] = sender
    set_timer(air.heap, whole[NODES] + other, now + whole[SIFS])
    known = frames[frame, FLAGS] & ARRIVED
    frames[frame, FLAGS] |= ARRIVED
    return not known


@inlined
def write_down(air, node, frame, other, intact):
    """Log the outcome of a frame at a node in range of its sender."""
    place = air.numbers[LOGGED]
    air.numbers[LOGGED] = place + 1
    air.log[place, LOG_START] = air.frames[frame, STARTED]
    air.log[place, LOG_SENDER] = node
    air.log[place, LOG_RECEIVER] = other
    air.log[place, LOG_INTACT] = intact
    kind = 0 if air.frames[frame, TARGET] == NOBODY else 1
    air.log[place, LOG_KIND] = 2 if frame < air.whole[NODES] else kind


@inlined
def end(air, row, node, now):
    """A transmission ends; how many nodes have a new frame, listed in ``out``."""
    nodes, levels, frames, whole = air.nodes, air.levels, air.frames, air.whole
    frame = nodes[node, SENDING]
    nodes[node, SENDING] = NOBODY
    set_timer(air.heap, whole[NODES] + node, NEVER)
    received = 0
    given = whole[PROPAGATION] == GIVEN
    for k in range(nodes[node, EARS]):
        other = air.ears[node, k]
        level = air.gain[whole[NODES] + node, k]
        before = levels[other, POWER]
        nodes[other, SIGNALS] -= 1
        after = before - (1.0 if given else level)
        levels[other, POWER] = after if nodes[other, SIGNALS] else 0.0
        hearing = nodes[other, HEARING]
        if hearing != NOBODY:
            judge(air, other, max(0.0, before - levels[other, SIGNAL]), now)
        intact = hearing == frame and hear_end(air, row, frame, other, level, now)
        if whole[LOGS] and (given or level >= 1.0):
            write_down(air, node, frame, other, intact)
        if intact and is_new(air, row, node, frame, other, now):
            air.out[received] = other
            received += 1
        if (
            nodes[other, IDLE_FROM] == NEVER
            and nodes[other, SENDING] == NOBODY
            and levels[other, POWER] < air.real[SENSED]
        ):
            become_idle(air, other, now)
    if frame >= whole[NODES]:
        air.numbers[FRAME] = frame
        air.numbers[SENDER] = node
        if frames[frame, TARGET] == NOBODY or not nodes[node, RUNS]:
            finish(air, node)
        else:
            nodes[node, WAITING] = 1
            wake_at(air, node, now + whole[ACK_TIMEOUT])
    if levels[node, POWER] < air.real[SENSED]:
        become_idle(air, node, now)
    return received


@inlined
def access(air, row, node, now):
    """A node's turn on the channel has come: transmit the first frame that is not too old."""
    nodes, frames = air.nodes, air.frames
    while (
        nodes[node, HEAD] != NOBODY
        and frames[nodes[node, HEAD], EXPIRES] < now
        and nodes[node, ATTEMPTS] == 0
    ):
        drop_first(air, node)
        air.counts[row, EXPIRED] += 1
    if nodes[node, HEAD] != NOBODY:
        nodes[node, ATTEMPTS] += 1
        air.counts[row, FRAMES] += 1
        begin(air, row, node, nodes[node, HEAD], now)


@inlined
def acknowledge(air, row, node, now):
    """Send the acknowledgement that is due."""
    to = air.nodes[node, ACKNOWLEDGES]
    air.nodes[node, ACKNOWLEDGES] = NOBODY
    set_timer(air.heap, air.whole[NODES] + node, NEVER)
    if to != NOBODY:
        air.frames[node, TARGET] = to
        air.counts[row, ACKNOWLEDGEMENTS] += 1
        begin(air, row, node, node, now)


@kernel
def advance(memory, until):
    """Let everything happen up to and including a time; stop early where a node must act."""
    air = unpack(memory)
    nodes, heap, numbers, whole, pending = air.nodes, air.heap, air.numbers, air.whole, air.pending
    count = whole[NODES]
    row, row_end = 0, 0
    while True:
        timer = heap[0, 0]
        now = heap[2, timer]
        floods = numbers[PENDING] > 0 and pending[0, 0] <= now
        if floods:
            now = pending[0, 0]
        if now > until:
            return DONE
        numbers[NOW] = now
        if now >= row_end:
            row = now // whole[BIN]
            row_end = (row + 1) * whole[BIN]
            if row >= air.counts.shape[0]:
                return FULL
        if floods:
            if numbers[FREE] == NOBODY:
                return FULL
            node, event = pending[0, 2], pending[0, 3]
            drop_first_pending(pending, numbers)
            numbers[LAST] = now
            air.counts[row, SUBMITTED] += 1
            put(air, row, node, NOBODY, whole[FLOOD_AIRTIME], 0, event, now)
            continue
        if numbers[NEXT_LOOK] <= now:
            at = now - now % whole[STEP]
            if look(air, at) > air.near.shape[1]:
                return CROWDED
            numbers[NEXT_LOOK] = at + whole[STEP]
        if timer < count:
            if nodes[timer, ACCESS_AT] != now:
                set_timer(heap, timer, nodes[timer, ACCESS_AT])
                continue
            nodes[timer, ACCESS_AT] = NEVER
            set_timer(heap, timer, NEVER)
            if not nodes[timer, WAITING]:
                access(air, row, timer, now)
            elif retry(air, row, timer, now):
                numbers[LAST] = now
                if not air.frames[numbers[FRAME], FLAGS] & QUIET:
                    return UNREACHABLE
            continue
        node = timer - count
        if nodes[node, SENDING] == NOBODY:
            acknowledge(air, row, node, now)
            continue
        if numbers[PENDING] + nodes[node, EARS] > pending.shape[0]:
            return FULL
        if whole[LOGS] and numbers[LOGGED] + nodes[node, EARS] > air.log.shape[0]:
            return FULL
        event = air.frames[nodes[node, SENDING], EVENT]
        received = end(air, row, node, now)
        if received == 0:
            continue
        numbers[LAST] = now
        if event == NOBODY:
            numbers[RECEIVERS] = received
            return RECEIVED
        for k in range(received):
            if is_first(air.seen, event, air.out[k]):
                pass_on_later(air, air.out[k], event, now)
