"""Peer sampling: the nodes that a node has heard of, and when each was last known to be alive.

Every so often two neighbours exchange random samples of their *views*, so everybody soon knows
somebody everywhere. Who is not heard of for ``forget`` seconds is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shoal.overlay.graph_messages import Known
from shoal.stack.chance import Chance
from shoal.stack.host import Host, NodeId
from shoal.stack.message import Contact

VIEW: Final = 64
"""Nodes kept in a view."""
SLACK: Final = 32
"""Nodes above that before some are forgotten, many at once."""
SAMPLE: Final = 12
"""Nodes told to another in one exchange."""
FAILURES: Final = 3
"""Failed attempts to reach a node before it is forgotten."""


class Entry:
    """A node in a view."""

    def __init__(self, contact: Contact, epoch: int, heard: float) -> None:
        self.contact = contact
        self.epoch = epoch
        self.heard = heard
        """When it was last known to be alive."""
        self.refused = -1e9
        """When it last refused a link, or could not be reached."""
        self.failures = 0
        """Attempts to reach it that failed since it was last heard of."""


class View:
    """One node's partial view of the network."""

    def __init__(self, host: Host, forget: float) -> None:
        self.host = host
        self.forget = forget
        self.entries: dict[NodeId, Entry] = {}
        self._chance: Chance = host.chance("peer sampling")
        self._draws = 0

    def hear(self, known: Iterable[Known], neighbours: Mapping[NodeId, object]) -> bool:
        """Nodes were alive some seconds ago; True if one of them is new here."""
        now = self.host.now()
        new = False
        for one in known:
            node = one.contact.node
            heard = now - one.age
            if node == self.host.node or node < 0 or one.age > self.forget:
                continue
            entry = self.entries.get(node)
            if entry is None or one.epoch > entry.epoch:
                self.entries[node] = Entry(one.contact, one.epoch, heard)
                new = True
            elif one.epoch == entry.epoch and heard > entry.heard:
                entry.contact = one.contact
                entry.heard = heard
        if len(self.entries) > VIEW + SLACK:
            self._make_room(neighbours)
        return new

    def _make_room(self, neighbours: Mapping[NodeId, object]) -> None:
        """Forget those heard of longest ago, neighbours never."""
        spare = [(entry.heard, n) for n, entry in self.entries.items() if n not in neighbours]
        spare.sort()
        for _, node in spare[: len(self.entries) - VIEW]:
            del self.entries[node]

    def alive(self, nodes: Iterable[NodeId]) -> None:
        """These are alive now: neighbours, whose beats are heard."""
        now = self.host.now()
        for node in nodes:
            entry = self.entries.get(node)
            if entry is not None:
                entry.heard = now
                entry.failures = 0

    def forget_old(self) -> None:
        """Forget whoever has not been heard of."""
        since = self.host.now() - self.forget
        for node in [n for n, entry in self.entries.items() if entry.heard < since]:
            del self.entries[node]

    def refused(self, node: NodeId, reached: bool) -> None:
        """A node refused a link or, if it could not be reached, may be gone."""
        entry = self.entries.get(node)
        if entry is not None:
            entry.refused = self.host.now()
            if not reached:
                entry.failures += 1
                if entry.failures >= FAILURES:
                    del self.entries[node]

    def drop(self, node: NodeId) -> None:
        """A node is gone."""
        self.entries.pop(node, None)

    def below(self, limit: int) -> int:
        """A random number in [0, limit)."""
        self._draws += 1
        return self._chance.below(limit, self.host.node, self.host.epoch, self._draws)

    def draw(self, nodes: list[NodeId]) -> NodeId:
        """One of them, at random."""
        return nodes[self.below(len(nodes))]

    def sample(self, but: NodeId) -> tuple[Known, ...]:
        """This node and some others that were heard of lately, for another node."""
        now = self.host.now()
        recent = now - self.forget / 2
        others = [n for n, entry in self.entries.items() if n != but and entry.heard >= recent]
        self._draws += 1
        chosen = self._chance.sample(
            others, min(SAMPLE, len(others)), self.host.node, self.host.epoch, self._draws
        )
        known = [Known(self.host.contact(), self.host.epoch)]
        for node in chosen:
            entry = self.entries[node]
            known.append(Known(entry.contact, entry.epoch, max(0.0, now - entry.heard)))
        return tuple(known)

    def candidate(self, but: Mapping[NodeId, object], pause: float) -> Contact | None:
        """Whom to ask for a link: none of those, and nobody who refused within ``pause``."""
        since = self.host.now() - pause
        able = [n for n, entry in self.entries.items() if n not in but and entry.refused < since]
        return self.entries[self.draw(able)].contact if able else None
