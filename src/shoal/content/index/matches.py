"""Matches of a batch of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.segments import Array
from shoal.content.normal import NormalForm

if TYPE_CHECKING:
    from shoal.content.index.events import Events


@dataclass
class Matches:
    """Which filters match which rows: ``ids[ends[i - 1]:ends[i]]`` are those of row ``rows[i]``."""

    rows: Array
    ends: Array
    ids: Array

    @property
    def counts(self) -> Array:
        """Number of matching filters per entry of ``rows``."""
        return np.diff(self.ends, prepend=0)

    def pairs(self) -> tuple[Array, Array]:
        """All (row, handle) pairs."""
        return np.repeat(self.rows, self.counts), self.ids

    def lists(self) -> list[list[int]]:
        """The handles by row, ascending."""
        found: list[list[int]] = [[] for _ in range(len(self.rows))]
        begin = 0
        for row, end in zip(self.rows.tolist(), self.ends.tolist(), strict=True):
            found[row] = sorted(self.ids[begin:end].tolist())
            begin = end
        return found

    @staticmethod
    def join(parts: list[Matches]) -> Matches:
        """Portions of one batch as a whole."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return Matches(none, none, np.empty(0, np.uint32))
        offsets = np.cumsum([0] + [len(part.ids) for part in parts])
        return Matches(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=False)]),
            np.concatenate([part.ids for part in parts]),
        )

    def decided(self, events: Events, opaque: Mapping[int, NormalForm]) -> Matches:
        """These matches without the candidates that the reference evaluator rejects."""
        asked = np.flatnonzero(self.ids >= f.OPAQUE)
        if not len(asked):
            return self
        at = np.searchsorted(self.ends, asked, side="right")
        keep = np.ones(len(self.ids), bool)
        last: tuple[int, set[int]] = (-1, set())
        for position, entry in zip(asked.tolist(), at.tolist(), strict=True):
            if entry != last[0]:
                last = (entry, set())
            handle = int(self.ids[position]) & f.ID_MASK
            keep[position] = handle not in last[1] and opaque[handle].decide(
                events.row(int(self.rows[entry]))
            )
            if keep[position]:
                last[1].add(handle)
        kept = np.cumsum(keep)
        ends = np.where(self.ends > 0, kept[np.maximum(self.ends, 1) - 1], 0)
        return Matches(self.rows, ends, self.ids[keep] & np.uint32(f.ID_MASK))
