"""What should be: who wants an event, who lies beyond a link, which tables are right.

The oracle sees the whole network at once. The recorder asks it which transmissions were in vain,
the invariants compare the protocols' tables with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.tables import FilterTable
from shoal.simulation.kernel import Channel
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Content, Filter


class Oracle:
    """Ground truth on subscriptions and the forest of links. Sets of nodes are bitsets."""

    def __init__(self, channels: list[dict[NodeId, Channel]]) -> None:
        self._channels = channels
        self._number: dict[Filter, int] = {}
        """The filters ever subscribed to, numbered."""
        self._subscribers: list[int] = []
        """By a filter's number: the nodes that want it."""
        self._table: FilterTable | None = None
        """Finds the numbers of the filters that match: they are its sources."""
        self._stale = True
        self.version = 0
        """Changes with every (un)subscription."""

    def subscribe(self, node: NodeId, filter: Filter) -> None:
        """A node's application wants this."""
        if self._table is None:
            self._table = filter.table()
        number = self._number.get(filter, -1)
        if number < 0:
            number = len(self._subscribers)
            self._number[filter] = number
            self._subscribers.append(0)
            self._table.insert(number, filter)
        self._subscribers[number] |= 1 << node
        self.version += 1

    def unsubscribe(self, node: NodeId, filter: Filter) -> None:
        """It no longer does."""
        number = self._number.get(filter, -1)
        if number >= 0:
            self._subscribers[number] &= ~(1 << node)
            self.version += 1

    def wanted_by(self, content: Content) -> int:
        """The nodes whose subscriptions match."""
        nodes = 0
        if self._table is not None:
            for number in self._table.match(content):
                nodes |= self._subscribers[number]
        return nodes

    def links_changed(self) -> None:
        """What lies beyond a link has to be worked out again."""
        self._stale = True

    def refresh(self) -> None:
        """Bring ``Channel.beyond`` up to date, for a forest."""
        if self._stale:
            self._stale = False
            seen = [False] * len(self._channels)
            for root in range(len(self._channels)):
                if not seen[root]:
                    self._component(root, seen)

    def _component(self, root: NodeId, seen: list[bool]) -> None:
        """Work out one tree: what lies below each node, then what lies beyond each link."""
        order = [root]
        parent: dict[NodeId, NodeId] = {root: LOCAL}
        seen[root] = True
        for node in order:
            for neighbour in self._channels[node]:
                if not seen[neighbour]:
                    seen[neighbour] = True
                    parent[neighbour] = node
                    order.append(neighbour)
        below: dict[NodeId, int] = {}
        for node in reversed(order):
            mine = below.get(node, 0) | (1 << node)
            below[node] = mine
            up = parent[node]
            if up != LOCAL:
                below[up] = below.get(up, 0) | mine
        whole = below[root]
        for node in order:
            up = parent[node]
            if up != LOCAL:
                self._channels[up][node].beyond = below[node]
                self._channels[node][up].beyond = whole & ~below[node]

    def table_of(self, node: NodeId) -> set[tuple[NodeId, Filter]]:
        """The canonical table: (n, p) iff a subscriber of p lies beyond n (LOCAL: is this node)."""
        self.refresh()
        mine = 1 << node
        entries: set[tuple[NodeId, Filter]] = set()
        for filter, number in self._number.items():
            subscribers = self._subscribers[number]
            if subscribers & mine:
                entries.add((LOCAL, filter))
            for neighbour, channel in self._channels[node].items():
                if subscribers & channel.beyond:
                    entries.add((neighbour, filter))
        return entries
