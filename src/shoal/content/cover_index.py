"""Finds, among many filters, those that may cover a given one and those that it may cover.

Each filter is bounded by a box: the attributes it constrains and, per attribute, up to three
intervals (of its numbers, of its texts in alphabetical order, of a hash of its only text). If one
filter covers another, it constrains no further attribute and its intervals hold the other's. So a
comparison of boxes never misses a pair; ``covers`` decides about those it finds.

Boxes lie in numpy columns, one pair per axis. A search compares whole columns, which for thousands
of filters costs less than asking a dozen of them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

from shoal.content import values
from shoal.content.attributes import AttributeFilter
from shoal.content.conjunctions import by_attribute
from shoal.content.model import Filter
from shoal.content.normal import Conjunction, NormalForm, Number, Plain, Text
from shoal.content.sets import Group, finite

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Axis: TypeAlias = tuple[str, str]
"""An attribute, and which of its intervals."""
Interval: TypeAlias = tuple[float, float]

SMALL = 32
"""Filters up to which all are candidates; numpy is not even loaded for them."""
AXES: Final = 32
"""Most axes with columns, the first to occur; other axes exclude nothing."""
EVERY: Final = (1 << 64) - 1
"""The attributes of a filter that matches nothing: it lies within any other."""


class CoverIndex:
    """A set of filters, in the order they came, that finds candidates for covering."""

    def __init__(self) -> None:
        self._rows: dict[Filter, int] = {}
        self._filters: list[Filter | None] = []
        """Filter per row; None where it was discarded."""
        self._columns: Columns | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, filter: Filter) -> bool:
        return filter in self._rows

    def add(self, filter: Filter) -> None:
        """Add a filter as the latest; one that is there becomes the latest."""
        self.discard(filter)
        self._rows[filter] = len(self._filters)
        self._filters.append(filter)
        if self._columns is not None:
            self._columns.append(filter)
        elif len(self._rows) > SMALL:
            self._rebuild()

    def discard(self, filter: Filter) -> None:
        """Remove a filter if it is there."""
        row = self._rows.pop(filter, None)
        if row is not None:
            self._filters[row] = None
            if len(self._filters) > 2 * len(self._rows) + SMALL:
                self._rebuild()

    def above(self, filter: Filter) -> Iterator[Filter]:
        """All filters here that cover this one, and perhaps others."""
        if self._columns is None or not isinstance(filter, AttributeFilter):
            return iter(self._rows)
        return self._at(self._columns.around(Box(filter.normal)))

    def below(self, filter: Filter) -> Iterator[Filter]:
        """All filters here that this one covers, and perhaps others."""
        if self._columns is None or not isinstance(filter, AttributeFilter):
            return iter(self._rows)
        return self._at(self._columns.inside(Box(filter.normal)))

    def _at(self, rows: list[int]) -> Iterator[Filter]:
        for row in rows:
            found = self._filters[row]
            if found is not None:
                yield found

    def _rebuild(self) -> None:
        """Close the gaps that discarded filters left."""
        self._filters = list(self._rows)
        self._rows = {filter: row for row, filter in enumerate(self._rows)}
        self._columns = None
        if len(self._rows) > SMALL:
            self._columns = Columns()
            for filter in self._rows:
                self._columns.append(filter)


class Columns:
    """Boxes by axis: a bit mask of attributes and two bounds per row."""

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._count = 0
        self._capacity = 4 * SMALL
        self._attributes: dict[str, int] = {}
        self._masks = np.zeros(self._capacity, np.uint64)
        self._bounds: dict[Axis, Array] = {}
        """Low and high bounds per axis."""
        self._empty: list[int] = []
        """Rows of filters that match nothing: within any box, on every axis."""

    def append(self, filter: Filter) -> None:
        """Add a row. Filters that are no :class:`AttributeFilter` cover none that is."""
        box = Box(filter.normal) if isinstance(filter, AttributeFilter) else NOTHING
        if self._count == self._capacity:
            self._grow()
        row = self._count
        self._count += 1
        self._masks[row] = self._mask(box)
        if box.attributes is None:
            self._empty.append(row)
            for bounds in self._bounds.values():
                bounds[:, row] = inf, -inf
        for axis, interval in box.intervals.items():
            if axis not in self._bounds and len(self._bounds) < AXES:
                self._bounds[axis] = self._unbounded()
            if axis in self._bounds:
                self._bounds[axis][:, row] = interval

    def around(self, box: Box) -> list[int]:
        """Rows of the boxes that may contain this one."""
        others = self._np.uint64(EVERY ^ self._mask(box))
        rows: Any = slice(self._count)
        within = (self._masks[rows] & others) == 0
        for axis, (low, high) in box.intervals.items():
            if axis in self._bounds:
                lows, highs = self._bounds[axis]
                within &= (lows[rows] <= low) & (highs[rows] >= high)
                rows, within = self._narrowed(rows, within)
        return self._narrowed(rows, within)[0].tolist()  # type: ignore[no-any-return]  # ints

    def inside(self, box: Box) -> list[int]:
        """Rows of the boxes that may lie within this one."""
        mask = self._np.uint64(self._mask(box))
        rows: Any = slice(self._count)
        within = (self._masks[rows] & mask) == mask
        for axis, (low, high) in box.intervals.items():
            if axis in self._bounds:
                lows, highs = self._bounds[axis]
                within &= (lows[rows] >= low) & (highs[rows] <= high)
                rows, within = self._narrowed(rows, within)
        return self._narrowed(rows, within)[0].tolist()  # type: ignore[no-any-return]  # ints

    def _narrowed(self, rows: Any, within: Array) -> tuple[Array, Array]:
        """The rows that are within so far; each further axis is compared for these alone."""
        kept = self._np.flatnonzero(within)
        return kept if isinstance(rows, slice) else rows[kept], self._np.ones(len(kept), bool)

    def _mask(self, box: Box) -> int:
        if box.attributes is None:
            return EVERY
        mask = 0
        for attribute in box.attributes:
            mask |= 1 << self._attributes.setdefault(attribute, len(self._attributes)) % 64
        return mask

    def _unbounded(self) -> Array:
        bounds = self._np.full((2, self._capacity), -inf)
        bounds[1] = inf
        bounds[0, self._empty], bounds[1, self._empty] = inf, -inf
        return bounds

    def _grow(self) -> None:
        self._capacity *= 2
        self._masks = self._np.resize(self._masks, self._capacity)
        for axis, held in self._bounds.items():
            self._bounds[axis] = self._unbounded()
            self._bounds[axis][:, : self._count] = held


class Box:
    """Bounds of a filter: the hull of its conjunctions' boxes."""

    def __init__(self, form: NormalForm) -> None:
        self.attributes: set[str] | None = None
        """Attributes that every conjunction constrains; None if there is no conjunction."""
        self.intervals: dict[Axis, Interval] = {}
        for conjunction in form.disjuncts:
            attributes = {predicate.attribute for predicate in conjunction.predicates}
            intervals = _intervals(conjunction)
            if self.attributes is None:
                self.attributes, self.intervals = attributes, intervals
                continue
            self.attributes &= attributes
            self.intervals = {
                axis: (min(low, intervals[axis][0]), max(high, intervals[axis][1]))
                for axis, (low, high) in self.intervals.items()
                if axis in intervals
            }


