"""What should be: who wants an event, who lies beyond a link, which tables are right.

The oracle sees the whole network at once. The recorder asks it which transmissions were in vain,
the invariants compare the protocols' tables with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.content.tables import FilterTable
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Content, Filter

DIGITS: Final = bytes.maketrans(b"\0\1", b"01")


class Forest:
    """The links there are, and what lies beyond each. Sets of nodes are bitsets."""

    def __init__(self, nodes: int) -> None:
        self.links: list[dict[NodeId, None]] = [{} for _ in range(nodes)]
        """The neighbours of each node."""
        self._stale = True
        self._parent: list[NodeId] = []
        """As of :meth:`refresh`, the next node on the way to the first of the tree, or LOCAL."""
        self._below: list[int] = []
        """As of then, per node, itself and the nodes whose way to the first leads over it."""
        self._tree: list[int] = []
        """As of then, per node, all nodes of its tree."""
        self._components: dict[NodeId, int] = {}

    def link(self, a: NodeId, b: NodeId, up: bool) -> None:
        """A link appears or vanishes."""
        if up:
            self.links[a][b] = None
            self.links[b][a] = None
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
        flags = bytearray(len(self.links))
        flags[start] = 1
        found = [start]
        for node in found:
            for neighbour in self.links[node]:
                if not flags[neighbour]:
                    flags[neighbour] = 1
                    found.append(neighbour)
        nodes = int(flags[::-1].translate(DIGITS), 2)
        for node in found:
            self._components[node] = nodes
        return nodes

    def beyond(self, node: NodeId, neighbour: NodeId) -> int:
        """The nodes beyond a link of a forest, on the neighbour's side; all if there is no link."""
        if self._stale:
            self._refresh()
        if neighbour not in self.links[node]:
            return -1
        if self._parent[neighbour] == node:
            return self._below[neighbour]
        return self._tree[node] & ~self._below[node]

    def _refresh(self) -> None:
        """Work out what lies below each node."""
        nodes = len(self.links)
        self._stale = False
        self._parent = [LOCAL] * nodes
        self._below = [0] * nodes
        self._tree = [0] * nodes
        for root in range(nodes):
            if not self._tree[root]:
                self._refresh_tree(root)

    def _refresh_tree(self, root: NodeId) -> None:
        parent, below, tree = self._parent, self._below, self._tree
        order = [root]
        below[root] = 1 << root
        for node in order:
            for neighbour in self.links[node]:
                if not below[neighbour]:
                    below[neighbour] = 1 << neighbour
                    parent[neighbour] = node
                    order.append(neighbour)
        for place in range(len(order) - 1, 0, -1):
            node = order[place]
            below[parent[node]] |= below[node]
        for node in order:
            tree[node] = below[root]


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
        mine = 1 << node
        entries: set[tuple[NodeId, Filter]] = set()
        for filter, number in self._number.items():
            subscribers = self._subscribers[number]
            if subscribers & mine:
                entries.add((LOCAL, filter))
            for neighbour in self.forest.links[node]:
                if subscribers & self.forest.beyond(node, neighbour):
                    entries.add((neighbour, filter))
        return entries
