"""Push: nodes send digests of what they hold, and nodes that lack some of it ask for copies.

Every T seconds a node chooses a random filter among all that it knows (from its routing's table,
and from followers of its own events), and sends a digest of the events it holds that match. The
digest is routed like such an event, but to each eligible neighbour with probability P_f only. A
subscriber that lacks some of the events asks the gossiper out of band.

With an adaptive period, gossip is polite: an event that digests sent or heard here have named often
enough is left out until a node asks for it. So ten nodes that hold an event do not all name it in
every round.

Push needs no numbers to repair a loss, and sends digests also where nothing is lost. Numbers still
serve to report gaps; ``marks = 0`` turns them off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shoal.recovery.counting import HOPS
from shoal.recovery.gossip import Gossip
from shoal.recovery.messages import Digest, Request
from shoal.recovery.parameters import RecoveryParameters
from shoal.stack import LOCAL, Host, NodeId, Routing, register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.recovery.buffer import Kept

DRAWS = 4
"""Draws of a filter (polite: of an event) for which there is something to send, per round."""
POLITE = 3
"""Digests, sent or heard here, that name an event before it is left out."""
WATCHFUL = 2
"""Factor by which the period grows at most while there are events to name."""


class Push(Gossip):
    """Digests of what is held, routed like events; who lacks some of it asks for copies."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self._requested = False
        """Whether somebody asked for copies since the last round."""

    def keep(self, event: Event, time: float) -> None:
        """Also bring the next round forward: there is something new to announce."""
        super().keep(event, time)
        if self.pace.period > WATCHFUL * self.pace.shortest:
            self.pace.period = WATCHFUL * self.pace.shortest
            self.pace.due = min(self.pace.due, self.host.now() + self.pace.period)
            self.wake()

    def round(self, now: float) -> None:
        """Choose a filter, and send a digest of what is held for it."""
        filters = list(dict.fromkeys(self.routing.known_filters() + self.numbering.filters()))
        self.rounds += 1
        if self.parameters.adaptive:
            self._polite_round(filters)
            return
        for draw in range(DRAWS if filters else 0):
            filter = self.chance.choice(filters, self.host.node, self.rounds, 4, draw)
            held = self.buffer.matching(filter)
            if held:
                self._send_digest(filter, held)
                return

    def _polite_round(self, filters: list[Filter]) -> None:
        """Name events that were not named often enough yet.

        The period grows: without limit but ``longest`` if there are none, up to WATCHFUL times the
        shortest if nobody asked for copies.
        """
        untold = self.buffer.untold(POLITE)
        a_little = 2 * self.pace.period <= WATCHFUL * self.pace.shortest
        if not untold or (a_little and not self._requested):
            self.pace.in_vain()
        self._requested = False
        for draw in range(DRAWS if untold else 0):
            event = self.chance.choice(untold, self.host.node, self.rounds, 4, draw).event
            wanting = [one for one in filters if one.matches(event.content)]
            if wanting:
                filter = self.chance.choice(wanting, self.host.node, self.rounds, 5)
                self._send_digest(filter, [k for k in untold if filter.matches(k.event.content)])
                return
            self.buffer.named(event.id)  # nobody wants it

    def _send_digest(self, filter: Filter, held: list[Kept]) -> None:
        """Send a digest towards those who want what matches a filter."""
        digest = self._digest(filter, held, 1)
        hops = self.routing.next_hops(filter)
        if not hops or self.spread(hops, LOCAL, self.host.node, self.rounds, digest):
            for publisher, sequence, _ in digest.held:
                self.buffer.named((publisher, sequence))

    def unhurried(self) -> float:
        """Rounds come also while nothing is missing."""
        return min(super().unhurried(), max(self.pace.period, self.parameters.period))

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        """Request what is lacking, and pass the digest on."""
        filter = message.filter
        if filter is None:
            super().on_digest(sender, message)
        elif self.first(0, sender, message.gossiper.node, message.round):
            super().on_digest(sender, message)
            if message.hops < HOPS:
                onward = msgspec.structs.replace(message, hops=message.hops + 1)
                hops = self.routing.next_hops(filter)
                self.spread(hops, sender, message.gossiper.node, message.round, onward)

    def on_request(self, sender: NodeId, message: Request) -> None:
        """Send copies, and name these events again: other nodes may lack them too."""
        self._requested = True
        super().on_request(sender, message)
        for key in message.ids:
            self.buffer.unnamed(key)


register(
    "recovery",
    "push",
    Push,
    RecoveryParameters,
    summary="Digests of what is held, routed like events; who lacks some of it asks for copies.",
)