NOTHING: Final = Box(NormalForm(()))


def _intervals(conjunction: Conjunction) -> dict[Axis, Interval]:
    found = {
        (attribute, kind): (low, high)
        for attribute, group in by_attribute(conjunction).items()
        for kind, low, high in _of_group(group)
    }
    # A search begins with single values, which exclude most.
    return dict(sorted(found.items(), key=lambda item: item[1][0] != item[1][1]))


def _of_group(group: Group) -> list[tuple[str, float, float]]:
    """The intervals of what is said of one attribute."""
    listed = finite(group)
    if listed is not None:
        return _listed([values.text(value) for value in listed], listed)
    found: list[tuple[str, float, float]] = []
    for predicate in group:
        if isinstance(predicate, Number) and (predicate.low > -inf or predicate.high < inf):
            found.append(("number", float(predicate.low), float(predicate.high)))
        elif isinstance(predicate, Text) and predicate.prefix:
            found.append(
                ("text", _place(predicate.prefix, b"\0"), _place(predicate.prefix, b"\xff"))
            )
    return found


def _listed(texts: Sequence[str], listed: Sequence[Plain]) -> list[tuple[str, float, float]]:
    """The intervals of finitely many values."""
    found: list[tuple[str, float, float]] = []
    if all(text == texts[0] for text in texts):
        key = float(crc32(texts[0].encode("utf-8", "surrogatepass")))
        found.append(("one text", key, key))
    found.append(("text", _place(min(texts), b"\0"), _place(max(texts), b"\0")))
    numbers = [number for value in listed if (number := values.number(value)) is not None]
    if len(numbers) == len(listed):
        found.append(("number", float(min(numbers)), float(max(numbers))))
    return found


def _place(text: str, filler: bytes) -> float:
    """Position of a text in alphabetical order, by its first six bytes.

    ``filler`` stands for what comes after its end: least for the text itself, greatest for the last
    text that begins with it.
    """
    head = text[:6].encode("utf-8", "surrogatepass")[:6]
    return float(int.from_bytes(head.ljust(6, filler)))
