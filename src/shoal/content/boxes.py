"""Conjunctions as boxes: which may contain a given one, which may lie in it?

Each attribute of a conjunction is projected onto up to three axes: its interval as a number, the
stretch of its text in alphabetical order (by the first characters), and a hash of its text if that
is a single one. A projection keeps inclusion: what lies within has its interval within, on every
axis. So a comparison of boxes never misses a pair; it may give pairs that the caller must discard.

Boxes are kept in blocks of up to 64, found by k-d splits (Bentley 1975) and summarised by the
extremes of their bounds on each axis and by the attributes that all of them constrain. A query
looks at the summaries, and into the few blocks they do not exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import numpy as np

from shoal.content import values
from shoal.content.box_kernels import (
    ATTRIBUTE_BITS,
    BLOCK,
    FIRST,
    WIDTH,
    around,
    best_cut,
    inside,
    keys_of,
    put,
    summarise,
)
from shoal.content.conjunctions import by_attribute
from shoal.content.normal import Conjunction, Number, Plain, Text
from shoal.content.sets import Group, finite

T = TypeVar("T")
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

MAX_AXES = 512
"""Axes in all; on further ones nothing is excluded."""


class Box(NamedTuple):
    """A conjunction's projection: which attributes it constrains, and its bounds on some axes."""

    mask: np.uint64
    axes: Array
    lows: Array
    highs: Array


