"""What a node knows of a group it is in: groupview, predview and succviews (section 4).

A predview or succview is an ordered list of at most K pointers, nearest level first, that reaches
several levels so as to survive the loss of a whole group. There is one succview per successor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shoal.routing.dps.labels import ROOT, Label, label
from shoal.routing.dps.messages import Branch, Leader, Membership, Pointer, State
from shoal.stack.chance import hashed_bits, purpose_word

if TYPE_CHECKING:
    from shoal.content import Content, Filter
    from shoal.routing.dps.messages import Cede, FindGroup, Publish
    from shoal.stack.host import NodeId, Timer
    from shoal.stack.message import Contact


CARETAKERS: Final = 2
"""Members of a group that send events to a successor of it, in epidemic communication."""


class Member:
    """A node of the group, as its leader knows it."""

    def __init__(self, contact: Contact, heard: float, subscribed: bool) -> None:
        self.contact = contact
        self.heard = heard
        self.subscribed = subscribed
        """True if the member wants events; a co-leader of a root need not."""


class Successor:
    """A group immediately below this one, and the succview that leads into it."""

    def __init__(
        self, label: Label, term: int, leader: Contact, view: tuple[Pointer, ...], heard: float
    ) -> None:
        self.label = label
        self.term = term
        self.leader = leader
        self.view = view or (Pointer(label.text, leader),)
        self.heard = heard
        self.under = ""
        """Text of the sibling that this group should move below; empty if there is none."""
        self.placed = True
        """False until the group was checked against siblings that may include it."""
        self.deep = any(pointer.text != label.text for pointer in self.view)
        """True if there may be groups below it."""
        self.sent_branch: Branch | None = None
        self.adopted_branch: Branch | None = None
        """Branch of another node's message that this one was last adopted from."""
        self._tended = True
        self._tended_among: tuple[Contact, ...] | None = None
        self._nearest: tuple[Contact, ...] = ()
        self._nearest_of: tuple[Pointer, ...] = ()

    def nearest(self) -> tuple[Contact, ...]:
        """The nodes of the view that are in the group itself; all if there are none."""
        view = self.view
        if self._nearest_of is not view:
            text = self.label.text
            near = [p for p in view if p.text == text] or list(view)
            self._nearest = tuple([p.contact for p in near])
            self._nearest_of = view
        return self._nearest

    def tended(self, here: NodeId, known: tuple[Contact, ...]) -> bool:
        """Whether this node is a caretaker of the successor, among the members that it knows.

        Caretakers are the members with the highest hashes of node and label. So a caretaker among
        all members is one in every partial view.
        """
        if self._tended_among is not known:
            word = purpose_word(self.label.text)
            mine = hashed_bits(word, here)
            ahead = [hashed_bits(word, contact.node) > mine for contact in known]
            self._tended = sum(ahead) < CARETAKERS
            self._tended_among = known
        return self._tended

    def branch(self) -> Branch:
        """The successor as a message carries it."""
        sent = self.sent_branch
        if (
            sent is None
            or sent.leader is not self.leader
            or sent.pointers is not self.view
            or sent.term != self.term
        ):
            sent = Branch(self.label.text, self.term, self.leader, self.view)
            self.sent_branch = sent
        return sent


class Creation:
    """A successor that is being created; events and related requests wait for it."""

    def __init__(self, label: Label, origin: Contact, takes: bool, timer: Timer) -> None:
        self.label = label
        self.origin = origin
        self.takes = takes
        """True if it adopts groups."""
        self.timer = timer
        """Timer that ends the wait for the answers."""
        self.sent = False
        """True once CREATE_GROUP was sent."""
        self.asked: dict[str, int] = {}
        """Answers outstanding per group asked to cede; negative if one came before its mention."""
        self.ceded: list[Branch] = []
        """Groups that others have ceded to it."""
        self.adopted: tuple[str, ...] = ()


