"""A node's neighbourhood on a Chord ring: its position, the nodes that it knows, the keys it owns.

Nothing is sent here: who is heard, believed in or lost is decided in :mod:`~shoal.overlay.chord`.
"""

from __future__ import annotations

from typing import Final

from shoal.overlay.chord_messages import RingPeer
from shoal.stack.host import Host, NodeId

NEAREST: Final = 3
"""Nodes on either side of a key that are named to who looks for its owner."""


class Neighbourhood:
    """Position, successors, predecessors and fingers of one node."""

    def __init__(self, host: Host, keys: int, length: int) -> None:
        self.host = host
        self.keys = keys
        """Keys are 1 to this."""
        self.length = length
        """Nodes in the list on either side."""
        self.position = 0
        self.successors: list[RingPeer] = []
        self.predecessors: list[RingPeer] = []
        self.fingers: dict[int, RingPeer] = {}
        """Nodes about half the ring away, a quarter …; by the number of halvings."""
        self.gone: dict[NodeId, tuple[int, float]] = {}
        """Nodes not to be believed in on hearsay: which start of theirs, and until when."""
        self._drawn = 0

    # Positions

    def draw_position(self) -> None:
        """A position of one's own; another one each time, as one may be taken."""
        chance = self.host.chance("ring position")
        self.position = 1 + chance.below(self.keys, self.host.node, self._drawn)
        self._drawn += 1

    def me(self) -> RingPeer:
        """This node, for others."""
        return RingPeer(self.host.contact(), self.position, self.host.epoch)

    def distance(self, a: int, b: int) -> int:
        """Steps from a to b along the ring."""
        return (b - a) % self.keys

    def _away(self, peer: RingPeer, ahead: bool) -> int:
        """Steps to a node, ahead or back."""
        if ahead:
            return self.distance(self.position, peer.position)
        return self.distance(peer.position, self.position)

    def after(self) -> int:
        """The predecessor's position; one's own if there is no other node."""
        return self.predecessors[0].position if self.predecessors else self.position

    def owns(self, key: int) -> bool:
        """Whether a key lies in (predecessor, self]."""
        after = self.after()
        span = self.distance(after, self.position)
        return span == 0 or 0 < self.distance(after, key) <= span

    # Lists

    def _neighbours(self) -> list[RingPeer]:
        """The successor and the predecessor, once if they are one."""
        found = self.successors[:1]
        if self.predecessors and self.predecessors[0] not in found:
            found.append(self.predecessors[0])
        return found

    def _list_of(self, first: RingPeer, rest: tuple[RingPeer, ...], ahead: bool) -> list[RingPeer]:
        """A list is the first neighbour and what follows it, as far as oneself."""
        found = [first]
        last = self._away(first, ahead)
        for peer in rest:
            away = self._away(peer, ahead)
            if len(found) >= self.length or away <= last:
                break
            if not self._distrusts(peer):
                found.append(peer)
                last = away
        return found

    def _distrusts(self, peer: RingPeer) -> bool:
        """Whether a node was seen to be gone lately, whatever others say."""
        gone = self.gone.get(peer.contact.node)
        if gone is None:
            return False
        if peer.epoch > gone[0] or self.host.now() > gone[1]:
            del self.gone[peer.contact.node]
            return False
        return True

    def nearest(self, key: int) -> list[RingPeer]:
        """The nodes known that are nearest to a key, on either side."""
        known: dict[NodeId, RingPeer] = {}
        for peer in self.fingers.values():
            known[peer.contact.node] = peer
        for peer in self.successors + self.predecessors:
            known[peer.contact.node] = peer
        before = sorted((self.distance(peer.position, key), node) for node, peer in known.items())
        behind = sorted((self.distance(key, peer.position), node) for node, peer in known.items())
        chosen: dict[NodeId, None] = {}
        for _, node in before[:NEAREST] + behind[:NEAREST]:
            chosen[node] = None
        return [known[node] for node in chosen]
