"""What the pulls share: requests for missing events, on one of three routes.

A round sends a message that names losses not asked for lately, as many as fit. A node that holds
some of these events sends copies to the seeker out of band, and passes on what is left:

* towards *subscribers*: over the links that an event matching the filter would take;
* towards the *publisher*: to the neighbour that the publisher's last event came from, back along
  its route; straight to the publisher, out of band, where that link is gone;
* at *random*: over any links.

On the first and the last route it goes to each eligible neighbour with probability P_f only.

If more losses are known than fit, the message names a random choice of them. Losses older than all
events that this node still holds come last, as others will hold few events that are older.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shoal.recovery.counting import HOPS
from shoal.recovery.gossip import Gossip
from shoal.recovery.messages import FILTERS, HAVE, LONGEST, Hole, Missing, Route
from shoal.stack import LOCAL, Message, NodeId

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.recovery.buffer import Kept
    from shoal.recovery.interests import Wanted
    from shoal.recovery.losses import Lost
    from shoal.recovery.parameters import RecoveryParameters
    from shoal.stack import Host, Routing
    from shoal.stack.layer import Handler


class Pull(Gossip):
    """A recovery whose rounds ask for what is missing."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.spare = 0.5  # a node that answers many comparisons can still ask

    def handlers(self) -> dict[type[Message], Handler]:
        """Adds Missing: what other nodes lack."""
        handlers = super().handlers()
        handlers[Missing] = self.on_missing
        return handlers

    # What to ask for

    def lacking(self, now: float) -> list[Lost]:
        """The losses noticed at least a period ago, and not asked for lately.

        An event that was missed a moment ago may only be late: numbers come straight from the
        publisher, and events may overtake each other.
        """
        noticed = now - self.parameters.period
        asked = now - self.parameters.retry
        return [one for one in self.losses.all() if one.asked <= asked and one.noticed <= noticed]

    def round(self, now: float) -> None:
        """Ask for some of what is missing; send nothing if nothing is."""
        lost = self.lacking(now)
        if lost:
            self.rounds += 1
            self.ask(lost, now)
            self.pace.in_vain()  # unless copies arrive, see recover

    def ask(self, lost: list[Lost], now: float) -> None:
        """Choose among the losses, and whom to ask; each algorithm has its own rule."""
        raise NotImplementedError

    def recover(self, event: Event, age: float, giver: NodeId) -> None:
        """Also make rounds frequent again: asking was not in vain."""
        super().recover(event, age, giver)
        self.hurry()

    def ask_subscribers(self, lost: list[Lost], now: float) -> None:
        """Ask for events that match one filter, among nodes that want the same."""
        chosen = self.some_filter(lost)
        message = self.missing("subscribers", [one for one in lost if one.wanted is chosen], now)
        hops = self.routing.next_hops(chosen.filter)
        self.spread(hops, LOCAL, self.host.node, self.rounds, message)

    def ask_publisher(self, lost: list[Lost], now: float) -> None:
        """Ask for one publisher's events, back along their route."""
        counts: dict[NodeId, int] = {}
        for one in lost:
            counts[one.publisher] = counts.get(one.publisher, 0) + one.count
        most = max(counts.values())
        worst = [publisher for publisher, count in counts.items() if count == most]
        publisher = self.chance.choice(worst, self.host.node, self.rounds, 5)
        some = [one for one in lost if one.publisher == publisher]
        self._send_back(publisher, self.missing("publisher", some, now), LOCAL)

    def some_filter(self, lost: list[Lost]) -> Wanted:
        """A random filter among those with losses."""
        wanted = list({one.wanted.number: one.wanted for one in lost}.values())
        return self.chance.choice(wanted, self.host.node, self.rounds, 6)

    def missing(self, route: Route, lost: list[Lost], now: float) -> Missing:
        """Some losses as a message; they count as asked for."""
        room = min(self.parameters.digest, LONGEST)
        if len(lost) > room:
            oldest = self.buffer.oldest(now)
            order = self.chance.sample(range(len(lost)), len(lost), self.host.node, self.rounds, 7)
            recent = [place for place in order if lost[place].noticed >= oldest]
            others = [place for place in order if lost[place].noticed < oldest]
            lost = [lost[place] for place in sorted((recent + others)[:room])]
        filters: dict[Filter, int] = {}
        holes: list[Hole] = []
        for one in lost:
            place = filters.setdefault(one.wanted.filter, len(filters))
            if place >= FILTERS:
                del filters[one.wanted.filter]
                continue
            one.asked = now
            have = tuple(sorted(one.have)) if len(one.have) <= HAVE else ()
            holes.append(Hole(one.publisher, place, one.after, one.before, one.count, have))
        return Missing(
            self.host.contact(),
            self.rounds,
            route,
            tuple(filters),  # type: ignore[arg-type]  # wire union
            tuple(holes),
            1,
        )

    # What others ask for

    def on_missing(self, sender: NodeId, message: Missing) -> None:
        """Send copies of what is held, and pass on what is left."""
        if not self.first(1, sender, message.seeker.node, message.round):
            return
        self._met(message.seeker)
        found: dict[tuple[int, int], Kept] = {}
        left: list[Hole] = []
        for hole in message.holes:
            if hole.filter >= len(message.filters):
                continue
            if not self.may_look(min(len(self.buffer), max(hole.before - hole.after, 1))):
                left.append(hole)
                continue
            filter = message.filters[hole.filter]
            given: list[int] = []
            for kept in self.buffer.between(hole.publisher, hole.after, hole.before):
                if len(given) >= hole.count:
                    break
                if kept.sequence not in hole.have and filter.matches(kept.event.content):
                    found[(kept.publisher, kept.sequence)] = kept
                    given.append(kept.sequence)
            if len(given) < hole.count:
                have = (*hole.have, *given) if len(hole.have) + len(given) <= HAVE else hole.have
                left.append(msgspec.structs.replace(hole, count=hole.count - len(given), have=have))
        if found:
            self.give(message.seeker.node, list(found.values()))
        if left and message.hops < HOPS and message.route != "direct":
            onward = msgspec.structs.replace(message, holes=tuple(left), hops=message.hops + 1)
            self.pass_on(onward, sender)

    def pass_on(self, message: Missing, sender: NodeId) -> None:
        """Send a message one hop further on its route."""
        seeker = message.seeker.node
        if message.route == "publisher":
            self._send_back(message.holes[0].publisher, message, sender)
        elif message.route == "random":
            self.spread(self.routing.linked(), sender, seeker, message.round, message)
        else:
            hops = self.routing.next_hops(message.filters[message.holes[0].filter])
            self.spread(hops, sender, seeker, message.round, message)

    def _send_back(self, publisher: NodeId, message: Missing, sender: NodeId) -> None:
        """Send to the neighbour that a publisher's last event came from, or straight to it."""
        if publisher == self.host.node:
            return
        towards = self.back.get(publisher, LOCAL)
        if towards != sender and towards in self.routing.linked():
            self.gossip(towards, message)
        else:
            direct = msgspec.structs.replace(message, route="direct")
            self.send_direct(publisher, direct)