class BoxIndex(Generic[T]):
    """Boxes of conjunctions, each with the item it stands for."""

    def __init__(self) -> None:
        self._axes: dict[tuple[str, str], int] = {}
        self._attributes: dict[str, int] = {}
        self._items: list[T | None] = []
        self._owners: list[list[int] | None] = []
        self._removed: list[int] = []  # per block, rows that left it
        self._turn: list[int] = []  # per block, the cut that made it
        self._count = 0  # blocks in use
        self._nodes = 1  # of the tree
        # A leaf has axis -1, its block for left, and for right one more leaf if it needs one.
        self._tree = tuple(np.full(8, -1, kind) for kind in ("i4", "i4", "f8", "i4", "i4"))
        self._low, self._high = np.full(4, -inf), np.full(4, inf)  # scratch, by axis
        self._found = np.zeros(256, np.int64)
        self._blocks: tuple[Array, ...] = ()
        self._rows: tuple[Array, ...] = ()
        self._grow(4)
        self._tree[3][0] = self._new_block()

    # Projection

    def box(self, conjunction: Conjunction) -> Box:
        """The box of a conjunction."""
        bits = 0
        axes: list[int] = []
        lows: list[float] = []
        highs: list[float] = []
        for attribute, group in by_attribute(conjunction).items():
            number = self._attributes.setdefault(attribute, len(self._attributes))
            bits |= 1 << number % ATTRIBUTE_BITS
            for kind, low, high in self._intervals(group):
                axis = self._axes.get((attribute, kind))
                if axis is None:
                    axis = self._new_axis(attribute, kind)
                if axis is not None:
                    axes.append(axis)
                    lows.append(low)
                    highs.append(high)
        return Box(np.uint64(bits), np.array(axes, np.int64), np.array(lows), np.array(highs))

    def _new_axis(self, attribute: str, kind: str) -> int | None:
        axis = len(self._axes)
        if axis == MAX_AXES:
            return None
        self._axes[attribute, kind] = axis
        if axis == len(self._low):
            self._low, self._high = np.full(2 * axis, -inf), np.full(2 * axis, inf)
            unbounded = np.empty_like(self._blocks[3])
            unbounded[:, 0::2], unbounded[:, 1::2] = -inf, inf
            zones = np.concatenate((self._blocks[3], unbounded))
            self._blocks = (*self._blocks[:3], zones, self._blocks[4])
        return axis

    def _intervals(self, group: Group) -> list[tuple[str, float, float]]:
        only = group[0]
        if isinstance(only, Number) and len(group) == 1:
            if only.low > -inf or only.high < inf:
                return [("number", float(only.low), float(only.high))]
            return []
        if isinstance(only, Text) and only.among is not None and len(group) == 1:
            return self._listed(only.among, only.among)
        listed = finite(group)
        if listed is not None:
            return self._listed([values.text(value) for value in listed], listed)
        found: list[tuple[str, float, float]] = []
        for predicate in group:
            if isinstance(predicate, Number):
                found += self._intervals((predicate,))
            elif isinstance(predicate, Text) and predicate.prefix:
                least, last = (_place(predicate.prefix, end) for end in (b"\0", b"\xff"))
                found.append(("text", least, last))
        return found

    def _listed(
        self, texts: Sequence[str], listed: Sequence[Plain]
    ) -> list[tuple[str, float, float]]:
        """The intervals of finitely many values."""
        found: list[tuple[str, float, float]] = []
        if len(texts) == 1 or all(text == texts[0] for text in texts):
            key = float(crc32(texts[0].encode("utf-8", "surrogatepass")))
            found.append(("one text", key, key))
        found.append(("text", _place(min(texts), b"\0"), _place(max(texts), b"\0")))
        numbers = [number for value in listed if (number := values.number(value)) is not None]
        if len(numbers) == len(listed):
            found.append(("number", float(min(numbers)), float(max(numbers))))
        return found

    # Changes

    def add(self, item: T, rows: list[int], boxes: Iterable[Box]) -> None:
        """Add an item's boxes; ``rows`` will tell where they are, for :meth:`discard`."""
        for at, (mask, axes, lows, highs) in enumerate(boxes):
            flagged = mask if at else mask | FIRST
            while True:
                row = put(
                    self._tree, self._blocks, self._rows, flagged, axes, lows, highs, self._low,
                    self._high,
                )  # fmt: skip
                if row >= 0:
                    break
                self._split(-1 - row)
            self._items[row], self._owners[row] = item, rows
            rows.append(row)

    def discard(self, rows: list[int]) -> None:
        """Take an item's boxes away; ``rows`` is emptied."""
        sizes = self._blocks[0]
        while rows:
            row = rows.pop()
            block = row // BLOCK
            self._items[row] = self._owners[row] = None
            sizes[block] -= 1
            last = int(block * BLOCK + sizes[block])
            if row != last:
                self._move(last, row)
            self._removed[block] += 1
            if self._removed[block] % 16 == 0:  # in between, summaries only widen
                summarise(self._blocks, self._rows, block)

    def _split(self, leaf: int) -> None:
        """Make two blocks of a full one."""
        axis, side, cut, left, right = self._tree
        block = int(left[leaf])
        key, at = best_cut(self._rows, block, len(self._low), self._turn[block])
        other = self._new_block()
        if key < 0:  # no cut tells the boxes apart
            right[leaf] = self._new_leaf(other)
            return
        keys = np.empty(BLOCK)
        keys_of(self._rows, block, key >> 1, key & 1, keys)
        start, staying, moved = block * BLOCK, 0, 0
        for row in range(start, start + BLOCK):
            if keys[row - start] > at:
                self._move(row, other * BLOCK + moved)
                moved += 1
            else:
                if row != start + staying:
                    self._move(row, start + staying)
                staying += 1
        sizes = self._blocks[0]
        sizes[block], sizes[other] = staying, moved
        self._turn[block] = self._turn[other] = key
        summarise(self._blocks, self._rows, block)
        summarise(self._blocks, self._rows, other)
        below, above = self._new_leaf(block, int(right[leaf])), self._new_leaf(other)
        axis, side, cut, left, right = self._tree
        axis[leaf], side[leaf], cut[leaf] = key >> 1, key & 1, at
        left[leaf], right[leaf] = below, above

    def _move(self, row: int, to: int) -> None:
        for array in self._rows:
            array[to] = array[row]
        owner = self._owners[row]
        if owner is not None:
            owner[owner.index(row)] = to
        self._items[to], self._owners[to] = self._items[row], owner
        self._items[row] = self._owners[row] = None

    def _new_leaf(self, block: int, more: int = -1) -> int:
        if self._nodes == len(self._tree[0]):
            self._tree = tuple(np.concatenate((a, np.full_like(a, -1))) for a in self._tree)
        node = self._nodes
        self._nodes += 1
        self._tree[3][node], self._tree[4][node] = block, more
        return node

    def _new_block(self) -> int:
        if self._count == len(self._blocks[0]):
            self._grow(2 * self._count)
        block = self._count
        self._count += 1
        self._removed.append(0)
        self._turn.append(-1)
        return block

    def _grow(self, blocks: int) -> None:
        """Room for more blocks."""
        rows, axes = blocks * BLOCK, len(self._low)
        by_block = (
            np.zeros(blocks, np.int64),
            np.zeros(blocks, np.uint64),
            np.zeros(blocks, np.uint64),
            np.zeros((axes, 4, blocks)),
            np.zeros(blocks, np.uint8),
        )
        by_row = (
            np.zeros(rows, np.uint64),
            np.full((rows, WIDTH), -1, np.int32),
            np.zeros((rows, WIDTH)),
            np.zeros((rows, WIDTH)),
        )
        held = self._blocks + self._rows
        for old, new in zip(held, (by_block + by_row)[: len(held)], strict=True):
            new[tuple(slice(0, extent) for extent in old.shape)] = old
        self._blocks, self._rows = by_block, by_row
        self._items += [None] * (rows - len(self._items))
        self._owners += [None] * (rows - len(self._owners))

    # Questions

    def around(self, box: Box) -> list[T]:
        """Items with a box that contains this one."""
        return self._ask(around, box)

    def inside(self, boxes: Sequence[Box]) -> list[T]:
        """Items whose first box lies within one of these."""
        if len(boxes) == 1:
            return self._ask(inside, boxes[0])
        found = {id(item): item for box in boxes for item in self._ask(inside, box)}
        return list(found.values())

    def _ask(self, kernel: Any, box: Box) -> list[T]:
        while True:
            count = kernel(
                self._blocks, self._rows, self._count, *box, self._low, self._high, self._found
            )
            if count >= 0:
                break
            self._found = np.zeros(4 * len(self._found), np.int64)
        if count == 0:
            return []
        items = self._items
        return [item for row in self._found[:count].tolist() if (item := items[row]) is not None]


def _place(text: str, filler: bytes) -> float:
    """Where a text stands in alphabetical order, to its first six bytes.

    ``filler`` stands for what comes after its end: least for the text itself, greatest for the last
    text that begins with it.
    """
    head = text[:6].encode("utf-8", "surrogatepass")[:6]
    return float(int.from_bytes(head.ljust(6, filler)))
