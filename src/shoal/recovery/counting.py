"""Counting: how a node gets numbers from the publishers that it hears of.

A node asks each publisher to number the events that match its filters
(:mod:`~shoal.recovery.numbering`), and so knows what it lacks (:mod:`~shoal.recovery.streams`). It
asks again once a minute, and gets the latest numbers. When the events of a filter stop, the
publisher sends its followers the last number, once; when the publisher stops in good order, it
sends them the last numbers of all their filters.

What no count can show is reported as a gap of unknown size: events that a publisher no longer kept
when it was first asked, and events of a life that ended without a last Tally.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import force_setattr

from shoal.content.event import MARK_BYTES
from shoal.recovery.buffer import OVERHEAD
from shoal.recovery.copies import Copies
from shoal.recovery.messages import FILTERS, LONGEST, Again, Follow, Following, Start, Tally
from shoal.recovery.numbering import Numbering
from shoal.stack import LOCAL, Contact, Host, Message, NodeId, Routing
from shoal.stack.host import NEVER, remember

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.recovery.parameters import RecoveryParameters
    from shoal.stack.layer import Handler

HOPS = 32
"""Links that a gossip message crosses at most."""
REFRESH = 60.0
"""Seconds after which a follower asks again; three times as many, and it is forgotten."""
SILENCE = 4
"""Usual pauses between events after which a publisher's silence is unusual."""
MOST_PUBLISHERS = 1000
"""Entries of each table of publishers; those whose events arrive are followed in any case."""


