"""The kernel for many events and many groups: group by group, a tile of events at a time.

Event by event, an index with thousands of groups is read from memory again for each event, and what
is not a key is checked lane by lane. Here a group is read once for a whole tile of 128 events, and
matched with 64 of them at a time. Where few of these fall into a block's zone they are matched one
by one. Where many do, the tables are turned: a lane's predicates are compared with the codes of all
64 at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.content.index.blocks import beside, clear_seen, emit, match_block, settle
from shoal.content.index.fields import (
    ABSENT,
    ALIVE,
    BLOCK,
    BLOCKS,
    BOUNDS,
    COLUMNS,
    EXACT,
    GROUP_COUNT,
    GROUP_SIZE,
    GROUP_TABLE,
    IDS,
    KEYS,
    RECENT,
    RESIDUAL_LANES,
    ROOM,
    SEGMENT_TABLE,
    SEGMENTS,
    SLACK,
    SLOT_COUNT,
    SLOTS,
    SMALL,
    SNAPSHOT,
    SNAPSHOTS,
    TILE,
    TOUCHED_COUNT,
    WIDTH,
    ZONES,
)
from shoal.content.index.kernels import match_recent
from shoal.content.index.machine import (
    all_around64,
    all_within64,
    count_bits,
    fetch,
    first_bit,
    kernel,
    load_i64,
    load_u16,
    load_u32,
    load_u64,
    store_i64,
    store_u32,
    store_u64,
    transpose64,
    within64,
)
from shoal.content.index.spreading import forget_tile, spread_tile

NEAR = 64  # cache lines of a group fetched ahead
# What matching a block costs, in about nanoseconds: lane by lane; an event; a lane it may match
TURNED, EVENT, LANE = 400, 8, 6
STRIDE = 4 * (ROOM + SLACK)  # bytes from one event's ids to the next one's
_ONE, _ALL, _U0 = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_FIRST, _LAST = np.uint16(0), np.uint16(ABSENT - 1)


@kernel
def _key(group: Any, codes: Any, key: Any) -> Any:
    """Where the events' codes in a group's key column are."""
    return codes + 2 * TILE * load_i64(group + 8 * (KEYS + key))


@kernel
def _lane_by_lane(
    group: Any, block: Any, codes: Any, keys: Any, events: Any, heads: Any, masks: Any
) -> None:
    """Append a block's lanes that hold to the ids of those of the given events they hold for.

    First the keys of all lanes, then the other predicates of those that are left: whether a lane
    is left is as good as random, and a branch on it in between would cost more than it saves. Then
    events by lane are turned into lanes by event.
    """
    width, slot_count = load_i64(group + 8 * WIDTH), load_i64(group + 8 * SLOT_COUNT)
    residual = load_i64(group + 8 * RESIDUAL_LANES)
    first = _key(group, codes, 0)
    bounds = load_i64(group + 8 * BOUNDS) + 256 * width * block
    alive = load_u64(load_i64(group + 8 * ALIVE) + 8 * block)
    left = any_event = _U0
    for lane in range(64):
        holds = events if (alive >> np.uint64(lane)) & _ONE else _U0
        at = bounds + 2 * lane
        if width > 0:
            holds &= all_within64(first, load_u16(at), load_u16(at + 128))
        for key in range(1, width):
            at += 256
            holds &= all_within64(_key(group, codes, key), load_u16(at), load_u16(at + 128))
        store_u64(masks + 8 * lane, holds)
        left |= np.uint64(holds != _U0) << np.uint64(lane)
        any_event |= holds
    if slot_count > 0 or residual != 0:
        more = load_u64(residual + 8 * block) if residual != 0 else _U0
        slots = load_i64(group + 8 * SLOTS) + 384 * slot_count * block
        any_event = _U0
        while left != _U0:
            lane = first_bit(left)
            left &= left - _ONE
            holds = load_u64(masks + 8 * lane)
            at = slots + 6 * slot_count * lane
            for _ in range(slot_count):
                column = np.int64(load_u16(at))
                holds &= all_around64(codes + 2 * TILE * column, load_u16(at + 2), load_u16(at + 4))
                at += 6
            if (more >> np.uint64(lane)) & _ONE != _U0:
                holds = _left_beside(group, codes, keys, 64 * block + lane, holds)
            store_u64(masks + 8 * lane, holds)
            any_event |= holds
    if any_event == _U0:
        return
    transpose64(masks)
    ids = load_i64(group + 8 * IDS) + 256 * block
    while any_event != _U0:
        event = first_bit(any_event)
        any_event &= any_event - _ONE
        head = load_i64(heads + 8 * event)
        store_i64(heads + 8 * event, emit(head, ids, load_u64(masks + 8 * event)))


@kernel
def _left_beside(group: Any, codes: Any, keys: Any, position: Any, events: Any) -> Any:
    """Those of the given events for which the residual predicates of one lane hold."""
    left = events
    while events != _U0:
        event = first_bit(events)
        events &= events - _ONE
        if not beside(group, codes + 2 * event, keys + 8 * event, TILE, position):
            left &= ~(_ONE << np.uint64(event))
    return left


@kernel
def _event_by_event(
    group: Any, block: Any, codes: Any, keys: Any, events: Any, whole: Any, heads: Any
) -> None:
    """The same, one event after the other."""
    width = load_i64(group + 8 * WIDTH)
    k0, k1 = _key(group, codes, 0), _key(group, codes, 1)
    k2, k3 = _key(group, codes, 2), _key(group, codes, 3)
    while events != _U0:
        event = first_bit(events)
        events &= events - _ONE
        c0 = c1 = c2 = c3 = np.uint16(0)
        if width > 0:
            c0 = load_u16(k0 + 2 * event)
        if width > 1:
            c1 = load_u16(k1 + 2 * event)
        if width > 2:
            c2 = load_u16(k2 + 2 * event)
        if width > 3:
            c3 = load_u16(k3 + 2 * event)
        out = load_i64(heads + 8 * event)
        out = match_block(
            0, group, codes + 2 * event, keys + 8 * event, TILE, out, c0, c1, c2, c3, block, whole
        )
        store_i64(heads + 8 * event, out)


@kernel
def _sparse(
    group: Any, block: Any, codes: Any, keys: Any, events: Any, heads: Any, masks: Any
) -> None:
    """The same where keys are exact: few lanes are left by them, and for most events none.

    These events are dropped first; then all else about each lane is looked at in one go. No branch
    depends on whether a lane holds, which is as good as random.
    """
    width, slot_count = load_i64(group + 8 * WIDTH), load_i64(group + 8 * SLOT_COUNT)
    residual = load_i64(group + 8 * RESIDUAL_LANES)
    more = load_u64(residual + 8 * block) if residual != 0 else _U0
    alive = load_u64(load_i64(group + 8 * ALIVE) + 8 * block)
    bounds = load_i64(group + 8 * BOUNDS) + 256 * width * block
    slots = load_i64(group + 8 * SLOTS) + 384 * slot_count * block
    ids = load_i64(group + 8 * IDS) + 256 * block
    count = np.int64(0)
    while events != _U0:
        event = first_bit(events)
        events &= events - _ONE
        chosen, at = alive, bounds
        for key in range(width):
            chosen &= within64(at, at + 128, load_u16(_key(group, codes + 2 * event, key)))
            at += 256
        store_u64(masks + 16 * count, chosen)
        store_i64(masks + 16 * count + 8, event)
        count += np.int64(chosen != _U0)
    for i in range(count):
        chosen, event = load_u64(masks + 16 * i), load_i64(masks + 16 * i + 8)
        mine = codes + 2 * event
        out = load_i64(heads + 8 * event)
        while True:
            lane = first_bit(chosen)
            chosen &= chosen - _ONE
            at, holds = slots + 6 * slot_count * lane, np.int64(1)
            for _ in range(slot_count):
                code = np.int64(load_u16(mine + 2 * TILE * np.int64(load_u16(at))))
                low, span = np.int64(load_u16(at + 2)), np.int64(load_u16(at + 4))
                holds &= np.int64(((code - low) & 65535) <= span)
                at += 6
            if holds != 0 and (more >> np.uint64(lane)) & _ONE != _U0:
                holds = np.int64(beside(group, mine, keys + 8 * event, TILE, 64 * block + lane))
            store_u32(out, load_u32(ids + 4 * lane))
            out += 4 * holds
            if chosen == _U0:
                break
        store_i64(heads + 8 * event, out)


@kernel
def _crowded(group: Any, block: Any, codes: Any, events: Any) -> Any:
    """Whether a block is better matched lane by lane, judging by one of the events."""
    many = count_bits(events)
    if many * (EVENT + BLOCK * LANE) <= TURNED:
        return False
    width, event = load_i64(group + 8 * WIDTH), first_bit(events)
    bounds = load_i64(group + 8 * BOUNDS) + 256 * width * block
    chosen = _ALL
    for key in range(width):
        code = load_u16(_key(group, codes, key) + 2 * event)
        chosen &= within64(bounds, bounds + 128, code)
        bounds += 256
    return many * (EVENT + LANE * count_bits(chosen)) > TURNED


@kernel
def _match_group(
    group: Any, codes: Any, keys: Any, events: Any, found: Any, heads: Any, most: Any, masks: Any
) -> Any:
    """Match 64 events on a group.

    ``most``: ids that any of them has found at most; returned as it is afterwards, -1 if there may
    be no room for those of some event.
    """
    width, blocks = load_i64(group + 8 * WIDTH), load_i64(group + 8 * BLOCKS)
    exact = np.int64(0)
    for key in range(width):
        events &= all_within64(_key(group, codes, key), _FIRST, _LAST)
        exact |= load_i64(group + 8 * (EXACT + key))
    if events == _U0:
        return most
    plain = (load_i64(group + 8 * SLOT_COUNT) + load_i64(group + 8 * RESIDUAL_LANES)) == 0
    page = SMALL if blocks <= SMALL else 64
    for block in range(blocks):
        at = load_i64(group + 8 * ZONES) + 2 * (block % page)
        at += 8 * page * width * (block // page)
        outer, inner = events, _ALL if plain else _U0
        for key in range(width):
            here = _key(group, codes, key)
            outer &= all_within64(here, load_u16(at), load_u16(at + 2 * page))
            if plain:
                inner &= all_within64(here, load_u16(at + 4 * page), load_u16(at + 6 * page))
            at += 8 * page
        if outer == _U0:
            continue
        if most + BLOCK > ROOM:
            most = 0
            for event in range(64):
                most = max(most, (load_i64(heads + 8 * event) - found - STRIDE * event) >> 2)
            if most + BLOCK > ROOM:
                return -1
        most += BLOCK
        inner &= outer
        if inner != _U0:
            _event_by_event(group, block, codes, keys, inner, True, heads)
            outer &= ~inner
        if exact == 0 and outer != _U0 and _crowded(group, block, codes, outer):
            _lane_by_lane(group, block, codes, keys, outer, heads, masks)
        elif outer != _U0 and (plain or exact != 0):
            _event_by_event(group, block, codes, keys, outer, False, heads)
        elif outer != _U0:
            _sparse(group, block, codes, keys, outer, heads, masks)
    return most


@kernel
def _fetch_group(group: Any) -> None:
    """Bring the zones and the first blocks of a group near."""
    width, blocks = load_i64(group + 8 * WIDTH), load_i64(group + 8 * BLOCKS)
    zones, bounds = load_i64(group + 8 * ZONES), load_i64(group + 8 * BOUNDS)
    for line in range(width):
        fetch(zones + 64 * line)
    for line in range(min(4 * width * blocks, NEAR)):
        fetch(bounds + 64 * line)
    ids, slots = load_i64(group + 8 * IDS), load_i64(group + 8 * SLOTS)
    for line in range(min(4 * blocks, NEAR)):
        fetch(ids + 64 * line)
    for line in range(min(6 * load_i64(group + 8 * SLOT_COUNT) * blocks, NEAR)):
        fetch(slots + 64 * line)


@kernel
def _match_groups(index: Any, count: Any, codes: Any, keys: Any, found: Any, heads: Any) -> Any:
    """Match a tile on every group; whether the ids of each event fit its room."""
    columns, table = load_i64(index + 8 * COLUMNS), load_i64(index + 8 * SEGMENT_TABLE)
    most = np.zeros(TILE // 64, np.int64)
    held = np.empty(128, np.uint64)
    masks = held.ctypes.data
    for number in range(load_i64(index + 8 * SEGMENTS)):
        segment = load_i64(table + 8 * number)
        mine = codes + 2 * TILE * columns * load_i64(segment + 8 * SNAPSHOT)
        groups = load_i64(segment + 8 * GROUP_TABLE)
        last = load_i64(segment + 8 * GROUP_COUNT) - 1
        for g in range(last + 1):
            group = groups + 8 * GROUP_SIZE * g
            if g < last:
                _fetch_group(group + 8 * GROUP_SIZE)
            for part in range((count + 63) // 64):
                first = 64 * part
                events = _ALL if count - first >= 64 else (_ONE << np.uint64(count - first)) - _ONE
                most[part] = _match_group(
                    group, mine + 2 * first, keys + 8 * first, events,
                    found + STRIDE * first, heads + 8 * first, most[part], masks,
                )  # fmt: skip
                if most[part] < 0:
                    return False
    return True


@kernel
def match_tile(
    index: Any,
    dense: Any,
    listed: Any,
    order: Any,
    begin: Any,
    count: Any,
    codes: Any,
    keys: Any,
    keyed: Any,
    found: Any,
    out: Any,
    ends: Any,
) -> Any:
    """Match events ``order[begin:begin + count]``; whether there was room for what they find.

    As :func:`~shoal.content.index.kernels.match_many`; ``keyed`` says whether any lane asks for
    keys; ``found`` has STRIDE bytes for each event, and ``out`` as much, and that of the recent
    lanes for each event besides.
    """
    width, snapshots = load_i64(index + 8 * COLUMNS), load_i64(index + 8 * SNAPSHOTS)
    spread_tile(dense, listed, order, begin, count, width, snapshots, codes, keys, keyed)
    heads = np.empty(TILE, np.int64)
    for event in range(TILE):
        heads[event] = found + STRIDE * event
    fits = _match_groups(index, count, codes, keys, found, heads.ctypes.data)
    if fits:
        here = out
        for event in range(count):
            here = settle(index, found + STRIDE * event, heads[event], here)
            if load_i64(index + 8 * RECENT) > 0:
                here = match_recent(index, keys + 8 * event, TILE, here)
            if load_i64(index + 8 * TOUCHED_COUNT) > 0:
                clear_seen(index)
            ends[begin + event] = (here - out) >> 2
    forget_tile(dense, listed, order, begin, count, width, snapshots, codes, keys, keyed)
    return fits
