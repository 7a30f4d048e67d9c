"""Advances all events in flight up to the next control event. Compiled, cached on disk.

Messages are handled in the order (instant, number of posting), as the object kernel does.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.rules import choose_links, lost, mix, overlap
from shoal.simulation.dataplane.state import Ints, Longs, Rule, State

DONE, BIN, FULL_QUEUE, FULL_LOG, TWICE = s.DONE, s.BIN, s.FULL_QUEUE, s.FULL_LOG, s.TWICE
EVENT_FORWARDING, FLOODING = s.EVENT_FORWARDING, s.FLOODING
TABLE_FORWARDING, SEMI_PROBABILISTIC = s.TABLE_FORWARDING, s.SEMI_PROBABILISTIC
NOW, ORDER, HEAD, TAIL, HEAP = s.NOW, s.ORDER, s.HEAD, s.TAIL, s.HEAP
NEXT, NEXT_ORDER, FREE_PLACES = s.NEXT, s.NEXT_ORDER, s.FREE_PLACES
HANDLED, LOST, SENT, MISROUTED, REACHED = s.HANDLED, s.LOST, s.SENT, s.MISROUTED, s.REACHED
UNLINKED, DELIVERIES, MESSAGES = s.UNLINKED, s.DELIVERIES, s.MESSAGES
VERSION, COMPONENTS, DUE = s.VERSION, s.COMPONENTS, s.DUE
DUPLICATES, ENDS = s.DUPLICATES, s.ENDS
WRONG_EVENT, WRONG_NODE = s.WRONG_EVENT, s.WRONG_NODE
NEVER = 1 << 62


@njit(cache=True)
def push(heap: Longs, what: Ints, size: int, at, order, channel, event, hops, deterministic):  # type: ignore[no-untyped-def]  # noqa: PLR0913, E501  # numba
    """Put a message on the heap."""
    i = size
    while i:
        up = (i - 1) >> 1
        if heap[up, 0] < at or (heap[up, 0] == at and heap[up, 1] < order):
            break
        heap[i] = heap[up]
        what[i] = what[up]
        i = up
    heap[i, 0] = at
    heap[i, 1] = order
    what[i, 0] = channel
    what[i, 1] = event
    what[i, 2] = hops
    what[i, 3] = deterministic


@njit(cache=True)
def drop_top(heap: Longs, what: Ints, size: int) -> None:
    """Take the earliest message off a heap of ``size``; it must have been read."""
    last = size - 1
    at = heap[last, 0]
    order = heap[last, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            heap[right, 0] < heap[child, 0]
            or (heap[right, 0] == heap[child, 0] and heap[right, 1] < heap[child, 1])
        ):
            child = right
        if at < heap[child, 0] or (at == heap[child, 0] and order < heap[child, 1]):
            break
        heap[i] = heap[child]
        what[i] = what[child]
        i = child
    heap[i] = heap[last]
    what[i] = what[last]


@njit(cache=True)
def set_of_receivers(state: State, event: int, row, owes_publisher: bool) -> None:  # type: ignore[no-untyped-def]  # numba
    """Who wants an event, as things are."""
    events = state.events
    row[:] = np.uint64(0)
    for i in range(events.start[event], events.end[event]):
        wanting = state.subscribers[events.numbers[i]]
        for w in range(len(row)):
            row[w] |= wanting[w]
    if not owes_publisher:
        node = events.publisher[event]
        row[node >> 6] &= ~(np.uint64(1) << np.uint64(node & 63))


@njit(cache=True)
def count_reachable(state: State, event: int) -> int:
    """How many of those owed links lead to."""
    owed = state.events.owed[event]
    component = state.nodes.component
    here = component[state.events.publisher[event]]
    alone = state.now[COMPONENTS] == 1
    count = 0
    for w in range(len(owed)):
        word = owed[w]
        while word:
            low = word & (~word + np.uint64(1))
            word ^= low
            if alone:
                count += 1
                continue
            bit = 0
            while low > np.uint64(1):
                low >>= np.uint64(1)
                bit += 1
            if component[64 * w + bit] == here:
                count += 1
    return count


@njit(cache=True)
def send(rule: Rule, state: State, bin_number, node, k, event, hops, deterministic):  # type: ignore[no-untyped-def]  # numba
    """One message over one slot's channel."""
    now = state.now
    channel = state.nodes.channel[node, k]
    if channel < 0:
        now[UNLINKED] += 1
        return
    channels = state.channels
    events = state.events
    now[SENT] += 1
    target = channels.target[channel]
    if state.nodes.last_bin[target] != bin_number:
        state.nodes.last_bin[target] = bin_number
        now[REACHED] += 1
    if rule.tree:
        if events.version[event] != now[VERSION]:
            events.version[event] = now[VERSION]
            set_of_receivers(state, event, events.wanted[event], rule.owes_publisher)
        if not overlap(events.wanted[event], channels.beyond[channel]):
            now[MISROUTED] += 1
    if rule.keeps_messages:
        row = now[MESSAGES]
        state.logs.message_time[row] = now[NOW]
        state.logs.message[row, 0] = channel
        state.logs.message[row, 1] = event
        state.logs.message[row, 2] = hops
        state.logs.message[row, 3] = deterministic
        now[MESSAGES] = row + 1
    at = now[NOW]
    if rule.transmission:
        if channels.free_at[channel] > at:
            at = channels.free_at[channel]
        at += rule.transmission
        channels.free_at[channel] = at
    at += channels.delay[channel]
    if channels.quality[channel] < 1.0 and lost(
        rule.loss_key,
        events.publisher[event],
        events.sequence[event],
        node,
        target,
        channels.quality[channel],
    ):
        now[LOST] += 1
        return
    order = now[ORDER]
    now[ORDER] = order + 1
    events.in_flight[event] += 1
    flights = state.flights
    if at == now[NOW] + rule.usual:
        tail = now[TAIL]
        place = tail & (len(flights.ring) - 1)
        flights.ring[place, 0] = at
        flights.ring[place, 1] = order
        flights.ring_what[place, 0] = channel
        flights.ring_what[place, 1] = event
        flights.ring_what[place, 2] = hops
        flights.ring_what[place, 3] = deterministic
        now[TAIL] = tail + 1
    else:
        size = now[HEAP]
        push(
            flights.heap, flights.heap_what, size, at, order, channel, event, hops, deterministic
        )
        now[HEAP] = size + 1


