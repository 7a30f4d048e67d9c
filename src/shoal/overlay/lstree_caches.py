"""The caches from which a node of LSTree chooses candidates (Frey, section 10.3.1, Table 10.1).

The Regional cache (Ancestor Chain and Sibling Set) comes from the parent, the Global cache from
nodes anywhere. The others belong to one search, and fill with refusals. What caches hold may be
out of date: that can delay a repair, and never breaks the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from shoal.stack.host import NodeId, Timer, key_of, remember
from shoal.stack.message import Contact

if TYPE_CHECKING:
    from shoal.overlay.lstree_messages import Accept

REMEMBERED: Final = 16
"""Nodes remembered although they no longer answer: through them partitions find each other."""

NAMED: Final = frozenset("RADU")
"""Strategies whose candidates a single node named, which may have made them up."""
SILENT: Final = 16
"""Candidates without an answer after which a search asks no more of those."""
SIGHTED: Final = 64
"""Nodes of other trees, or around one that stops, that a search remembers at most."""
ASKED: Final = 10_000
"""Candidates that one search asks."""


class Dice:
    """Draws of one life of a node, in order; small numbers only, which are quick compiled."""

    def __init__(self, seed: int) -> None:
        self._state: i64 = seed % 2147483646 + 1

    def below(self, limit: int) -> int:
        """A number in [0, limit), for limits below a million."""
        self._state = self._state * 48271 % 2147483647
        return (self._state >> 5) % limit

    def uniform(self) -> float:
        """A number in [0, 1)."""
        self._state = self._state * 48271 % 2147483647
        return float(self._state - 1) / 2147483646.0


class GlobalCache:
    """References to nodes anywhere. The oldest gives way to a newer one."""

    def __init__(self, me: NodeId, size: int) -> None:
        self.me: Any = me
        self.size = size
        self.contacts: list[Contact] = []
        """The entries; once there are ``size``, a new one takes the place of the oldest."""
        self._oldest = 0
        self._keys: list[Any] = []
        """Keys of the entries, held here since computing them takes longer."""
        self._place: dict[Any, int] = {}
        """Per key the place of its entry."""
        self.unanswered: dict[Any, None] = {}
        """Entries that were pinged and have not answered yet."""
        self.remembered: dict[Any, Contact] = {}
        """Contacts to begin with, and entries that were purged."""
        self._turn = 0
        """How often entries were pinged."""
        self._next = 0
        """Where in the cache to go on pinging."""

    def insert(self, contact: Contact) -> None:
        """Add a node that is, or was lately, part of the overlay."""
        key = key_of(contact)
        if key in self._place or key == self.me:
            return
        if len(self.contacts) < self.size:
            self._place[key] = len(self.contacts)
            self.contacts.append(contact)
            self._keys.append(key)
            return
        place = self._oldest
        del self._place[self._keys[place]]
        self._place[key] = place
        self._keys[place] = key
        self.contacts[place] = contact
        self._oldest = (place + 1) % self.size

    def drop(self, key: Any) -> Contact | None:
        """Remove an entry, if it is there."""
        self.unanswered.pop(key, None)
        place = self._place.pop(key, None)
        if place is None:
            return None
        contact = self.contacts[place]
        last, key = self.contacts.pop(), self._keys.pop()
        if place < len(self.contacts):
            self.contacts[place] = last
            self._keys[place] = key
            self._place[key] = place
        self._oldest = 0
        return contact

    def remember(self, contact: Contact) -> None:
        """Remember a node, in place of the one remembered longest."""
        key = key_of(contact)
        if key != self.me and key not in self.remembered:
            remember(self.remembered, key, contact, REMEMBERED)

    def purge(self, key: Any) -> None:
        """Remove a node that does not answer, but remember it."""
        contact = self.drop(key)
        if contact is not None:
            self.remember(contact)

    def answered(self, contact: Contact) -> None:
        """Note that a node has answered."""
        key = key_of(contact)
        self.unanswered.pop(key, None)
        if self.remembered:
            self.remembered.pop(key, None)
            if contact.address:
                self.remembered.pop(contact.address, None)
        self.insert(contact)

    def to_ping(self, count: int) -> list[Contact]:
        """Nodes to ping: the next entries in turn and, in place of one, one of those remembered."""
        for key in list(self.unanswered):
            self.purge(key)
        self._turn += 1
        kept = list(self.remembered.values()) if count > 1 or self._turn % 2 else []
        chosen = self.some(count - 1 if kept else count, self._next)
        self._next += len(chosen)
        for contact in chosen:
            self.unanswered[key_of(contact)] = None
        if kept:
            turn = self._turn if count > 1 else self._turn // 2
            chosen.append(kept[turn % len(kept)])
        return chosen

    def some(self, count: int, start: int) -> list[Contact]:
        """``count`` entries from a place on, the first after the last."""
        size = len(self.contacts)
        if count >= size:
            return self.contacts[:]
        place = start % size
        chosen = self.contacts[place : place + count]
        if len(chosen) < count:
            chosen += self.contacts[: count - len(chosen)]
        return chosen


class Search:
    """One search for a parent: whom it asked, their answers, whom to ask next."""

    def __init__(self, cause: str, started: float, lost: NodeId, repair: int) -> None:
        self.cause = cause
        """Why: ``join``, ``lost`` (the parent), ``leave`` (the parent stops) or ``merge`` (a root
        looks for another tree)."""
        self.meeting = False
        """Whether only the nodes to begin with are asked."""
        self.started = started
        self.why = ""
        """Why the parent was lost."""
        self.lost = lost
        """The parent that was lost; LOCAL if none."""
        self.repair = repair
        """Number of the reconfiguration in which the lost link is replaced; -1 for none."""
        self.refused: dict[str, dict[Any, Contact]] = {}
        """The caches that refusals fill, per strategy: Downstream, Upstream and the two that lift
        limits."""
        self.sighted: dict[Any, Contact] = {}
        """Nodes of other trees that somebody has seen, and nodes around candidates that stop."""
        self.asked: dict[Any, None] = {}
        """Every node asked so far with the limits in force."""
        self.silent = 0
        """How many of them did not answer."""
        self.busy: dict[Any, Busy] = {}
        """Candidates that were busy and will be asked again."""
        self.next_busy: Busy | None = None
        self.candidate: Contact | None = None
        """Who is being asked."""
        self.strategy = ""
        self.request = 0
        """Number of the request that is under way."""
        self.timer: Timer | None = None
        self.accepted: Accept | None = None
        """Answer of the node that a move leads to, until it is welcome there."""
        self.trail: list[tuple[str, Any, str]] = []
        """Strategy, candidate and answer of every request."""
        self.outcome = ""
        """How it ended."""

    def fill(self, strategy: str, contacts: tuple[Contact, ...]) -> None:
        """Add candidates for a strategy that a refusal has named."""
        cache = self.refused.setdefault(strategy, {})
        for contact in contacts:
            cache[key_of(contact)] = contact


class Busy:
    """A candidate that was itself searching."""

    def __init__(self, contact: Contact, strategy: str) -> None:
        self.contact = contact
        self.strategy = strategy
        self.retries = 0
        self.ready_at = 0.0
        """When it may be asked again."""
