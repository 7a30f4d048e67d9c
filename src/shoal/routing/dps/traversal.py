"""Tree traversal for subscriptions: FIND_GROUP and SUBSCRIBE_TO (section 4.1).

A request starts at a contact point: the root, or (generic) any node of the tree. From there it
climbs until the wanted label is certain to lie below. Then it descends, each time into the
successor that includes the wanted label. It ends at the group with that label, or at the tightest
predecessor, which creates the group (:mod:`~shoal.routing.dps.creation`). A whole group finds its
place in the same way; its leader asks. Who asks, and how often:
:mod:`~shoal.routing.dps.searches`.

Words explained elsewhere: *label* in :mod:`~shoal.routing.dps.labels`, *predview* in
:mod:`~shoal.routing.dps.views`, *term* and *staff* in :mod:`~shoal.routing.dps.leadership`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.routing.dps.labels import ROOT, Label, label
from shoal.routing.dps.messages import FindGroup, Left, Placed, PlaceGroup, SubscribeTo
from shoal.routing.dps.trees import better
from shoal.routing.dps.views import Group, Member, Successor, succview

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact

MAX_HOPS: Final = 4096
"""Most nodes that a request or event passes. No branch is as deep: beyond it there is a cycle."""


class Traversal:
    """How one node forwards and answers requests."""

    def __init__(self, node: Dps) -> None:
        self.node = node

    # On the way

    def on_find_group(self, sender: NodeId, message: FindGroup) -> None:
        """A request comes to a group: it climbs, descends, or has arrived."""
        node = self.node
        if message.hops > MAX_HOPS:
            return
        if node.epidemic:  # else most subscribers only pass on what they get to their leaders
            node.trees.add_point(message.attribute, message.origin)
        group = node.group_for(message.attribute, message.at)
        if group is None:
            root = node.trees.roots.get(message.attribute)
            away = root is not None and root.owner.node not in (node.host.node, sender)
            if message.at == ROOT and root is not None and away:
                self._forward(message, ROOT, root.owner, False)
            return
        wanted = label(message.attribute, message.text)
        if not node.leads(group):
            if node.epidemic and self._serve(group, message, wanted):
                return
            if message.term and group.is_root():
                node.healing.doubt(group)  # who has a place comes here if the owner is silent
            self._forward(message, group.text, group.leader, message.down)
            return
        self.route(group, message, wanted)

    def _forward(self, message: FindGroup, at: str, to: Contact, down: bool) -> None:
        make = PlaceGroup if message.term else FindGroup
        attribute, text, origin = message.attribute, message.text, message.origin
        passed = make(attribute, at, text, origin, message.term, message.hops + 1, down)
        self.node.send(to, passed)

    def _serve(self, group: Group, message: FindGroup, wanted: Label) -> bool:
        """A member acts on its own views, in epidemic communication; False if the leader must."""
        if wanted.text == group.text:
            if message.term or message.origin.node == self.node.host.node:
                return False
            self.node.send(message.origin, SubscribeTo(self.node.states.state(group)))
            self.node.publishing.gossip_change(group, (message.origin,), (), (), 0)
            return True
        if not self._on_the_way(group, message, wanted):
            return self._climb(group, message)
        best = group.best(wanted)
        if best is None or (message.term and best.label.text == wanted.text):
            return False
        self._forward(message, best.label.text, self.node.pick(best.view).contact, True)
        return True

    def _on_the_way(self, group: Group, message: FindGroup, wanted: Label) -> bool:
        """Whether the wanted place is certainly in this group's subtree."""
        mine = group.label
        return mine.precedes(wanted) if message.down else mine.leads_to(wanted)

    def _climb(self, group: Group, message: FindGroup) -> bool:
        """Pass a request on to the predecessor; False if none is known."""
        node = self.node
        if not group.predview:
            return False
        text = group.predview[0].text
        held = (message.attribute, text) in node.groups
        # A pointer to this node leads in a circle once it has left the group above.
        above = [
            p
            for p in group.predview
            if p.text == text and (held or p.contact.node != node.host.node)
        ]
        if not above:
            return False
        pointer = node.pick(tuple(above)) if node.epidemic else above[0]
        self._forward(message, pointer.text, pointer.contact, False)
        return True

    def route(self, group: Group, message: FindGroup, wanted: Label) -> None:
        """Route a request at the leader: up, down, wait, join, accept or create."""
        self.node.leadership.recruit(group, message.origin)
        if wanted.text == group.text:
            self._arrived(group, message)
            return
        if not self._on_the_way(group, message, wanted):
            if not self._climb(group, message) and not group.is_root():
                root = self.node.trees.roots.get(message.attribute)
                if root is not None and root.owner.node != self.node.host.node:
                    self._forward(message, ROOT, root.owner, False)
            return
        best = group.best(wanted)
        while best is not None and self._stale(best):
            self.node.healing.drop_successor(group, best)
            best = group.best(wanted)
        if best is not None and group.awaits(wanted, best):
            group.requests.setdefault(wanted.text, []).append(message)
        elif best is not None:
            if best.label.text == wanted.text and best.leader.node == message.origin.node:
                if message.term:
                    self._accept(group, message, wanted)
                    return
                # It led the group in an earlier life, or has just left it, or repeats itself.
                self.node.healing.drop_successor(group, best)
                self.route(group, message, wanted)
                return
            best.deep = best.deep or best.label.text != wanted.text
            to = best.leader
            if self.node.epidemic and not message.term:
                to = self.node.pick(best.view).contact
            self._forward(message, best.label.text, to, True)
        elif group.blocks(wanted):
            group.requests.setdefault(wanted.text, []).append(message)
        elif message.term:
            self._accept(group, message, wanted)
        else:
            self.node.creation.begin(group, message.origin, wanted)

    def _stale(self, successor: Successor) -> bool:
        """Whether a successor is recorded as led by this node, which no longer leads it."""
        if successor.leader.node != self.node.host.node:
            return False
        held = self.node.groups.get((successor.label.attribute, successor.label.text))
        return held is None or not self.node.leads(held)

    def _arrived(self, group: Group, message: FindGroup) -> None:
        """The group with the wanted label: a subscriber joins, a second such group is merged."""
        node = self.node
        origin = message.origin
        if origin.node == node.host.node:
            node.searches.forget(group)  # this node's own request has come back to it
        elif not message.term:
            self.join(group, origin)
        elif better(message.term, origin.node, group.term, node.host.node):
            node.send(origin, Placed(message.attribute, group.text, group.predview))
            node.leadership.merge_into(group, origin, message.term)
        else:
            node.send(origin, group.leadership())

    # SUBSCRIBE_TO

    def join(self, group: Group, origin: Contact) -> None:
        """A subscriber becomes a member; the first K_c are co-leaders."""
        node = self.node
        group.members[origin.node] = Member(origin, node.host.now(), True)
        promoted = node.leadership.promote(group)
        node.send(origin, SubscribeTo(node.states.state(group)))
        if node.epidemic:
            node.publishing.gossip_change(group, (origin,), (), (), 0)
        else:
            node.leadership.sync(group, (origin,), (), (), (), promoted)

    def on_subscribe_to(self, sender: NodeId, message: SubscribeTo) -> None:
        """Join the group that this node asked for, or the staff of a root, unasked."""
        state = message.state
        key = (state.attribute, state.text)
        wanted = key in self.node.searches.joining
        if key in self.node.groups or (not wanted and state.text != ROOT):
            return
        if state.leader.node == self.node.host.node:
            return
        group = Group(label(state.attribute, state.text), state.leader, state.term)
        self.node.add_group(group)
        self.node.states.adopt(group, state)

    # The place of a whole group

    def _accept(self, group: Group, message: FindGroup, wanted: Label) -> None:
        """A group's place is here, where it may be already."""
        known = group.successors.get(wanted.text)
        now = self.node.host.now()
        if known is None and self.node.healing.ceded(group, wanted.text, now):
            return
        view = succview(message.origin, wanted.text, (), self.node.view)
        if known is None or known.leader.node != message.origin.node:
            made = Successor(wanted, message.term, message.origin, view, now)
            group.add(made)
            self.node.leadership.changed(group, (made.branch(),), ())
            self.node.leadership.recruit(group, message.origin)
        else:
            known.heard = now
        below = self.node.states.view_below(group)
        self.node.send(message.origin, Placed(message.attribute, wanted.text, below))

    def on_placed(self, sender: NodeId, message: Placed) -> None:
        """Set the predecessor of a group that this node leads, and leave the one before."""
        node = self.node
        group = node.groups.get((message.attribute, message.text))
        if group is None or not node.leads(group) or not message.predview:
            return
        above = message.predview[0]
        if not label(message.attribute, above.text).precedes(group.label):
            return
        node.searches.forget(group)
        before = group.predview[0] if group.predview else None
        group.predview = message.predview
        group.rounds = 0
        if before is None or before.text != above.text:
            node.leadership.changed(group, (), ())
            if before is not None:
                here, attribute = node.host.contact(), message.attribute
                left = Left(attribute, before.text, group.text, here, False, ())
                node.send(before.contact, left)
            node.healing.report(group)
