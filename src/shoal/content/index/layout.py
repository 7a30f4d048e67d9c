"""Segments: lanes laid out so that an event meets few of them.

::

    segment                                  one generation of lanes, written once
      group   symbol, price, volume          lanes whose narrowest predicates are on these columns
        super  [min low, max high] x 64      zone maps of 64 supers: skip 4,096 lanes at a time
          zone [min low, max high]           outer zone: skip the block
               [max low, min high]           inner zone: take the block whole
            block  low  u16 x 64             64 lanes by column, tested at once
                   high u16 x 64
                   ids  u32 x 64, alive 64 bits

Bounds are 16-bit codes: ranks among a column's *cuts*. A constant on a cut has an odd code and is
exact; one between two cuts has an even code, shared by the values around it, and then the exact
bounds are kept and consulted for events that fall into that same gap. Cuts belong to a *snapshot*
that several segments share, so that an event's codes are looked up once for all of them.

Building is a generator: it yields every few milliseconds, so that a merge never holds up an event.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.building import ordering
from shoal.content.index.segments import Array, Flat, Segment, Snapshot, aligned

STEP = 1 << 13  # lanes handled between two yields
GROUP_AT = {4: 512, 3: 256, 2: 128, 1: 1}  # how many lanes justify a group of so many columns
RARE = 64  # a column with fewer predicates is no key, as long as
SLOTS = 3  # predicates beside the keys that lie in the block; more lie elsewhere
APART = 128  # lanes of one number of such predicates that make a group of their own
STRAY = 1024  # at most so many lanes have no other and must be looked at for every event


def steps(count: int, size: int = STEP) -> Iterator[tuple[int, int]]:
    """Ranges that cover ``count`` items."""
    for begin in range(0, count, size):
        yield begin, min(begin + size, count)


def _groups(
    flat: Flat, low: Array, high: Array, cut: Array
) -> Generator[int, None, tuple[list[tuple[int, ...]], Array, Array]]:
    """Key columns of each group, lanes in group order, and where each group begins."""
    count = len(flat)
    chosen = np.empty((count, f.MAX_KEYS), np.int32)
    uses = np.zeros(len(cut), np.int64)
    for begin, end in steps(len(flat.columns)):
        part = flat.columns[begin:end]
        uses += np.bincount(part[part < f.NEGATED], minlength=len(cut))
        yield (end - begin) // 8
    for allowed in (np.where(uses < RARE, -1.0, cut), cut):
        for begin, end in steps(count):
            ordering.choose_keys(flat.start, flat.columns, low, high, begin, end, allowed, chosen)
            yield end - begin
        if (chosen[:, 0] < 0).sum() <= STRAY:
            break
    group_of = np.full(count, -1, np.int32)
    sets: list[tuple[int, ...]] = []
    left = np.arange(count, dtype=np.uint32)
    for level in sorted(GROUP_AT, reverse=True):
        signature = np.empty(len(left), np.uint64)
        counts: dict[int, int] = {}
        for begin, end in steps(len(left)):
            part = signature[begin:end]
            ordering.sign(flat.columns, chosen, left[begin:end], level, part)
            if (part == part[0]).all():
                counts[int(part[0])] = counts.get(int(part[0]), 0) + len(part)
            else:
                found, times = np.unique(part, return_counts=True)
                for one, often in zip(found.tolist(), times.tolist(), strict=True):
                    counts[one] = counts.get(one, 0) + often
            yield end - begin
        worth = sorted(s for s, often in counts.items() if s and often >= GROUP_AT[level])
        if not worth:
            continue
        known = np.array(worth, np.uint64)
        rest = []
        for begin, end in steps(len(left)):
            lanes, mine = left[begin:end], signature[begin:end]
            at = np.minimum(np.searchsorted(known, mine), len(known) - 1)
            hit = known[at] == mine
            group_of[lanes[hit]] = at[hit] + len(sets)
            rest.append(lanes[~hit])
            yield end - begin
        sets += [
            tuple(((s >> 16 * place) & 0xFFFF) - 1 for place in reversed(range(level)))
            for s in worth
        ]
        left = np.concatenate(rest)
    group_of[left] = len(sets)  # no plain predicate at all: these are looked at for every event
    sets.append(())
    sets = yield from _set_apart(flat, sets, group_of)
    # Groups of one first column lie side by side, those without columns in front.
    by_column = sorted(range(len(sets)), key=lambda g: sets[g][:1] or (-1,))
    rank = np.empty(len(sets), np.int32)
    rank[by_column] = np.arange(len(sets))
    offsets = np.zeros(len(sets) + 1, np.int64)
    for begin, end in steps(count, 4 * STEP):
        group_of[begin:end] = rank[group_of[begin:end]]
        offsets[1:] += np.bincount(group_of[begin:end], minlength=len(sets))
        yield end - begin
    starts = np.cumsum(offsets)
    lanes = np.empty(count, np.uint32)
    filled = starts.copy()
    for begin, end in steps(count, 4 * STEP):
        ordering.scatter(group_of, begin, end, filled, lanes)
        yield end - begin
    return [sets[g] for g in by_column], lanes, starts


def _set_apart(
    flat: Flat, sets: list[tuple[int, ...]], group_of: Array
) -> Generator[int, None, list[tuple[int, ...]]]:
    """Split groups by how much there is to a lane beside its keys, so that none makes room for it
    in vain; renumbers ``group_of`` and gives the key columns of each group.
    """
    widths = np.array([len(keys) for keys in sets], np.int64)
    kinds = SLOTS + 1
    kind = np.empty(len(flat), np.int64)
    sizes = np.zeros((len(sets), kinds), np.int64)
    for a, b in steps(len(flat), 2 * STEP):
        beside = np.diff(flat.start[a : b + 1]) - widths[group_of[a:b]]
        kind[a:b] = kinds * group_of[a:b] + np.minimum(beside, SLOTS)
        sizes += np.bincount(kind[a:b], minlength=sizes.size).reshape(sizes.shape)
        yield b - a
    if not sizes[:, 1:].any():
        return sets
    joins = np.tile(np.arange(kinds), (len(sets), 1))
    for one, other in [*pairwise(range(kinds)), *pairwise(reversed(range(kinds)))]:
        others = sizes[:, one + 1 :] if other > one else sizes[:, :one]
        few = (sizes[:, one] > 0) & (sizes[:, one] < APART) & others.any(axis=1)
        sizes[few, other] += sizes[few, one]
        sizes[few, one] = 0
        joins[few[:, None] & (joins == one)] = other
    numbers = np.cumsum(sizes.ravel() > 0) - 1
    numbers = np.take_along_axis(numbers.reshape(sizes.shape), joins, axis=1).ravel()
    yield sizes.size
    for a, b in steps(len(flat), 4 * STEP):
        group_of[a:b] = numbers[kind[a:b]]
        yield b - a
    return [sets[group] for group in np.nonzero(sizes)[0].tolist()]


def _arrange(bounds: Array) -> Generator[int, None, Array]:
    """An order of a group's lanes in which neighbours have similar bounds."""
    count = len(bounds)
    index = np.arange(count, dtype=np.uint32)
    todo = [(0, count)]
    spare = np.empty(count if count > STEP else 0, np.uint32)
    while todo:
        begin, end = todo.pop()
        dims = np.zeros(2, np.int64)
        if end - begin <= STEP:
            ordering.arrange(bounds, index, begin, end)
            yield 4 * (end - begin)
            continue
        if ordering.split_at(bounds, index, begin, end, dims) < 0:
            continue  # alike as far as the sample goes
        ends = np.array([begin, end], np.int64)
        for first, last in steps(end - begin, 4 * STEP):
            ordering.part(bounds, index, begin + first, begin + last, dims, spare, ends)
            yield last - first
        for first, last in steps(end - begin, 16 * STEP):
            index[begin + first : begin + last] = spare[begin + first : begin + last]
            yield last - first
        middle = int(ends[0])
        if begin < middle < end:
            todo += [(begin, middle), (middle, end)]
    return index