@njit(cache=True)
def deliver(rule: Rule, state: State, node, event, hops):  # type: ignore[no-untyped-def]  # numba infers the types
    """Hand an event to the application; False if it had it already."""
    bit = np.uint64(1) << np.uint64(node & 63)
    received = state.events.received[event]
    now = state.now
    if received[node >> 6] & bit:
        now[WRONG_EVENT] = event
        now[WRONG_NODE] = node
        return False
    received[node >> 6] |= bit
    if rule.keeps_deliveries:
        row = now[DELIVERIES]
        state.logs.delivery_time[row] = now[NOW]
        state.logs.delivery[row, 0] = event
        state.logs.delivery[row, 1] = node
        state.logs.delivery[row, 2] = hops
        now[DELIVERIES] = row + 1
    return True


@njit(cache=True)
def take(rule: Rule, state: State, bin_number, node, sender, event, hops, deterministic):  # type: ignore[no-untyped-def]  # numba
    """A node takes an event: delivers it if wanted here, and sends it on. False: delivered twice."""
    nodes = state.nodes
    bits = state.events.bits[event]
    if overlap(nodes.local[node], bits) and not deliver(rule, state, node, event, hops):
        return False
    if rule.kind == SEMI_PROBABILISTIC:
        now = state.now
        chosen = 0
        may_follow = deterministic < rule.ttl_deterministic
        may_guess = hops - deterministic < rule.ttl_probabilistic
        if hops < rule.ttl and not (rule.either and not (may_follow and may_guess)):
            chosen, known = choose_links(
                nodes, state.events, state.picks, node, sender, event, may_follow, may_guess
            )
            for i in range(chosen):
                further = deterministic + 1 if i < known else deterministic
                send(rule, state, bin_number, node, state.picks[i], event, hops + 1, further)
        if chosen == 0:
            now[ENDS] += 1
            now[ENDS + 1] += hops
            now[ENDS + 2] += deterministic
    elif rule.kind == TABLE_FORWARDING:
        for k in range(nodes.slots[node]):
            if nodes.source[node, k] != sender and overlap(nodes.mask[node, k, 0], bits):
                send(rule, state, bin_number, node, k, event, hops + 1, 0)
    else:
        for k in range(nodes.slots[node]):
            if nodes.source[node, k] != sender:
                send(rule, state, bin_number, node, k, event, hops + 1, 0)
    return True


