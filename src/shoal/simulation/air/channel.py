"""The radio channel and 802.11's distributed coordination function, on arrays. Compiled.

A transmission is sensed by all nodes in range from its start to its end, without delay. A node with
a frame to send waits until the channel has been idle for DIFS (EIFS after a frame that it could not
read) and a random number of slots, which it counts while the channel is idle only. Nodes whose wait
ends at the same instant transmit at the same instant. A receiver locks to the first frame that it
hears; what overlaps with that is interference to it, and lost itself.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import math

from shoal.simulation.air.movement import look
from shoal.simulation.air.reception import below, decay, kernel, uniform
from shoal.simulation.air.state import (
    ACCESS_AT,
    ACK_AIRTIME,
    ACK_TIMEOUT,
    ACKNOWLEDGEMENTS,
    ACKNOWLEDGES,
    AIRTIME,
    ARRIVED,
    ATTEMPTS,
    BACKOFF_KEY,
    BIN,
    CAPTURE,
    CAPTURE_OFF,
    CAPTURE_STRONGEST,
    COLLISIONS,
    CROWDED,
    DEAF,
    DECAY,
    DETECTION,
    DIFS,
    DONE,
    DRAWN,
    EARS,
    EIFS,
    EVENT,
    EXPIRED,
    EXPIRES,
    FADED,
    FADING,
    FADING_KEY,
    FLAGS,
    FRAME,
    FRAMES,
    FREE,
    FULL,
    GARBLED,
    GIVEN,
    GIVEN_UP,
    HEAD,
    HEARD_SINCE,
    HEARING,
    IDLE_FROM,
    LARGEST_WINDOW,
    LASTING,
    LIFETIME,
    LIMIT,
    LOCKED,
    NEAR,
    NEVER,
    NEXT,
    NEXT_LOOK,
    NOBODY,
    NODES,
    NOISE,
    NOW,
    NUMBER,
    PATH_LOSS,
    POWER,
    PREAMBLE,
    PROPAGATION,
    QUEUE,
    QUEUE_DROPS,
    QUEUED,
    QUIET,
    RATE,
    RECEIVED,
    RECEIVERS,
    RECEPTION_KEY,
    RECEPTIONS,
    RESERVED,
    RETRIES,
    ROUTINE,
    RUNS,
    SENDER,
    SENDING,
    SENSED,
    SIFS,
    SIGNAL,
    SIGNALS,
    SLOT,
    SLOTS,
    SMALLEST_WINDOW,
    SOURCE,
    SPOILT,
    STARTED,
    STEP,
    STRONGER,
    TAIL,
    TARGET,
    TRANSMISSIONS,
    UNREACHABLE,
    UNSENT,
    WAITING,
    WINDOW,
)
from shoal.simulation.air.timers import set_timer


@kernel
def draw_slots(nodes, whole, keys, node):
    """A new back-off."""
    nodes[node, DRAWN] += 1
    limit = nodes[node, WINDOW] + 1
    nodes[node, SLOTS] = below(keys[BACKOFF_KEY], limit, node, nodes[node, DRAWN])


@kernel
def wake_at(nodes, heap, times, node, at):
    """The node may transmit at a time; its timer need not be told of a later one."""
    nodes[node, ACCESS_AT] = at
    if at < times[node]:
        set_timer(heap, times, node, at)


@kernel
def become_idle(nodes, whole, heap, times, node, now):
    """The channel is free: go on counting slots after DIFS or EIFS."""
    gap = whole[EIFS] if nodes[node, GARBLED] else whole[DIFS]
    start = max(now, nodes[node, RESERVED]) + gap
    nodes[node, IDLE_FROM] = start
    if not nodes[node, WAITING] and nodes[node, HEAD] != NOBODY:
        wake_at(nodes, heap, times, node, start + nodes[node, SLOTS] * whole[SLOT])


@kernel
def become_busy(nodes, whole, keys, node, now):
    """The channel is taken: keep the slots that are left."""
    passed = now - nodes[node, IDLE_FROM]
    slots = nodes[node, SLOTS]
    if passed > 0 and slots:
        nodes[node, SLOTS] = slots - min(slots, passed // whole[SLOT])
    nodes[node, IDLE_FROM] = NEVER
    if not nodes[node, WAITING] and nodes[node, ACCESS_AT] != now:
        nodes[node, ACCESS_AT] = NEVER
        if nodes[node, SLOTS] == 0 and nodes[node, HEAD] != NOBODY:
            draw_slots(nodes, whole, keys, node)


@kernel
def drop_first(nodes, frames, numbers, node):
    """The first frame of a queue is done with: its row is free."""
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


@kernel
def finish(nodes, frames, numbers, whole, keys, node):
    """A frame was sent, or given up: back off before the next."""
    drop_first(nodes, frames, numbers, node)
    nodes[node, WINDOW] = whole[SMALLEST_WINDOW]
    nodes[node, WAITING] = 0
    draw_slots(nodes, whole, keys, node)


@kernel
def resume(nodes, whole, heap, times, node, now):
    """A back-off was drawn while the channel may be idle already."""
    if nodes[node, IDLE_FROM] == NEVER:
        nodes[node, ACCESS_AT] = NEVER
        return
    nodes[node, IDLE_FROM] = max(nodes[node, IDLE_FROM], now)
    if nodes[node, HEAD] == NOBODY:
        nodes[node, ACCESS_AT] = NEVER
    else:
        at = nodes[node, IDLE_FROM] + nodes[node, SLOTS] * whole[SLOT]
        wake_at(nodes, heap, times, node, at)


@kernel
def submit(
    nodes, frames, heap, times, numbers, whole, keys, counts, node, target, airtime, flags, now
):
    """Put a frame into a node's queue; its row, or NOBODY if the queue is full.

    The caller has made sure that there is a free row.
    """
    if nodes[node, QUEUED] >= whole[QUEUE]:
        counts[now // whole[BIN], QUEUE_DROPS] += 1
        return NOBODY
    frame = numbers[FREE]
    numbers[FREE] = frames[frame, NEXT]
    frames[frame, SOURCE] = node
    frames[frame, TARGET] = target
    frames[frame, AIRTIME] = airtime
    frames[frame, EXPIRES] = NEVER if flags & LASTING else now + whole[LIFETIME]
    frames[frame, NEXT] = NOBODY
    frames[frame, FLAGS] = flags
    frames[frame, EVENT] = NOBODY
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
            draw_slots(nodes, whole, keys, node)
    else:
        at = nodes[node, IDLE_FROM] + nodes[node, SLOTS] * whole[SLOT]
        wake_at(nodes, heap, times, node, max(at, now))
    return frame


@kernel
def switch_off(nodes, frames, numbers, node):
    """A node's radio is off: what it had to send is lost."""
    while nodes[node, HEAD] != NOBODY and nodes[node, HEAD] != nodes[node, SENDING]:
        drop_first(nodes, frames, numbers, node)
    nodes[node, RUNS] = 0
    nodes[node, WAITING] = 0
    nodes[node, HEARING] = NOBODY
    nodes[node, ACKNOWLEDGES] = NOBODY


