"""Unsubscription: an announced departure (section 4.3).

A member that wants nothing of a group any more leaves it. A leader first hands over to a co-leader,
or dissolves a group without members, whose successors its predecessor adopts. Until that is
confirmed it goes on leading, so nothing is lost meanwhile.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from shoal.routing.dps.messages import Adopted, Gone, Handover, Leave, Left
from shoal.routing.dps.views import Group

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId


class Departures:
    """One node's leaving of groups."""

    def __init__(self, node: Dps) -> None:
        self.node = node

    def on_staff(self, group: Group) -> bool:
        """Whether this node is a co-leader of a root, which it may be without a subscription."""
        return group.is_root() and any(c.node == self.node.host.node for c in group.coleaders)

    def unsubscribed(self, group: Group) -> None:
        """This node wants nothing of a group any more."""
        if not self.node.leads(group):
            if not self.on_staff(group):
                self.leave(group)
        elif not group.is_root():
            self.retire(group)

    def leave(self, group: Group) -> None:
        """A member that wants nothing goes."""
        self.node.send(group.leader, Leave(group.label.attribute, group.text))
        self.node.remove_group(group)

    def on_leave(self, sender: NodeId, message: Leave) -> None:
        """A member goes."""
        group = self.node.groups.get((message.attribute, message.text))
        if group is None or group.members.pop(sender, None) is None:
            return
        if self.node.leads(group):
            promoted = self.node.leadership.promote(group)
            self.node.leadership.sync(group, (), (sender,), (), (), promoted)

    def retire(self, group: Group) -> bool:
        """A leader that wants nothing hands over, or dissolves a group without members.

        Until that is confirmed it goes on leading, so that nothing is lost; True if it need not.
        """
        node = self.node
        attribute, text = group.label.attribute, group.text
        if group.members:
            able = group.coleaders or tuple(m.contact for m in group.members.values())
            heir = min(able, key=attrgetter("node"))
            self.node.leadership.sync(group, (), (), (), (), (heir,))
            node.send(heir, Handover(attribute, text, group.term))
        elif group.predview and not group.creations:
            branches = tuple(s.branch() for s in group.successors.values())
            above, here = group.predview[0], node.host.contact()
            node.send(above.contact, Left(attribute, above.text, text, here, True, branches))
        return (attribute, text) not in node.groups  # at once, if this node leads that one, too

    def on_handover(self, sender: NodeId, message: Handover) -> None:
        """The leader asks this member to lead."""
        group = self.node.groups.get((message.attribute, message.text))
        if group is not None and group.filters and group.leader.node == sender:
            self.node.leadership.take_over(group)

    def on_left(self, sender: NodeId, message: Left) -> None:
        """A successor moved, or is dissolved and leaves the groups below it to this one."""
        node = self.node
        group = node.groups.get((message.attribute, message.at))
        if group is None or message.origin.node != sender or not node.leads(group):
            return
        known = group.successors.get(message.text)
        if known is not None and known.leader.node == sender:
            del group.successors[message.text]
            view = node.states.view_below(group)
            for branch in message.branches:
                if message.dissolved and branch.text not in group.successors:
                    self.node.leadership.adopt_branch(group, branch)
                    node.send(branch.leader, Adopted(message.attribute, branch.text, view))
            self.node.leadership.changed(group, message.branches, (message.text,))
        if message.dissolved:
            node.send(message.origin, Gone(message.attribute, message.text))

    def on_gone(self, sender: NodeId, message: Gone) -> None:
        """The predecessor does without this group."""
        group = self.node.groups.get((message.attribute, message.text))
        if group is None or not self.node.leads(group) or group.is_root():
            return
        if group.filters or group.members:
            self.node.healing.report(group)  # wanted again meanwhile
        else:
            self.node.remove_group(group)
