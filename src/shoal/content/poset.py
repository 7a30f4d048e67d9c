"""The covering poset: which filters are maximal, while filters come and go.

Routing by covering (Siena; Frey, chapter 2) passes on only filters that no other one covers. The
poset keeps them as a forest: a filter hangs below *one* filter that covers it, the roots are the
maximal ones. A filter that arrives is compared with roots only, and one that leaves a root's place
hands its children on: to a root that covers them, or into the open.

Which roots may cover a filter, or be covered by it, is asked of a :class:`~.boxes.BoxIndex`; its
answers are verified, so the poset is as exact as :func:`shoal.content.covering.covers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shoal.content.attributes import AttributeFilter
from shoal.content.covering import covers

if TYPE_CHECKING:
    from shoal.content.boxes import Box, BoxIndex

SMALL = 48
"""Up to so many roots are simply asked one after the other."""


class _Node:
    __slots__ = ("boxes", "children", "filter", "parent", "rows")

    def __init__(self, filter: AttributeFilter) -> None:
        self.filter = filter
        self.parent: _Node | None = None
        self.children: dict[_Node, None] = {}
        self.boxes: list[Box] = []
        self.rows: list[int] = []
        """Where the index keeps the boxes."""


class CoveringPoset:
    """Filters ordered by covering; of two that cover each other the first to come is the greater.

    ``insert`` and ``remove`` say how the set of maximal filters changed: those that joined it and
    those that left it.
    """

    def __init__(self, filters: Iterable[AttributeFilter] = ()) -> None:
        self._nodes: dict[AttributeFilter, _Node] = {}
        self._roots: dict[_Node, None] = {}
        self._index: BoxIndex[_Node] | None = None
        for filter in filters:
            self.insert(filter)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, filter: AttributeFilter) -> bool:
        return filter in self._nodes

    def __iter__(self) -> Iterator[AttributeFilter]:
        return iter(self._nodes)

    def maximal(self) -> list[AttributeFilter]:
        """The filters that no other one covers, in the order in which they became so."""
        return [node.filter for node in self._roots]

    def is_maximal(self, filter: AttributeFilter) -> bool:
        """Whether the filter is here and no other one here covers it."""
        node = self._nodes.get(filter)
        return node is not None and node.parent is None

    def covering(self, filter: AttributeFilter) -> AttributeFilter | None:
        """A maximal filter that covers this one, which need not be here."""
        node = self._nodes.get(filter)
        if node is None:
            found = self._root_above(_Node(filter))
            return None if found is None else found.filter
        while node.parent is not None:
            node = node.parent
        return node.filter

    def insert(
        self, filter: AttributeFilter
    ) -> tuple[list[AttributeFilter], list[AttributeFilter]]:
        """Add a filter; which filters became maximal, and which ceased to be."""
        if filter in self._nodes:
            return [], []
        node = _Node(filter)
        self._nodes[filter] = node
        below = self._place(node)
        return ([filter] if node.parent is None else []), below

    def remove(
        self, filter: AttributeFilter
    ) -> tuple[list[AttributeFilter], list[AttributeFilter]]:
        """Take a filter away; which filters became maximal, and which ceased to be."""
        node = self._nodes.pop(filter, None)
        if node is None:
            return [], []
        orphans = list(node.children)
        if node.parent is not None:
            del node.parent.children[node]
            for orphan in orphans:
                self._hang(orphan, node.parent)
            return [], []
        self._uproot(node)
        for orphan in orphans:
            orphan.parent = None
            self._place(orphan)
        return [orphan.filter for orphan in orphans if orphan.parent is None], [filter]

    # The forest

    def _place(self, node: _Node) -> list[AttributeFilter]:
        """Hang a node below a root that covers it, or make it one; the roots that it covers."""
        above = self._root_above(node)
        if above is not None:
            self._hang(node, above)
            return []
        below = list(self._roots_below(node))
        for root in below:
            self._uproot(root)
            self._hang(root, node)
        self._roots[node] = None
        if self._index is not None:
            self._index.add(node, node.rows, self._boxes(node, self._index))
        elif len(self._roots) > SMALL:
            self._build_index()
        return [root.filter for root in below]

    def _hang(self, node: _Node, parent: _Node) -> None:
        node.parent = parent
        parent.children[node] = None

    def _uproot(self, root: _Node) -> None:
        del self._roots[root]
        if self._index is not None:
            self._index.discard(root.rows)

    def _build_index(self) -> None:
        from shoal.content.boxes import BoxIndex  # compiled code that a small table never needs

        self._index = BoxIndex()
        for root in self._roots:
            self._index.add(root, root.rows, self._boxes(root, self._index))

    def _boxes(self, node: _Node, index: BoxIndex[_Node]) -> list[Box]:
        if not node.boxes:
            node.boxes = [index.box(one) for one in node.filter.normal.disjuncts]
        return node.boxes

    def _root_above(self, node: _Node) -> _Node | None:
        form = node.filter.normal
        if self._index is None or not form.disjuncts:
            candidates: Iterable[_Node] = self._roots
        else:
            candidates = self._index.around(self._boxes(node, self._index)[0])
        for root in candidates:
            if root is not node and covers(root.filter.normal, form):
                return root
        return None

    def _roots_below(self, node: _Node) -> Iterable[_Node]:
        form = node.filter.normal
        # A filter that matches nothing has no box; as a root it can only be alone.
        if self._index is None or len(self._roots) == 1:
            candidates: Iterable[_Node] = self._roots
        else:
            candidates = self._index.inside(self._boxes(node, self._index))
        return [root for root in candidates if covers(form, root.filter.normal)]