@kernel
def judge(nodes, levels, frames, whole, real, node, interference, now):
    """Add what interference has done to the frame that a receiver is locked to."""
    noise = real[NOISE] + interference
    if noise > 0.0 and nodes[node, SPOILT] == 0:
        frame = nodes[node, HEARING]
        ratio = levels[node, SIGNAL] / noise
        preamble_end = frames[frame, STARTED] + whole[PREAMBLE]
        levels[node, DECAY] += decay(ratio, real[RATE], nodes[node, HEARD_SINCE], now, preamble_end)
    nodes[node, HEARD_SINCE] = now


@kernel
def lock(nodes, levels, node, frame, power, now):
    """A receiver begins to read a frame."""
    nodes[node, HEARING] = frame
    nodes[node, HEARD_SINCE] = now
    nodes[node, SPOILT] = 0
    levels[node, SIGNAL] = power
    levels[node, DECAY] = 0.0


@kernel
def sense(nodes, levels, frames, whole, real, keys, counts, row, node, frame, power, now):
    """A transmission begins at a node in range."""
    before = levels[node, POWER]
    levels[node, POWER] = before + power
    nodes[node, SIGNALS] += 1
    if nodes[node, IDLE_FROM] != NEVER and before + power >= real[SENSED]:
        become_busy(nodes, whole, keys, node, now)
    if not nodes[node, RUNS]:
        return
    if nodes[node, SENDING] != NOBODY:
        if power >= 1.0:
            counts[row, DEAF] += 1
        return
    if nodes[node, HEARING] == NOBODY:
        if power >= 1.0:
            if power >= real[LOCKED] * (real[NOISE] + before):
                lock(nodes, levels, node, frame, power, now)
            else:
                counts[row, COLLISIONS] += 1
        return
    signal = levels[node, SIGNAL]
    if whole[CAPTURE] == CAPTURE_OFF:
        nodes[node, SPOILT] = 1
    else:
        judge(nodes, levels, frames, whole, real, node, before - signal, now)
        began = frames[nodes[node, HEARING], STARTED]
        noise = real[NOISE] + before + power - signal
        if now < began + whole[DETECTION] and signal < real[LOCKED] * noise:
            nodes[node, SPOILT] = 2
        if (
            whole[CAPTURE] == CAPTURE_STRONGEST
            and power >= 1.0
            and power >= real[STRONGER] * (real[NOISE] + before)
        ):
            counts[row, COLLISIONS] += 1
            lock(nodes, levels, node, frame, power, now)
            return
    if power >= 1.0:
        counts[row, COLLISIONS] += 1


