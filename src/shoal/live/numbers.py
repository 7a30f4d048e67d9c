"""Numbers of subscriptions in four bytes each, instead of the hundred that a ``dict`` takes.

They are kept sorted. Clients count upwards, so a new one nearly always goes to the end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import Filter


class Numbers:
    """A set of numbers."""

    __slots__ = ("_sorted",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._sorted = array("I", sorted(numbers))

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sorted)

    def place(self, number: int) -> int:
        """Position of a number, or -1."""
        at = bisect_left(self._sorted, number)
        return at if at < len(self._sorted) and self._sorted[at] == number else -1

    def add(self, number: int) -> int:
        """Add a number that is not there; return its position."""
        if not self._sorted or number > self._sorted[-1]:
            self._sorted.append(number)
            return len(self._sorted) - 1
        at = bisect_left(self._sorted, number)
        self._sorted.insert(at, number)
        return at

    def remove(self, number: int) -> bool:
        """Remove a number; return whether it was there."""
        at = self.place(number)
        if at >= 0:
            del self._sorted[at]
        return at >= 0


class Numbered:
    """A client's filters by the number of their subscription."""

    __slots__ = ("_filters", "_numbers")

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._filters: list[Filter] = []

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, number: int) -> bool:
        return self._numbers.place(number) >= 0

    def put(self, number: int, filter: Filter) -> None:
        """Remember a filter under a number that is not there."""
        self._filters.insert(self._numbers.add(number), filter)

    def pop(self, number: int) -> Filter | None:
        """Take away what is under a number, if anything is."""
        at = self._numbers.place(number)
        if at < 0:
            return None
        self._numbers.remove(number)
        return self._filters.pop(at)

    def items(self) -> Iterator[tuple[int, Filter]]:
        """All numbers with their filters; nothing may change during the iteration."""
        return zip(self._numbers, self._filters, strict=True)