def lay_out(flat: Flat, snapshot: Snapshot, columns: int) -> Generator[int, None, Segment]:
    """Build a segment from lanes, step by step."""
    count = len(flat)
    table = snapshot.table.ctypes.data
    low, high = np.empty(len(flat.columns), np.uint16), np.empty(len(flat.columns), np.uint16)
    for a, b in steps(len(low), 2 * STEP):
        ordering.code_bounds(
            flat.columns[a:b], flat.low[a:b], flat.high[a:b], table, low[a:b], high[a:b]
        )
        yield b - a
    cut = snapshot.table[:columns, f.CUT_COUNT].astype(np.float64)
    sets, lanes, starts = yield from _groups(flat, low, high, cut)
    sizes = np.diff(starts)
    blocks = -(-sizes // f.BLOCK)
    first_block = np.concatenate([[0], np.cumsum(blocks)])
    total = int(first_block[-1])
    segment = Segment(
        snapshot=snapshot,
        handles=flat.ids & np.uint32(f.ID_MASK),
        place=np.empty(count, np.uint32),
        ids=aligned((total, f.BLOCK), np.uint32, f.DEAD),
        alive=np.zeros(total, np.uint64),
        groups=np.zeros((len(sets), f.GROUP_SIZE), np.int64),
        block_group=np.repeat(np.arange(len(sets), dtype=np.uint32), blocks),
        live=count,
    )
    yield count // 4
    for number, keys in enumerate(sets):
        if blocks[number]:
            mine = lanes[starts[number] : starts[number + 1]]
            yield from _fill(
                segment, number, keys, flat, low, high, cut, mine, int(first_block[number])
            )
    free = sum(1 for keys in sets if not keys)
    group_starts = np.zeros(columns + 1, np.uint32)
    firsts = np.array([keys[0] for keys in sets[free:]], np.int64)
    group_starts[1:] = free + np.searchsorted(firsts, np.arange(columns), side="right")
    group_starts[0] = free
    segment.name_groups(group_starts)
    return segment


def _fill(
    segment: Segment,
    number: int,
    keys: tuple[int, ...],
    flat: Flat,
    low: Array,
    high: Array,
    cut: Array,
    lanes: Array,
    base: int,
) -> Generator[int, None, None]:
    """Order one group's lanes and write its blocks."""
    count, width = len(lanes), len(keys)
    blocks = -(-count // f.BLOCK)
    key_columns = np.array(keys, np.uint32)
    bounds = np.zeros((count, 2 * width), np.uint16)
    for a, b in steps(count):
        ordering.gather(flat.start, flat.columns, low, high, lanes[a:b], key_columns, bounds[a:b])
        yield b - a
    index = (yield from _arrange(bounds)) if width else np.arange(count, dtype=np.uint32)

    residual = np.zeros(blocks * f.BLOCK + 1, np.uint32)
    picked = np.empty((count, SLOTS), np.int32)
    for a, b in steps(count):
        ordering.pick_residuals(
            flat.start, flat.columns, low, high, lanes, index, a, b, key_columns,
            cut, picked, residual,
        )  # fmt: skip
        yield 2 * (b - a)
    more = np.packbits(residual[1:].reshape(blocks, -1) > 0, axis=1, bitorder="little")
    np.cumsum(residual, out=residual)
    yield count // 4 + 512  # a group costs something however small it is
    slot_count = int((picked >= 0).any(axis=0).sum())  # they are filled from the first on
    plain = not residual[-1] and not slot_count
    row = segment.groups[number]
    row[f.WIDTH] = width
    row[f.KEYS : f.KEYS + width] = keys

    def keep(position: int, name: str, array: Array) -> Array:
        segment.arrays.setdefault(name, []).append(array)
        row[position] = array.ctypes.data
        return array

    supers_count = -(-blocks // 64)
    page = f.SMALL if blocks <= f.SMALL else 64
    grid = keep(f.BOUNDS, "bounds", aligned((blocks, width, 2, f.BLOCK), np.uint16))
    grid[-1:, :, 0], grid[-1:, :, 1] = 65535, 0
    zones = keep(f.ZONES, "zones", aligned((supers_count, width, 4, page), np.uint16, 0))
    supers = aligned((-(-supers_count // 64), width, 2, 64), np.uint16, 0)
    supers[:, :, 0] = 65535
    if supers_count > 1:
        keep(f.SUPERS, "supers", supers)
    ids, alive = segment.ids[base : base + blocks], segment.alive[base : base + blocks]
    row[f.BLOCKS], row[f.IDS], row[f.ALIVE] = blocks, ids.ctypes.data, alive.ctypes.data
    for a, b in steps(blocks, STEP // f.BLOCK):
        ordering.fill_blocks(
            bounds, index, lanes, flat.ids, a, b, plain, base,
            grid, zones, supers, ids, alive, segment.place,
        )  # fmt: skip
        yield 2 * f.BLOCK * (b - a)
    special = np.zeros(blocks, np.uint64)
    for a, b in steps(blocks, 8 * STEP // f.BLOCK):
        flagged = (ids[a:b] != f.DEAD) & (ids[a:b] > f.ID_MASK)
        special[a:b] = np.packbits(flagged, axis=1, bitorder="little").view(np.uint64)[:, 0]
        yield f.BLOCK * (b - a) // 4
    if special.any():
        keep(f.SPECIAL, "special", special)
    if slot_count:
        slots = keep(f.SLOTS, "slots", np.zeros((blocks, f.BLOCK, slot_count, 3), np.uint16))
        row[f.SLOT_COUNT] = slot_count
        for a, b in steps(count):
            ordering.fill_slots(flat.columns, low, high, a, b, picked, slots)
            yield b - a
    odd = np.full(2 * width, 1, np.uint16)
    for a, b in steps(count, 4 * STEP):
        odd &= np.bitwise_and.reduce(bounds[a:b], axis=0)
        yield (b - a) // 4
    for key, column in enumerate(keys):
        if not odd[2 * key : 2 * key + 2].all():
            exact = keep(f.EXACT + key, "exact", np.zeros((blocks * f.BLOCK, 2)))
            for a, b in steps(count):
                ordering.fill_exact(
                    flat.start, flat.columns, flat.low, flat.high, lanes, index, a, b, column, exact
                )
                yield b - a
    if residual[-1]:
        keep(f.RESIDUAL_LANES, "residual_lanes", more.view(np.uint64))
        keep(f.RESIDUAL_START, "residual_start", residual)
        yield from _fill_residuals(
            keep, flat, low, high, lanes, index, key_columns, cut, picked, residual
        )


def _fill_residuals(
    keep: Any,
    flat: Flat,
    low: Array,
    high: Array,
    lanes: Array,
    index: Array,
    keys: Array,
    cut: Array,
    picked: Array,
    start: Array,
) -> Generator[int, None, None]:
    """Write the predicates that are neither among the group's keys nor picked."""
    size = int(start[-1])
    columns = keep(f.RESIDUAL_COLUMNS, "residual_columns", np.zeros(size, np.uint32))
    codes = keep(f.RESIDUAL_CODES, "residual_codes", np.zeros((size, 2), np.uint16))
    exact = np.zeros((size, 2))
    for a, b in steps(len(lanes)):
        ordering.fill_residuals(
            flat.start, flat.columns, flat.low, flat.high, low, high, lanes, index, a, b, keys, cut,
            picked, start, columns, codes, exact,
        )  # fmt: skip
        yield b - a
    if not all((codes[a:b] & 1).all() for a, b in steps(size)):
        keep(f.RESIDUAL_EXACT, "residual_exact", exact)
