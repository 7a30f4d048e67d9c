"""LSTree under observation: it notes places, requests and searches, for measures that look closely.

The protocol is LSTree's own; nothing is decided here. Each note's value is JSON:

=========  ========================================================================================
place      colour, depth and regional data of a node, whenever one of them changes; peer: its parent
answer     what a candidate answered, and what it knew when it was asked; peer: who asked
asks       whom a search asks, by which strategy, and the candidates that every strategy has then
sighted    a node of another tree that this node's root is to be told of
=========  ========================================================================================

With ``corrupt``, all caches of a node are filled with random nodes again and again.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_caches import Search
from shoal.overlay.lstree_messages import AGREE, LSTreeParameters, ParentRequest, Refuse
from shoal.overlay.lstree_relation import Colour
from shoal.stack.host import LOCAL, Host, NodeId, key_of
from shoal.stack.layer import Routing
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register


class ObservedParameters(LSTreeParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters of LSTree, and how its caches are corrupted."""

    corrupt: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """Seconds after which all caches are filled with random nodes, again and again; 0 for never."""


class ObservedLSTree(LSTree):
    """LSTree that notes what it does and why."""

    def __init__(self, host: Host, parameters: ObservedParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.corruption = parameters.corrupt
        self._noted: tuple[Any, ...] = ()
        self._notes = 0
        self._refusal: Refuse | None = None
        self._heard_of: dict[NodeId, Contact] = {}
        """Every node that this one has heard of, for corrupted caches."""

    def _note(self, what: str, peer: NodeId, **value: Any) -> None:
        """Notes are numbered: several may be of one instant."""
        if self.host.watched:
            self._notes += 1
            text = msgspec.json.encode({"n": self._notes, **value}).decode()
            self.host.note(what, peer, text)

    def _place(self) -> None:
        """Note the place in the tree, if it is another one than before."""
        ancestors = [contact.node for contact in self.ancestors]
        siblings = [contact.node for contact in self.siblings]
        place = (self.parent, self.colour, self.depth, self.root, ancestors, siblings)
        if place != self._noted:
            self._noted = place
            self._note(
                "place",
                self.parent,
                colour=self.colour,
                depth=self.depth,
                above=self.parent_depth,
                root=self.root,
                ancestors=ancestors,
                siblings=siblings,
            )

    # Whenever the place may change

    def receive(self, sender: NodeId, message: Any) -> None:
        super().receive(sender, message)
        self._place()

    def parent_changed(self, parent: NodeId) -> None:
        super().parent_changed(parent)
        self._place()

    def _recolour(self) -> None:
        super()._recolour()
        self._place()

    def begin_anew(self) -> None:
        super().begin_anew()
        self._place()

    # Requests and answers

    def on_request(self, sender: NodeId, message: Message) -> None:
        """Note the request, the candidate's state before, and the answer."""
        assert isinstance(message, ParentRequest)
        before: dict[str, Any] = {
            "colour": self.colour,
            "depth": self.depth,
            "above": self.parent_depth,
            "parent": self.parent,
            "root": self.root,
            "degree": self.degree(),
            "children": [node for node, child in self.children.items() if child.attached],
        }
        old = self.children.get(sender)
        self._refusal = None
        super().on_request(sender, message)
        if self._refusal is None and self.children.get(sender) in (old, None):
            return  # not heard: late, or in somebody else's name
        refusal = self._refusal
        self._note(
            "answer",
            sender,
            colour=message.colour,
            depth=message.depth,
            forced=[message.break_max, message.break_min],
            before=before,
            answer="accepted" if refusal is None else refusal.reason,
            named=[] if refusal is None else [contact.node for contact in refusal.candidates],
            lowered=self.depth,
        )

    def _refuse(self, request: ParentRequest, refusal: Refuse) -> None:
        self._refusal = refusal
        super()._refuse(request, refusal)

    def sighted(self, contact: Contact, colour: Colour) -> None:
        self._note("sighted", contact.node, colour=colour)
        super().sighted(contact, colour)

    def _ask(self, step: str, search: Search, contact: Contact) -> None:
        caches = {
            "R": [*self.ancestors, *self.siblings],
            "A": list(self.ancestors),
            "D": list(search.refused.get("D", {}).values()),
            "U": list(search.refused.get("U", {}).values()),
            "G": self.known.contacts,
        }
        left = {
            letter: sum(self._is_new(search, c) for c in contacts)
            for letter, contacts in caches.items()
        }
        left["m"] = len(search.refused.get("m", ()))
        left["M"] = len(search.refused.get("M", ()))
        for busy in search.busy.values():
            left[busy.strategy] = left.get(busy.strategy, 0) + 1
        if key_of(contact) not in search.busy:
            left[step] = left.get(step, 0) + 1  # who is asked now counts as asked already
        self._note(
            "asks", contact.node, search=search.started, cause=search.cause, by=step, left=left
        )
        super()._ask(step, search, contact)

    # Corrupted caches

    def start(self) -> None:
        super().start()
        if self.corruption:
            self.host.every(self.corruption, self.corrupt, self.dice.uniform() * self.corruption)

    def corrupt(self) -> None:
        """Fill all caches with nodes drawn at random among all that this node ever heard of."""
        heard = (*self.known.contacts, *self.ancestors, *self.siblings)
        self._heard_of.update(
            {contact.node: contact for contact in heard if contact.node != self.node}
        )
        some = list(self._heard_of.values())
        if not some:
            return

        def drawn(count: int) -> tuple[Contact, ...]:
            return tuple(some[self.dice.below(len(some))] for _ in range(count))

        if self.parent != LOCAL:
            self.ancestors = drawn(self.parameters.ancestors)
            self.siblings = drawn(4)
        for contact in list(self.known.contacts):
            self.known.drop(contact.node)
        for contact in drawn(self.known.size):
            self.known.insert(contact)


register(
    "overlay",
    "lstree-observed",
    ObservedLSTree,
    ObservedParameters,
    needs={"reach"},
    provides={"links", "tree", "root", "association"},
    agree=AGREE,
    summary="LSTree that notes each place, request and answer, for measures that look closely.",
)
