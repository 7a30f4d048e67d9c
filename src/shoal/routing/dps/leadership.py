"""Leaders and co-leaders: takeover, announcements, merging (sections 4.2.1 and 4.3).

The creator of a group leads it; the K_c members that joined next are its co-leaders and replicate
its views. When the leader dies, the co-leader with the lowest id takes over. Each leadership has a
*term*, a number later than that of the one before (:func:`.trees.later`). The new leader promotes
a member to co-leader, and announces itself to the group and the adjacent ones.

Of two leaders of one label, or two owners of one attribute, the later term wins, then the smaller
id. The loser sends its members and successors to the winner, and becomes a member.

The owner of a tree leads its root. A root may have no subscribers, so the owner recruits a *staff*:
nodes whose requests or reports reach the root. They are its co-leaders, and get no events from it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from shoal.routing.dps.labels import ROOT, LabelError, label
from shoal.routing.dps.messages import Branch, Leader, Left, Pointer, SubscribeTo, Sync
from shoal.routing.dps.trees import better, next_term
from shoal.routing.dps.views import Group, Member, Successor, succview

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact


class Leadership:
    """One node's part in leading its groups."""

    def __init__(self, node: Dps) -> None:
        self.node = node

    # Takeover

    def leader_lost(self, group: Group) -> None:
        """The lowest co-leader takes over; without any, the group is looked for anew."""
        group.suspects[group.leader.node] = None
        able = [c for c in group.coleaders if c.node not in group.suspects]
        if not able:
            self._rejoin(group)
            return
        lowest = min(able, key=attrgetter("node"))
        if lowest.node == self.node.host.node:
            self.take_over(group)
        else:
            group.leader = lowest
            self.node.healing.beat(group)

    def _rejoin(self, group: Group) -> None:
        node = self.node
        node.remove_group(group)
        for filter in group.filters:
            node.searches.want(group.label, filter)

    def give_up(self, attribute: str) -> None:
        """Leave the old root of a tree that is about to be created anew here."""
        group = self.node.groups.get((attribute, ROOT))
        if group is not None and not self.node.leads(group):
            self._rejoin(group)

    def take_over(self, group: Group) -> None:
        """This node leads the group from now on."""
        node = self.node
        group.term = next_term(group.term)
        node.set_leader(group, node.host.contact())
        now = node.host.now()
        for suspect in group.suspects:
            group.members.pop(suspect, None)
        group.members.pop(node.host.node, None)
        group.coleaders = tuple(
            c for c in group.coleaders if c.node != node.host.node and c.node not in group.suspects
        )
        for contact in group.coleaders:
            group.members.setdefault(contact.node, Member(contact, now, True))
        for member in group.members.values():
            member.heard = now
        for successor in group.successors.values():
            successor.heard = now
        group.suspects.clear()
        self.promote(group)
        self.announce(group)
        if group.is_root():
            node.trees.announce(group)
        else:
            self.node.healing.report(group)

    def promote(self, group: Group) -> tuple[Contact, ...]:
        """Promote the earliest members to co-leaders, up to K_c; return the new ones."""
        wanted = self.node.staff(group)
        group.coleaders = tuple(c for c in group.coleaders if c.node in group.members)
        if len(group.coleaders) >= wanted:
            return ()
        held = {contact.node for contact in group.coleaders}
        new = tuple(m.contact for n, m in group.members.items() if n not in held)
        new = new[: wanted - len(group.coleaders)]
        group.coleaders = (*group.coleaders, *new)
        return new

    def recruit(self, group: Group, contact: Contact) -> None:
        """Add a node of the tree to the root's staff (its co-leaders) while that is short."""
        node = self.node
        if not group.is_root() or len(group.coleaders) >= node.staff(group):
            return
        if contact.node == node.host.node or contact.node in group.members:
            return
        group.members[contact.node] = Member(contact, node.host.now(), False)
        promoted = self.promote(group)
        node.send(contact, SubscribeTo(node.states.state(group)))
        self.sync(group, (contact,), (), (), (), promoted)

    def announce(self, group: Group) -> None:
        """Tell the group and the adjacent ones who leads it."""
        node = self.node
        message = group.leadership()
        told: dict[NodeId, Contact] = {n: m.contact for n, m in group.members.items()}
        for successor in group.successors.values():
            told[successor.leader.node] = successor.leader
        if group.predview:
            told[group.predview[0].contact.node] = group.predview[0].contact
        told.pop(node.host.node, None)
        for contact in told.values():
            node.send(contact, message)
        if node.host.node in (s.leader.node for s in group.successors.values()):
            self._new_predecessor(message)

    def on_leader(self, sender: NodeId, message: Leader) -> None:
        """A group that this node is in, or an adjacent one, has a leader."""
        node = self.node
        here = node.host.node
        if message.text == ROOT:
            node.trees.answered(message.attribute, sender)
        group = node.groups.get((message.attribute, message.text))
        if group is not None and message.leader.node != here:
            wins = better(message.term, message.leader.node, group.term, group.leader.node)
            if node.leads(group):
                if wins:
                    self.merge_into(group, message.leader, message.term)
                elif sender == message.leader.node:
                    node.send(message.leader, group.leadership())
            elif wins or message.leader.node == group.leader.node:
                group.leader = message.leader
                group.term = message.term
                group.coleaders = message.coleaders or group.coleaders
                group.suspects.clear()
                self.node.healing.beat(group)
        self._new_predecessor(message)
        for above in node.by_tree.get(message.attribute, {}).values():
            known = above.successors.get(message.text)
            if known is not None and better(
                message.term, message.leader.node, known.term, known.leader.node
            ):
                known.leader, known.term = message.leader, message.term
                known.view = succview(message.leader, message.text, known.view, node.view)

    def _new_predecessor(self, message: Leader) -> None:
        """Report to a new leader of a led group's predecessor, or of a group that can be one."""
        node = self.node
        for below in list(node.by_tree.get(message.attribute, {}).values()):
            if not node.leads(below) or below.text == message.text:
                continue
            if below.predview:
                above = below.predview[0]
                if above.text != message.text or above.contact.node == message.leader.node:
                    continue
            elif not label(message.attribute, message.text).precedes(below.label):
                continue
            node.healing.reports.pop((message.attribute, below.text), None)
            node.searches.forget(below)
            below.predview = (Pointer(message.text, message.leader), *below.predview[1:])
            node.healing.report(below)

    def merge_into(self, group: Group, leader: Contact, term: int) -> None:
        """Another leader of the same label counts: send everybody there, and become a member."""
        node = self.node
        told = Leader(group.label.attribute, group.text, term, leader, ())
        receivers: dict[NodeId, Contact] = {n: m.contact for n, m in group.members.items()}
        for successor in group.successors.values():
            receivers[successor.leader.node] = successor.leader
        receivers.pop(leader.node, None)
        mine = receivers.pop(node.host.node, None)
        for contact in receivers.values():
            node.send(contact, told)
        if group.predview:  # the winner may have another predecessor: this one need not serve us
            above, here = group.predview[0], node.host.contact()
            attribute = group.label.attribute
            node.send(above.contact, Left(attribute, above.text, group.text, here, False, ()))
        node.searches.forget(group)
        for creation in group.creations.values():
            creation.timer.cancel()
        group.creations.clear()
        group.members.clear()
        group.successors.clear()
        group.predview = ()
        group.coleaders = ()
        group.term = term
        node.set_leader(group, leader)
        node.creation.release(group)
        if mine is not None:
            self._new_predecessor(told)
        if group.filters:
            node.healing.beat(group)
        else:
            node.departures.leave(group)

    # Co-leaders

    def changed(self, group: Group, new: tuple[Branch, ...], gone: tuple[str, ...]) -> None:
        """Successors, or the predecessor, have changed."""
        self.sync(group, (), (), new, gone, ())

    def sync(
        self,
        group: Group,
        joined: tuple[Contact, ...],
        left: tuple[int, ...],
        new: tuple[Branch, ...],
        gone: tuple[str, ...],
        promoted: tuple[Contact, ...],
    ) -> None:
        """Tell co-leaders what has changed in the views, and new ones all there is."""
        node = self.node
        if node.epidemic:
            if new or gone:
                node.publishing.gossip_change(group, (), new, gone, 0)
            return
        if not group.coleaders:
            return
        attribute, text, term = group.label.attribute, group.text, group.term
        fresh = {contact.node for contact in promoted}
        if fresh:
            everybody = tuple(m.contact for m in group.members.values())
            branches = tuple(s.branch() for s in group.successors.values())
            whole = Sync(attribute, text, term, everybody, (), branches, (), group.predview)
            for contact in promoted:
                node.send(contact, whole)
        delta = Sync(attribute, text, term, joined, left, new, gone, group.predview)
        for contact in group.coleaders:
            if contact.node not in fresh:
                node.send(contact, delta)

    def on_sync(self, sender: NodeId, message: Sync) -> None:
        """The leader's views have changed."""
        node = self.node
        group = node.groups.get((message.attribute, message.text))
        if group is None or group.leader.node != sender or node.leads(group):
            return
        now = node.host.now()
        for contact in message.joined:
            if contact.node != node.host.node:
                group.members.setdefault(contact.node, Member(contact, now, True))
        for number in message.left:
            group.members.pop(number, None)
        for branch in message.branches:
            self.adopt_branch(group, branch)
        for text in message.gone:
            group.successors.pop(text, None)
        group.predview = message.predview

    def adopt_branch(self, group: Group, branch: Branch) -> None:
        """A successor, as another node knows it; one that cannot be below is ignored."""
        known = group.successors.get(branch.text)
        if known is not None and known.adopted_branch is branch:
            known.heard = self.node.host.now()
            return
        try:
            theirs = label(group.label.attribute, branch.text)
        except LabelError:
            return
        if group.label.precedes(theirs):
            now = self.node.host.now()
            view = branch.pointers
            if self.node.epidemic and known is not None:
                view = self._mixed(known.view, view)
            taken = Successor(theirs, branch.term, branch.leader, view, now)
            taken.placed = False
            taken.adopted_branch = branch
            group.add(taken)

    def _mixed(self, old: tuple[Pointer, ...], new: tuple[Pointer, ...]) -> tuple[Pointer, ...]:
        """A random mix of the old and the received view, so that members' views differ.

        A received view that has room left names the whole group: who is not in it is gone.
        """
        text = new[0].text if new else ""
        size = self.node.view
        near = [p for p in new if p.text == text]
        if len(near) < size:
            return new
        told = {pointer.contact.node for pointer in new}
        near += [p for p in old if p.text == text and p.contact.node not in told]
        bits = self.node.draw()
        while len(near) > size:
            del near[bits % len(near)]
            bits //= 8
        return (*near, *[p for p in new if p.text != text])[:size]
