"""Peer sampling: the nodes that a node has heard of, and when each was last known to be alive.

Every so often two neighbours exchange random samples of their *views*, so everybody soon knows
somebody everywhere. Who is not heard of for ``forget`` seconds is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shoal.overlay.graph_messages import Known
from shoal.stack.chance import Chance, hashed_below
from shoal.stack.host import NEVER, Host, NodeId
from shoal.stack.message import Contact

VIEW: Final = 64
"""Nodes kept in a view, beside neighbours."""
SLACK: Final = 64
"""Nodes above that where nearly all in the view are neighbours."""
TRIES: Final = 4
"""Nodes of a full view of which the one heard of longest ago makes room for another."""
STRIDES: Final = (7, 11, 13, 17, 19, 23, 29, 31)
"""Steps through a view that miss nobody, unless its size is a multiple."""
FAILURES: Final = 3
"""Failed attempts to reach a node before it is forgotten."""


class Entry:
    """A node in a view."""

    def __init__(self, node: Any, contact: Contact, epoch: int, heard: float) -> None:
        self.node = node  # the object that its contact holds: see View.hear
        self.contact = contact
        self.epoch = epoch
        self.heard = heard
        """When it was last known to be alive."""
        self.refused = NEVER
        """When it last refused a link, or could not be reached."""
        self.failures = 0
        """Attempts to reach it that failed since it was last heard of."""
        self.place = 0
        """Place of this entry in the view's list."""

    def become(self, node: Any, contact: Contact, epoch: int, heard: float) -> None:
        """Stand for another node, or another life of the same."""
        self.node = node
        self.contact = contact
        self.epoch = epoch
        self.heard = heard
        self.refused = NEVER
        self.failures = 0


class View:
    """One node's partial view of the network."""

    def __init__(self, host: Host, forget: float, sample: int) -> None:
        self.host = host
        self.forget = forget
        self.most = sample
        """Nodes told to another in one exchange."""
        self.entries: dict[NodeId, Entry] = {}
        self._order: list[Entry] = []
        """All entries, in any order."""
        self._next = 0
        """The place from which on room is made."""
        self._forget_at = 0.0
        """When to look again for nodes that nobody has heard of."""
        self._chance: Chance = host.chance("peer sampling")
        self._draws = 0

    def hear(self, known: tuple[Known, ...], neighbours: dict[NodeId, None]) -> bool:
        """Nodes were alive some seconds ago; True if one of them is new here."""
        now = self.host.now()
        new = False
        for contact, epoch, age in known:
            if age > self.forget:
                continue
            heard = now - age
            told: Any = contact
            key = told.node  # as the object that it is: to make another one costs as much again
            entry = self.entries.get(key)
            if entry is None:
                node: NodeId = key
                if node >= 0 and node != self.host.node:
                    new = self._enter(key, contact, epoch, heard, neighbours) or new
            elif epoch > entry.epoch:
                entry.become(key, contact, epoch, heard)
                new = True
            elif epoch == entry.epoch and heard > entry.heard:
                entry.contact = contact
                entry.heard = heard
        return new

    def _enter(
        self, node: Any, contact: Contact, epoch: int, heard: float, neighbours: dict[NodeId, None]
    ) -> bool:
        """A new node takes the place of one heard of longer ago, if the view is full."""
        size = len(self._order)
        if size >= VIEW:
            oldest: Entry | None = None
            for _try in range(TRIES):  # compiled, an underscore would be an object
                self._next = self._next + 1 if self._next + 1 < size else 0
                entry = self._order[self._next]
                older = oldest is None or entry.heard < oldest.heard
                if older and entry.node not in neighbours:
                    oldest = entry
            if oldest is not None:
                if oldest.heard > heard:
                    return False
                del self.entries[oldest.node]
                oldest.become(node, contact, epoch, heard)
                self.entries[node] = oldest
                return True
            if size >= VIEW + SLACK:
                return False
        entry = Entry(node, contact, epoch, heard)
        entry.place = size
        self.entries[node] = entry
        self._order.append(entry)
        return True

    def alive(self, nodes: dict[Any, None]) -> None:
        """Note that nodes are alive now: neighbours, whose beats are heard."""
        now = self.host.now()
        for node in nodes:
            entry = self.entries.get(node)
            if entry is not None:
                entry.heard = now
                entry.failures = 0

    def forget_old(self) -> None:
        """Forget whoever has not been heard of; looked for twice in that time."""
        now = self.host.now()
        if now < self._forget_at:
            return
        self._forget_at = now + self.forget / 2
        since = now - self.forget
        for entry in list(self._order):
            if entry.heard < since:
                self.drop(entry.node)

    def refused(self, node: NodeId, reached: bool) -> None:
        """A node refused a link or, if it could not be reached, may be gone."""
        entry = self.entries.get(node)
        if entry is not None:
            entry.refused = self.host.now()
            if not reached:
                entry.failures += 1
                if entry.failures >= FAILURES:
                    self.drop(node)

    def drop(self, node: NodeId) -> None:
        """A node is gone."""
        entry = self.entries.pop(node, None)
        if entry is not None:
            last = self._order.pop()
            if last is not entry:
                last.place = entry.place
                self._order[entry.place] = last

    def below(self, limit: int) -> int:
        """A random number in [0, limit)."""
        self._draws += 1
        # As Chance.below, without a call of Python.
        return hashed_below(limit, self._chance.key, self.host.node, self.host.epoch, self._draws)

    def draw(self, nodes: list[NodeId]) -> NodeId:
        """One of the nodes, at random."""
        return nodes[self.below(len(nodes))]

    def sample(self, but: NodeId) -> tuple[Known, ...]:
        """This node and some others that were heard of lately, for another node.

        They are every so many-th of the view, from a random place on: one draw for all of them.
        """
        known: list[Known] = [(self.host.contact(), self.host.epoch, 0.0)]
        order = self._order
        size = len(order)
        if not size:
            return tuple(known)
        now = self.host.now()
        recent = now - self.forget / 2
        drawn = self.below(size * len(STRIDES))
        place = drawn // len(STRIDES)
        stride = STRIDES[drawn % len(STRIDES)] % size
        if not stride or size % stride == 0:
            stride = 1
        excluded = self.entries.get(but)
        for _step in range(size):
            entry = order[place]
            place += stride
            if place >= size:
                place -= size
            if entry.heard >= recent and entry is not excluded:
                known.append((entry.contact, entry.epoch, max(0.0, now - entry.heard)))
                if len(known) > self.most:
                    break
        return tuple(known)

    def candidate(self, but: Mapping[NodeId, object], pause: float) -> Contact | None:
        """Whom to ask for a link: none of those, and nobody who refused within ``pause``."""
        since = self.host.now() - pause
        able = [entry for entry in self._order if entry.refused < since and entry.node not in but]
        return able[self.below(len(able))].contact if able else None
