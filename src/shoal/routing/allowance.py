"""How many filters of a neighbour a node keeps.

Filters beyond a neighbour's allowance are counted and not kept. In their place stands one that
matches everything (imperfect merging, as the literature calls it). So no event is lost, other nodes
hear of one filter more and not of many, and the neighbour pays: it gets events that it did not ask
for. When it has retracted as many filters as were not kept, all is exact again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.content.tables import Source
from shoal.stack.host import LOCAL, UNBOUNDED, Host, NodeId

if TYPE_CHECKING:
    from shoal.content import Filter

TOGETHER: Final = 8
"""Allowances that all neighbours together may use."""
EXCEEDED: Final = (
    "it announces more filters than limits.neighbour_filters, or larger ones than "
    "limits.neighbour_filter_bytes; as long as it does, it is sent every event"
)


class Allowance:
    """The filters that neighbours announced: how many are kept, and how many are not."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._most = host.neighbour_filters
        self._most_bytes = host.neighbour_filter_bytes
        self.bounded = min(self._most, self._most_bytes) < UNBOUNDED
        self._kept: dict[Source, int] = {}
        self._bytes: dict[Source, int] = {}
        self._all_kept = self._all_bytes = 0
        self.excess: dict[NodeId, int] = {}
        """Filters that are not kept, per neighbour that announces too many."""
        self._everything: set[NodeId] = set()
        """Neighbours that announced themselves that they want everything."""

    # From the table

    def added(self, source: Source, filter: Filter) -> None:
        """A filter is kept from now on."""
        if source != LOCAL:
            self._count(source, 1, filter.size())

    def removed(self, source: Source, filter: Filter) -> None:
        """A filter is no longer kept."""
        if source != LOCAL:
            self._count(source, -1, -filter.size())
            if not self._kept[source]:
                del self._kept[source], self._bytes[source]

    def _count(self, source: Source, filters: int, size: int) -> None:
        self._kept[source] = self._kept.get(source, 0) + filters
        self._bytes[source] = self._bytes.get(source, 0) + size
        self._all_kept += filters
        self._all_bytes += size

    # From the routing

    def admit(self, neighbour: NodeId, filter: Filter, kept: bool, again: bool = False) -> Filter:
        """The filter to keep for one that a neighbour announces: itself, or everything."""
        everything = filter.everything()
        if filter == everything:
            self._everything.add(neighbour)
            return filter
        if everything is None or kept:
            return filter
        if again and neighbour in self.excess:
            return everything  # counted when it was announced first
        if self._has_room(neighbour, filter):
            return filter
        if neighbour not in self.excess:
            self.excess[neighbour] = 0
            self._host.note("warning", neighbour, EXCEEDED)
        self.excess[neighbour] += 1
        return everything

    def retract(self, neighbour: NodeId, filter: Filter, kept: bool) -> Filter | None:
        """The filter to remove for one that a neighbour retracts, if any."""
        everything = filter.everything()
        if filter == everything:
            self._everything.discard(neighbour)
            return None if neighbour in self.excess else filter
        if kept or neighbour not in self.excess:
            return filter
        self.excess[neighbour] -= 1
        if self.excess[neighbour]:
            return None
        del self.excess[neighbour]
        return None if neighbour in self._everything else everything

    def forget(self, neighbour: NodeId) -> None:
        """The link to a neighbour is gone."""
        self.excess.pop(neighbour, None)
        self._everything.discard(neighbour)

    def _has_room(self, neighbour: NodeId, filter: Filter) -> bool:
        size = filter.size()
        return (
            self._kept.get(neighbour, 0) < self._most
            and self._bytes.get(neighbour, 0) + size <= self._most_bytes
            and self._all_kept < TOGETHER * self._most
            and self._all_bytes + size <= TOGETHER * self._most_bytes
        )

    def fits(self, filters: tuple[Filter, ...]) -> bool:
        """Whether a neighbour may announce all these at once."""
        size = 0
        for filter in filters:
            size += filter.size()
        return len(filters) <= self._most and size <= self._most_bytes
