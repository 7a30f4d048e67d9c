"""Segments become lanes again, lanes choose cuts, several segments become one: all in steps."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.layout import lay_out, steps
from shoal.content.index.machine import kernel, load_f64, load_i64, load_u16, load_u32, load_u64
from shoal.content.index.segments import Array, Flat, Segment, Snapshot

_ONE = np.uint64(1)
SAMPLE = 2 * f.MAX_CUTS  # constants of a column from which cuts are chosen when there are too many


@kernel
def _survey(
    place: Any,
    groups: Any,
    block_group: Any,
    ids: int,
    alive: int,
    begin: int,
    end: int,
    counts: Any,
) -> None:
    """How many predicates each lane has; -1 for a dead one."""
    for i in range(begin, end):
        position = np.int64(place[i])
        word = load_u64(alive + 8 * (position >> 6))
        counts[i] = -1
        if (word >> np.uint64(position & 63)) & _ONE == _ONE:
            row = groups[block_group[position // f.BLOCK]]
            counts[i] = row[f.WIDTH]
            inside = position - (row[f.IDS] - ids) // 4
            slots = row[f.SLOT_COUNT]
            for slot in range(slots):
                here = row[f.SLOTS] + 6 * (slots * inside + slot)
                counts[i] += 1 if load_u16(here + 4) != 65535 else 0
            if row[f.RESIDUAL_START] != 0:
                at = row[f.RESIDUAL_START] + 4 * inside
                counts[i] += np.int64(load_u32(at + 4)) - np.int64(load_u32(at))


@kernel
def _value(code: Any, cuts: int, exact: int) -> Any:
    """The bound behind a code."""
    count = load_i64(cuts + 8 * f.CUT_COUNT)
    if code == f.UNBOUNDED:
        return -np.inf
    if code == 2 * count + 3:
        return np.inf
    if code & 1:
        return load_f64(load_i64(cuts + 8 * f.CUTS) + 8 * ((code - 3) // 2))
    return load_f64(exact)


@kernel
def _unfold(
    place: Any,
    groups: Any,
    block_group: Any,
    snapshot: int,
    chosen: Any,
    ids: int,
    start: Any,
    columns: Any,
    low: Any,
    high: Any,
    out_ids: Any,
) -> None:
    """The predicates of the chosen lanes, with exact bounds."""
    for i in range(len(chosen)):
        position = np.int64(place[chosen[i]])
        row = groups[block_group[position // f.BLOCK]]
        inside = position - (row[f.IDS] - ids) // 4
        block, lane = inside // f.BLOCK, inside % f.BLOCK
        out_ids[i] = load_u32(ids + 4 * position)
        at = np.int64(start[i])
        width = row[f.WIDTH]
        for key in range(width):
            column = row[f.KEYS + key]
            cuts = snapshot + 8 * f.CUT_SIZE * column
            bounds = row[f.BOUNDS] + 256 * (width * block + key) + 2 * lane
            exact = row[f.EXACT + key] + 16 * inside
            columns[at] = column
            low[at] = _value(np.int64(load_u16(bounds)), cuts, exact)
            high[at] = _value(np.int64(load_u16(bounds + 128)), cuts, exact + 8)
            at += 1
        for slot in range(row[f.SLOT_COUNT]):
            here = row[f.SLOTS] + 6 * (row[f.SLOT_COUNT] * inside + slot)
            lower = np.int64(load_u16(here + 2))
            upper = lower + np.int64(load_u16(here + 4))
            if upper - lower != 65535:
                column = np.int64(load_u16(here))
                cuts = snapshot + 8 * f.CUT_SIZE * column
                columns[at] = column
                if upper > 65535:  # a negated predicate wraps around
                    lower, upper = (upper + 1) & 65535, lower - 1
                    columns[at] = column | f.NEGATED
                low[at], high[at] = _value(lower, cuts, 0), _value(upper, cuts, 0)
                at += 1
        if row[f.RESIDUAL_START] != 0:
            first = np.int64(load_u32(row[f.RESIDUAL_START] + 4 * inside))
            last = np.int64(load_u32(row[f.RESIDUAL_START] + 4 * inside + 4))
            for r in range(first, last):
                flagged = np.int64(load_u32(row[f.RESIDUAL_COLUMNS] + 4 * r))
                cuts = snapshot + 8 * f.CUT_SIZE * (flagged & (f.NEGATED - 1))
                codes, exact = row[f.RESIDUAL_CODES] + 4 * r, row[f.RESIDUAL_EXACT] + 16 * r
                columns[at] = flagged
                low[at] = _value(np.int64(load_u16(codes)), cuts, exact)
                high[at] = _value(np.int64(load_u16(codes + 2)), cuts, exact + 8)
                at += 1


def unfold(segment: Segment) -> Generator[int, None, Flat]:
    """A segment's live lanes as a list."""
    total = len(segment.place)
    counts = np.empty(total, np.int32)
    for begin, end in steps(total):
        _survey(
            segment.place, segment.groups, segment.block_group,
            segment.ids.ctypes.data, segment.alive.ctypes.data, begin, end, counts,
        )  # fmt: skip
        yield end - begin
    chosen = np.flatnonzero(counts >= 0).astype(np.uint32)
    start = np.zeros(len(chosen) + 1, np.uint32)
    np.cumsum(counts[chosen], out=start[1:])
    yield total // 4
    size = int(start[-1])
    flat = Flat(
        np.empty(len(chosen), np.uint32), start,
        np.empty(size, np.uint32), np.empty(size), np.empty(size),
    )  # fmt: skip
    for begin, end in steps(len(chosen)):
        _unfold(
            segment.place, segment.groups, segment.block_group,
            segment.snapshot.table.ctypes.data, chosen[begin:end], segment.ids.ctypes.data,
            start[begin : end + 1], flat.columns, flat.low, flat.high, flat.ids[begin:end],
        )  # fmt: skip
        yield 2 * (end - begin)
    return flat


