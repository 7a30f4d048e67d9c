"""What all recoveries share: buffers, numbers, rounds, copies and comparisons.

A recovery (Frey, chapter 4; Costa, Migliavacca, Picco, Cugola, ICDCS 2004) keeps the events that
its node published or wanted, and gossips every T seconds. How a round goes is what the five
algorithms differ in: :meth:`Gossip.round` and the messages it sends. Here is the rest.

* **Numbers** (:mod:`~shoal.recovery.counting`) tell a node what it lacks.
* **Copies** (:mod:`~shoal.recovery.copies`) go out of band, and are delivered once.
* **Comparing** is ours. Numbers say nothing of a publisher whose first event was lost, or that
  crashed before its last number was told. So each node now and then sends its filters on a random
  walk over links. Each node on it that holds matching events, published since the subscription and
  beyond what the seeker knows to be complete, answers with their ids. A walk meets every node in
  the end; so whatever a reachable buffer holds and a subscriber lacks is found, whatever the round.
* **Cost**: gossip stays below ``rate`` bytes per second plus ``share`` of the events that came by,
  copies below ``reply_rate``. Rounds that find nothing to do become rarer (``adaptive``).
* **Gaps**: what is not found ``patience`` seconds after it was noticed is reported as a gap.

Ages instead of times travel with events, so clocks need not agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from shoal.recovery.budget import Pace
from shoal.recovery.buffer import Kept
from shoal.recovery.holding import Holding
from shoal.recovery.messages import FILTERS, LONGEST, Compare, Digest, Reply, Request
from shoal.stack import LOCAL, Contact, Host, Message, NodeId, Routing, Timer
from shoal.stack.host import remember

if TYPE_CHECKING:
    from shoal.content import AnyFilter, Filter
    from shoal.recovery.parameters import RecoveryParameters
    from shoal.stack.layer import Handler

STEPS = 8
"""Nodes that a comparison visits."""
RARER = 12
"""The longest pause between comparisons, in multiples of ``compare``."""
SLACK = 5.0
"""Events up to SLACK seconds older than the subscription are offered too, as a walk takes time; the
seeker declines those it should not have."""
ROUNDS = 20_000
"""Gossip messages remembered, so that one that comes twice is passed on once."""


class Gossip(Holding):
    """Everything of a recovery but the round itself: buffer, numbers, comparisons, copies."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.comparing = Pace(
            parameters.compare, parameters.compare * (RARER if parameters.adaptive else 1)
        )
        self.chance = host.chance("recovery")
        self.rounds = 0
        """Gossip messages that this node has begun."""
        self.compared: tuple[AnyFilter, ...] = ()
        """The filters of the last comparison: what its answers may be requested for."""
        self.spare = 0.0
        """The share of all that may be saved up for gossip that comparing leaves."""
        self._timer: Timer | None = None
        self._every = 0.0
        """Seconds between two ticks."""
        self._passed: dict[tuple[int, NodeId, int, bool], None] = {}
        """Gossip messages that were here: kind, who began it, its number, whether straight from
        there."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Numbers, comparisons and copies; rounds add their own."""
        handlers = super().handlers()
        handlers[Compare] = self.on_compare
        handlers[Digest] = self.on_digest
        handlers[Request] = self.on_request
        handlers[Reply] = self.on_reply
        return handlers

    def start(self) -> None:
        """Begin, each node at another time of the period."""
        super().start()
        now, period = self.host.now(), self.parameters.period
        self.comparing.due = now + self.comparing.period * self.chance.uniform(self.host.node, 1)
        self._tick_every(period, period * self.chance.uniform(self.host.node, 0))

    def subscribed(self, filter: Filter, age: float = 0.0) -> None:
        """Also compare soon if the filter was wanted for a while: events may have been missed."""
        super().subscribed(filter, age)
        if age:
            self.comparing.busy(self.host.now())

    # Rounds

    def wake(self) -> None:
        """Tick within a period."""
        if self._every > self.parameters.period:
            self._tick_every(self.parameters.period)

    def _tick_every(self, seconds: float, first: float | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._every = seconds
        self._timer = self.host.every(seconds, self.tick, first)

    def unhurried(self) -> float:
        """Seconds between two ticks while nothing is missing, asked for or new."""
        return max(self.parameters.period, self.parameters.tail / 2)

    def tick(self) -> None:
        """Every ``period`` seconds, less often where nothing is to do: tidy up, do what is due."""
        now = self.host.now()
        self.buffer.forget_old(now)
        self.give_up(now - self.parameters.patience)
        self.forget_requests(now)
        self.ask_others_to_hold(now)
        self.tell_numbers(now)
        if self.parameters.compare and self.comparing.comes(now):
            self.compare()
        if self.pace.comes(now):
            self.round(now)
        if self.parameters.adaptive and not (self.losses or self.asked or self._securing):
            seconds = self.unhurried()
            if seconds != self._every:
                self._tick_every(seconds)

    def round(self, now: float) -> None:
        """A gossip round; each algorithm has its own."""
        raise NotImplementedError

    def first(self, kind: int, sender: NodeId, origin: NodeId, number: int) -> bool:
        """Whether a gossip message is here for the first time.

        One that others sent in a neighbour's name does not stand for what that one sends itself.
        """
        direct = sender == origin
        if (kind, origin, number, direct) in self._passed or origin == self.host.node:
            return False
        for way in (direct, False):
            remember(self._passed, (kind, origin, number, way), None, ROUNDS)
        return True

    def spread(
        self,
        neighbours: list[NodeId],
        sender: NodeId,
        origin: NodeId,
        number: int,
        message: Message,
    ) -> bool:
        """Send a gossip message to each neighbour but the sender with probability P_f.

        Whether it was sent to any.
        """
        sent = False
        for neighbour in neighbours:
            draw = self.chance.uniform(self.host.node, neighbour, origin, number, 9)
            if neighbour != sender and draw < self.parameters.probability:
                sent = self.gossip(neighbour, message) or sent
        return sent

    def drawn(self, entries: list[Kept]) -> list[Kept]:
        """As many of the events as a digest holds, chosen at random, in the order they came."""
        room = min(self.parameters.digest, LONGEST)
        if len(entries) <= room:
            return entries
        chosen = self.chance.sample(range(len(entries)), room, self.host.node, self.rounds, 2)
        return [entries[place] for place in sorted(chosen)]

    # Comparing

    def compare(self) -> None:
        """Begin a walk with some of this node's filters; it also names publishers known here."""
        lately = self.host.now() - self.parameters.buffer_age  # nobody holds what is older
        if not self.interests.filters and self.numbering.time <= lately:
            return
        self.rounds += 1
        now, node, wanted = self.host.now(), self.host.node, self.interests.filters
        filters = list(wanted)
        if len(filters) > FILTERS:
            filters = self.chance.sample(filters, FILTERS, node, self.rounds, 3)
        self.compared = tuple(filters)  # type: ignore[arg-type]  # wire union
        complete: list[tuple[Contact, int, int]] = []
        if self.numbering.time > lately:
            own = self.numbering
            complete.append((self.host.contact(), own.before, own.sequence))
        for publisher, heard in self.streams.arrivals.heard.items():
            if heard.last > lately and len(complete) < LONGEST:
                first, last = self.streams.complete(publisher)
                if first < last:
                    complete.append((self.contact_of(publisher), first, last))
        message = Compare(
            self.host.contact(),
            self.rounds,
            self.compared,
            tuple([now - wanted[filter].since for filter in filters]),
            tuple(complete),
            STEPS,
        )
        if not self.losses:
            self.comparing.in_vain()  # unless an answer says otherwise
        self._walk(message, LOCAL)

    def _walk(self, message: Compare, sender: NodeId) -> None:
        """Pass a walk on to a random neighbour, back only if there is no other."""
        links = self.routing.linked()
        others = [n for n in links if n != sender] or links
        if others and message.steps:
            draw = (self.host.node, message.seeker.node, message.round, message.steps)
            onward = msgspec.structs.replace(message, steps=message.steps - 1)
            if self._may_compare(onward):
                self.gossip(self.chance.choice(others, *draw), onward)

    def on_compare(self, sender: NodeId, message: Compare) -> None:
        """Answer with the ids of what the seeker may lack, and pass the walk on.

        What was published a moment ago may still be on its way.
        """
        self._met(message.seeker)
        for publisher, _, _ in message.complete:
            self.hear_of(publisher)
        if message.seeker.node != self.host.node and len(message.ages) == len(message.filters):
            now = self.host.now()
            complete = {who.node: (first, last) for who, first, last in message.complete}
            settled = now - self.parameters.period
            unknown: list[Kept] = []
            for kept in self.buffer.events():
                first, last = complete.get(kept.publisher, (-1, -1))
                if kept.time <= settled and not first < kept.sequence <= last:
                    unknown.append(kept)
            if not self.may_look(len(unknown) * len(message.filters)):
                return
            found: list[Kept] = []
            for kept in unknown:
                for filter, wanted in zip(message.filters, message.ages, strict=True):
                    old = now - kept.time > wanted + SLACK
                    if not old and filter.matches(kept.event.content):
                        found.append(kept)
                        break
            if found:
                self.rounds += 1
                answer = self._digest(None, found, 0)
                if self._may_compare(answer):
                    self.send_direct(message.seeker.node, answer)
        self._walk(message, sender)

    def _may_compare(self, message: Message) -> bool:
        """Whether comparing may send this: within the budget, and it leaves what is spare."""
        if self.budget.allows(message.size(), self.host.now(), self.spare):
            return True
        self.withheld += 1
        return False

    # Digests

    def _digest(self, filter: Filter | None, held: list[Kept], hops: int) -> Digest:
        now = self.host.now()
        return Digest(
            self.host.contact(),
            self.rounds,
            filter,  # type: ignore[arg-type]  # wire union
            tuple([(k.publisher, k.sequence, max(now - k.time, 0.0)) for k in self.drawn(held)]),
            hops,
        )

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        """Request what is named there and lacking here."""
        self._met(message.gossiper)
        for publisher, sequence, _ in message.held:
            self.buffer.elsewhere((publisher, sequence))
        if message.filter is None:
            if self.compared and self.request(message, self.compared):
                self.comparing.busy(self.host.now())
            return
        if message.filter in self.interests.filters:
            self.request(message, (message.filter,))