class Counting(Copies):
    """Numbers own events for those who follow them, and follows others."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.numbering = Numbering(host.epoch, parameters.marks, host.floor, host)
        self.began = 0.0
        """When this node started."""
        self._me: object = host.node
        """This node's id, typed as the publisher of an event is (:meth:`Copies.arrived`)."""
        self._most = parameters.marks
        """Marks that an event carries at most."""
        self._transit = parameters.transit
        """Whether events are kept that only pass through."""
        self._published = 0.0
        """When this node last published an event."""
        self._seen_of = self._seen_from = LOCAL
        """Publisher of the last event that was routed here, and the neighbour that it came from."""
        self.back: dict[NodeId, NodeId] = {}
        """Per publisher, the neighbour that its last event came from."""
        self.unsure: dict[NodeId, None] = {}
        """Publishers of which an unknown number of events may be missing; the latest of them."""
        self._followed: dict[NodeId, float] = {}
        """When each publisher was last asked to number filters."""
        self._answered: dict[NodeId, float] = {}
        """When each publisher last sent its numbers, or was first heard of."""
        self._to_follow: dict[NodeId, None] = {}
        """Publishers to ask."""
        self._hearsay: dict[NodeId, None] = {}
        """Publishers that were named by others, and may not have answered yet."""
        self._born: dict[NodeId, float] = {}
        """When the latest life of each node began, as far as known."""
        self._publishers: dict[NodeId, Contact] = {}
        """Publishers that neighbours named."""
        self._reported: dict[tuple[NodeId, Filter | None], float] = {}
        """When a gap was last reported, per publisher and filter (None: all)."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Questions for numbers, and the answers."""
        return {
            Follow: self.on_follow,
            Following: self.on_following,
            Again: self.on_again,
            Tally: self.on_tally,
        }

    def start(self) -> None:
        """Note the time: this node knows nothing of what was published before."""
        self.began = self._born[self.host.node] = self.host.now()

    def stop(self) -> None:
        """Send followers the last numbers: what they lack they can still get elsewhere."""
        self._send_tallies(self.numbering.last_words(), True)

    def _send_tallies(self, told: dict[NodeId, list[tuple[int, int, int]]], final: bool) -> None:
        """Send followers their numbers, as many in a message as one may carry."""
        for follower, numbers in told.items():
            for first in range(0, len(numbers), LONGEST):
                some = tuple(numbers[first : first + LONGEST])
                self.send_direct(follower, Tally(some, final))

    # Events and subscriptions

    def published(self, event: Event) -> None:
        """Number it."""
        self._published = self.host.now()
        if self._most:
            marks = self.numbering.marks(event, self._published)
            if marks:
                force_setattr(event, "marks", marks)  # nobody else has seen it yet

    def routed(self, event: Event) -> None:
        """Keep it; by now it has been encoded for neighbours."""
        self.keep(event, self._published)

    def seen(self, event: Event, sender: NodeId = LOCAL) -> None:
        """Note where an event came from; keep it if events that pass through are kept."""
        if sender != LOCAL:
            publisher = event.publisher
            if publisher != self._seen_of or sender != self._seen_from:
                self._seen_of, self._seen_from = publisher, sender
                self.back[publisher] = sender
        self.budget.earn(OVERHEAD + len(event.body))
        if self._transit:
            self.keep(event, self.host.now())

    def came(self, event: Event, publisher: object, sequence: int, now: float) -> None:
        """Strike an event from what is missing; nearly always it is just the next one."""
        most = self._most
        if publisher == self._me or not most:
            return  # own events, and events without numbers, show no losses
        if not self.streams.next_came(event, publisher, sequence, most, now):
            self.count(event, now)

    def count(self, event: Event, now: float) -> list[int]:
        """Strike an event from what is missing, and find out what else is."""
        numbers = self.interests.matching(event)
        publisher, most = event.publisher, self._most
        if publisher != self.host.node and most:
            self.streams.arrivals.hear(publisher, now)
            before = self.losses.noticed
            if self.streams.arrived(event, numbers, now, len(event.marks) < most * MARK_BYTES):
                self._to_follow[publisher] = None
                self.wake()
            if self.losses.noticed > before:
                self.hurry()
        return numbers

    def subscribed(self, filter: Filter, age: float = 0.0) -> None:
        """Follow publishers for a filter, also for events published up to ``age`` seconds ago."""
        since = self.host.now() - age
        if filter in self.interests.filters:
            have: dict[NodeId, list[int]] = {}
            for kept in self.buffer.matching(filter):
                if (kept.publisher, kept.sequence) in self.delivered:
                    have.setdefault(kept.publisher, []).append(kept.sequence)
            self.streams.widen(filter, since, have)
        else:
            self.streams.want(filter, since)
        for contact in self._publishers.values():
            self.hear_of(contact)
        for publisher in self.streams.by_publisher:
            self._to_follow[publisher] = None
        self.wake()

    def unsubscribed(self, filter: Filter) -> None:
        """The application no longer wants what matches: nothing of it is missing any more."""
        self.streams.unwant(filter)

    def tell_numbers(self, now: float) -> None:
        """Ask for numbers, and send the last ones of own filters whose events have stopped."""
        if not self._most:
            return
        self._ask_for_numbers(now)
        self._send_tallies(self.numbering.tails(now - self.parameters.tail), False)

    # Lives of others

    def life(self, contact: Contact, age: float, ended: bool | None) -> None:
        """A node has started: what its earlier life published may be lost, unless that ended well.

        ``ended`` says whether it did; None if nothing was ever heard of an earlier life. If there
        was one all the same, it was before this node began.
        """
        now, node = self.host.now(), contact.node
        born = now - age
        remember(self._born, node, born, MOST_PUBLISHERS)
        unsure = self.streams.restart(node, born, now)
        for filter, wanted in list(self.interests.filters.items()):
            unknown = wanted.since < self.began if ended is None else not ended
            if wanted.since < born and (unknown or wanted.number in unsure):
                self._report_unknown(node, filter)

    def publisher(self, contact: Contact, neighbour: NodeId) -> None:
        """A neighbour names a publisher: ask it for numbers, by way of that neighbour."""
        if len(self.back) < MOST_PUBLISHERS:
            self.back.setdefault(contact.node, neighbour)
        remember(self._publishers, contact.node, contact, MOST_PUBLISHERS)
        self.hear_of(contact)

    def doubtful(self, filter: Filter, age: float) -> list[tuple[NodeId, float]]:
        """Publishers with a new life, a gap or a dropped event lately, and how many seconds ago."""
        now = self.host.now()
        told = [(node, time) for (node, of), time in self._reported.items() if of in (None, filter)]
        found: dict[NodeId, float] = {}
        for node, time in (*self._born.items(), *self.buffer.left.items(), *told):
            if time > now - age:
                found[node] = max(time, found.get(node, time))
        return [(publisher, now - time) for publisher, time in found.items()]

    def report(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        """Report a gap, and remember that for those who come later."""
        remember(self._reported, (publisher, filter), self.host.now(), MOST_PUBLISHERS)
        self.host.gap(publisher, count, filter)

    def _report_unknown(self, publisher: NodeId, filter: Filter | None = None) -> None:
        """Report a gap of unknown size."""
        remember(self.unsure, publisher, None, MOST_PUBLISHERS)
        self.report(publisher, 0, filter)

    # Following

    def hear_of(self, contact: Contact) -> None:
        """Follow a publisher that another node names: its first event may have been lost."""
        self._met(contact)
        streams, publisher = self.streams.by_publisher, contact.node
        if not self.interests.filters or publisher in streams or publisher == self.host.node:
            return
        if len(streams) >= MOST_PUBLISHERS:
            self._forget_hearsay()
        if len(streams) < MOST_PUBLISHERS:
            streams[publisher] = {}
            self._hearsay[publisher] = self._to_follow[publisher] = None
            self.wake()

    def _forget_hearsay(self) -> None:
        """Make room for a publisher: others may have made up the first that has not answered."""
        while self._hearsay:
            publisher = next(iter(self._hearsay))
            del self._hearsay[publisher]
            streams = self.streams.by_publisher.get(publisher)
            known = publisher in self._publishers or publisher in self.streams.arrivals.heard
            if streams is None or known or any(s.index >= 0 for s in streams.values()):
                continue
            self.streams.forget(publisher)
            self._to_follow.pop(publisher, None)
            self._answered.pop(publisher, None)
            self._followed.pop(publisher, None)
            return

    def _ask_for_numbers(self, now: float) -> None:
        """Ask publishers to number filters: newly heard ones, and all of them once a minute."""
        streams = self.streams
        for publisher in list(streams.by_publisher):
            if self._answered.setdefault(publisher, now) + 2.5 * REFRESH < now:
                self._gone(publisher)
            elif self._followed.get(publisher, now) + REFRESH <= now or self._silent(
                publisher, now
            ):
                self._followed[publisher] = now
                known = streams.named(publisher)
                for first in range(0, len(known), LONGEST):
                    some = tuple(known[first : first + LONGEST])
                    self.send_direct(publisher, Again(self.host.contact(), some))
                unnamed = streams.unfollowed(publisher, now)
                self._follow(publisher, unnamed, now, again=True)
        for publisher in list(self._to_follow):
            del self._to_follow[publisher]
            unfollowed = streams.unfollowed(publisher, now - REFRESH / 10)
            if unfollowed:
                again = self._followed.setdefault(publisher, now) != now
                self._follow(publisher, unfollowed, now, again)
        if self.numbering.published:
            self.numbering.forget(now - 3 * REFRESH)

    def ask_all(self) -> None:
        """Ask all publishers for their last numbers now: this node is about to stop."""
        if self._most:
            for publisher in self._followed:
                self._followed[publisher] = NEVER
            self._ask_for_numbers(self.host.now())

    def answered(self) -> bool:
        """Whether all publishers have sent their numbers since they were last asked."""
        told = self._answered
        return all(told.get(node, NEVER) >= asked for node, asked in self._followed.items())

    def _silent(self, publisher: NodeId, now: float) -> bool:
        """Whether a publisher is silent for unusually long, and was not asked for numbers since."""
        heard = self.streams.arrivals.heard.get(publisher)
        if heard is None:
            return False
        unusual = heard.last + 2 * self.parameters.tail + SILENCE * heard.usual
        asked, answered = self._followed.get(publisher, now), self._answered[publisher]
        return now > unusual and asked < heard.last and answered < heard.last

    def _gone(self, publisher: NodeId) -> None:
        """A publisher no longer answers: its last events may be missing."""
        del self._answered[publisher]
        self._followed.pop(publisher, None)
        self._hearsay.pop(publisher, None)
        streams = self.streams.forget(publisher)
        told = self._publishers.pop(publisher, None) is not None
        if any(not s.final and (told or s.index >= 0) for s in streams.values()):
            self._report_unknown(publisher)

    def _follow(
        self, publisher: NodeId, filters: list[Filter], now: float, again: bool = False
    ) -> None:
        for first in range(0, len(filters), FILTERS):
            some = filters[first : first + FILTERS]
            ages = tuple([now - self.interests.filters[filter].since for filter in some])
            after = tuple([self.streams.ask(publisher, filter, now) for filter in some])
            me = self.host.contact()
            message = Follow(me, publisher, tuple(some), ages, after, 1)  # type: ignore[arg-type]  # wire union
            self._to_publisher(message, again)

    def _to_publisher(self, message: Follow, again: bool = False) -> None:
        """Send a question back along the route of its events; out of band if ``again`` or no route.

        Out of band it may wait for a connection, and its ages would be too small on arrival.
        """
        towards = self.back.get(message.publisher, LOCAL)
        routed = message.follower.address and not again and message.hops < HOPS
        onward = msgspec.structs.replace(message, hops=message.hops + 1)
        if not (routed and towards in self.routing.linked() and self.gossip(towards, onward)):
            self.send_direct(message.publisher, message)

    def on_follow(self, sender: NodeId, message: Follow) -> None:
        """Number the filters of a follower; pass on a question to another publisher."""
        if message.publisher != self.host.node:
            if message.hops > 1:  # on its way back along a route
                self._to_publisher(message)
            return
        if not self._most:
            return
        follower = message.follower.node
        self._met(message.follower)
        if not len(message.filters) == len(message.ages) == len(message.after):
            return
        now, last = self.host.now(), self.numbering.sequence
        if not self.may_look(len(message.filters) * len(self.buffer)):
            return
        starts: list[Start] = []
        for filter, age, after in zip(message.filters, message.ages, message.after, strict=True):
            followed = self.numbering.follow(filter, follower, now)
            if followed is None:
                starts.append(Start(filter, -1, last, 0, last, 0))
                continue
            owed, first = 0, last
            after = max(after, self.numbering.before)  # earlier lives were not counted
            for kept in reversed(self.buffer.between(self.host.node, after, last + 1)):
                if now - kept.time > age:
                    break
                first = kept.sequence - 1
                owed += filter.matches(kept.event.content)
            left = self.buffer.left.get(self.host.node, NEVER)
            unsure = self.buffer.dropped > after and now - left <= age
            counts = (followed.count - owed, last, followed.count)
            starts.append(Start(filter, followed.index, first, *counts, unsure))
        uptime = now - self.began
        self.send_direct(follower, Following(self.host.contact(), tuple(starts), uptime))

    def on_following(self, sender: NodeId, message: Following) -> None:
        """Note how a publisher numbers this node's filters."""
        if message.publisher.node != sender:
            return
        self._met(message.publisher)
        self._answered[sender] = now = self.host.now()
        before = self.losses.noticed
        for start in message.starts:
            if self.streams.started(sender, start, message.uptime, now):
                self._report_unknown(sender, start.filter)
        if self.losses.noticed > before:
            self.hurry()

    def on_again(self, sender: NodeId, message: Again) -> None:
        """A follower is still there: answer with what is new to it."""
        self._met(message.follower)
        now, last = self.host.now(), self.numbering.sequence
        numbers: list[tuple[int, int, int]] = []
        for index, sequence in message.known:
            count = self.numbering.still(index, message.follower.node, now)
            if sequence > last:
                count = -1  # it was deceived by a forged event, and has to begin again
            if count < 0 or sequence < last:
                numbers.append((index, count, last))
        self.send_direct(message.follower.node, Tally(tuple(numbers)))

    def on_tally(self, sender: NodeId, message: Tally) -> None:
        """A publisher sends its last numbers."""
        if sender not in self.streams.by_publisher:
            return
        self._answered[sender] = now = self.host.now()
        before = self.losses.noticed
        for numbers in message.numbers:
            if self.streams.told(sender, numbers, now, message.final):
                self._to_follow[sender] = None
                self.wake()
        if self.losses.noticed > before:
            self.hurry()
