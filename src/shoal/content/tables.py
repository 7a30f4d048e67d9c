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
    in the order in which the sources came: nothing may depend on hash order.
    """

    def insert(self, source: Source, filter: Filter) -> None:
        """Add a filter for a source; inserting it again changes nothing."""
        raise NotImplementedError

    def remove(self, source: Source, filter: Filter) -> None:
        """Take a filter of a source away; removing an absent one changes nothing."""
        raise NotImplementedError

    def match(self, content: Content) -> list[Source]:
        """The sources that have a filter matching this content."""
        raise NotImplementedError


class NaiveTable(FilterTable):
    """The reference: ask every filter. Right for any content model, and slow."""

    def __init__(self) -> None:
        self._filters: dict[Source, dict[Filter, None]] = {}

    def insert(self, source: Source, filter: Filter) -> None:
        """See :class:`FilterTable`."""
        filters = self._filters.get(source)
        if filters is None:
            filters = {}
            self._filters[source] = filters
        filters[filter] = None

    def remove(self, source: Source, filter: Filter) -> None:
        """See :class:`FilterTable`."""
        filters = self._filters.get(source)
        if filters is not None:
            filters.pop(filter, None)
            if not filters:
                del self._filters[source]

    def match(self, content: Content) -> list[Source]:
        """See :class:`FilterTable`."""
        found: list[Source] = []
        for source, filters in self._filters.items():
            for filter in filters:
                if filter.matches(content):
                    found.append(source)
                    break
        return found


class PatternTable(FilterTable):
    """For the papers' patterns: one bitset per source, one AND per source and event."""

    def __init__(self) -> None:
        self._masks: dict[Source, int] = {}

    def insert(self, source: Source, filter: Filter) -> None:
        """See :class:`FilterTable`."""
        pattern = cast("Pattern", filter)
        self._masks[source] = self._masks.get(source, 0) | pattern.mask

    def remove(self, source: Source, filter: Filter) -> None:
        """See :class:`FilterTable`."""
        pattern = cast("Pattern", filter)
        left = self._masks.get(source, 0) & ~pattern.mask
        if left:
            self._masks[source] = left
        else:
            self._masks.pop(source, None)

    def match(self, content: Content) -> list[Source]:
        """See :class:`FilterTable`."""
        wanted = cast("Patterns", content).mask
        return [source for source, mask in self._masks.items() if mask & wanted]