@kernel
def begin(
    nodes,
    levels,
    frames,
    near,
    gain,
    ears,
    heap,
    times,
    numbers,
    whole,
    real,
    keys,
    counts,
    row,
    node,
    frame,
    now,
):
    """A node starts to transmit."""
    number = numbers[TRANSMISSIONS]
    numbers[TRANSMISSIONS] = number + 1
    frames[frame, STARTED] = now
    frames[frame, NUMBER] = number
    if nodes[node, HEARING] != NOBODY:
        nodes[node, HEARING] = NOBODY
        counts[row, DEAF] += 1
    nodes[node, SENDING] = frame
    nodes[node, IDLE_FROM] = NEVER
    if not nodes[node, WAITING]:
        nodes[node, ACCESS_AT] = NEVER
    set_timer(heap, times, whole[NODES] + node, now + frames[frame, AIRTIME])
    count = nodes[node, NEAR]
    nodes[node, EARS] = count
    for k in range(count):
        other = near[node, k]
        power = 1.0
        if whole[PROPAGATION] == PATH_LOSS:
            power = gain[node, k]
            if whole[FADING]:
                power *= -math.log1p(-uniform(keys[FADING_KEY], number, other))
        gain[whole[NODES] + node, k] = power if whole[PROPAGATION] != GIVEN else gain[node, k]
        ears[node, k] = other
        sense(nodes, levels, frames, whole, real, keys, counts, row, other, frame, power, now)


@kernel
def end(
    nodes,
    levels,
    frames,
    gain,
    ears,
    heap,
    times,
    numbers,
    whole,
    real,
    keys,
    counts,
    row,
    node,
    now,
    out,
):
    """A transmission ends; how many nodes have a new frame, listed in ``out``."""
    frame = nodes[node, SENDING]
    target = frames[frame, TARGET]
    is_ack = frame < whole[NODES]
    nodes[node, SENDING] = NOBODY
    set_timer(heap, times, whole[NODES] + node, NEVER)
    received = 0
    given = whole[PROPAGATION] == GIVEN
    for k in range(nodes[node, EARS]):
        other = ears[node, k]
        level = gain[whole[NODES] + node, k]
        power = 1.0 if given else level
        before = levels[other, POWER]
        nodes[other, SIGNALS] -= 1
        levels[other, POWER] = before - power if nodes[other, SIGNALS] else 0.0
        hearing = nodes[other, HEARING]
        if hearing != NOBODY:
            interference = before - levels[other, SIGNAL]
            judge(nodes, levels, frames, whole, real, other, max(0.0, interference), now)
        if hearing == frame:
            nodes[other, HEARING] = NOBODY
            intact = nodes[other, SPOILT] == 0
            lost = COLLISIONS
            if intact and levels[other, DECAY] > 0.0:
                chance = uniform(keys[RECEPTION_KEY], frames[frame, NUMBER], other)
                intact = chance < math.exp(-levels[other, DECAY])
            if intact and given:
                intact = uniform(keys[FADING_KEY], frames[frame, NUMBER], other) < level
                lost = FADED
            nodes[other, GARBLED] = not intact and nodes[other, SPOILT] != 2
            if not intact:
                counts[row, lost] += 1
            elif is_ack:
                if target == other and nodes[other, WAITING]:
                    finish(nodes, frames, numbers, whole, keys, other)
                    resume(nodes, whole, heap, times, other, now)
            else:
                counts[row, RECEPTIONS] += 1
                if target == NOBODY:
                    out[received] = other
                    received += 1
                elif target == other:
                    nodes[other, ACKNOWLEDGES] = node
                    set_timer(heap, times, whole[NODES] + other, now + whole[SIFS])
                    if not frames[frame, FLAGS] & ARRIVED:
                        frames[frame, FLAGS] |= ARRIVED
                        out[received] = other
                        received += 1
                else:
                    until = now + whole[SIFS] + whole[ACK_AIRTIME]
                    nodes[other, RESERVED] = max(nodes[other, RESERVED], until)
        if (
            nodes[other, IDLE_FROM] == NEVER
            and nodes[other, SENDING] == NOBODY
            and levels[other, POWER] < real[SENSED]
        ):
            become_idle(nodes, whole, heap, times, other, now)
    if not is_ack:
        numbers[FRAME] = frame
        numbers[SENDER] = node
        if target == NOBODY or not nodes[node, RUNS]:
            finish(nodes, frames, numbers, whole, keys, node)
        else:
            nodes[node, WAITING] = 1
            wake_at(nodes, heap, times, node, now + whole[ACK_TIMEOUT])
    if levels[node, POWER] < real[SENSED]:
        become_idle(nodes, whole, heap, times, node, now)
    return received


