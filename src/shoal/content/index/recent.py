"""The newest lanes: a short list that every event is checked against, one by one."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.lanes import Predicate
from shoal.content.index.segments import Array, Flat


class Recent:
    """Lanes in lists, which Python extends quickly, copied to arrays when an event comes."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.handles: list[int] = []
        self.start: list[int] = [0]
        self.columns: list[int] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self._copied = 0
        self._arrays: list[Array] = []
        self._room = (0, 0)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, handle: int, flags: int, box: list[Predicate]) -> None:
        """Append a lane; handles must not descend."""
        for column, low, high in box:
            self.columns.append(column)
            self.low.append(low)
            self.high.append(high)
        self.start.append(len(self.columns))
        self.ids.append(handle | flags)
        self.handles.append(handle)

    def remove(self, handle: int) -> int:
        """Drop a handle's lanes: how many there were, and their flags."""
        at = bisect_left(self.handles, handle)
        found = flags = 0
        while at < len(self.handles) and self.handles[at] == handle:
            if self.ids[at] != f.DEAD:
                flags |= self.ids[at] & (f.SHARED | f.OPAQUE)
                found += 1
                self.ids[at] = f.DEAD
                if at < self._copied:
                    self._arrays[0][at] = f.DEAD
            at += 1
        return found | flags

    def flat(self) -> Flat:
        """The live lanes as a list of their own."""
        ids = np.array(self.ids, np.uint32)
        start = np.array(self.start, np.uint32)
        live = ids != f.DEAD
        counts = np.diff(start)
        kept = np.repeat(live, counts)
        return Flat(
            ids[live],
            np.concatenate([[0], np.cumsum(counts[live])]).astype(np.uint32),
            np.array(self.columns, np.uint32)[kept],
            np.array(self.low, np.float64)[kept],
            np.array(self.high, np.float64)[kept],
        )

    def publish(self, table: Array) -> None:
        """Show the kernels what has been added since the last time."""
        lanes, predicates = len(self.ids), len(self.columns)
        if lanes > self._room[0] or predicates > self._room[1] or not self._arrays:
            self._room = (2 * lanes + 16, 2 * predicates + 64)
            self._arrays = [
                np.empty(self._room[0], np.uint32),
                np.zeros(self._room[0] + 1, np.uint32),
                np.empty(self._room[1], np.uint32),
                np.empty(self._room[1]),
                np.empty(self._room[1]),
            ]
            self._copied = 0
            slots = (f.RECENT_IDS, f.RECENT_START, f.RECENT_COLUMNS, f.RECENT_LOW, f.RECENT_HIGH)
            for slot, array in zip(slots, self._arrays, strict=True):
                table[slot] = array.ctypes.data
        first, at = self._copied, self.start[self._copied]
        ids, start, columns, low, high = self._arrays
        ids[first:lanes] = self.ids[first:]
        start[first + 1 : lanes + 1] = self.start[first + 1 :]
        columns[at:predicates] = self.columns[at:]
        low[at:predicates] = self.low[at:]
        high[at:predicates] = self.high[at:]
        self._copied = lanes
        table[f.RECENT] = lanes

    def clear(self) -> None:
        """Forget all lanes."""
        for held in (self.ids, self.handles, self.columns, self.low, self.high):
            held.clear()
        self.start[:] = [0]
        self._copied = 0
