"""Self-healing: signs of life, and what follows when they are missed (section 4.3).

Signs of life go upwards. Members beat to the leader of their group, leaders report to the leader
of the predecessor, at random intervals. Answers show that a leader or predecessor lives; a leader
forgets members and successors that are silent. A sender that is not known is added, so a leader's
state can be rebuilt from below.

* A leader is silent: see :mod:`.leadership`. If no co-leader is left, members look for their group
  anew.
* A whole group is silent: its predecessor goes on with the next level through its succview, and the
  groups below look for their place from the next level of their predview.
* A group whose place is below a sibling is told to move when it reports. A group that is not just
  below the root also looks up its place from the root, every VERIFY + 1 reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.routing.dps.labels import ROOT, Label, LabelError, label
from shoal.routing.dps.messages import (
    Beat,
    BeatAnswer,
    Branch,
    Leader,
    Pointer,
    Report,
    ReportAnswer,
    State,
)
from shoal.routing.dps.trees import better
from shoal.routing.dps.views import Group, Member, Successor

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId

VERIFY: Final = 4
"""Reports after which a group that is not just below the root looks for its place again."""


class Healing:
    """One node's part in keeping its groups alive."""

    def __init__(self, node: Dps) -> None:
        self.node = node
        self.beats: dict[NodeId, float] = {}
        """Leaders that have not answered a beat yet, and since when."""
        self.reports: dict[tuple[str, str], tuple[NodeId, float]] = {}
        """Led groups whose predecessor has not answered a report yet: who, and since when."""
        self._last_round = -1.0
        """Time of this node's last round; negative before the first."""
        self.silence = 2 * (node.interval[1] + node.timeout)
        """Seconds of silence after which a successor, or a member, is presumed dead."""
        self.member_silence = self.silence / 2 if node.epidemic else self.silence
        """The same for members alone; gossip still reaches one that is forgotten by mistake."""

    # Signs of life

    def round(self) -> None:
        """Beat and report, and look after the groups that this node leads."""
        node = self.node
        now = node.host.now()
        self._last_round = now
        beats: dict[NodeId, list[Group]] = {}
        for group in list(node.groups.values()):
            if node.leads(group):
                self._expire(group, now)
                if not group.is_root():
                    if not group.filters and self.node.departures.retire(group):
                        continue
                    self.report(group)
            elif not group.filters and not self.node.departures.on_staff(group):
                self.node.departures.leave(group)
            else:
                beats.setdefault(group.leader.node, []).append(group)
        for leader, groups in beats.items():
            self.beats.setdefault(leader, now)
            held = tuple([group.membership() for group in groups])
            node.send(groups[0].leader, Beat(node.host.contact(), held))
        for point in node.trees.monitored() if node.generic else ():
            if point.node not in beats:
                self.beats.setdefault(point.node, now)
                node.send(point, Beat(node.host.contact(), ()))
        if self.beats or self.reports:
            node.later(node.timeout, self.check)

    def beat(self, group: Group) -> None:
        """Beat to a group's leader at once."""
        node = self.node
        self.beats.setdefault(group.leader.node, node.host.now())
        node.send(group.leader, Beat(node.host.contact(), (group.membership(),)))
        node.later(node.timeout, self.check)

    def doubt(self, group: Group) -> None:
        """Another node presumes a leader dead: beat to it at once, unless a beat is unanswered."""
        if group.leader.node not in self.beats:
            self.beat(group)

    def report(self, group: Group) -> None:
        """Report to the predecessor of a group that this node leads."""
        node = self.node
        key = (group.label.attribute, group.text)
        if key in node.searches.placing:
            return
        group.rounds += 1
        if not group.predview:
            node.searches.place(group, None)
            return
        above = group.predview[0]
        if above.text != ROOT and group.rounds > VERIFY:
            group.rounds = 0
            node.searches.place(group, None)
        self.reports.setdefault(key, (above.contact.node, node.host.now()))
        branch = Branch(group.text, group.term, group.leader, node.states.succview_of(group))
        node.send(above.contact, Report(group.label.attribute, above.text, branch))

    def check(self) -> None:
        """Presume nodes dead that have not answered in time."""
        node = self.node
        now = node.host.now()
        late = 2 * node.interval[1] + node.timeout
        if self._last_round >= 0 and now - self._last_round > late:
            self.beats.clear()  # this node itself was held up: nobody else is to blame
            self.reports.clear()
            return
        due = now - node.timeout * 0.999
        for leader, since in list(self.beats.items()):
            if since <= due:
                del self.beats[leader]
                node.trees.forget(leader)
                for group in list(node.groups.values()):
                    if group.leader.node == leader and not node.leads(group):
                        self.node.leadership.leader_lost(group)
        for key, (above, since) in list(self.reports.items()):
            if since <= due:
                del self.reports[key]
                lost = node.groups.get(key)
                if lost is not None and node.leads(lost):
                    node.trees.forget(above)
                    self._predecessor_lost(lost, above)

    # At the leader

    def on_beat(self, sender: NodeId, message: Beat) -> None:
        """A member lives; one that is not known is a member from now on."""
        node = self.node
        if message.sender.node != sender:
            return
        now = node.host.now()
        states: list[State] = []
        denied: list[State] = []
        for one in message.groups:
            group = node.group(one.attribute, one.text)
            if group is None:
                denied.append(State(one.attribute, one.text, 0, node.host.contact(), ()))
            elif not node.leads(group):
                denied.append(group.state())
                self.doubt(group)
            else:
                member = group.members.get(sender)
                if member is None:
                    group.members[sender] = Member(message.sender, now, one.subscribed)
                    promoted = self.node.leadership.promote(group)
                    self.node.leadership.sync(group, (message.sender,), (), (), (), promoted)
                else:
                    member.heard = now
                    member.subscribed = one.subscribed
                states.append(node.states.state(group))
        node.send(message.sender, BeatAnswer(tuple(states), tuple(denied)))

    def on_beat_answer(self, sender: NodeId, message: BeatAnswer) -> None:
        """Adopt the leader's state, or look for another leader if the sender leads no more."""
        self.beats.pop(sender, None)
        node = self.node
        for state in message.states:
            group = node.group(state.attribute, state.text)
            if group is not None and group.leader.node == sender == state.leader.node:
                group.suspects.clear()
                node.states.adopt(group, state)
        for state in message.denied:
            group = node.group(state.attribute, state.text)
            if group is None or group.leader.node != sender or node.leads(group):
                continue
            hint = state.leader
            if state.term == 0 or hint.node == sender:
                self.node.leadership.leader_lost(group)
            elif hint.node == node.host.node:
                self.node.leadership.take_over(group)
            else:
                if hint.node in group.suspects:
                    group.suspects.clear()  # it was out of reach, and another node has heard it
                group.suspects[sender] = None
                group.leader = hint
                self.beat(group)

    def on_report(self, sender: NodeId, message: Report) -> None:
        """A successor lives; one whose place is below another successor is to move there."""
        node = self.node
        branch = message.branch
        if branch.leader.node != sender:
            return
        group = node.groups.get((message.attribute, message.at))
        theirs = label(message.attribute, branch.text)
        if group is None or not node.leads(group) or not group.label.precedes(theirs):
            hint = None
            if group is not None and not node.leads(group) and group.label.precedes(theirs):
                hint = Pointer(group.text, group.leader)
            node.send(branch.leader, ReportAnswer(message.attribute, branch.text, False, (), hint))
            return
        now = node.host.now()
        known = group.successors.get(branch.text)
        if known is not None and known.leader.node != sender:
            if better(known.term, known.leader.node, branch.term, sender) and (
                now - known.heard <= self.silence
            ):
                told = Leader(message.attribute, branch.text, known.term, known.leader, ())
                node.send(branch.leader, told)
                return
            told = Leader(message.attribute, branch.text, branch.term, branch.leader, ())
            node.send(known.leader, told)
        move = self._misplaced(group, theirs, known)
        created = known is None and branch.text in group.creations  # the next report settles it
        ceded = known is None and self.ceded(group, branch.text, now)
        if known is not None or (move is None and not created and not ceded):
            if known is None or known.leader.node != sender or known.view != branch.pointers:
                made = Successor(theirs, branch.term, branch.leader, branch.pointers, now)
                if known is None or known.leader.node != sender:
                    self.node.leadership.changed(group, (made.branch(),), ())
                group.add(made)
            else:
                known.heard = now
                known.term = branch.term
        for pointer in branch.pointers:
            self.node.leadership.recruit(group, pointer.contact)
        view = node.states.view_below(group)
        node.send(branch.leader, ReportAnswer(message.attribute, branch.text, True, view, move))

    def ceded(self, group: Group, text: str, now: float) -> bool:
        """Whether a group was ceded within the shortest interval, and may not know of it yet."""
        since = group.ceded.get(text)
        if since is not None and now - since > self.node.interval[0]:
            del group.ceded[text]
            since = None
        return since is not None

    def _misplaced(self, group: Group, theirs: Label, known: Successor | None) -> Pointer | None:
        """The sibling that a group should move below; None if its place is here."""
        found = None
        if known is not None and known.placed:
            found = group.successors.get(known.under)
        if found is None and (known is None or known.under or not known.placed):
            found = group.above(theirs)
        if known is not None:
            known.placed, known.under = True, "" if found is None else found.label.text
        return None if found is None else Pointer(found.label.text, found.leader)

    def on_report_answer(self, sender: NodeId, message: ReportAnswer) -> None:
        """Keep the predecessor, move below another group, or look for a new predecessor."""
        node = self.node
        key = (message.attribute, message.text)
        group = node.groups.get(key)
        waiting = self.reports.get(key)
        if waiting is not None and waiting[0] == sender:
            del self.reports[key]
        if group is None or not node.leads(group) or not group.predview:
            return
        if group.predview[0].contact.node != sender:
            return
        if not message.accepted:
            hint = message.move
            if hint is not None and hint.contact.node != sender:
                group.predview = (hint, *group.predview[1:])
                node.searches.place(group, hint)
            else:
                self._predecessor_lost(group, sender)
        elif message.move is not None:
            node.searches.place(group, message.move)
        elif message.predview and message.predview[0].text == group.predview[0].text:
            group.predview = message.predview

    # Failures

    def _predecessor_lost(self, group: Group, above: NodeId) -> None:
        """Go on from the next level up, or from the root."""
        view = group.predview
        while view and view[0].contact.node == above:
            view = view[1:]
        group.predview = view
        self.node.searches.place(group, view[0] if view else None)

    def _expire(self, group: Group, now: float) -> None:
        """Forget members and successors that have been silent."""
        due = now - self.member_silence
        gone = [n for n, member in group.members.items() if member.heard < due]
        for number in gone:
            del group.members[number]
        if gone:
            promoted = self.node.leadership.promote(group)
            self.node.leadership.sync(group, (), tuple(gone), (), (), promoted)
        due = now - self.silence
        for successor in list(group.successors.values()):
            if successor.heard < due:
                self.drop_successor(group, successor)
        if group.is_root() and len(group.coleaders) < self.node.staff(group):
            for successor in group.successors.values():
                self.node.leadership.recruit(group, successor.leader)

    def drop_successor(self, group: Group, successor: Successor) -> None:
        """Remove a successor that is gone; groups of the next level in its succview replace it."""
        del group.successors[successor.label.text]
        now = self.node.host.now()
        made = []
        for pointer in successor.view:
            if pointer.text == successor.label.text or pointer.text in group.successors:
                continue
            try:
                below = label(group.label.attribute, pointer.text)
            except LabelError:
                continue  # from a faulty node
            if group.label.precedes(below):
                promoted = Successor(below, 0, pointer.contact, (pointer,), now)
                promoted.placed = False
                group.add(promoted)
                made.append(promoted.branch())
        self.node.leadership.changed(group, tuple(made), (successor.label.text,))
