"""Creation of a group between others: CREATE_GROUP (section 4.1).

A new group is created below its tightest predecessor, and adopts the successors of that group that
it includes. It may also include groups further down. Where the new label comes before the label of
their branch (:attr:`Label.order`), the predecessor first asks that branch to cede them. So each
label has one place at any time, and nobody creates a second group of it elsewhere.

From its first Cede to the end of the creation the predecessor holds back requests for related
labels, and the events that match the new one; from CREATE_GROUP on, all events. Groups whose labels
do not overlap are created at the same time, as long as no event waits.

Messages between two nodes arrive in order. So an event sent before the creation takes the old route
to a group, an event held back takes the new one, and none takes both. If the creation fails, groups
that were ceded get events again once they report to their old predecessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.routing.dps.labels import Label, label
from shoal.routing.dps.messages import Adopted, Cede, Ceded, Created, CreateGroup
from shoal.routing.dps.views import Creation, Group, Successor, succview

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact

ADOPTED: Final = 256
"""Groups that one group cedes to a new one at once; the others move when they next report."""

ASKED: Final = 4096
"""Groups that may be asked to cede to one new group; only a faulty node names as many."""


class Creations:
    """One node's part in the creation of groups."""

    def __init__(self, node: Dps) -> None:
        self.node = node

    # At the predecessor

    def begin(self, group: Group, origin: Contact, wanted: Label) -> None:
        """Create a group below this one, led by the subscriber; first have groups ceded to it."""
        text, attribute = wanted.text, wanted.attribute
        rivals = group.rivals(wanted)
        takes = bool(rivals) or bool(group.below(wanted))
        timer = self.node.host.after(4 * self.node.timeout, lambda: self._create(group, text))
        group.creations[text] = creation = Creation(wanted, origin, takes, timer)
        creation.asked = {rival.label.text: 1 for rival in rivals}
        for rival in rivals:  # this node itself, if it leads one, answers at once
            asked = Cede(attribute, rival.label.text, text, group.text, self.node.host.contact())
            self.node.send(rival.leader, asked)
        if not rivals:
            self._create(group, text)

    def on_cede(self, sender: NodeId, message: Cede) -> None:
        """Cede the successors that a new label includes, and ask deeper groups to cede theirs."""
        node = self.node
        attribute, text = message.attribute, message.text
        group = node.groups.get((attribute, message.at))
        wanted = label(attribute, text)
        ceded: list[Successor] = []
        others: list[Successor] = []
        if group is not None and node.leads(group):
            if group.may_get(wanted):
                group.requests.setdefault(text, []).append(message)
                return
            ceded = group.below(wanted)[:ADOPTED]
            for one in ceded:
                del group.successors[one.label.text]
                group.ceded[one.label.text] = node.host.now()
            for one in group.successors.values():
                if one.deep and one.label.overlaps(wanted) and len(others) < ADOPTED:
                    others.append(one)
                    asked = Cede(attribute, one.label.text, text, message.above, message.origin)
                    node.send(one.leader, asked)
            if ceded:
                node.leadership.changed(group, (), tuple(one.label.text for one in ceded))
        branches = tuple(one.branch() for one in ceded)
        names = tuple(one.label.text for one in others)
        above, at = message.above, message.at
        node.send(message.origin, Ceded(attribute, above, text, at, branches, names))

    def on_ceded(self, sender: NodeId, message: Ceded) -> None:
        """Note what a group has ceded; once all have answered, create the new group."""
        group = self.node.groups.get((message.attribute, message.at))
        creation = None if group is None else group.creations.get(message.text)
        if group is None or creation is None or not 0 < len(creation.asked) < ASKED:
            return
        asked = creation.asked
        asked[message.by] = asked.get(message.by, 0) - 1
        for text in message.asked:
            asked[text] = asked.get(text, 0) + 1
        creation.ceded.extend(message.branches)
        if not any(asked.values()):
            self._create(group, message.text)

    def _create(self, group: Group, text: str) -> None:
        """Send CREATE_GROUP: every group that was asked has answered, or the time is up."""
        creation = group.creations.get(text)
        if creation is None:
            return
        creation.timer.cancel()
        creation.timer = self.node.host.after(
            2 * self.node.timeout, lambda: self._expired(group, text)
        )
        creation.asked.clear()
        creation.sent = True
        mine = tuple(one.branch() for one in group.below(creation.label)[:ADOPTED])
        creation.adopted = tuple(branch.text for branch in mine)
        view = self.node.states.view_below(group)
        attribute = group.label.attribute
        adopted = (*mine, *creation.ceded)
        self.node.send(creation.origin, CreateGroup(attribute, text, view, adopted))

    def on_created(self, sender: NodeId, message: Created) -> None:
        """CREATED: add the new group as a successor, and handle what was held back."""
        group = self.node.groups.get((message.attribute, message.at))
        creation = None if group is None else group.creations.pop(message.text, None)
        if group is None or creation is None:
            return
        creation.timer.cancel()
        if message.accepted and self.node.leads(group):
            now = self.node.host.now()
            view = succview(message.leader, message.text, (), self.node.view)
            made = Successor(creation.label, 1, message.leader, view, now)
            made.deep = creation.takes
            made.placed = False  # a group that it belongs below may have reported meanwhile
            group.add(made)
            for text in creation.adopted:
                group.successors.pop(text, None)
            self.node.leadership.changed(group, (made.branch(),), creation.adopted)
            self.node.leadership.recruit(group, message.leader)
        self.release(group)

    def _expired(self, group: Group, text: str) -> None:
        """The subscriber does not answer: it is gone, and there is no group."""
        if group.creations.pop(text, None) is not None:
            self.release(group)

    def release(self, group: Group) -> None:
        """Handle what waited, events first; what another creation concerns waits on."""
        here = self.node.host.node
        events, group.events = group.events, []
        for event in events:
            self.node.receive(here, event)
        for text in list(group.requests):
            if not group.blocks(label(group.label.attribute, text)):
                for request in group.requests.pop(text, ()):
                    self.node.receive(here, request)

    # At the new group's leader, and at the groups that it adopts

    def on_create_group(self, sender: NodeId, message: CreateGroup) -> None:
        """CREATE_GROUP: lead a new group, if this node still looks for a place with this label."""
        key = (message.attribute, message.text)
        host = self.node.host
        if not message.predview:
            return  # below no group: only a faulty node says so
        above = message.predview[0]
        accepted = key in self.node.searches.joining
        led = self.node.groups.get(key)
        if accepted:
            group = Group(label(*key), host.contact(), 1)
            group.predview = message.predview
            for branch in message.adopted:
                self.node.leadership.adopt_branch(group, branch)
            self.node.add_group(group)
        created = Created(message.attribute, above.text, message.text, host.contact(), accepted)
        self.node.send(above.contact, created)
        if accepted:
            view = self.node.states.view_below(self.node.groups[key])
            for branch in message.adopted:
                self.node.send(branch.leader, Adopted(message.attribute, branch.text, view))
        elif led is not None and self.node.leads(led):
            self.node.healing.report(led)  # it was created already: a repeated request came late

    def on_adopted(self, sender: NodeId, message: Adopted) -> None:
        """A new group stands between this one and its predecessor."""
        group = self.node.groups.get((message.attribute, message.text))
        if group is None or not self.node.leads(group):
            return
        if message.predview and label(message.attribute, message.predview[0].text).precedes(
            group.label
        ):
            group.predview = message.predview
            self.node.searches.forget(group)
            self.node.leadership.changed(group, (), ())
