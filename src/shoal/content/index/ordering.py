"""Kernels that lay lanes out: codes for their bounds, an order that keeps neighbours together."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import numpy as np

from shoal.content.index.codes import code_of
from shoal.content.index.fields import BLOCK, CUT_COUNT, CUT_SIZE, MAX_KEYS, NEGATED, UNBOUNDED
from shoal.content.index.machine import kernel, load_i64

SAMPLE = 32  # lanes looked at to choose where to split


@kernel
def code_bounds(columns, lows, highs, snapshot, low, high):
    """The codes of predicates' bounds under a snapshot's cuts."""
    for i in range(len(columns)):
        cuts = snapshot + 8 * CUT_SIZE * np.int64(columns[i] & np.uint32(NEGATED - 1))
        top = 2 * load_i64(cuts + 8 * CUT_COUNT) + 3
        low[i] = UNBOUNDED if lows[i] == -np.inf else code_of(lows[i], cuts)
        high[i] = top if highs[i] == np.inf else code_of(highs[i], cuts)


@kernel
def choose_keys(start, columns, low, high, begin, end, cut, chosen):
    """Up to MAX_KEYS narrowest plain predicates per lane, narrowest first (-1: no more).

    ``cut[column]`` is the column's number of cuts (a predicate is narrow if it spans few of them)
    or negative: not to be a key.
    """
    for lane in range(begin, end):
        for rank in range(MAX_KEYS):
            best, width = np.int64(-1), 1e300
            for at in range(start[lane], start[lane + 1]):
                if columns[at] >= np.uint32(NEGATED) or cut[columns[at]] < 0:
                    continue
                taken = False
                for earlier in range(rank):
                    taken = taken or chosen[lane, earlier] == at
                span = (np.int64(high[at]) - np.int64(low[at]) + 2) / (cut[columns[at]] + 1.0)
                if not taken and span < width:
                    best, width = np.int64(at), span
            chosen[lane, rank] = best


@kernel
def sign(columns, chosen, lanes, level, signature):
    """The set of columns of each lane's ``level`` narrowest predicates as one number; 0: fewer."""
    picked = np.zeros(MAX_KEYS, np.uint64)
    for i in range(len(lanes)):
        lane = lanes[i]
        found = np.uint64(0)
        if chosen[lane, level - 1] >= 0:
            for rank in range(level):
                column = np.uint64(columns[chosen[lane, rank]]) + np.uint64(1)
                at = rank
                while at > 0 and picked[at - 1] > column:
                    picked[at] = picked[at - 1]
                    at -= 1
                picked[at] = column
            for rank in range(level):
                found = (found << np.uint64(16)) | picked[rank]
        signature[i] = found


@kernel
def gather(start, columns, low, high, lanes, keys, out):
    """A group's bounds by lane: ``out[i] = low0, high0, low1, high1…`` of lane ``lanes[i]``."""
    for i in range(len(lanes)):
        for at in range(start[lanes[i]], start[lanes[i] + 1]):
            for key in range(len(keys)):
                if columns[at] == keys[key]:
                    out[i, 2 * key] = low[at]
                    out[i, 2 * key + 1] = high[at]


