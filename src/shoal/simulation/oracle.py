"""What should be: who wants an event, who lies beyond a link, which tables are right.

The oracle sees the whole network at once. The recorder asks it which transmissions were in vain,
the invariants compare the protocols' tables with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.content.tables import FilterTable
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Content, Filter


class Forest:
    """The links there are, and what lies beyond each. Sets of nodes are bitsets."""

    def __init__(self, nodes: int) -> None:
        self.links: list[dict[NodeId, int]] = [{} for _ in range(nodes)]
        """Per node and neighbour, the nodes beyond that link; right after :meth:`refresh`."""
        self._stale = True
        self._components: dict[NodeId, int] = {}

    def link(self, a: NodeId, b: NodeId, up: bool) -> None:
        """A link appears or vanishes."""
        if up:
            self.links[a][b] = -1
            self.links[b][a] = -1
        else:
            del self.links[a][b]
            del self.links[b][a]
        self._stale = True
        if self._components:
            self._components = {}

    def component_of(self, start: NodeId) -> int:
        """The nodes that links lead to from a node, itself included."""
        known = self._components.get(start)
        if known is not None:
            return known
        seen = {start}
        found = [start]
        for node in found:
            for neighbour in self.links[node]:
                if neighbour not in seen:
                    seen.add(neighbour)
                    found.append(neighbour)
        nodes = 0
        for node in found:
            nodes |= 1 << node
        for node in found:
            self._components[node] = nodes
        return nodes

    def refresh(self) -> None:
        """Bring what lies beyond each link up to date, for a forest."""
        if self._stale:
            self._stale = False
            seen = [False] * len(self.links)
            for root in range(len(self.links)):
                if not seen[root]:
                    self._component(root, seen)

    def _component(self, root: NodeId, seen: list[bool]) -> None:
        """Work out one tree: what lies below each node, then what lies beyond each link."""
        order = [root]
        parent: dict[NodeId, NodeId] = {root: LOCAL}
        seen[root] = True
        for node in order:
            for neighbour in self.links[node]:
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
                self.links[up][node] = below[node]
                self.links[node][up] = whole & ~below[node]


class Oracle:
    """Ground truth on subscriptions. Sets of nodes are bitsets."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._number: dict[Filter, int] = {}
        """The filters ever subscribed to, numbered."""
        self._subscribers: list[int] = []
        """Nodes that want a filter, as bits, by the filter's number."""
        self._table: FilterTable | None = None
        """Finds the numbers of the filters that match: they are its sources."""
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
        """A node's application no longer wants a filter."""
        number = self._number.get(filter, -1)
        if number >= 0:
            self._subscribers[number] &= ~(1 << node)
            self.version += 1

    def forget(self, node: NodeId) -> None:
        """A node's application wants nothing any more."""
        others = ~(1 << node) if self._subscribers else 0  # large numbers, where nodes are many
        for number, subscribers in enumerate(self._subscribers):
            self._subscribers[number] = subscribers & others
        self.version += 1

    def wanted_by(self, content: Content) -> int:
        """The nodes whose subscriptions match."""
        nodes = 0
        if self._table is not None:
            for number in self._table.match(content):
                nodes |= self._subscribers[number]
        return nodes

    def table_of(self, node: NodeId) -> set[tuple[NodeId, Filter]]:
        """The canonical table: (n, p) iff a subscriber of p lies beyond n (LOCAL: is this node)."""
        self.forest.refresh()
        mine = 1 << node
        entries: set[tuple[NodeId, Filter]] = set()
        for filter, number in self._number.items():
            subscribers = self._subscribers[number]
            if subscribers & mine:
                entries.add((LOCAL, filter))
            for neighbour, beyond in self.forest.links[node].items():
                if subscribers & beyond:
                    entries.add((neighbour, filter))
        return entries
