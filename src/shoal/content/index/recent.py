"""The newest lanes: a short list that every event is checked against, one by one."""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.segments import Array, Flat


class Recent:
    """Lanes in lists, which Python extends quickly, copied to arrays when an event comes."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.handles: list[int] = []
        self.start: list[int] = [0]
        self.numbers = array("d")
        self._copied = 0
        self._arrays: list[Array] = []
        self._room = (0, 0)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, handle: int, flags: int, box: list[float]) -> None:
        """Append a lane: column, lowest and highest key of each predicate. No handle descends."""
        self.numbers.fromlist(box)
        self.start.append(len(self.numbers) // 3)
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

    def _predicates(self, first: int) -> tuple[Array, Array, Array]:
        """Columns, lowest and highest keys of the predicates from one on."""
        numbers = np.array(self.numbers[3 * first :]).reshape(-1, 3)
        return numbers[:, 0].astype(np.uint32), numbers[:, 1], numbers[:, 2]

    def flat(self) -> Flat:
        """The live lanes as a list of their own."""
        ids = np.array(self.ids, np.uint32)
        start = np.array(self.start, np.uint32)
        live = ids != f.DEAD
        counts = np.diff(start)
        kept = np.repeat(live, counts)
        columns, low, high = (array[kept] for array in self._predicates(0))
        start = np.concatenate([[0], np.cumsum(counts[live])]).astype(np.uint32)
        return Flat(ids[live], start, columns, low, high)

    def publish(self, table: Array) -> None:
        """Show the kernels what has been added since the last time."""
        lanes, predicates = len(self.ids), self.start[-1]
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
        ids, start, *bounds = self._arrays
        ids[first:lanes] = self.ids[first:]
        start[first + 1 : lanes + 1] = self.start[first + 1 :]
        for array, added in zip(bounds, self._predicates(at), strict=True):
            array[at:predicates] = added
        self._copied = lanes
        table[f.RECENT] = lanes

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return 8 * len(self.ids) + 20 * self.start[-1]

    def clear(self) -> None:
        """Forget all lanes."""
        self.ids.clear()
        self.handles.clear()
        del self.numbers[:]
        self.start[:] = [0]
        self._copied = 0
