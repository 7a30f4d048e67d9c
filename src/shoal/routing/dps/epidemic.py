"""Epidemic communication (section 4.2.2): every member acts for its group, on partial views.

A member that gets an event sends it to k others that it knows. With each further copy it may do so
again, to others, with a probability that falls each time, and k' times in all: an event enters a
group at k' nodes, so a group of S members sends at most k k' S messages (section 5.1). Successors
are distributed among the members: each has some caretakers, which send the event to k' of its
nodes. The nodes at which an event enters send it up. A change of views is gossiped to F_s members,
which pass it on with a probability that falls with every hop. Each member's beat is answered with
fresh views: they replace dead entries, and merge groups of one label that were created at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from shoal.routing.dps.messages import DOWN, UP, Branch, GossipSub, Publish, PublishGroup
from shoal.routing.dps.publishing import Publishing
from shoal.routing.dps.traversal import MAX_HOPS
from shoal.stack.host import remember

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.routing.dps.views import Group
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact

T = TypeVar("T")

RECENT: Final = 64
"""Events per group of which a node remembers how often it has passed them on."""


class Epidemic(Publishing):
    """Events and view changes are gossiped."""

    def __init__(self, node: Dps) -> None:
        super().__init__(node)
        self._chance = node.host.chance("epidemic")

    # Events

    def _arrived(self, group: Group, message: Publish) -> None:
        """An event comes from another group: it enters this one here."""
        event, attribute, text = message.event, group.label.attribute, group.label.text
        came, direction, hops = message.came, message.direction, message.hops
        self._infect(group, PublishGroup(event, attribute, text, came, direction, hops, 0), -1)

    def on_publish_group(self, sender: NodeId, message: PublishGroup) -> None:
        """An event comes from a member of the same group."""
        self.node.saw(message.event)
        group = self.node.group(message.attribute, message.at)
        if max(message.hops, message.rounds) > MAX_HOPS:  # more than any honest node counts
            self.node.host.stopped(message.event, "too many hops", message.hops, message.hops)
        elif group is None:
            self.node.offer(message.event, message.hops)
        else:
            self._infect(group, message, sender)

    def _infect(self, group: Group, message: PublishGroup, sender: NodeId) -> None:
        """Handle the first copy of an event; send it, or perhaps a further one, to members."""
        event = message.event
        key: Any = event.id  # typed as a pair, it would be made anew
        times = group.passed.get(key, -1)
        most = 1 if group.is_root() else self.node.next_level  # a root is entered at one node
        if times < 0 and self.seen.first((key, message.attribute, message.at)):
            times = 0
            remember(group.passed, key, 0, RECENT)
            if not self._handle_first(group, message):
                return
        elif not 0 < times < most or not self._again(times):
            self.node.host.stopped(event, "again", message.hops, message.hops)
            return
        group.passed[key] = times + 1
        self._send_inside(group, message, sender, times)

    def _handle_first(self, group: Group, message: PublishGroup) -> bool:
        """Send an event up and down, and offer it here; whether the group's label matches it."""
        node = self.node
        event, direction, hops = message.event, message.direction, message.hops
        attribute, text = message.attribute, message.at
        bits = self._chance.bits(node.host.node, event.publisher, event.sequence, len(text), 1)
        if direction != DOWN and not message.rounds and group.predview:
            nearest = group.predview[0].text
            above = tuple(p for p in group.predview if p.text == nearest)
            for pointer in _some(above, node.next_level, bits):
                up = Publish(event, attribute, pointer.text, text, UP, hops + 1)
                node.send(pointer.contact, up)
        if not group.label.matches(event.content):
            node.host.stopped(event, "no match", hops, hops)
            return False
        node.offer(event, hops)
        but = message.came if direction == UP else None
        here, shared = node.host.node, node.fanout >= 2  # with k = 1 gossip may miss a caretaker
        for below, successor in group.successors.items():
            if below == but or (shared and not successor.tended(here, group.known)):
                continue
            if node.filter_at_sender and not successor.label.matches(event.content):
                node.host.stopped(event, "filtered at sender", hops, hops)
                continue
            down = Publish(event, attribute, below, text, DOWN, hops + 1)
            nodes = successor.nearest()
            size = len(nodes)
            first = (bits >> 13) % size if size > node.next_level else 0
            for turn in range(min(size, node.next_level)):
                node.send(nodes[(first + turn) % size], down)
        return True

    def _again(self, times: int) -> bool:
        """Whether to pass on a further copy of an event that was passed on so many times."""
        node = self.node
        return (node.draw() >> 11) * (1.0 / (1 << 53)) * (1 + node.decay * times) < 1

    def _send_inside(self, group: Group, message: PublishGroup, sender: NodeId, times: int) -> None:
        """Send an event to k members: not to the sender, nor to those of earlier copies."""
        node, event = self.node, message.event
        attribute, text = message.attribute, message.at
        came, direction = message.came, message.direction
        hops, rounds = message.hops + 1, message.rounds + 1
        passed = PublishGroup(event, attribute, text, came, direction, hops, rounds)
        known = group.known
        size, left = len(known), node.fanout
        start = self._chance.bits(node.host.node, event.publisher, event.sequence) % (size or 1)
        for turn in range(times * left, size):
            contact = known[(start + turn) % size]
            if contact.node != sender:
                node.send(contact, passed)
                left -= 1
                if not left:
                    return

    # Views

    def gossip_change(
        self,
        group: Group,
        members: tuple[Contact, ...],
        branches: tuple[Branch, ...],
        gone: tuple[str, ...],
        hops: int,
    ) -> None:
        """Send a change of views to F_s members, with a probability that falls with every hop."""
        node = self.node
        bits = node.draw()
        if hops and (bits >> 11) * (1.0 / (1 << 53)) * (1 + hops) >= 1:
            return
        known = group.known
        self._adopt_changes(group, members, branches, gone)
        message = GossipSub(
            group.label.attribute, group.text, members, branches[:64], gone[:64], hops + 1
        )
        for contact in _some(known, node.subscription_fanout, bits):
            node.send(contact, message)

    def on_gossip_sub(self, sender: NodeId, message: GossipSub) -> None:
        """The views of a group have changed."""
        group = self.node.groups.get((message.attribute, message.at))
        if group is None or message.hops > MAX_HOPS:
            return
        self._adopt_changes(group, message.members, message.branches, message.gone)
        self.gossip_change(group, message.members, message.branches, message.gone, message.hops)

    def _adopt_changes(
        self,
        group: Group,
        members: tuple[Contact, ...],
        branches: tuple[Branch, ...],
        gone: tuple[str, ...],
    ) -> None:
        node = self.node
        for contact in members:
            if contact.node != node.host.node and contact not in group.known:
                # A newcomer takes the place of a random entry of a full view.
                kept = list(group.known)
                if len(kept) >= node.groupview:
                    kept[node.draw() % len(kept)] = contact
                else:
                    kept.append(contact)
                group.known = tuple(kept)
        if not node.leads(group):
            for branch in branches:
                node.leadership.adopt_branch(group, branch)
            for text in gone:
                group.successors.pop(text, None)


def _some(items: tuple[T, ...], count: int, bits: int) -> tuple[T, ...]:
    """Items from a random place on: a random choice, as views are in random order."""
    if len(items) <= count:
        return items
    start = bits % len(items)
    return (items[start:] + items[:start])[:count]