def joined(flats: list[Flat]) -> Generator[int, None, Flat]:
    """Lists of lanes, one after the other."""
    if len(flats) == 1:
        return flats[0]
    size = sum(len(flat.columns) for flat in flats)
    whole = Flat(
        np.concatenate([flat.ids for flat in flats]),
        np.zeros(sum(len(flat) for flat in flats) + 1, np.uint32),
        np.empty(size, np.uint32), np.empty(size), np.empty(size),
    )  # fmt: skip
    lane = at = 0
    for flat in flats:
        whole.start[lane + 1 : lane + len(flat) + 1] = flat.start[1:] + np.uint32(at)
        for begin, end in steps(len(flat.columns), 1 << 17):
            whole.columns[at + begin : at + end] = flat.columns[begin:end]
            whole.low[at + begin : at + end] = flat.low[begin:end]
            whole.high[at + begin : at + end] = flat.high[begin:end]
            yield (end - begin) // 8
        lane, at = lane + len(flat), at + len(flat.columns)
    return whole


class _Constants:
    """One column's constants: all of them while they are few, then a sample."""

    def __init__(self) -> None:
        self.distinct: Array | None = np.empty(0)
        self.sample: list[Array] = []

    def add(self, found: Array, stride: int) -> None:
        if self.distinct is not None:
            both = np.concatenate([self.distinct, np.unique(found)])
            both.sort(kind="stable")  # two ascending runs
            fresh = np.ones(len(both), bool)
            np.not_equal(both[1:], both[:-1], out=fresh[1:])
            self.distinct = both[fresh]
            if len(self.distinct) <= SAMPLE:
                return
            self.sample, self.distinct = [self.distinct[::stride]], None
        else:
            self.sample.append(found[::stride])

    def cuts(self) -> Array:
        if self.distinct is not None and len(self.distinct) <= f.MAX_CUTS:
            return self.distinct
        found = self.distinct if self.distinct is not None else np.sort(np.concatenate(self.sample))
        at = np.linspace(0, len(found) - 1, f.MAX_CUTS).astype(np.int64)
        return np.unique(found[at])


def choose_cuts(flat: Flat, snapshot: Snapshot) -> Generator[int, None, None]:
    """Give a snapshot cuts for the columns it has none for: each constant, or quantiles."""
    found: dict[int, _Constants] = {}
    stride = max(1, 2 * len(flat.columns) // SAMPLE)
    for begin, end in steps(len(flat.columns)):
        columns = (flat.columns[begin:end] & np.uint32(f.NEGATED - 1)).astype(np.uint16)
        order = np.argsort(columns, kind="stable")
        columns = columns[order]
        edges = np.flatnonzero(np.diff(columns)) + 1
        for first, last in zip([0, *edges], [*edges, len(columns)], strict=True):
            column = int(columns[first])
            if column in snapshot.cuts:
                continue
            mine = order[first:last] + begin
            constants = np.concatenate([flat.low[mine], flat.high[mine]])
            constants = constants[np.isfinite(constants)]
            found.setdefault(column, _Constants()).add(constants, stride)
        yield 3 * (end - begin) + 64 * len(edges)
    for column in sorted(found):
        if column not in snapshot.cuts:  # another segment may have come first
            snapshot.cut(column, found[column].cuts())
        yield 4096


def merge(
    segments: list[Segment], snapshot: Snapshot, columns: int
) -> Generator[int, None, Segment]:
    """One segment from several neighbours; columns new to the snapshot get cuts."""
    flats: list[Flat] = []
    for segment in segments:
        flat = yield from unfold(segment)
        flats.append(flat)
    flat = yield from joined(flats)
    return (yield from build(flat, snapshot, columns))


@dataclass
class Merge:
    """A merge under way."""

    inputs: list[Segment]
    snapshot: Snapshot
    steps: Generator[int, None, Segment]
    removed: list[int] = field(default_factory=list)
    """Handles removed since it began: their lanes may have been read already."""


def build(flat: Flat, snapshot: Snapshot, columns: int) -> Generator[int, None, Segment]:
    """A segment from a list of lanes; columns new to the snapshot get cuts."""
    yield from choose_cuts(flat, snapshot)
    return (yield from lay_out(flat, snapshot, columns))


def run(steps: Generator[int, None, Segment]) -> Segment:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            built: Segment = finished.value
            return built