@kernel
def split_at(bounds, index, begin, end, dims):
    """The dimension (and pivot) whose halves an event is least likely to have to look into.

    The chance of looking into a half is the volume of its hull, less that of the box that lies
    inside all its lanes (such a block is taken whole). -1: all sampled lanes are alike.
    """
    count = min(SAMPLE, end - begin)
    width = bounds.shape[1]
    best, best_cost = -1, 1e300
    pivot = np.int64(0)
    order = np.empty(count, np.int64)
    values = np.empty(count, np.int64)
    for dim in range(width):
        for i in range(count):
            lane = np.int64(index[begin + (end - begin) * i // count])
            value = np.int64(bounds[lane, dim])
            at = i
            while at > 0 and values[at - 1] > value:
                values[at], order[at] = values[at - 1], order[at - 1]
                at -= 1
            values[at], order[at] = value, lane
        if values[0] == values[count - 1]:
            continue
        cost = 0.0
        for half in range(2):
            hull, core = 1.0, 1.0
            for key in range(width // 2):
                outer_low = inner_high = np.int64(65535)
                outer_high = inner_low = np.int64(0)
                for i in range(count // 2 * half, count // 2 if half == 0 else count):
                    lower = np.int64(bounds[order[i], 2 * key])
                    upper = np.int64(bounds[order[i], 2 * key + 1])
                    outer_low, inner_low = (
                        np.minimum(outer_low, lower),
                        np.maximum(inner_low, lower),
                    )
                    outer_high, inner_high = max(outer_high, upper), min(inner_high, upper)
                hull *= (outer_high - outer_low + 1) / 65536.0
                core *= np.maximum(inner_high - inner_low + 1, 0) / 65536.0
            cost += hull - core
        if cost < best_cost:
            best, best_cost, pivot = dim, cost, values[count // 2]
            if values[0] == pivot:
                pivot += 1
    dims[0], dims[1] = best, pivot
    return best


@kernel
def _select(bounds, index, begin, end, middle, dim):
    """Reorder ``index[begin:end]`` so that no lane before ``middle`` lies above one after it."""
    low, high = begin, end - 1
    while low < high:
        pivot = bounds[index[(low + high) >> 1], dim]
        i, j = low, high
        while i <= j:
            while bounds[index[i], dim] < pivot:
                i += 1
            while bounds[index[j], dim] > pivot:
                j -= 1
            if i <= j:
                index[i], index[j] = index[j], index[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@kernel
def arrange(bounds, index, begin, end):
    """Order a range of lanes by k-d splits down to blocks."""
    stack = np.empty((128, 2), np.int64)
    dims = np.empty(2, np.int64)
    stack[0, 0], stack[0, 1] = begin, end
    depth = 1
    while depth > 0:
        depth -= 1
        low, high = stack[depth, 0], stack[depth, 1]
        if low // BLOCK == (high - 1) // BLOCK or high <= low:
            continue
        if split_at(bounds, index, low, high, dims) < 0:
            continue
        grain = BLOCK * 64 if high - low > BLOCK * 128 else BLOCK
        middle = ((low + high) // 2 + grain // 2) // grain * grain
        if middle <= low or middle >= high:
            middle = low // BLOCK * BLOCK + BLOCK
        _select(bounds, index, low, high, middle, dims[0])
        stack[depth, 0], stack[depth, 1] = low, middle
        stack[depth + 1, 0], stack[depth + 1, 1] = middle, high
        depth += 2


@kernel
def part(bounds, index, begin, end, dims, spare, ends):
    """Move lanes below the pivot to the front of ``spare``, the others to its back."""
    left, right = ends[0], ends[1]
    dim, pivot = dims[0], dims[1]
    for i in range(begin, end):
        lane = index[i]
        if bounds[lane, dim] < pivot:
            spare[left] = lane
            left += 1
        else:
            right -= 1
            spare[right] = lane
    ends[0], ends[1] = left, right


@kernel
def fill_blocks(
    bounds, index, lanes, ids, first, last, plain, base, grid, zones, supers, out_ids, alive, place
):
    """Write blocks ``first`` to ``last``: bounds by column, ids, live bits and zone maps."""
    width = bounds.shape[1] // 2
    total = len(index)
    for block in range(first, last):
        chunk, bit = block // 64, block % 64
        size = min(BLOCK, total - block * BLOCK)
        for lane in range(size):
            at = index[block * BLOCK + lane]
            out_ids[block, lane] = ids[lanes[at]]
            place[lanes[at]] = (base + block) * BLOCK + lane
            alive[block] |= np.uint64(1) << np.uint64(lane)
        for key in range(width):
            outer_low = inner_high = np.int64(65535)
            outer_high = inner_low = np.int64(0)
            for lane in range(size):
                at = index[block * BLOCK + lane]
                low, high = np.int64(bounds[at, 2 * key]), np.int64(bounds[at, 2 * key + 1])
                grid[block, key, 0, lane], grid[block, key, 1, lane] = low, high
                outer_low, outer_high = min(outer_low, low), max(outer_high, high)
                inner_low = max(inner_low, low + 1 - low % 2)  # an even code is not exact
                inner_high = min(inner_high, high - 1 + high % 2)
            if not plain:  # some lane has more to it than its bounds: never take a block whole
                inner_low, inner_high = np.int64(65535), np.int64(0)
            zones[chunk, key, 0, bit], zones[chunk, key, 1, bit] = outer_low, outer_high
            zones[chunk, key, 2, bit], zones[chunk, key, 3, bit] = inner_low, inner_high
            page, spot = chunk // 64, chunk % 64
            supers[page, key, 0, spot] = min(np.int64(supers[page, key, 0, spot]), outer_low)
            supers[page, key, 1, spot] = max(np.int64(supers[page, key, 1, spot]), outer_high)


@kernel
def fill_exact(start, columns, lows, highs, lanes, index, begin, end, column, exact):
    """The exact bounds on one key column, in block order."""
    for position in range(begin, end):
        lane = lanes[index[position]]
        for at in range(start[lane], start[lane + 1]):
            if columns[at] == column:
                exact[position, 0], exact[position, 1] = lows[at], highs[at]


@kernel
def _rank(column, low, high, cut):
    """The predicate least likely to hold first; a negated one seldom fails."""
    plain = np.int64(column) & (NEGATED - 1)
    share = (np.int64(high) - np.int64(low) + 2) / (cut[plain] + 1.0)
    return share + 1e6 if column >= np.uint32(NEGATED) else share


@kernel
def pick_residuals(start, columns, low, high, lanes, index, begin, end, keys, cut, picked, counts):
    """Narrowest exact predicates beside the keys, per lane, and the number of others."""
    for position in range(begin, end):
        lane = lanes[index[position]]
        if start[lane + 1] - start[lane] == len(keys):  # there is nothing beside the keys
            picked[position] = -1
            continue
        for slot in range(picked.shape[1]):
            best, count = np.int64(-1), 0
            for at in range(start[lane], start[lane + 1]):
                kept = True
                for key in range(len(keys)):
                    kept = kept and columns[at] != keys[key]
                for earlier in range(slot):
                    kept = kept and picked[position, earlier] != at
                if not kept:
                    continue
                count += 1
                if (
                    (low[at] & 1)
                    and (high[at] & 1)
                    and low[at] <= high[at]
                    and (
                        best < 0
                        or _rank(columns[at], low[at], high[at], cut)
                        < _rank(columns[best], low[best], high[best], cut)
                    )
                ):
                    best = np.int64(at)
            picked[position, slot] = best
            counts[position + 1] = count - (1 if best >= 0 else 0)


@kernel
def fill_slots(columns, low, high, begin, end, picked, slots):
    """Write the picked predicates as column, lowest code and width; without one anything holds."""
    for position in range(begin, end):
        block, spot = position // BLOCK, position % BLOCK
        for slot in range(slots.shape[2]):
            at = picked[position, slot]
            column, lower, width = np.int64(0), np.int64(0), np.int64(65535)
            if at >= 0:
                column = np.int64(columns[at] & np.uint32(NEGATED - 1))
                lower, upper = np.int64(low[at]), np.int64(high[at])
                width = upper - lower
                if columns[at] >= np.uint32(NEGATED):  # all other codes, around the end
                    lower, width = upper + 1, (lower - upper - 2) & 65535
            slots[block, spot, slot, 0] = column
            slots[block, spot, slot, 1], slots[block, spot, slot, 2] = lower, width


@kernel
def fill_residuals(
    start, columns, lows, highs, low, high, lanes, index, begin, end, keys, cut, picked,
    out_start, out_columns, out_codes, out_exact,
):  # fmt: skip  # what it reads, then what it writes
    """The predicates beside the keys and the one picked, narrowest first, in block order."""
    for position in range(begin, end):
        lane = lanes[index[position]]
        first = np.int64(out_start[position])
        count = 0
        for at in range(start[lane], start[lane + 1]):
            kept = True
            for slot in range(picked.shape[1]):
                kept = kept and at != picked[position, slot]
            for key in range(len(keys)):
                kept = kept and columns[at] != keys[key]
            if not kept:
                continue
            spot = first + count
            span = _rank(columns[at], low[at], high[at], cut)
            while spot > first and span < _rank(
                out_columns[spot - 1], out_codes[spot - 1, 0], out_codes[spot - 1, 1], cut
            ):
                out_columns[spot] = out_columns[spot - 1]
                out_codes[spot, 0] = out_codes[spot - 1, 0]
                out_codes[spot, 1] = out_codes[spot - 1, 1]
                if len(out_exact) > 0:
                    out_exact[spot, 0] = out_exact[spot - 1, 0]
                    out_exact[spot, 1] = out_exact[spot - 1, 1]
                spot -= 1
            out_columns[spot] = columns[at]
            out_codes[spot, 0], out_codes[spot, 1] = low[at], high[at]
            if len(out_exact) > 0:
                out_exact[spot, 0], out_exact[spot, 1] = lows[at], highs[at]
            count += 1


@kernel
def scatter(group_of, begin, end, offsets, lanes):
    """Deal lanes out to their groups, in order."""
    for lane in range(begin, end):
        group = group_of[lane]
        lanes[offsets[group]] = lane
        offsets[group] += 1
