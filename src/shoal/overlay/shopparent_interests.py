"""Interests in three forms: as filters, as messages carry them, and as sets of atoms.

There are two ways to compare filters. On an *axis* a filter is intervals of one attribute, and
events are expected evenly. By *sample* a filter is the set of recent events that it matches; so any
filters can be compared, and frequent content counts more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from shoal.content import AttributeFilter, Pattern
from shoal.content.normal import Number
from shoal.overlay.shopparent_costs import (
    FARTHEST,
    Axis,
    Density,
    Intervals,
    Sample,
    Space,
    hull_of,
    united,
)
from shoal.overlay.shopparent_messages import Wanted

if TYPE_CHECKING:
    from shoal.content import Content, Filter

REMEMBERED: Final = 65_536
"""Most filters whose intervals are cached."""
TOLD: Final = 256
"""Most filters of an interest in a message; further ones are left out."""
EVENTS: Final = 512
"""Recent events in a sample."""
MATCHED: Final = 4096
"""Most filters whose matches in the sample are cached."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Interests:
    """Turns filters into interests that can be compared."""

    def wanted(self, filters: Sequence[Filter]) -> Wanted:
        """Filters as a message carries them."""
        raise NotImplementedError

    def merged(self, several: Iterable[Wanted]) -> Wanted:
        """Several interests merged into one."""
        raise NotImplementedError

    def space(self, all_wanted: Sequence[Wanted]) -> Space:
        """A space in which all of these can be weighed."""
        raise NotImplementedError

    def interest(self, space: Space, wanted: Wanted) -> int:
        """An interest as atoms of that space."""
        raise NotImplementedError

    def observe(self, content: Content) -> None:
        """An event went by."""


class OnAxis(Interests):
    """Filters as intervals of one attribute."""

    def __init__(self, attribute: str, hull: bool) -> None:
        self.attribute = attribute
        self.hull = hull
        self._known: dict[Filter, Intervals] = {}

    def wanted(self, filters: Sequence[Filter]) -> Wanted:
        found: list[tuple[float, float]] = []
        for filter in filters:
            found.extend(self._intervals(filter))
        return Wanted(hull_of(found) if self.hull else united(found))

    def _intervals(self, filter: Filter) -> Intervals:
        known = self._known.get(filter)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = filter_intervals(filter, self.attribute)
            self._known[filter] = known
        return known

    def merged(self, several: Iterable[Wanted]) -> Wanted:
        found = [interval for wanted in several for interval in wanted.intervals]
        return Wanted(hull_of(found) if self.hull else united(found))

    def space(self, all_wanted: Sequence[Wanted]) -> Space:
        bounds = {end for wanted in all_wanted for pair in wanted.intervals for end in pair}
        return Axis(bounds, self.hull, Density())

    def interest(self, space: Space, wanted: Wanted) -> int:
        return cast("Axis", space).interest(wanted.intervals)


def filter_intervals(filter: Filter, attribute: str) -> Intervals:
    """The intervals of an attribute that a filter admits; the whole axis if it sets no bounds."""
    if isinstance(filter, Pattern):
        return ((float(filter.number), float(filter.number + 1)),)
    if not isinstance(filter, AttributeFilter):
        return ((-FARTHEST, FARTHEST),)
    found: list[tuple[float, float]] = []
    for conjunction in filter.normal.disjuncts:
        low, high = -inf, inf
        for predicate in conjunction.predicates:
            if isinstance(predicate, Number) and predicate.attribute == attribute:
                low, high = float(predicate.low), float(predicate.high)
        found.append((max(low, -FARTHEST), min(high, FARTHEST)))
    return united(found)


class BySample(Interests):
    """Filters as the sets of recent events that they match, of those that this node saw."""

    def __init__(self) -> None:
        self._events: list[Content] = []
        self._seen = 0
        """Events so far; the latest :data:`EVENTS` are kept, each in its place."""
        self._matches: dict[Filter, tuple[int, int]] = {}
        """Per filter: places of the events that it matches, as bits; events so far at that time."""

    def observe(self, content: Content) -> None:
        place = self._seen % EVENTS
        if place < len(self._events):
            self._events[place] = content
        else:
            self._events.append(content)
        self._seen += 1

    def wanted(self, filters: Sequence[Filter]) -> Wanted:
        return Wanted((), tuple(filters[:TOLD]))  # type: ignore[arg-type]  # wire union

    def merged(self, several: Iterable[Wanted]) -> Wanted:
        found = dict.fromkeys(filter for wanted in several for filter in wanted.filters)
        return Wanted((), tuple(found)[:TOLD])

    def space(self, all_wanted: Sequence[Wanted]) -> Space:
        if len(self._matches) > MATCHED:
            asked = {filter for wanted in all_wanted for filter in wanted.filters}
            self._matches = {f: found for f, found in self._matches.items() if f in asked}
        return Sample(1.0 / max(1, len(self._events)))

    def interest(self, space: Space, wanted: Wanted) -> int:
        found = 0
        for filter in wanted.filters:
            found |= self._matching(filter)
        return found

    def _matching(self, filter: Filter) -> int:
        """The events that a filter matches; tests it only on those that came since last time."""
        matches, asked = self._matches.get(filter, (0, 0))
        for number in range(max(asked, self._seen - EVENTS), self._seen):
            place = number % EVENTS
            bit = 1 << place
            matches = matches | bit if filter.matches(self._events[place]) else matches & ~bit
        self._matches[filter] = (matches, self._seen)
        return matches
