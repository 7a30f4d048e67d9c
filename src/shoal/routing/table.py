"""A dispatcher's subscription table (Frey, section 2.4.1): which sources want which filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from shoal.content.tables import FilterTable, ReadableTable, Source
from shoal.routing.allowance import Allowance

if TYPE_CHECKING:
    from shoal.content import Content, Filter
    from shoal.stack.host import Host


@mypyc_attr(allow_interpreted_subclasses=True)
class TableWatcher:
    """Is told of every change of a routing's table."""

    def entry(self, source: Source, filter: Filter, before: int, now: int) -> None:
        """An entry's distance changes; -1 stands for no entry. Without distances, all are 1."""
        raise NotImplementedError

    def leaf(self, neighbour: Source, filters: tuple[Filter, ...] | None) -> None:
        """A neighbour is a leaf that wants this, or no leaf."""
        raise NotImplementedError

    def tuned(self) -> None:
        """What else events go by changes: the parent, the horizon, the number of links to use."""
        raise NotImplementedError


class SubscriptionTable:
    """``subTab``: a set of (source, filter), readable by filter, by source and by event.

    Iteration follows insertion order everywhere, so that a run does not depend on hashing.
    """

    def __init__(self, host: Host | None = None, allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self._host = host
        """Makes the matching table; without a host, the first filter makes it."""
        self._sources: dict[Filter, tuple[Source, ...]] = {}
        """Sources per filter; empty if the matching table keeps them itself."""
        self._alone: dict[Source, tuple[Source, ...]] = {}
        """Most filters have one source: they share one tuple, which costs a large table nothing."""
        self._filters: dict[Source, list[Filter]] = {}
        """Per source what it added, in that order; what it removed since stays for a while."""
        self._held: dict[Source, int] = {}
        """Per source how many of these are there."""
        self._matching: FilterTable | None = None
        self._readable: ReadableTable | None = None
        self.watcher: TableWatcher | None = None

    def __len__(self) -> int:
        return sum(self._held.values())

    def add(self, source: Source, filter: Filter) -> bool:
        """Add an entry; False if it was there."""
        sources = self._sources_of(filter)
        if source in sources:
            return False
        if self._matching is None:
            matching = filter.table() if self._host is None else self._host.table(filter)
            self._matching = matching
            self._readable = matching if isinstance(matching, ReadableTable) else None
        if self._readable is None:
            self._sources[filter] = (*sources, source) if sources else self._only(source)
        filters = self._filters.get(source)
        if filters is None:
            self._filters[source] = [filter]
            self._held[source] = 1
        else:
            filters.append(filter)
            self._held[source] += 1
        self._matching.insert(source, filter)
        if self._allowance is not None:
            self._allowance.added(source, filter)
        if self.watcher is not None:
            self.watcher.entry(source, filter, -1, 1)
        return True

    def remove(self, source: Source, filter: Filter) -> bool:
        """Remove an entry; False if it was not there."""
        sources = self._sources_of(filter)
        if source not in sources:
            return False
        if self._readable is None:
            if len(sources) == 1:
                del self._sources[filter]
            else:
                self._sources[filter] = tuple([other for other in sources if other != source])
        if self._matching is not None:
            self._matching.remove(source, filter)
        if self._allowance is not None:
            self._allowance.removed(source, filter)
        held = self._held[source] - 1
        if not held:
            del self._filters[source], self._held[source]
            self._alone.pop(source, None)
        else:
            self._held[source] = held
            if len(self._filters[source]) > 2 * held + 16:
                self._tidy(source)
        if self.watcher is not None:
            self.watcher.entry(source, filter, 1, -1)
        return True

    def _tidy(self, source: Source) -> list[Filter]:
        """Drop from a source's list what it removed; what it added again counts from then."""
        latest: dict[Filter, None] = {}
        for filter in reversed(self._filters[source]):
            if filter not in latest and self.has(source, filter):
                latest[filter] = None
        filters = list(latest)
        filters.reverse()
        self._filters[source] = filters
        return filters

    def _only(self, source: Source) -> tuple[Source, ...]:
        """The sources of a filter that nobody else wants."""
        alone = self._alone.get(source)
        if alone is None:
            alone = (source,)
            self._alone[source] = alone
        return alone

    def _sources_of(self, filter: Filter) -> tuple[Source, ...]:
        if self._readable is not None:
            return self._readable.sources(filter)
        sources = self._sources.get(filter)
        return () if sources is None else sources

    def has(self, source: Source, filter: Filter) -> bool:
        """Whether the entry is there."""
        return source in self._sources_of(filter)

    def sources(self, filter: Filter) -> list[Source]:
        """Who wants exactly this filter, in the order they came."""
        return list(self._sources_of(filter))

    def wanted_beside(self, filter: Filter, source: Source) -> bool:
        """Whether anybody other than ``source`` wants this filter."""
        sources = self._sources_of(filter)
        return len(sources) > 1 or (len(sources) == 1 and sources[0] != source)

    def filters(self) -> list[Filter]:
        """Every distinct filter, in the order they came where the table knows it."""
        return list(self._sources) if self._readable is None else self._readable.filters()

    def filters_of(self, source: Source) -> list[Filter]:
        """What one source wants, in the order it came."""
        filters = self._filters.get(source)
        if filters is None:
            return []
        if len(filters) > self._held[source]:
            filters = self._tidy(source)
        return list(filters)

    def match(self, content: Content) -> list[Source]:
        """The sources an event must go to."""
        return [] if self._matching is None else self._matching.match(content)

    def entries(self) -> set[tuple[Source, Filter]]:
        """The table as a set, for comparison with another."""
        return {(source, filter) for filter in self.filters() for source in self.sources(filter)}
