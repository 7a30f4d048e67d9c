"""Advances all events in flight up to the next control event. Compiled, cached on disk.

Messages are handled in the order (instant, number of posting), as the object kernel does. It is one
function, because a call that passes arrays costs as much as handling a message. It is compiled once
for each rule of forwarding, whose choice of links becomes a part of it.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.routing.adaptive import LONGEST
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane.kernels import (
    INDEX,
    ZERO,
    bit_of,
    count_in_component,
    drop_top,
    is_lost,
    kernel,
    mix,
    overlap,
    push,
    receivers_of,
    wants,
)

if TYPE_CHECKING:
    from shoal.simulation.dataplane.forwarding import Forwarding

NEVER = 1 << 62
PARENT = s.PARENT

choose: Any = None
REMEMBERS = FLOODS = SAYS_STOPPED = False
"""Stand-ins; :func:`advance_for` compiles ``_advance`` with those of a rule in their place."""


def _advance(setup: s.Setup, state: s.State, until, until_order, bin_number, bin_end):
    """Handle everything before (until, until_order); return early at a bin's end or without room.

    The answer is the reason, one of those in ``state``.
    """
    tree, owes_publisher = setup.tree, setup.owes_publisher
    transmission, usual, plain = setup.transmission, setup.usual, setup.plain
    keeps_deliveries, keeps_messages = setup.keeps_deliveries, setup.keeps_messages
    watches, watched, before = setup.watches, state.nodes.watched, state.events.before
    last = state.nodes.last
    nodes, channels, events = state.nodes, state.channels, state.events
    limits, parent = nodes.limits, nodes.parent
    link, leaf = nodes.link, nodes.leaf
    leaf_mask, mask, local = nodes.leaf_mask, nodes.mask, nodes.local
    component, reached_now, crashed = nodes.component, nodes.reached, nodes.crashed
    duplicates = nodes.duplicates
    ends, channel_times = channels.ends, channels.times
    quality, beyond = channels.quality, channels.beyond
    times, publisher, sequence = events.time, events.publisher, events.sequence
    start, end, numbers, bits = events.start, events.end, events.numbers, events.bits
    draws, owed, wanted, version = events.draws, events.owed, events.wanted, events.version
    received, reachable = events.received, events.reachable
    in_flight, place_of = events.in_flight, events.place
    ring, ring_what = state.flights.ring, state.flights.ring_what
    heap, heap_what = state.flights.heap, state.flights.heap_what
    delivery_time, delivery = state.logs.delivery_time, state.logs.delivery
    message_time, message = state.logs.message_time, state.logs.message
    subscribers, seen, places, picks = state.subscribers, state.seen, state.places, state.picks
    promised, now = state.promised, state.now

    ring_mask = ring.shape[0] - 1
    room = link.shape[1] + 1  # no node sends more messages at once: to all slots and its parent
    planned = times.shape[0]
    head, tail, waiting = now[s.HEAD], now[s.TAIL], now[s.HEAP]
    following, following_order = now[s.NEXT], now[s.NEXT_ORDER]
    posted, free_places = now[s.ORDER], now[s.FREE_PLACES]
    handled = lost = sent = misrouted = reached = 0
    target = np.int64(0)
    copies = 0
    copy_hops = copy_deterministic = np.int64(0)
    straight = FLOODS and plain and not tree and not keeps_messages
    status = s.DONE
    clock = now[s.NOW]
    latest = clock
    certain = min(until, bin_end)  # until then there is no control event and no new time bin
    # Where all links take as long, who sends first arrives first.
    visited = promised if plain else seen
    wishes = wanted if tree else owed  # those who want an event, as long as its version holds
    if now[s.BIN_NUMBER] != bin_number:
        now[s.BIN_NUMBER] = bin_number
        for w in range(reached_now.shape[0]):
            reached_now[w] = ZERO
    while True:
        # What comes next: a message in the ring or on the heap, or a publication.
        at = NEVER
        order = NEVER
        come_from = -1
        if head < tail:
            place = head & ring_mask & INDEX
            at = ring[place, 0]
            order = ring[place, 1]
            come_from = 0
        if waiting:
            top = heap[0, 0]
            if top < at or (top == at and heap[0, 1] < order):
                at = top
                order = heap[0, 1]
                come_from = 1
        if following < planned:
            due = times[following]
            if due < at or (due == at and following_order < order):
                at = due
                order = following_order
                come_from = 2
        now[s.DUE] = at
        if at > until or (at == until and order >= until_order) or come_from < 0:
            break
        if at >= bin_end:
            status = s.BIN
            break
        if tail - head + room > ring_mask or waiting + room > heap.shape[0] or free_places == 0:
            status = s.FULL_QUEUE
            break
        if (keeps_messages and now[s.MESSAGES] + room > message.shape[0]) or (
            keeps_deliveries and now[s.DELIVERIES] >= delivery.shape[0]
        ):
            status = s.FULL_LOG
            break
        clock = at

        # Which node handles which event, and which neighbour it came from.
        if come_from == 2:
            event = following
            node = np.int64(publisher[event])
            sender = np.int64(-1)
            hops = np.int64(0)
            deterministic = np.int64(0)
            following += 1
            if crashed[node]:
                reachable[event] = s.UNPUBLISHED
                if following >= planned or times[following] > clock:
                    following_order = posted
                    if following < planned:
                        posted += 1
                continue
            for i in range(start[event], end[event]):
                bits[event, numbers[i] >> 6] |= bit_of(numbers[i])
            receivers_of(owed, event, start, end, numbers, subscribers, owes_publisher, publisher)
            if now[s.COMPONENTS] > 1:
                reachable[event] = count_in_component(owed, event, component, node)
            else:
                reachable[event] = s.ALL_OF_THEM
            version[event] = now[s.VERSION]
            if tree:
                for w in range(owed.shape[1]):
                    wanted[event, w] = owed[event, w]
            draws[event] = mix(mix(setup.key ^ np.uint64(node)) ^ np.uint64(sequence[event]))
            free_places -= 1
            place_of[event] = places[free_places]
            seen[place_of[event], node >> 6] |= bit_of(node)
            promised[place_of[event], node >> 6] |= bit_of(node)
        else:
            if come_from == 0:
                place = head & ring_mask & INDEX
                channel = np.int64(ring_what[place, 0]) & INDEX
                event = np.int64(ring_what[place, 1]) & INDEX
                hops = np.int64(ring_what[place, 2])
                deterministic = np.int64(ring_what[place, 3])
                head += 1
            else:
                channel = np.int64(heap_what[0, 0]) & INDEX
                event = np.int64(heap_what[0, 1]) & INDEX
                hops = np.int64(heap_what[0, 2])
                deterministic = np.int64(heap_what[0, 3])
                drop_top(heap, heap_what, waiting)
                waiting -= 1
            in_flight[event] -= 1
            taken = False
            node = np.int64(ends[channel, s.TO]) & INDEX
            sender = np.int64(ends[channel, s.FROM])
            if ends[channel, s.UP] == 0:
                lost += 1
            else:
                handled += 1
                taken = True
                if REMEMBERS:
                    bit = bit_of(node)
                    own = np.int64(place_of[event]) & INDEX
                    if seen[own, node >> 6] & bit:
                        taken = False
                        duplicates[node] += 1
                        copies += 1
                        copy_hops += hops
                        copy_deterministic += deterministic
                    else:
                        seen[own, node >> 6] |= bit
                        promised[own, node >> 6] |= bit
            if not taken:
                if in_flight[event] == 0:  # no copy is left: its row of visited nodes is free
                    for w in range(seen.shape[1]):
                        seen[place_of[event], w] = ZERO
                        promised[place_of[event], w] = ZERO
                    places[free_places] = place_of[event]
                    free_places += 1
                continue
            if watches:
                number = np.int64(sequence[event])
                earlier = np.int64(last[node, publisher[event]])
                stands_for = number - earlier if earlier >= 0 else 1
                if stands_for > 0:
                    last[node, publisher[event]] = number
                    own = np.int64(before[event])
                    if own >= 0 and wants(local, node, bits, own):
                        stands_for = min(stands_for, LONGEST)
                        watched[node, s.WANTED] += stands_for
                        if not received[own, node >> 6] & bit_of(node):
                            watched[node, s.MISSED] += stands_for

        # Deliver.
        if version[event] == now[s.VERSION] and node != publisher[event]:
            wanting = wishes[event, node >> 6] & bit_of(node) != ZERO
        else:
            wanting = wants(local, node, bits, event)
        if wanting:
            if received[event, node >> 6] & bit_of(node):
                now[s.WRONG_EVENT] = event
                now[s.WRONG_NODE] = node
                status = s.TWICE
                break
            received[event, node >> 6] |= bit_of(node)
            if keeps_deliveries:
                row = now[s.DELIVERIES]
                delivery_time[row] = clock
                delivery[row, 0] = event
                delivery[row, 1] = node
                delivery[row, 2] = hops
                now[s.DELIVERIES] = row + 1

        # Choose links.
        chosen = 0
        known = 0
        count = limits[node, s.SLOTS]
        if straight:
            # The usual case of flooding, in which most of a run is spent.
            at = clock + usual
            sure = at < certain
            own = np.int64(place_of[event]) & INDEX
            for k in range(count):
                target = np.int64(link[node, k, s.NEIGHBOUR]) & INDEX
                if target == sender:
                    continue
                channel = link[node, k, s.CHANNEL]
                if channel < 0:
                    now[s.UNLINKED] += 1
                    continue
                sent += 1
                posted += 1
                word, bit = target >> 6, bit_of(target)
                if not reached_now[word] & bit:
                    reached_now[word] |= bit
                    reached += 1
                if sure:
                    if promised[own, word] & bit:
                        handled += 1
                        latest = max(latest, at)
                        continue
                    promised[own, word] |= bit
                in_flight[event] += 1
                place = tail & ring_mask & INDEX
                ring[place, 0] = at
                ring[place, 1] = posted - 1
                ring_what[place, 0] = channel
                ring_what[place, 1] = event
                ring_what[place, 2] = hops + 1
                ring_what[place, 3] = 0
                tail += 1
        elif FLOODS:
            for k in range(count):
                if link[node, k, s.NEIGHBOUR] != sender:
                    picks[chosen] = k
                    chosen += 1
        else:
            chosen, known = choose(
                picks, count, setup, limits, parent, link, leaf, leaf_mask, mask, bits, draws,
                node, sender, event, hops, deterministic,
            )  # fmt: skip  # as rules define it
            if watches:
                watched[node, s.SENT_COPIES] += chosen
            if SAYS_STOPPED and chosen == 0:
                now[s.ENDS] += 1
                now[s.ENDS + 1] += hops
                now[s.ENDS + 2] += deterministic

        # Send.
        own = np.int64(place_of[event]) & INDEX
        for i in range(chosen):
            if picks[i] == PARENT:
                channel = np.int64(parent[node, 1])
                target = np.int64(parent[node, 0])
            else:
                pick = np.int64(picks[i]) & INDEX
                channel = np.int64(link[node, pick, s.CHANNEL])
                target = np.int64(link[node, pick, s.NEIGHBOUR])
            if channel < 0:
                now[s.UNLINKED] += 1
                continue
            channel &= INDEX
            target &= INDEX
            sent += 1
            further = deterministic + 1 if i < known else deterministic
            word, bit = target >> 6, bit_of(target)
            if not reached_now[word] & bit:
                reached_now[word] |= bit
                reached += 1
            if tree:
                if version[event] != now[s.VERSION]:
                    version[event] = now[s.VERSION]
                    receivers_of(
                        wanted, event, start, end, numbers, subscribers, owes_publisher, publisher
                    )
                if not overlap(wanted, event, beyond, channel):
                    misrouted += 1
            if keeps_messages:
                row = now[s.MESSAGES]
                message_time[row] = clock
                message[row, 0] = channel
                message[row, 1] = event
                message[row, 2] = hops + 1
                message[row, 3] = further
                now[s.MESSAGES] = row + 1
            at = clock + usual
            if not plain:
                at = clock
                if transmission:
                    at = max(at, channel_times[channel, s.FREE_AT]) + transmission
                    channel_times[channel, s.FREE_AT] = at
                at += channel_times[channel, s.DELAY]
                if quality[channel] < 1.0 and is_lost(
                    setup.loss_key, publisher[event], sequence[event], node, target,
                    quality[channel],
                ):  # fmt: skip  # who asks, then for what
                    lost += 1
                    continue
            if REMEMBERS and at < certain:  # the link cannot go down while it is on its way
                if visited[own, word] & bit:
                    handled += 1
                    duplicates[target] += 1
                    copies += 1
                    copy_hops += hops + 1
                    copy_deterministic += further
                    latest = max(latest, at)
                    posted += 1
                    continue
                if plain:
                    promised[own, word] |= bit
            in_flight[event] += 1
            if at == clock + usual:
                place = tail & ring_mask & INDEX
                ring[place, 0] = at
                ring[place, 1] = posted
                ring_what[place, 0] = channel
                ring_what[place, 1] = event
                ring_what[place, 2] = hops + 1
                ring_what[place, 3] = further
                tail += 1
            else:
                push(heap, heap_what, waiting, at, posted, channel, event, hops + 1, further)
                waiting += 1
            posted += 1

        # On objects one timer publishes everything due at an instant, and is then queued again.
        if come_from == 2 and (following >= planned or times[following] > clock):
            following_order = posted
            if following < planned:
                posted += 1
        if in_flight[event] == 0:
            for w in range(seen.shape[1]):
                seen[place_of[event], w] = ZERO
                promised[place_of[event], w] = ZERO
            places[free_places] = place_of[event]
            free_places += 1

    now[s.NOW] = max(clock, latest)
    now[s.ORDER] = posted
    now[s.HEAD], now[s.TAIL], now[s.HEAP] = head, tail, waiting
    now[s.NEXT], now[s.NEXT_ORDER] = following, following_order
    now[s.FREE_PLACES] = free_places
    now[s.HANDLED] = handled
    now[s.LOST] = lost
    now[s.SENT] = sent
    now[s.MISROUTED] = misrouted
    now[s.REACHED] = reached
    now[s.DUPLICATES] = copies
    now[s.DUPLICATES + 1] = copy_hops
    now[s.DUPLICATES + 2] = copy_deterministic
    return status


_compiled: dict[str, Any] = {}


def advance_for(rule: Forwarding) -> Any:
    """The compiled ``_advance`` of a rule; see there for its arguments."""
    if rule.name not in _compiled:
        # As globals, a rule's parts are constants for the compiler, and its choice is put inline.
        # (As free variables they would be too; but what closes over kernels is not found on disk.)
        parts = {
            "choose": rule.choose,
            "REMEMBERS": rule.remembers,
            "FLOODS": rule.floods,
            "SAYS_STOPPED": rule.says_stopped,
        }
        name = f"advance_{rule.name}"
        made = FunctionType(_advance.__code__, {**globals(), **parts}, name)
        made.__qualname__ = name  # under which it is kept on disk
        source = ""
        if rule.choose is not None:
            source = Path(rule.choose.py_func.__code__.co_filename).read_text()
        _compiled[rule.name] = kernel(made, also=(source, rule.constants))
    return _compiled[rule.name]