@njit(cache=True)
def first_visit(state: State, node, event) -> bool:  # type: ignore[no-untyped-def]  # numba infers the types
    """Mark a node as visited by an event; False if it was."""
    row = state.seen[state.events.place[event]]
    bit = np.uint64(1) << np.uint64(node & 63)
    if row[node >> 6] & bit:
        return False
    row[node >> 6] |= bit
    return True


@njit(cache=True)
def leave(state: State, event) -> None:  # type: ignore[no-untyped-def]  # numba infers the types
    """After its last message an event needs no memory of where it was."""
    place = state.events.place[event]
    state.seen[place] = np.uint64(0)
    state.places[state.now[FREE_PLACES]] = place
    state.now[FREE_PLACES] += 1


@njit(cache=True)
def publish(rule: Rule, state: State, bin_number, event) -> bool:  # type: ignore[no-untyped-def]  # numba
    """An application publishes. False: delivered twice."""
    events = state.events
    now = state.now
    node = events.publisher[event]
    for i in range(events.start[event], events.end[event]):
        number = events.numbers[i]
        events.bits[event, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    set_of_receivers(state, event, events.owed[event], rule.owes_publisher)
    events.reachable[event] = count_reachable(state, event)
    if rule.tree:
        events.version[event] = now[VERSION]
        events.wanted[event] = events.owed[event]
    word = mix(rule.key ^ np.uint64(node))
    events.draws[event] = mix(word ^ np.uint64(events.sequence[event]))
    now[FREE_PLACES] -= 1
    events.place[event] = state.places[now[FREE_PLACES]]
    first_visit(state, node, event)
    if not take(rule, state, bin_number, node, -1, event, 0, 0):
        return False
    if events.in_flight[event] == 0:
        leave(state, event)
    return True


@njit(cache=True)
def advance(rule: Rule, state: State, until, until_order, bin_number, bin_end):  # type: ignore[no-untyped-def]  # noqa: C901, E501  # one loop, read top to bottom
    """Handle everything before (until, until_order); stop early at the end of a bin or of memory."""
    now = state.now
    events = state.events
    flights = state.flights
    channels = state.channels
    nodes = state.nodes
    remembers = rule.kind == FLOODING or rule.kind == SEMI_PROBABILISTIC
    ring_mask = len(flights.ring) - 1
    room = nodes.source.shape[1]  # no node sends more messages at once than it has slots
    while True:
        at = NEVER
        order = NEVER
        source = -1
        if now[HEAD] < now[TAIL]:
            place = now[HEAD] & ring_mask
            at = flights.ring[place, 0]
            order = flights.ring[place, 1]
            source = 0
        if now[HEAP]:
            top = flights.heap[0, 0]
            if top < at or (top == at and flights.heap[0, 1] < order):
                at = top
                order = flights.heap[0, 1]
                source = 1
        if now[NEXT] < len(events.time):
            due = events.time[now[NEXT]]
            if due < at or (due == at and now[NEXT_ORDER] < order):
                at = due
                order = now[NEXT_ORDER]
                source = 2
        now[DUE] = at
        if at > until or (at == until and order >= until_order) or source < 0:
            return DONE
        if at >= bin_end:
            return BIN
        if now[TAIL] - now[HEAD] + room > ring_mask or now[HEAP] + room > len(flights.heap):
            return FULL_QUEUE
        if source == 2 and now[FREE_PLACES] == 0:
            return FULL_QUEUE
        if (rule.keeps_messages and now[MESSAGES] + room > len(state.logs.message)) or (
            rule.keeps_deliveries and now[DELIVERIES] >= len(state.logs.delivery)
        ):
            return FULL_LOG
        now[NOW] = at
        if source == 2:
            event = now[NEXT]
            now[NEXT] += 1
            if not publish(rule, state, bin_number, event):
                return TWICE
            # Everything due at one instant is published by one timer.
            if now[NEXT] >= len(events.time) or events.time[now[NEXT]] > at:
                now[NEXT_ORDER] = now[ORDER]
                if now[NEXT] < len(events.time):
                    now[ORDER] += 1
            continue
        if source == 0:
            place = now[HEAD] & ring_mask
            channel = flights.ring_what[place, 0]
            event = flights.ring_what[place, 1]
            hops = flights.ring_what[place, 2]
            deterministic = flights.ring_what[place, 3]
            now[HEAD] += 1
        else:
            channel = flights.heap_what[0, 0]
            event = flights.heap_what[0, 1]
            hops = flights.heap_what[0, 2]
            deterministic = flights.heap_what[0, 3]
            drop_top(flights.heap, flights.heap_what, now[HEAP])
            now[HEAP] -= 1
        events.in_flight[event] -= 1
        if channels.up[channel] == 0:
            now[LOST] += 1
        else:
            now[HANDLED] += 1
            node = channels.target[channel]
            if remembers and not first_visit(state, node, event):
                nodes.duplicates[node] += 1
                now[DUPLICATES] += 1
                now[DUPLICATES + 1] += hops
                now[DUPLICATES + 2] += deterministic
            else:
                nodes.receipts[node] += 1
                if not take(
                    rule,
                    state,
                    bin_number,
                    node,
                    channels.source[channel],
                    event,
                    hops,
                    deterministic,
                ):
                    return TWICE
        if events.in_flight[event] == 0:
            leave(state, event)


@njit(cache=True)
def work_out_components(source: Ints, target: Ints, component: Ints) -> int:
    """Number the connected components of the links; each node gets the smallest node of its own."""
    nodes = len(component)
    for node in range(nodes):
        component[node] = node
    for i in range(len(source)):
        a = source[i]
        b = target[i]
        while component[a] != a:
            component[a] = component[component[a]]
            a = component[a]
        while component[b] != b:
            component[b] = component[component[b]]
            b = component[b]
        if a < b:
            component[b] = a
        else:
            component[a] = b
    count = 0
    for node in range(nodes):
        component[node] = component[component[node]]
        if component[node] == node:
            count += 1
    return count


@njit(cache=True)
def work_out_beyond(live: Ints, state: State, first: Ints, follow: Ints) -> None:
    """For a forest: the set of nodes beyond each channel."""
    channels = state.channels
    nodes = len(first)
    beyond = channels.beyond
    first[:] = -1
    for i in range(len(live)):
        source = channels.source[live[i]]
        follow[i] = first[source]
        first[source] = i
    up = np.full(nodes, -1, np.int32)  # the channel by which the walk came
    down = np.full(nodes, -1, np.int32)
    order = np.empty(nodes, np.int32)
    seen = np.zeros(nodes, np.uint8)
    below = np.zeros((nodes, beyond.shape[1]), np.uint64)
    filled = 0
    for root in range(nodes):
        if seen[root]:
            continue
        start = filled
        seen[root] = 1
        order[filled] = root
        filled += 1
        here = start
        while here < filled:
            node = order[here]
            here += 1
            i = first[node]
            while i >= 0:
                channel = live[i]
                target = channels.target[channel]
                if not seen[target]:
                    seen[target] = 1
                    down[target] = channel
                    order[filled] = target
                    filled += 1
                elif down[node] >= 0 and channels.source[down[node]] == target:
                    up[node] = channel
                i = follow[i]
        for p in range(filled - 1, start - 1, -1):
            node = order[p]
            below[node, node >> 6] |= np.uint64(1) << np.uint64(node & 63)
            if down[node] >= 0:
                below[channels.source[down[node]]] |= below[node]
        for p in range(start + 1, filled):
            node = order[p]
            beyond[down[node]] = below[node]
            beyond[up[node]] = below[root] & ~below[node]
