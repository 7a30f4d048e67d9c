"""Who else there is, and whom to be linked to: peer sampling, a graph of near constant degree.

A broker keeps a *view*: brokers it has heard of, and when each was last known to be alive. Every so
often it exchanges a random sample of the view with a random neighbour, so everybody soon knows
somebody everywhere. Who is not heard of for ``forget`` seconds is forgotten.

From the view it draws neighbours, so as to have ``degree`` of them, give or take one:

* with fewer than ``degree`` it asks random known brokers; one that has at most ``degree`` agrees;
* with fewer than ``degree - 1``, and refused, it asks urgently: then the other one makes room by
  dropping a neighbour that can best spare a link, and that one looks for another in its turn;
* with more than ``degree + 1`` it drops one itself.

Brokers that were lost, and those it was told to join, it tries to reach again every ``heal``
seconds, and asks urgently then: a network that was cut in two grows together.

Nothing here knows of sockets or clocks: time and chance come in from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from shoal.live.messages import Known
from shoal.stack import Chance, NodeId

VIEW: Final = 128
"""Brokers kept in the view."""
SAMPLE: Final = 12
"""Brokers told to another in one exchange."""
LOST: Final = 32
"""Brokers remembered after they were forgotten, so that a healed network is found again."""
LOST_FOR: Final = 20
"""How many times ``forget`` they are remembered."""


@dataclass
class Contact:
    """A broker in the view."""

    known: Known
    heard: float
    refused: float = -1e9
    """When it last refused a link, or could not be reached."""
    failures: int = 0


@dataclass
class Membership:
    """One broker's view of the network and its neighbours in it."""

    me: Known
    degree: int
    forget: float
    chance: Chance
    view: dict[NodeId, Contact] = field(default_factory=dict)
    lost: dict[NodeId, Contact] = field(default_factory=dict)
    neighbours: dict[NodeId, int] = field(default_factory=dict)
    """Per neighbour the number of links it has, as far as known."""
    _draws: int = 0

    def _draw(self, items: list[NodeId]) -> NodeId:
        self._draws += 1
        return self.chance.choice(items, self.me.node, self._draws)

    # What becomes known

    def hear(self, known: Known, now: float) -> None:
        """A broker is alive, or was so some seconds ago."""
        if known.node == self.me.node or not known.address:
            return
        heard = now - known.age
        if now - heard > self.forget:
            return
        contact = self.view.get(known.node)
        if contact is None:
            self.lost.pop(known.node, None)
            self.view[known.node] = Contact(known, heard)
            if len(self.view) > VIEW:
                self._make_room()
        elif heard > contact.heard and known.node not in self.neighbours:
            # The later news counts; epochs come from clocks, which may go back.
            if known.epoch != contact.known.epoch:
                self.view[known.node] = Contact(known, heard)
            else:
                contact.known, contact.heard = known, heard

    def _make_room(self) -> None:
        spare = [n for n in self.view if n not in self.neighbours]
        if spare:
            del self.view[min(spare, key=lambda n: self.view[n].heard)]

    def linked(self, known: Known, degree: int, now: float) -> None:
        """A neighbour, new or with another number of links; it says itself where it is."""
        self.neighbours.pop(known.node, None)
        self.hear(known, now)
        self.neighbours[known.node] = degree

    def unlinked(self, node: NodeId) -> None:
        """No longer a neighbour."""
        self.neighbours.pop(node, None)

    def refused(self, node: NodeId, now: float, *, reached: bool) -> None:
        """A broker refused a link or, if it could not be reached, may be gone."""
        contact = self.view.get(node)
        if contact is None:
            return
        contact.refused = now
        if not reached:
            contact.failures += 1
            if contact.failures >= 3:
                self._lose(node, now)

    def tick(self, now: float) -> None:
        """Neighbours are alive; forget whoever has not been heard of."""
        for node in self.neighbours:
            if node in self.view:
                self.view[node].heard = now
                self.view[node].failures = 0
        for node in [n for n, c in self.view.items() if now - c.heard > self.forget]:
            self._lose(node, now)
        for node in [n for n, c in self.lost.items() if now - c.heard > LOST_FOR * self.forget]:
            del self.lost[node]

    def _lose(self, node: NodeId, now: float) -> None:
        self.lost[node] = self.view.pop(node)
        while len(self.lost) > LOST:
            del self.lost[next(iter(self.lost))]

    # What to do

    def sample(self, now: float, but: NodeId) -> tuple[Known, ...]:
        """Myself and some others, for another broker."""
        others = [n for n in self.view if n != but and now - self.view[n].heard <= self.forget / 2]
        self._draws += 1
        chosen = self.chance.sample(others, min(SAMPLE, len(others)), self.me.node, self._draws)
        return (self.me, *(self._aged(self.view[n], now) for n in chosen))

    @staticmethod
    def _aged(contact: Contact, now: float) -> Known:
        k = contact.known
        return Known(k.node, k.name, k.address, k.epoch, max(0.0, now - contact.heard))

    def partner(self) -> NodeId | None:
        """Whom to exchange samples with."""
        return self._draw(list(self.neighbours)) if self.neighbours else None

    def candidate(self, now: float, pause: float) -> Known | None:
        """Whom to ask for a link, if one is missing; nobody again within ``pause`` seconds."""
        if len(self.neighbours) >= self.degree:
            return None
        able = [
            n
            for n, contact in self.view.items()
            if n not in self.neighbours and now - contact.refused > pause
        ]
        return self.view[self._draw(able)].known if able else None

    def urgent(self, refusals: int) -> bool:
        """Whether to insist."""
        return len(self.neighbours) < self.degree - 1 and refusals >= 3

    def accepts(self, urgent: bool) -> bool:
        """Whether to be linked to a broker that asks."""
        return urgent or len(self.neighbours) <= self.degree

    def surplus(self, but: NodeId | None = None) -> NodeId | None:
        """The neighbour to drop where there are too many: the one with most links."""
        if len(self.neighbours) <= self.degree + 1:
            return None
        spare = [n for n in self.neighbours if n != but]
        return max(spare, key=lambda n: (self.neighbours[n], n)) if spare else None

    def lost_contact(self, now: float) -> Known | None:
        """A broker that was lost, or has not been heard of lately, to try again."""
        doubtful = self.forget / 4
        able = [n for n in self.lost if n not in self.view] + [
            n for n, c in self.view.items() if n not in self.neighbours and now - c.heard > doubtful
        ]
        if not able:
            return None
        node = self._draw(able)
        return (self.lost.get(node) or self.view[node]).known

    def addresses(self) -> set[str]:
        """Where brokers are that are known to be there."""
        return {contact.known.address for contact in self.view.values()}
