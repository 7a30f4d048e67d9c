"""What all recoveries share: buffers, numbers, rounds, copies and comparisons.

A recovery (Frey, chapter 4; Costa, Migliavacca, Picco, Cugola, ICDCS 2004) keeps the events that
its node published or wanted, and gossips every T seconds. How a round goes is what the five
algorithms differ in: :meth:`Gossip.round` and the messages it sends. Here is the rest.

* **Numbers** (:mod:`~shoal.recovery.numbering`, :mod:`~shoal.recovery.losses`): a node asks each
  publisher it hears of to number its filters, and so knows what it lacks. A publisher that falls
  silent tells its followers the last number, once; followers ask again once a minute.
* **Copies** go out of band. An event is delivered once, whichever way it came first. A copy that
  was not asked for is dropped: only what is missing, or was requested, is believed.
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

from shoal.recovery.budget import Budget, Pace
from shoal.recovery.buffer import EventBuffer, Kept, size_of
from shoal.recovery.delivered import Delivered
from shoal.recovery.losses import Losses
from shoal.recovery.messages import (
    BATCH,
    FILTERS,
    LONGEST,
    Compare,
    Digest,
    Follow,
    Following,
    Reply,
    Request,
    Start,
    Tally,
)
from shoal.recovery.numbering import Numbering
from shoal.stack import LOCAL, Contact, Host, Message, NodeId, Recovery, Routing

if TYPE_CHECKING:
    from shoal.content import AnyFilter, Event, EventId, Filter
    from shoal.recovery.parameters import RecoveryParameters
    from shoal.stack.layer import Handler

HOPS = 32
"""Links that a gossip message crosses at most."""
STEPS = 8
"""Nodes that a comparison visits."""
RARER = 12
"""Comparisons that find nothing become so many times rarer, at most."""
REFRESH = 60.0
"""Seconds after which a follower asks again; three times as many, and it is forgotten."""
SLACK = 5.0
"""Seconds that a walk may take: an event that is older than the subscription by less is offered,
and the seeker, who knows better, declines it."""
ROUNDS = 10_000
"""Gossip messages remembered, so that one that comes twice is passed on once."""
MOST_PUBLISHERS = 1000
"""Publishers that are followed by hearsay; those whose events come are followed in any case."""
MOST_ASKED = 10_000
"""Requests that are remembered."""


class Gossip(Recovery):
    """A recovery without rounds: it keeps, counts, compares and gives copies."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.parameters = parameters
        self.buffer = EventBuffer(
            parameters.buffer,
            parameters.buffer_bytes,
            parameters.buffer_age,
            parameters.eviction == "least spread first",
            host.node,
        )
        self.numbering = Numbering(host.epoch, parameters.marks)
        self.losses = Losses()
        self.delivered = Delivered()
        self.back: dict[NodeId, NodeId] = {}
        """Per publisher, the neighbour that its last event came from."""
        self.asked: dict[EventId, float] = {}
        """Events that were requested by id, and when."""
        self.declined: dict[EventId, None] = {}
        """Events that were offered and turned out not to be wanted."""
        longest = parameters.longest if parameters.adaptive else parameters.period
        self.pace = Pace(parameters.period, longest)
        self.comparing = Pace(
            parameters.compare, parameters.compare * (RARER if parameters.adaptive else 1)
        )
        self.budget = Budget(parameters.rate, parameters.share)
        self.replies = Budget(parameters.reply_rate)
        self.chance = host.chance("recovery")
        self.began = 0.0
        """When this node started."""
        self.rounds = 0
        """Gossip messages that this node has begun."""
        self.compared: tuple[AnyFilter, ...] = ()
        """The filters of the last comparison: what its answers may be requested for."""
        self._passed: dict[tuple[NodeId, int, int], None] = {}
        """Gossip messages that were here: kind, who began it and its number."""
        self._contacts: dict[NodeId, Contact] = {}
        """Nodes whose address was told."""
        self._followed: dict[NodeId, float] = {}
        """When each publisher was last asked to number filters."""
        self._answered: dict[NodeId, float] = {}
        """When each publisher last told its numbers, or was first heard of."""
        self._to_follow: dict[NodeId, None] = {}
        """Publishers to ask."""
        self.unsure: dict[NodeId, None] = {}
        """Publishers of which an unknown number of events may be missing."""
        self.recovered = 0
        self.unrecoverable = 0
        self.unasked = 0
        """Copies that nobody here asked for."""
        self.gossip_bytes = 0
        self.reply_bytes = 0
        self.withheld = 0
        """Messages not sent because of what gossip or replies may cost."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Numbers, comparisons and copies; rounds add their own."""
        return {
            Follow: self.on_follow,
            Following: self.on_following,
            Tally: self.on_tally,
            Compare: self.on_compare,
            Digest: self.on_digest,
            Request: self.on_request,
            Reply: self.on_reply,
        }

    def start(self) -> None:
        """Begin, each node at another time of the period."""
        now, period = self.host.now(), self.parameters.period
        self.began = now
        self.comparing.due = now + self.comparing.period * self.chance.uniform(self.host.node, 1)
        self.host.every(period, self.tick, period * self.chance.uniform(self.host.node, 0))

    def stop(self) -> None:
        """Tell followers the last numbers: what they lack they can still get elsewhere."""
        for follower, numbers in self.numbering.last_words().items():
            self.send_direct(follower, Tally(tuple(numbers), True))

    # Events

    def published(self, event: Event) -> Event:
        """Number it and keep it."""
        now = self.host.now()
        if self.parameters.marks:
            marks = self.numbering.marks(event, now)
            if marks:
                event = msgspec.structs.replace(event, marks=marks)
        self.keep(event, now)
        return event

    def seen(self, event: Event, sender: NodeId = LOCAL) -> None:
        """Remember where it came from; keep what passes through only if told to."""
        if sender != LOCAL:
            self.back[event.publisher] = sender
        self.budget.earn(size_of(event))
        if self.parameters.transit:
            self.keep(event, self.host.now())

    def arrived(self, event: Event, hops: int) -> None:
        """Deliver it unless a copy was faster, and look whether something is missing before it."""
        now = self.host.now()
        self.keep(event, now)
        self._count(event, now)
        if self.delivered.first(event.id):
            self.host.deliver(event, hops)

    def keep(self, event: Event, time: float) -> None:
        """Keep an event for others."""
        self.buffer.add(event, time)

    def _count(self, event: Event, now: float) -> list[int]:
        """Strike an event from what is missing, and find out what else is."""
        numbers = self.losses.matching(event)
        if event.publisher != self.host.node and self.parameters.marks:
            before = self.losses.noticed
            room = len(event.marks) < self.parameters.marks
            if self.losses.arrived(event, numbers, now, room):
                self._to_follow[event.publisher] = None
            if self.losses.noticed > before:
                self.pace.busy(now)
        return numbers

    def recover(self, event: Event, age: float, giver: NodeId) -> None:
        """A copy that was asked for: deliver it, if it is wanted and was not delivered."""
        now = self.host.now()
        numbers = self._count(event, now)
        if not self.losses.since(numbers, now - age) or not self.delivered.first(event.id):
            return
        self.recovered += 1
        if self.host.watched:
            role = "publisher" if giver == event.publisher else "another"
            self.host.note("recovered", giver, role)
        self.keep(event, now - age)
        self.host.deliver(event, 1, True)

    # Subscriptions

    def subscribed(self, filter: Filter, age: float = 0.0) -> None:
        """What matches and does not come is missed, also what was published ``age`` seconds ago."""
        now = self.host.now()
        self.losses.want(filter, now - age)
        for publisher in self.losses.streams:
            self._to_follow[publisher] = None
        if age:
            self.comparing.busy(now)

    def held(self, filter: Filter, age: float) -> list[Event]:
        """The events kept here that match and are no older than so many seconds."""
        since = self.host.now() - age
        return [kept.event for kept in self.buffer.matching(filter) if kept.time >= since]

    def unsubscribed(self, filter: Filter) -> None:
        """It is missed no more."""
        self.losses.unwant(filter)

    # Rounds

    def tick(self) -> None:
        """Every ``period`` seconds: tidy up, and do what is due."""
        now = self.host.now()
        self.buffer.forget_old(now)
        for lost in self.losses.give_up(now - self.parameters.patience):
            self.unrecoverable += lost.count
            self.host.gap(lost.publisher, lost.count, lost.wanted.filter)
        while self.asked:
            key = next(iter(self.asked))
            if self.asked[key] + self.parameters.retry > now and len(self.asked) <= MOST_ASKED:
                break
            del self.asked[key]
        if self.parameters.marks:
            self._ask_for_numbers(now)
            for follower, numbers in self.numbering.tails(now - self.parameters.tail).items():
                self.send_direct(follower, Tally(tuple(numbers)))
        if self.parameters.compare and self.comparing.comes(now):
            self.compare()
        if self.pace.comes(now):
            self.round(now)

    def round(self, now: float) -> None:
        """A gossip round; each algorithm has its own."""
        raise NotImplementedError

    def gossip(self, neighbour: NodeId, message: Message) -> bool:
        """Send a gossip message to a neighbour, if that is within the budget."""
        size = message.size()
        if not self.budget.spend(size, self.host.now()):
            self.withheld += 1
            return False
        self.gossip_bytes += size
        self.host.send(neighbour, message)
        return True

    def send_direct(self, node: NodeId, message: Message) -> None:
        """Send out of band; where that is beyond the budget, there is less gossip afterwards."""
        size = message.size()
        self.budget.charge(size)
        self.gossip_bytes += size
        self.host.send_direct(self.contact_of(node), message)

    def contact_of(self, node: NodeId) -> Contact:
        """A node, with its address if that was told."""
        return self._contacts.get(node) or Contact(node)

    def _met(self, contact: Contact) -> None:
        """Remember where a node can be reached, if that is new."""
        if contact.address and self._contacts.get(contact.node) != contact:
            if len(self._contacts) >= MOST_PUBLISHERS:
                del self._contacts[next(iter(self._contacts))]
            self._contacts[contact.node] = contact

    def first(self, kind: int, origin: NodeId, number: int) -> bool:
        """Whether a gossip message is here for the first time."""
        key = (kind, origin, number)
        if key in self._passed or origin == self.host.node:
            return False
        if len(self._passed) >= ROUNDS:
            del self._passed[next(iter(self._passed))]
        self._passed[key] = None
        return True

    def spread(
        self,
        neighbours: list[NodeId],
        sender: NodeId,
        origin: NodeId,
        number: int,
        message: Message,
    ) -> None:
        """Send a node's message of this number to each neighbour but one with probability P_f."""
        for neighbour in neighbours:
            draw = self.chance.uniform(self.host.node, neighbour, origin, number, 9)
            if neighbour != sender and draw < self.parameters.probability:
                self.gossip(neighbour, message)

    def drawn(self, entries: list[Kept]) -> list[Kept]:
        """As many as a digest holds, at random if there are more; in the order they came."""
        room = min(self.parameters.digest, LONGEST)
        if len(entries) <= room:
            return entries
        chosen = self.chance.sample(range(len(entries)), room, self.host.node, self.rounds, 2)
        return [entries[place] for place in sorted(chosen)]

    # Numbers

    def _ask_for_numbers(self, now: float) -> None:
        """Ask publishers to number filters: newly heard ones, and all of them once a minute."""
        losses = self.losses
        for publisher in list(losses.streams):
            if self._answered.setdefault(publisher, now) + 2.5 * REFRESH < now:
                self._gone(publisher)
            elif self._followed.get(publisher, now) + REFRESH <= now:
                self._followed[publisher] = now
                self._follow(publisher, list(losses.wanted), now)
        for publisher in list(self._to_follow):
            del self._to_follow[publisher]
            unfollowed = losses.unfollowed(publisher, now - REFRESH / 10)
            if unfollowed:
                self._followed.setdefault(publisher, now)
                self._follow(publisher, unfollowed, now)
        if self.numbering.sequence >= 0:
            self.numbering.forget(now - 3 * REFRESH)

    def _gone(self, publisher: NodeId) -> None:
        """A publisher no longer answers: its last events may be missing, nobody knows."""
        del self._answered[publisher]
        self._followed.pop(publisher, None)
        streams = self.losses.streams.pop(publisher)
        if any(stream.index >= 0 and not stream.final for stream in streams.values()):
            self.unsure[publisher] = None
            self.host.gap(publisher, 0)

    def _follow(self, publisher: NodeId, filters: list[Filter], now: float) -> None:
        for first in range(0, len(filters), FILTERS):
            some = filters[first : first + FILTERS]
            ages = tuple([now - self.losses.wanted[filter].since for filter in some])
            after = tuple([self.losses.ask(publisher, filter, now) for filter in some])
            me = self.host.contact()
            self._to_publisher(Follow(me, publisher, tuple(some), ages, after, 1))  # type: ignore[arg-type]  # wire union

    def _to_publisher(self, message: Follow) -> None:
        """Out of band if the address is known, or if there are none; else back along the route."""
        towards = self.back.get(message.publisher, LOCAL)
        reached = message.publisher in self._contacts or not message.follower.address
        if reached or towards not in self.routing.linked():
            self.send_direct(message.publisher, message)
        elif message.hops < HOPS:
            self.gossip(towards, msgspec.structs.replace(message, hops=message.hops + 1))

    def on_follow(self, sender: NodeId, message: Follow) -> None:
        """Somebody wants its filters numbered; without numbers there is nothing to say."""
        if message.publisher != self.host.node:
            if message.hops > 1:  # on its way back along a route
                self._to_publisher(message)
            return
        if not self.parameters.marks:
            return
        follower = message.follower.node
        self._met(message.follower)
        if not len(message.filters) == len(message.ages) == len(message.after):
            return
        now, last = self.host.now(), self.numbering.sequence
        starts: list[Start] = []
        for filter, age, after in zip(message.filters, message.ages, message.after, strict=True):
            followed = self.numbering.follow(filter, follower, now)
            if followed is None:
                starts.append(Start(filter, -1, last, 0, last, 0))
                continue
            owed, first = 0, last
            for kept in reversed(self.buffer.between(self.host.node, after, last + 1)):
                if now - kept.time > age:
                    break
                first = kept.event.sequence - 1
                owed += filter.matches(kept.event.content)
            dropped, time = self.buffer.dropped
            starts.append(
                Start(
                    *(filter, followed.index, first, followed.count - owed, last, followed.count),
                    dropped > after and now - time <= age,
                )
            )
        uptime = now - self.began
        self.send_direct(follower, Following(self.host.contact(), tuple(starts), uptime))

    def on_following(self, sender: NodeId, message: Following) -> None:
        """A publisher says how it numbers our filters."""
        if message.publisher.node != sender:
            return
        self._met(message.publisher)
        self._answered[sender] = self.host.now()
        now = self.host.now()
        before = self.losses.noticed
        for start in message.starts:
            if self.losses.started(sender, start, message.uptime, now):
                self.unsure[sender] = None
                self.host.gap(sender, 0, start.filter)
        if self.losses.noticed > before:
            self.pace.busy(now)

    def on_tally(self, sender: NodeId, message: Tally) -> None:
        """A publisher tells its last numbers."""
        now = self.host.now()
        before = self.losses.noticed
        for index, count, sequence in message.numbers:
            self.losses.told(sender, index, count, sequence, now, message.final)
        if self.losses.noticed > before:
            self.pace.busy(now)

    # Comparing

    def compare(self) -> None:
        """Begin a walk with some of our filters; it also says which publishers there are."""
        if not self.losses.wanted and self.numbering.sequence < 0:
            return
        self.rounds += 1
        losses, now, node = self.losses, self.host.now(), self.host.node
        filters = list(losses.wanted)
        if len(filters) > FILTERS:
            filters = self.chance.sample(filters, FILTERS, node, self.rounds, 3)
        self.compared = tuple(filters)  # type: ignore[arg-type]  # wire union
        complete: list[tuple[Contact, int, int]] = []
        if self.numbering.sequence >= 0:
            complete.append((self.host.contact(), -1, self.numbering.sequence))
        for publisher in losses.streams:
            first, last = losses.complete(publisher)
            if first < last and len(complete) < LONGEST:
                complete.append((self.contact_of(publisher), first, last))
        message = Compare(
            self.host.contact(),
            self.rounds,
            self.compared,
            tuple([now - losses.wanted[filter].since for filter in filters]),
            tuple(complete),
            STEPS,
        )
        if not losses.lost:
            self.comparing.in_vain()  # unless an answer says otherwise
        self._walk(message, LOCAL)

    def _walk(self, message: Compare, sender: NodeId) -> None:
        """Pass a walk on to a random neighbour, back only if there is no other."""
        links = self.routing.linked()
        others = [n for n in links if n != sender] or links
        if others and message.steps:
            draw = (self.host.node, message.seeker.node, message.round, message.steps)
            onward = msgspec.structs.replace(message, steps=message.steps - 1)
            self.gossip(self.chance.choice(others, *draw), onward)

    def on_compare(self, sender: NodeId, message: Compare) -> None:
        """Answer with the ids of what the seeker may lack, and pass the walk on."""
        self._met(message.seeker)
        for publisher, _, _ in message.complete:
            self._hear_of(publisher)
        if message.seeker.node != self.host.node and len(message.ages) == len(message.filters):
            now = self.host.now()
            complete = {who.node: (first, last) for who, first, last in message.complete}
            found: list[Kept] = []
            for kept in self.buffer.events():
                event, age = kept.event, now - kept.time
                first, last = complete.get(event.publisher, (-1, -1))
                if not first < event.sequence <= last:
                    for filter, wanted in zip(message.filters, message.ages, strict=True):
                        if age <= wanted + SLACK and filter.matches(event.content):
                            found.append(kept)
                            break
            if found:
                self.rounds += 1
                answer = self._digest(None, found, 0)
                self.send_direct(message.seeker.node, answer)
        self._walk(message, sender)

    def _hear_of(self, contact: Contact) -> None:
        """There is such a publisher: its first event may be one of those that were lost."""
        self._met(contact)
        streams, publisher = self.losses.streams, contact.node
        if (
            self.losses.wanted
            and publisher not in streams
            and publisher != self.host.node
            and len(streams) < MOST_PUBLISHERS
        ):
            streams[publisher] = {}
            self._to_follow[publisher] = None

    def _digest(self, filter: Filter | None, held: list[Kept], hops: int) -> Digest:
        now = self.host.now()
        return Digest(
            self.host.contact(),
            self.rounds,
            filter,  # type: ignore[arg-type]  # wire union
            tuple([(*k.event.id, max(now - k.time, 0.0)) for k in self.drawn(held)]),
            hops,
        )

    # Copies

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        """Request what is named there and lacking here."""
        self._met(message.gossiper)
        for publisher, sequence, _ in message.held:
            self.buffer.elsewhere((publisher, sequence))
        if message.filter is None:
            if self.compared and self.request(message, self.compared):
                self.comparing.busy(self.host.now())
            return
        if message.filter in self.losses.wanted:
            self.request(message, (message.filter,))

    def request(self, message: Digest, filters: tuple[AnyFilter, ...]) -> bool:
        """Ask a gossiper for what it has and we lack; whether there is any of that."""
        now = self.host.now()
        since = self.losses.earliest(filters)
        ids: list[EventId] = []
        for publisher, sequence, age in message.held:
            key = (publisher, sequence)
            if (
                now - age >= since
                and key not in self.delivered
                and key not in self.declined
                and self.asked.get(key, -1.0) + self.parameters.retry <= now
            ):
                ids.append(key)
        if ids:
            for key in ids:
                self.asked.pop(key, None)
                self.asked[key] = now
            self.send_direct(message.gossiper.node, Request(tuple(ids), filters))
        return bool(ids)

    def on_request(self, sender: NodeId, message: Request) -> None:
        """Give copies of what matches; say what does not."""
        self.pace.busy(self.host.now())
        copies: list[Kept] = []
        declined: list[EventId] = []
        for key in message.ids:
            kept = self.buffer.get(key)
            if kept is None:
                continue
            if any(filter.matches(kept.event.content) for filter in message.filters):
                copies.append(kept)
            else:
                declined.append(key)
        self.give(sender, copies, declined)

    def give(self, node: NodeId, copies: list[Kept], declined: list[EventId] | None = None) -> None:
        """Send copies of events out of band, as far as the rate of replies allows."""
        now = self.host.now()
        refused = tuple(declined or ())
        for first in range(0, max(len(copies), 1), BATCH):
            some = copies[first : first + BATCH]
            if not some and not refused:
                return
            size = sum([size_of(kept.event) for kept in some])
            if not self.replies.spend(size, now):
                self.withheld += 1
                return
            for kept in some:
                self.buffer.elsewhere(kept.event.id)
            pairs = tuple([(kept.event, max(now - kept.time, 0.0)) for kept in some])
            self.reply_bytes += size
            self.host.send_direct(self.contact_of(node), Reply(pairs, refused))
            refused = ()

    def on_reply(self, sender: NodeId, message: Reply) -> None:
        """Copies: those that were requested or are missing are taken, others are not."""
        for key in message.declined:
            if self.asked.pop(key, None) is not None:
                if len(self.declined) >= MOST_ASKED:
                    del self.declined[next(iter(self.declined))]
                self.declined[key] = None
        for event, age in message.copies:
            if self.asked.pop(event.id, None) is not None or self.losses.lacks(event):
                self.recover(event, age, sender)
            else:
                self.unasked += 1

    # For an operator

    def describe(self) -> dict[str, float]:
        """See :class:`~shoal.stack.layer.Recovery`."""
        return {
            "lost": self.losses.noticed,
            "missing": sum(lost.count for lost in self.losses.all()),
            "recovered": self.recovered,
            "unrecoverable": self.unrecoverable,
            "unasked": self.unasked,
            "withheld": self.withheld,
            "buffered_events": len(self.buffer),
            "buffered_bytes": self.buffer.bytes,
            "gossip_bytes": self.gossip_bytes,
            "reply_bytes": self.reply_bytes,
        }
