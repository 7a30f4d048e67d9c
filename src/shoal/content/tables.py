"""Which sources want an event: the matching half of a routing table."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from shoal.content.model import Content, Filter
    from shoal.content.patterns import Pattern, Patterns

Source: TypeAlias = int
"""Where a subscription came from: a neighbour's node id, or ``LOCAL``."""


@mypyc_attr(allow_interpreted_subclasses=True)
class FilterTable:
    """Filters by source.

    Insertions and removals are visible to the next ``match``. The answer lists each source once,
    in the order in which the sources came (nothing may depend on hash order), and is not the
    caller's to change.
    """

    def insert(self, source: Source, filter: Filter) -> None:
        """Add a filter for a source; inserting it again changes nothing."""
        raise NotImplementedError

    def remove(self, source: Source, filter: Filter) -> None:
        """Remove a filter of a source; removing an absent one changes nothing."""
        raise NotImplementedError

    def match(self, content: Content) -> list[Source]:
        """The sources that have a filter matching this content."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadableTable(FilterTable):
    """A table that also lists its filters, and the sources of each."""

    def sources(self, filter: Filter) -> tuple[Source, ...]:
        """The sources of exactly this filter, in the order in which they came."""
        raise NotImplementedError

    def filters(self) -> list[Filter]:
        """Every filter that some source has."""
        raise NotImplementedError


class Matched:
    """The filters of a table that match a content.

    If the next content matches the same filters, the table returns the same object again, unless
    the table has changed. ``state`` is the number of its changes.
    """

    def __init__(self, state: int, filters: list[Filter]) -> None:
        self.state = state
        self.filters = filters


class NaiveTable(FilterTable):
    """The reference: evaluate every filter. Right for any content model, and slow."""

    def __init__(self) -> None:
        self.entries: dict[Source, dict[Filter, None]] = {}
        """Filters per source, sources in order of arrival."""

    def insert(self, source: Source, filter: Filter) -> None:
        filters = self.entries.get(source)
        if filters is None:
            filters = {}
            self.entries[source] = filters
        filters[filter] = None

    def remove(self, source: Source, filter: Filter) -> None:
        filters = self.entries.get(source)
        if filters is not None:
            filters.pop(filter, None)
            if not filters:
                del self.entries[source]

    def match(self, content: Content) -> list[Source]:
        found: list[Source] = []
        for source, filters in self.entries.items():
            for filter in filters:
                if filter.matches(content):
                    found.append(source)
                    break
        return found


class PatternTable(FilterTable):
    """For the papers' patterns: a bitset of sources per number, one OR per number of an event.

    A source's place in the bitsets is its rank: sources are ranked in the order in which they came.
    """

    def __init__(self) -> None:
        self._wanted: list[int] = []
        """Sources that want a number, as a bitset of ranks, per number."""
        self._held: dict[Source, int] = {}
        """Count of numbers per source."""
        self._rank: dict[Source, int] = {}
        self._ranked: list[Source] = []
        self._answers: dict[int, list[Source]] = {}
        """Cached lists of sources, by bitset."""

    def insert(self, source: Source, filter: Filter) -> None:
        number = cast("Pattern", filter).number
        if len(self._wanted) <= number:
            self._wanted.extend([0] * (number + 1 - len(self._wanted)))
        if source not in self._rank:
            self._rank[source] = len(self._ranked)
            self._ranked.append(source)
            self._held[source] = 0
        bit = 1 << self._rank[source]
        if not self._wanted[number] & bit:
            self._wanted[number] |= bit
            self._held[source] += 1

    def remove(self, source: Source, filter: Filter) -> None:
        number = cast("Pattern", filter).number
        bit = 1 << self._rank.get(source, len(self._ranked))
        if number >= len(self._wanted) or not self._wanted[number] & bit:
            return
        self._wanted[number] ^= bit
        self._held[source] -= 1
        if not self._held[source]:
            del self._rank[source], self._held[source]
            self._answers.clear()
            if len(self._ranked) > 2 * len(self._rank) + 8:
                self._rank_anew()

    def match(self, content: Content) -> list[Source]:
        wanted = self._wanted
        ranks = 0
        for number in cast("Patterns", content).numbers:
            if number < len(wanted):
                ranks |= wanted[number]
        sources = self._answers.get(ranks)
        if sources is None:
            sources = self._sources(ranks)
            if len(self._answers) >= 256:
                self._answers.clear()
            self._answers[ranks] = sources
        return sources

    def _sources(self, ranks: int) -> list[Source]:
        """A bitset of ranks as a list of sources."""
        sources: list[Source] = []
        while ranks:
            lowest = ranks & -ranks
            sources.append(self._ranked[lowest.bit_length() - 1])
            ranks ^= lowest
        return sources

    def _rank_anew(self) -> None:
        """Close the gaps that departed sources left, or bitsets would grow without end."""
        wanting = [self._sources(ranks) for ranks in self._wanted]
        self._ranked = list(self._rank)
        self._rank = {source: rank for rank, source in enumerate(self._ranked)}
        for number, sources in enumerate(wanting):
            self._wanted[number] = sum(1 << self._rank[source] for source in sources)
