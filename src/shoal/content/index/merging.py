"""Segments become lanes again, lanes choose cuts, several segments become one: all in steps."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.building import unfolding
from shoal.content.index.layout import lay_out, steps
from shoal.content.index.segments import Array, Flat, Segment, Snapshot

SAMPLE = 2 * f.MAX_CUTS  # constants of a column from which cuts are chosen when there are too many


def unfold(segment: Segment) -> Generator[int, None, Flat]:
    """A segment's live lanes as a list."""
    total = len(segment.place)
    counts = np.empty(total, np.int32)
    for begin, end in steps(total):
        unfolding.survey(
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
        unfolding.unfold(
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
