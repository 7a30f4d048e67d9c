"""Interests: the filters that a node's application wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.content import AnyFilter, Event, Filter
    from shoal.content.tables import FilterTable


class Wanted:
    """A filter of this node's application."""

    def __init__(self, number: int, filter: Filter, since: float) -> None:
        self.number = number
        """This node's own number of the filter."""
        self.filter = filter
        self.since = since
        """When it was subscribed to: events published before are not missed."""


class Interests:
    """The application's filters, numbered in the order in which they came."""

    def __init__(self) -> None:
        self.filters: dict[Filter, Wanted] = {}
        self.by_number: dict[int, Wanted] = {}
        self._table: FilterTable | None = None
        self._numbers = 0

    def __len__(self) -> int:
        return len(self.filters)

    def add(self, filter: Filter, now: float) -> None:
        """The application subscribes."""
        if filter not in self.filters:
            wanted = Wanted(self._numbers, filter, now)
            self._numbers += 1
            self.filters[filter] = self.by_number[wanted.number] = wanted
            if self._table is None:
                self._table = filter.table()
            self._table.insert(wanted.number, filter)

    def remove(self, filter: Filter) -> Wanted | None:
        """The application unsubscribes; None if it had not subscribed."""
        wanted = self.filters.pop(filter, None)
        if wanted is not None and self._table is not None:
            self._table.remove(wanted.number, filter)
            del self.by_number[wanted.number]
        return wanted

    def matching(self, event: Event) -> list[int]:
        """The numbers of the filters that an event matches."""
        return [] if self._table is None else self._table.match(event.content)

    def since(self, numbers: list[int], published: float) -> bool:
        """Whether one of these filters was wanted already when an event was published."""
        return any(self.by_number[number].since <= published for number in numbers)

    def earliest(self, filters: tuple[AnyFilter, ...]) -> float:
        """When the first of these filters was subscribed to; infinity if none is."""
        times = [self.filters[filter].since for filter in filters if filter in self.filters]
        return min(times, default=float("inf"))
