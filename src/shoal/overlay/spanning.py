"""Cycles of configured links: refused where possible, and cut where not.

Nodes that are connected agree on a *root*, the one with the lowest node id, and each knows which
neighbour is nearer to it (its *parent*). Two nodes with the same root are connected already, so
a further link between them is refused. Links that are made at the same moment may still close a
cycle; then there is a link between two nodes of the same root neither of which is the other's
parent, and that link is cut.

A neighbour is told one's position whenever it changes. Who has found a parent keeps it until a
lower root is heard of or the link is lost, so that one cycle costs one link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shoal.overlay.configured_messages import Position
from shoal.stack.host import NodeId

FARTHEST: Final = 128
"""Links to the root beyond which it is taken to be gone: news of it only goes round in a cycle."""
PATIENCE: Final = 2
"""Looks at which a link must be found redundant: news may still be on its way."""


class Spanning:
    """One node's position in the tree."""

    def __init__(self, node: NodeId, send: Callable[[NodeId, Position], None]) -> None:
        self._node = node
        self._send = send
        self._sent: dict[NodeId, Position | None] = {}
        """Per neighbour, the position that was sent last."""
        self._heard: dict[NodeId, Position] = {}
        """Per neighbour, the position that it sent last."""
        self._doubts: dict[NodeId, int] = {}
        """Per neighbour, at how many looks in a row the link was redundant."""
        self.root = node
        self._distance = 0
        self._parent: NodeId | None = None

    def up(self, neighbour: NodeId) -> None:
        """A link is there."""
        self._sent[neighbour] = None
        self._announce()

    def down(self, neighbour: NodeId) -> None:
        """A link is gone."""
        for known in (self._sent, self._heard, self._doubts):
            known.pop(neighbour, None)
        self._place()

    def heard(self, neighbour: NodeId, position: Position) -> None:
        """A neighbour says where it is."""
        if neighbour in self._sent:
            self._heard[neighbour] = position
            self._place()

    def _place(self) -> None:
        """Find the lowest root that is offered, by the parent that there is if it offers it."""
        best = (self._node, 0, 0, -1)
        for neighbour, offer in self._heard.items():
            if not offer.child and offer.distance < FARTHEST:
                other = neighbour != self._parent
                best = min(best, (offer.root, other, offer.distance + 1, neighbour))
        self.root, _, self._distance, parent = best
        self._parent = None if parent < 0 else parent
        self._announce()

    def _announce(self) -> None:
        for neighbour, told in self._sent.items():
            position = Position(self.root, self._distance, neighbour == self._parent)
            if position != told:
                self._sent[neighbour] = position
                self._send(neighbour, position)

    def look(self) -> list[NodeId]:
        """Neighbours whose links close a cycle, found so at some looks in a row."""
        for neighbour, offer in self._heard.items():
            tree = offer.child or neighbour == self._parent or offer.root != self.root
            self._doubts[neighbour] = 0 if tree else self._doubts.get(neighbour, 0) + 1
        return [neighbour for neighbour, doubts in self._doubts.items() if doubts >= PATIENCE]