@kernel
def retry(nodes, frames, heap, times, numbers, whole, keys, counts, row, node, now):
    """No acknowledgement came: try again after a longer back-off; whether to tell it is vain."""
    frame = nodes[node, HEAD]
    vain = nodes[node, ATTEMPTS] >= whole[LIMIT]
    if vain:
        counts[row, GIVEN_UP] += 1
        numbers[FRAME] = frame
        numbers[SENDER] = node
        finish(nodes, frames, numbers, whole, keys, node)
        vain = not frames[frame, FLAGS] & QUIET
    else:
        counts[row, RETRIES] += 1
        nodes[node, WAITING] = 0
        nodes[node, WINDOW] = min(2 * nodes[node, WINDOW] + 1, whole[LARGEST_WINDOW])
        draw_slots(nodes, whole, keys, node)
    resume(nodes, whole, heap, times, node, now)
    return vain


@kernel
def advance(
    nodes,
    levels,
    frames,
    near,
    gain,
    ears,
    heap,
    times,
    numbers,
    whole,
    real,
    keys,
    counts,
    out,
    places,
    legs,
    until,
):
    """Let everything happen up to and including a time; stop early where a node must act."""
    count = whole[NODES]
    row, row_end = 0, 0
    while True:
        timer = heap[0, 0]
        now = times[timer]
        if now > until:
            numbers[NOW] = max(numbers[NOW], until)
            return DONE
        if now >= row_end:
            row = now // whole[BIN]
            row_end = (row + 1) * whole[BIN]
            if row >= counts.shape[0]:
                return FULL
        if numbers[NEXT_LOOK] <= now:
            at = now - now % whole[STEP]
            if look(nodes, near, gain, places, legs, whole, real, at) > near.shape[1]:
                return CROWDED
            numbers[NEXT_LOOK] = at + whole[STEP]
        if timer < count:
            if nodes[timer, ACCESS_AT] != now:
                set_timer(heap, times, timer, nodes[timer, ACCESS_AT])
                continue
            numbers[NOW] = now
            nodes[timer, ACCESS_AT] = NEVER
            set_timer(heap, times, timer, NEVER)
            if nodes[timer, WAITING]:
                if retry(nodes, frames, heap, times, numbers, whole, keys, counts, row, timer, now):
                    return UNREACHABLE
                continue
            while (
                nodes[timer, HEAD] != NOBODY
                and frames[nodes[timer, HEAD], EXPIRES] < now
                and nodes[timer, ATTEMPTS] == 0
            ):
                drop_first(nodes, frames, numbers, timer)
                counts[row, EXPIRED] += 1
            frame = nodes[timer, HEAD]
            if frame == NOBODY:
                continue
            nodes[timer, ATTEMPTS] += 1
            counts[row, FRAMES] += 1
            begin(
                nodes,
                levels,
                frames,
                near,
                gain,
                ears,
                heap,
                times,
                numbers,
                whole,
                real,
                keys,
                counts,
                row,
                timer,
                frame,
                now,
            )
            continue
        node = timer - count
        numbers[NOW] = now
        if nodes[node, SENDING] == NOBODY:
            set_timer(heap, times, timer, NEVER)
            to = nodes[node, ACKNOWLEDGES]
            nodes[node, ACKNOWLEDGES] = NOBODY
            if to != NOBODY:
                frames[node, TARGET] = to
                counts[row, ACKNOWLEDGEMENTS] += 1
                begin(
                    nodes,
                    levels,
                    frames,
                    near,
                    gain,
                    ears,
                    heap,
                    times,
                    numbers,
                    whole,
                    real,
                    keys,
                    counts,
                    row,
                    node,
                    node,
                    now,
                )
            continue
        received = end(
            nodes,
            levels,
            frames,
            gain,
            ears,
            heap,
            times,
            numbers,
            whole,
            real,
            keys,
            counts,
            row,
            node,
            now,
            out,
        )
        if received:
            numbers[RECEIVERS] = received
            return RECEIVED
