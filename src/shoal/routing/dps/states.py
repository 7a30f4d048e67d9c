"""What nodes send each other about a group: its state, and the views that lead into it (section 4).

In leader communication only leader and co-leaders have views; a regular member knows them. In
epidemic communication each member has partial views: a random part of its group, and the views of
adjacent groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.routing.dps.messages import Pointer, State
from shoal.routing.dps.trees import later

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.routing.dps.views import Group
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact


class States:
    """Leader communication."""

    def __init__(self, node: Dps) -> None:
        self.node = node

    def state(self, group: Group) -> State:
        """The state of a group that its members receive."""
        return group.state()

    def adopt(self, group: Group, state: State) -> None:
        """Adopt the state of a group from its leader or another member."""
        if state is group.adopted_state and state.coleaders is group.coleaders:
            return  # mostly nothing has changed
        group.adopted_state = state
        self._adopt_leaders(group, state)
        here = self.node.host.node
        if all(contact.node != here for contact in state.coleaders):
            group.members.clear()  # views are for leaders and co-leaders
            group.successors.clear()
            group.predview = ()

    def _adopt_leaders(self, group: Group, state: State) -> None:
        if later(state.term, group.term):
            group.term = state.term
        group.coleaders = state.coleaders

    def view_below(self, group: Group) -> tuple[Pointer, ...]:
        """The predview of a group's successors: this group first, then its own predview."""
        near = [Pointer(group.text, self.node.host.contact())]
        near += [Pointer(group.text, contact) for contact in self._beside(group)]
        return (*near, *group.predview)[: self.node.view]

    def _beside(self, group: Group) -> tuple[Contact, ...]:
        """A root's co-leaders, whom groups below alert if the owner is silent; else nobody."""
        return group.coleaders if group.is_root() else ()

    def succview_of(self, group: Group) -> tuple[Pointer, ...]:
        """The succview that leads into a group: its leader, or members, then the next level."""
        view = [Pointer(group.text, contact) for contact in self._entries(group)]
        for successor in group.successors.values():
            if len(view) >= self.node.view:
                break
            view.append(Pointer(successor.label.text, successor.leader))
        return tuple(view[: self.node.view])

    def _entries(self, group: Group) -> tuple[Contact, ...]:
        """Nodes of a group that events from above are sent to: its leader."""
        return (self.node.host.contact(),)


class EpidemicStates(States):
    """Epidemic communication."""

    def state(self, group: Group) -> State:
        """Partial views."""
        node = self.node
        if node.leads(group):
            self._sample_known(group)
        members = (node.host.contact(), *group.known)[: node.groupview + 1]
        branches = tuple([s.branch() for s in group.successors.values()])
        attribute, text, term = group.label.attribute, group.label.text, group.term
        return State(
            attribute, text, term, group.leader, group.coleaders, members, group.predview, branches
        )

    def _sample_known(self, group: Group) -> None:
        """Draw a leader's partial view from all members."""
        node = self.node
        members = [member.contact for member in group.members.values()]
        size = len(members)
        bits = node.draw()
        if size <= node.groupview:
            group.known = _turned(tuple(members), bits)
            return
        chosen: dict[NodeId, Contact] = {}
        step = 0
        while len(chosen) < node.groupview and step < 4 * node.groupview:
            one = members[bits % size]
            chosen[one.node] = one
            bits = bits // size if bits >= size else node.draw()
            step += 1
        group.known = tuple(chosen.values())

    def adopt(self, group: Group, state: State) -> None:
        """Replace partial views by those received; a succview becomes a random mix of both."""
        self._adopt_leaders(group, state)
        node = self.node
        known = [contact for contact in state.members if contact.node != node.host.node]
        group.known = tuple(known[: node.groupview])
        group.predview = state.predview
        texts = {branch.text for branch in state.branches}
        for branch in state.branches:
            node.leadership.adopt_branch(group, branch)
        for text in [text for text in group.successors if text not in texts]:
            del group.successors[text]

    def _beside(self, group: Group) -> tuple[Contact, ...]:
        self._sample_known(group)
        return group.known[: self.node.next_level - 1]

    def _entries(self, group: Group) -> tuple[Contact, ...]:
        self._sample_known(group)
        return _turned((self.node.host.contact(), *group.known), self.node.draw())


def _turned(contacts: tuple[Contact, ...], bits: int) -> tuple[Contact, ...]:
    """The contacts from a random one on: each is as likely to be in a view that is cut short."""
    start = bits % (len(contacts) or 1)
    return contacts[start:] + contacts[:start]
