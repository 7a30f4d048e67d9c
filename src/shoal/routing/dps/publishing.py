"""Publication (sections 4.1, 4.2.1 and 4.2.2): PUBLISH between groups, PUBLISH_GROUP inside one.

A publisher's event enters the tree of each of its attributes: at the root, or (generic) at any node
of it. A group that receives it tests its own label. If the event matches, it goes on to the members
and to every successor, and in a generic traversal also upwards; if not, upwards only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.routing.dps.labels import ROOT
from shoal.routing.dps.messages import DOWN, START, UP, Branch, GossipSub, Publish, PublishGroup
from shoal.routing.dps.promises import json
from shoal.routing.dps.traversal import MAX_HOPS
from shoal.routing.seen import Seen
from shoal.stack.host import LOCAL

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.routing.dps.dps import Dps
    from shoal.routing.dps.views import Group
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact

PARKED = 1000
"""Events per tree that wait for a walk in search of it."""


class Publishing:
    """Leader-based communication: the leader acts for its group."""

    def __init__(self, node: Dps) -> None:
        self.node = node
        self.seen = Seen()
        """Events that a group of this node has had."""
        self.parked: dict[str, list[Event]] = {}
        """Events that wait for a walk in search of their tree, per tree."""

    # At the publisher

    def enter(self, attribute: str, event: Event) -> None:
        """Bring an event into a tree, if there is one."""
        node = self.node
        if attribute in node.owned:
            self._note(attribute, event)
            self.on_publish(node.host.node, Publish(event, attribute, ROOT, ROOT, START, 0))
            return
        at, contact = self._start(attribute)
        if contact is not None:
            self._note(attribute, event)
            node.send(contact, Publish(event, attribute, at, ROOT, START, 1))
        elif not node.trees.absent(attribute):
            parked = self.parked.setdefault(attribute, [])
            if len(parked) < PARKED:
                parked.append(event)
            else:
                node.host.stopped(event, "no tree found", 0, 0)
            node.trees.look_for(attribute)

    def _note(self, attribute: str, event: Event) -> None:
        if self.node.host.watched:
            entered = {"event": event.sequence, "tree": attribute}
            self.node.host.note("entered", LOCAL, json(entered))

    def _start(self, attribute: str) -> tuple[str, Contact | None]:
        node = self.node
        if node.generic:
            for group in node.by_tree.get(attribute, {}).values():
                return group.text, node.host.contact()
            point = node.trees.point(attribute)
            if point is not None:
                return ROOT, point
        root = node.trees.roots.get(attribute)
        return ROOT, None if root is None else root.owner

    def found(self, attribute: str, exists: bool) -> None:
        """A walk in search of a tree has ended; without a tree nobody wants its events."""
        for event in self.parked.pop(attribute, ()):
            if exists:
                self.enter(attribute, event)

    # In the tree

    def on_publish(self, sender: NodeId, message: Publish) -> None:
        """An event comes to a group."""
        node = self.node
        event = message.event
        node.saw(event)
        if message.hops > MAX_HOPS:
            node.host.stopped(event, "too many hops", message.hops, message.hops)
            return
        group = node.group_for(message.attribute, message.at)
        if group is not None:
            self._arrived(group, message)
            return
        root = node.trees.roots.get(message.attribute)
        elsewhere = root is not None and root.owner.node not in (sender, node.host.node)
        if message.direction == START and root is not None and elsewhere:
            self._redirect(message, ROOT, root.owner)
        else:
            node.host.stopped(event, "no such group", message.hops, message.hops)

    def _arrived(self, group: Group, message: Publish) -> None:
        """An event is at a group of this node: its leader handles it."""
        node, event = self.node, message.event
        if not node.leads(group):
            self._redirect(message, group.text, group.leader)
        elif group.creations and group.holds(event.content):
            group.events.append(message)
        elif self.seen.first((event.publisher, event.sequence, message.attribute, group.text)):
            self._handle(group, message)

    def _redirect(self, message: Publish, at: str, to: Contact) -> None:
        event, attribute, hops = message.event, message.attribute, message.hops + 1
        self.node.send(to, Publish(event, attribute, at, message.came, message.direction, hops))

    def _handle(self, group: Group, message: Publish) -> None:
        """Test the label, and pass the event on upwards, inside and downwards."""
        node, event, hops = self.node, message.event, message.hops
        attribute, text = message.attribute, group.text
        matches = group.label.matches(event.content)
        if message.direction != DOWN and group.predview:
            above = group.predview[0]
            node.send(above.contact, Publish(event, attribute, above.text, text, UP, hops + 1))
        if not matches:
            node.host.stopped(event, "no match", hops, hops)
            return
        node.offer(event, hops)
        inside = PublishGroup(event, attribute, text, text, DOWN, hops + 1, 0)
        for member in group.members.values():
            if member.subscribed:
                node.send(member.contact, inside)
        came = message.came if message.direction == UP else None
        for below, successor in group.successors.items():
            if below == came:
                continue
            if node.filter_at_sender and not successor.label.matches(event.content):
                node.host.stopped(event, "filtered at sender", hops, hops)
                continue
            node.send(successor.leader, Publish(event, attribute, below, text, DOWN, hops + 1))

    def on_publish_group(self, sender: NodeId, message: PublishGroup) -> None:
        """An event comes to a member."""
        self.node.saw(message.event)
        self.node.offer(message.event, message.hops)

    # View changes, in epidemic communication only

    def gossip_change(
        self,
        group: Group,
        members: tuple[Contact, ...],
        branches: tuple[Branch, ...],
        gone: tuple[str, ...],
        hops: int,
    ) -> None:
        """Nothing to do: a leader informs its co-leaders."""

    def on_gossip_sub(self, sender: NodeId, message: GossipSub) -> None:
        """Nothing to do: no leader sends it."""
