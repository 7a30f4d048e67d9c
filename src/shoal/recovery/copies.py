"""Copies: the events that a node keeps, gives to others, asks for, and delivers once.

An event is delivered once, whichever way it came first. Copies travel out of band. One that was not
asked for is dropped: only what is missing, or was requested, is believed. What a node sends is
charged to its :class:`~shoal.recovery.budget.Budget`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.recovery.budget import Budget, Pace
from shoal.recovery.buffer import EventBuffer, Kept
from shoal.recovery.delivered import Delivered
from shoal.recovery.messages import BATCH, Digest, Reply, Request
from shoal.recovery.streams import Streams
from shoal.stack import Contact, Host, Message, NodeId, Recovery, Routing
from shoal.stack.host import remember

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.content import AnyFilter, Event, EventId, Filter
    from shoal.recovery.parameters import RecoveryParameters

MOST_ASKED = 10_000
"""Requests that are remembered."""
MOST_CONTACTS = 1000
"""Nodes whose address is remembered."""


class Copies(Recovery):
    """Keeps events, gives copies of them, and asks for those that are lacking."""

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
        self.streams = Streams()
        self.interests = self.streams.interests
        self.losses = self.streams.losses
        self.delivered = Delivered()
        self.asked: dict[EventId, float] = {}
        """Events that were requested by id, and when."""
        self.declined: dict[tuple[NodeId, EventId], None] = {}
        """Events that a node offered and then did not give, as they are not wanted after all."""
        longest = parameters.longest if parameters.adaptive else parameters.period
        self.pace = Pace(parameters.period, longest)
        self.budget = Budget(parameters.rate, parameters.share)
        self.replies = Budget(parameters.reply_rate)
        self.looks = Budget(parameters.looks)
        self.again: Callable[[Event], object] | None = None
        """What is done with a copy of an event that was delivered before somebody missed it."""
        self._contacts: dict[NodeId, Contact] = {}
        """Nodes with a known address."""
        self.recovered = 0
        self.unrecoverable = 0
        self.unasked = 0
        """Copies that nobody here asked for."""
        self.gossip_bytes = 0
        self.reply_bytes = 0
        self.withheld = 0
        """Messages not sent, or questions not answered, because of what they may cost."""

    def hurry(self) -> None:
        """There is something to do: the period becomes the shortest."""
        self.pace.busy(self.host.now())
        self.wake()

    def wake(self) -> None:
        """Tick within a period: something is due."""
        raise NotImplementedError

    # Sending

    def gossip(self, neighbour: NodeId, message: Message) -> bool:
        """Send a gossip message to a neighbour, if that is within the budget."""
        size = message.size()
        if not self.budget.spend(size, self.host.now()):
            self.withheld += 1
            return False
        self.gossip_bytes += size
        self.routing.send_to_neighbour(neighbour, message)
        return True

    def send_direct(self, node: NodeId, message: Message) -> None:
        """Send out of band; where that is beyond the budget, there is less gossip afterwards."""
        size = message.size()
        self.budget.charge(size)
        self.gossip_bytes += size
        self.host.send_direct(self.contact_of(node), message)

    def contact_of(self, node: NodeId) -> Contact:
        """A node, with its address if that is known."""
        return self._contacts.get(node) or Contact(node)

    def _met(self, contact: Contact) -> None:
        """Remember where a node can be reached, if that is new."""
        if contact.address and self._contacts.get(contact.node) != contact:
            remember(self._contacts, contact.node, contact, MOST_CONTACTS)

    def may_look(self, steps: int) -> bool:
        """Whether so many evaluations of filters for another node are within the budget."""
        if self.looks.spend(steps, self.host.now()):
            return True
        self.withheld += 1
        return False

    # Keeping and delivering

    def keep(self, event: Event, time: float) -> None:
        """Keep an event for others."""
        host = self.host
        packed = host.packed if event is host.packed_event else host.pack(event)
        self.buffer.add(event, time, packed)

    def held(self, filter: Filter, age: float) -> list[Event]:
        """The events kept here that match and are no older than so many seconds."""
        since = self.host.now() - age
        return [kept.event for kept in self.buffer.matching(filter) if kept.time >= since]

    def awaits(self, filter: Filter, publisher: NodeId, sequence: int) -> bool:
        return self.streams.awaits(filter, publisher, sequence, self.host.now())

    def came(self, event: Event, publisher: object, sequence: int, now: float) -> None:
        """The routing brought an event that is wanted: strike it from what is missing."""
        raise NotImplementedError

    def count(self, event: Event, now: float) -> list[int]:
        """Strike an event from what is missing; the numbers of the filters that it matches."""
        raise NotImplementedError

    def arrived(self, event: Event, hops: int) -> None:
        """Deliver an event unless a copy was faster; note what is missing before it."""
        now = self.host.now()
        bare: Any = event
        publisher: object = bare.publisher  # an int would be boxed three times if compiled
        sequence = event.sequence
        self.came(event, publisher, sequence, now)
        if self.delivered.first(publisher, sequence):
            self.host.deliver(event, hops)
        else:
            self.refused(event)
        self.keep(event, now)

    def recover(self, event: Event, age: float, giver: NodeId) -> None:
        """A copy that was asked for: deliver it, if it is wanted and was not delivered."""
        now = self.host.now()
        missing = self.streams.lacks(event)
        numbers = self.count(event, now)
        if not self.interests.since(numbers, now - age):
            return
        if not self.delivered.first(*event.id):
            if missing and self.again is not None and not self.delivered.doubtful(*event.id):
                self.recovered += 1
                self.again(event)
            else:
                self.refused(event)
            return
        self.recovered += 1
        if self.host.watched:
            role = "publisher" if giver == event.publisher else "another"
            self.host.note("recovered", giver, role)
        self.host.deliver(event, 1, True)
        self.keep(event, now - age)

    def refused(self, event: Event) -> None:
        """An event was not delivered; if it is not certain that it was before, report a gap."""
        if self.delivered.doubtful(*event.id):
            for number in self.interests.matching(event):
                self.report(event.publisher, 1, self.interests.by_number[number].filter)

    def report(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        """Report a gap."""
        raise NotImplementedError

    def give_up(self, before: float) -> None:
        """Report losses noticed before a time as gaps, and seek them no longer."""
        for lost in self.losses.give_up(before):
            self.unrecoverable += lost.count
            self.report(lost.publisher, lost.count, lost.wanted.filter)

    # Asking and giving

    def request(self, message: Digest, filters: tuple[AnyFilter, ...]) -> bool:
        """Ask a gossiper for what it has and we lack; whether there is any of that."""
        now = self.host.now()
        since = self.interests.earliest(filters)
        ids: list[EventId] = []
        for publisher, sequence, age in message.held:
            key = (publisher, sequence)
            if (
                now - age >= since
                and key not in self.delivered
                and (message.gossiper.node, key) not in self.declined
                and self.asked.get(key, -1.0) + self.parameters.retry <= now
            ):
                ids.append(key)
        if ids:
            for key in ids:
                self.asked.pop(key, None)
                self.asked[key] = now
            self.wake()
            self.send_direct(message.gossiper.node, Request(tuple(ids), filters))
        return bool(ids)

    def on_request(self, sender: NodeId, message: Request) -> None:
        """Send copies of what matches, and the ids of what does not."""
        if not self.may_look(len(message.ids) * len(message.filters)):
            return
        self.hurry()
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
            size = sum([kept.size for kept in some])
            if not self.replies.spend(size, now):
                self.withheld += 1
                return
            for kept in some:
                self.buffer.elsewhere((kept.publisher, kept.sequence))
            pairs = tuple([(kept.event, max(now - kept.time, 0.0)) for kept in some])
            self.reply_bytes += size
            self.host.send_direct(self.contact_of(node), Reply(pairs, refused))
            refused = ()

    def on_reply(self, sender: NodeId, message: Reply) -> None:
        """Handle copies of events that were requested or are missing; drop others."""
        for key in message.declined:
            if self.asked.pop(key, None) is not None:
                remember(self.declined, (sender, key), None, MOST_ASKED)
        for event, age in message.copies:
            if self.asked.pop(event.id, None) is not None or self.streams.lacks(event):
                self.recover(event, age, sender)
            else:
                self.unasked += 1

    def forget_requests(self, now: float) -> None:
        """Forget what was requested so long ago that it may be requested again."""
        while self.asked:
            key = next(iter(self.asked))
            if self.asked[key] + self.parameters.retry > now and len(self.asked) <= MOST_ASKED:
                break
            del self.asked[key]

    # For an operator

    def describe(self) -> dict[str, float]:
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
