"""Push: nodes tell what they hold; who lacks some of it asks for copies.

Every T seconds a node chooses a random filter among all that it knows somebody to want (its
routing's table, and what followers of its own events asked for), and sends a digest of the events
it holds that match. The digest is routed like such an event, but to each eligible neighbour with
probability P_f only. A subscriber that lacks some of them asks the gossiper out of band.

Push needs no numbers to mend a loss, and talks also where nothing is lost. Numbers are used all the
same, to report gaps; set ``marks = 0`` to do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shoal.recovery.gossip import HOPS, Gossip
from shoal.recovery.messages import Digest, Request
from shoal.recovery.parameters import RecoveryParameters
from shoal.stack import LOCAL, Host, NodeId, Routing, register

if TYPE_CHECKING:
    from shoal.content import Event

DRAWS = 4
"""Filters that are drawn until one matches something in the buffer."""
WATCHFUL = 4
"""While events come, rounds become at most so many times rarer: the next one may be lost."""


class Push(Gossip):
    """Digests of what is held, routed like events; who lacks some of it asks for copies."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self._fresh = False
        """Whether something was kept since the last round."""
        self._requested = False
        """Whether somebody asked for copies since then."""

    def keep(self, event: Event, time: float) -> None:
        """As usual; there is something new to tell."""
        super().keep(event, time)
        self._fresh = True
        if self.pace.period > WATCHFUL * self.pace.shortest:
            self.pace.period = WATCHFUL * self.pace.shortest
            self.pace.due = min(self.pace.due, self.host.now() + self.pace.period)
            self.wake()

    def round(self, now: float) -> None:
        """Choose a filter, and tell what is held for it."""
        if not self._requested and (not self._fresh or self.pace.period * 2 <= self._watchful()):
            self.pace.in_vain()
        self._fresh = self._requested = False
        filters = list(dict.fromkeys(self.routing.known_filters() + self.numbering.filters()))
        if not filters or not len(self.buffer):
            return
        self.rounds += 1
        for draw in range(DRAWS):
            filter = self.chance.choice(filters, self.host.node, self.rounds, 4, draw)
            held = self.buffer.matching(filter)
            if held:
                digest = self._digest(filter, held, 1)
                hops = self.routing.next_hops(filter)
                self.spread(hops, LOCAL, self.host.node, self.rounds, digest)
                return

    def unhurried(self) -> float:
        """Rounds come also where nothing is missing."""
        return min(super().unhurried(), max(self.pace.period, self.parameters.period))

    def _watchful(self) -> float:
        return WATCHFUL * self.pace.shortest

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        """Request what is lacking, and pass the digest on."""
        filter = message.filter
        if filter is None:
            super().on_digest(sender, message)
        elif self.first(0, message.gossiper.node, message.round):
            super().on_digest(sender, message)
            if message.hops < HOPS:
                onward = msgspec.structs.replace(message, hops=message.hops + 1)
                hops = self.routing.next_hops(filter)
                self.spread(hops, sender, message.gossiper.node, message.round, onward)

    def on_request(self, sender: NodeId, message: Request) -> None:
        """Somebody lacks something: give it, and go on gossiping."""
        self._requested = True
        super().on_request(sender, message)


register(
    "recovery",
    "push",
    Push,
    RecoveryParameters,
    summary="Digests of what is held, routed like events; who lacks some of it asks for copies.",
)