class Group:
    """A node's part in one group."""

    def __init__(self, label: Label, leader: Contact, term: int) -> None:
        self.label = label
        self.filters: dict[Filter, None] = {}
        """Subscriptions of this node that joined here."""
        self.leader = leader
        self.term = term
        """Number of the leadership; ``trees.later`` compares two."""
        self.coleaders: tuple[Contact, ...] = ()
        self.suspects: dict[NodeId, None] = {}
        """Leaders that did not answer; forgotten when another is known."""
        self.members: dict[NodeId, Member] = {}
        """The groupview of a leader or co-leader: everybody else in the group."""
        self.known: tuple[Contact, ...] = ()
        """The partial groupview of a member in epidemic communication."""
        self.predview: tuple[Pointer, ...] = ()
        self.successors: dict[str, Successor] = {}
        """Successors, by the text of their label."""
        self.creations: dict[str, Creation] = {}
        self.events: list[Publish] = []
        """Events that wait for the creation of a successor, in order."""
        self.requests: dict[str, list[FindGroup | Cede]] = {}
        """What else waits for the creation of a successor, by the text of the wanted label."""
        self.ceded: dict[str, float] = {}
        """Times when groups were ceded to a new one, by the text of their labels."""
        self.sent_state: State | None = None
        """State that the leader last sent to its members."""
        self.adopted_state: State | None = None
        """State that a regular member last received."""
        self.rounds = 0
        """Reports since the place of this group was last looked up."""
        self.passed: dict[Any, int] = {}
        """How often this node has passed on each of the latest events; epidemic only."""
        self._membership: Membership | None = None

    def membership(self) -> Membership:
        """This node's part in the group as a beat carries it."""
        subscribed = bool(self.filters)
        sent = self._membership
        if sent is None or sent.subscribed != subscribed:
            sent = Membership(self.label.attribute, self.label.text, subscribed)
            self._membership = sent
        return sent

    def state(self) -> State:
        """The group as a regular member knows it: leader and co-leaders."""
        sent = self.sent_state
        if (
            sent is None
            or sent.coleaders is not self.coleaders
            or sent.leader is not self.leader
            or sent.term != self.term
        ):
            attribute, text = self.label.attribute, self.label.text
            sent = State(attribute, text, self.term, self.leader, self.coleaders)
            self.sent_state = sent
        return sent

    def leadership(self) -> Leader:
        """The group's leader, as it is announced to others."""
        attribute, text = self.label.attribute, self.label.text
        return Leader(attribute, text, self.term, self.leader, self.coleaders)

    @property
    def text(self) -> str:
        """The label's text."""
        return self.label.text

    def is_root(self) -> bool:
        """Whether this is the group at the top of a tree."""
        return self.label.text == ROOT

    def above(self, wanted: Label) -> Successor | None:
        """The successor that strictly includes a label; the first in Label.order if several do."""
        found: Successor | None = None
        for successor in self.successors.values():
            if successor.label.precedes(wanted) and (
                found is None or successor.label.order < found.label.order
            ):
                found = successor
        return found

    def best(self, wanted: Label) -> Successor | None:
        """The successor to descend into for a label: its own group, or the first to include it."""
        return self.successors.get(wanted.text) or self.above(wanted)

    def add(self, successor: Successor) -> None:
        """Add or replace a successor; siblings that a new one includes are to move below it."""
        text = successor.label.text
        known = self.successors.get(text)
        self.successors[text] = successor
        if known is not None:
            successor.under, successor.placed = known.under, known.placed
            successor.deep = successor.deep or known.deep
            return
        if successor.label.single:
            return
        for other in self.successors.values():
            if successor.label.precedes(other.label):
                above = self.successors.get(other.under)
                if above is None or successor.label.order < above.label.order:
                    other.under = text

    def below(self, wanted: Label) -> list[Successor]:
        """The successors that a label includes."""
        return [one for one in self.successors.values() if wanted.precedes(one.label)]

    def rivals(self, wanted: Label) -> list[Successor]:
        """The successors below which there may be groups that belong below a new group."""
        if wanted.single:
            return []
        return [
            one
            for one in self.successors.values()
            if one.deep
            and wanted.order < one.label.order
            and one.label.overlaps(wanted)
            and not wanted.covers(one.label)
        ]

    def holds(self, content: Content) -> bool:
        """Whether an event has to wait for a creation.

        Every event waits from CREATE_GROUP on, as in the paper. While groups are still asked to
        cede, only events that match the new label wait.
        """
        creations = self.creations.values()
        return any(one.sent or one.label.matches(content) for one in creations)

    def may_get(self, wanted: Label) -> bool:
        """Whether a group under creation or requested here would belong below a label."""
        asked = (label(self.label.attribute, text) for text in self.requests)
        created = (creation.label for creation in self.creations.values())
        return any(wanted.precedes(one) for one in (*created, *asked))

    def awaits(self, wanted: Label, best: Successor) -> bool:
        """Whether a label's place is below a successor under creation, not below the best one."""
        return best.label.text != wanted.text and any(
            creation.label.order < best.label.order and creation.label.precedes(wanted)
            for creation in self.creations.values()
        )

    def blocks(self, wanted: Label) -> bool:
        """Whether a creation under way may concern the place of a label, or an event waits.

        Otherwise one creation could follow another, and the event would wait for ever.
        """
        if self.events:
            return True
        takes: bool | None = None
        for creation in self.creations.values():
            other = creation.label
            if other.covers(wanted) or wanted.covers(other):
                return True
            if other.overlaps(wanted):
                if takes is None:
                    takes = bool(self.below(wanted) or self.rivals(wanted))
                if takes or creation.takes:
                    return True
        return False


def succview(
    leader: Contact, text: str, below: tuple[Pointer, ...], size: int
) -> tuple[Pointer, ...]:
    """A view that begins with a group's leader and goes on with nodes further away."""
    return (Pointer(text, leader), *(p for p in below if p.contact.node != leader.node))[:size]
