"""A node's place in a tree on the air: its label, parent and children, hellos and group hellos.

It announces the node to others, notices lost neighbours, and accepts children;
:mod:`~shoal.overlay.maodv_search` looks for a parent. Messages are lost, late and repeated:

* An *attachment* makes a node the child of another. The child numbers it, and both ends name it by
  that number. A parent whose hello does not list a child has given that child up.
* An *offer* lets a node become the child of another. The parent to be numbers it, and it is good
  for one activation. A parent to be that asks the other node for a parent itself withdraws the
  offer, so that no late activation is accepted.
* A child that was dropped may still follow this node until its hello says otherwise. Until then the
  node keeps its label.
* Messages with the parent's label are numbered (``beat``); one that a later beat overtook is
  ignored.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.maodv_label import BLANK, LONGEST, Label, below, leads, older, same_tree
from shoal.overlay.maodv_messages import Confirm, Grph, Hello, Leave, Mact, MaodvParameters, Rrep
from shoal.stack.host import LOCAL, Host, NodeId, remember
from shoal.stack.layer import Overlay, Reconfiguration, Routing, shown_parent
from shoal.stack.message import Contact, Message

LIFE: Final = 1 << 32
"""Numbers set aside for one life of a node, so that those of an earlier life are smaller."""
LOOKS: Final = 4
"""Looks for silent neighbours in the time of a hello."""
REMEMBERED: Final = 256
"""Other trees, requesters and offers that a node remembers."""


class Child:
    """A node whose parent this one is."""

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        """Number of the child's attachment."""
        self.heard = now
        """Time of its last hello."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Member(Overlay):
    """Label, parent and children; hellos; offers to children to be."""

    def __init__(self, host: Host, parameters: MaodvParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.parameters = parameters
        self.node: NodeId = host.node
        self.heals_within = 12 * parameters.group_hello
        self.label: Label = BLANK
        self.leading = False
        self.parent: NodeId = LOCAL
        self.number = 0
        """Number of this node's attachment to its parent."""
        self.parent_heard = 0.0
        self.parent_beat = 0
        """Beat of the parent's latest message with its label; earlier ones are ignored."""
        self.children: dict[NodeId, Child] = {}
        self.dropped: dict[NodeId, int] = {}
        """Number of its last attachment, per former child that may not know that it was dropped."""
        self.count = host.epoch * LIFE
        """Last number given, to a beat, an attachment, a request, an offer or a tree led."""
        self.offers: dict[NodeId, int] = {}
        """Number of the offer that stands, per node that may become a child."""
        self.flooded: dict[tuple[int, int, int], int] = {}
        """Sequence number of the latest group hello passed on, per other tree."""
        self.failed: dict[NodeId, int] = {}
        """Frames in a row that a neighbour did not acknowledge, per neighbour."""
        self.chance = host.chance("maodv")
        self._ticked = -1.0

    # The other half

    def pointed(self) -> tuple[NodeId, int]:
        """The parent, or the node that this one asks to be it; and the attachment's number."""
        raise NotImplementedError

    def frozen(self) -> bool:
        """Whether the node is changing its place, and its label must stay."""
        raise NotImplementedError

    def lose_parent(self, why: str) -> None:
        """There is no parent any more: look for another."""
        raise NotImplementedError

    def look_around(self) -> None:
        """Join another tree that was heard of, if there is one; called before each hello."""
        raise NotImplementedError

    def foreign(self, sender: NodeId, message: Grph) -> None:
        """A group hello of a tree that this one can join."""
        raise NotImplementedError

    def given_up(self, node: NodeId, number: int) -> None:
        """A node denies an attachment, perhaps one that this node is asking for."""
        raise NotImplementedError

    # Hellos

    def start(self) -> None:
        """Begin to send hellos, each node at another moment."""
        phase = self.host.chance("maodv phase").uniform(self.node, self.host.epoch)
        hello = self.parameters.hello
        self.host.every(hello, self.hello, phase * hello)
        self.host.every(hello / LOOKS, self.watch, phase * hello / LOOKS)
        group = self.parameters.group_hello
        self.host.every(group, self.group_hello, phase * group)

    def numbered(self) -> int:
        """The next number."""
        self.count += 1
        return self.count

    def pass_on(self, message: Message) -> None:
        """Broadcast after a random moment, as other nodes pass the same message on now."""
        wait = self.chance.uniform(self.node, self.numbered())
        self.host.after(wait * self.parameters.jitter, lambda: self.host.broadcast(message))

    def watch(self) -> None:
        """Give up neighbours that have been silent for too long; any frame is a sign of life."""
        now, hello = self.host.now(), self.parameters.hello
        if now - self._ticked > 2 * hello and self._ticked >= 0:
            self.parent_heard = now  # this node itself was held up: nobody else is to blame
            for child in self.children.values():
                child.heard = now
        self._ticked = now
        silent = now - hello * self.parameters.patience
        for node, child in list(self.children.items()):
            if child.heard < silent and self.host.heard(node) < silent:
                self.drop_child(node, "it fell silent")
        parent = self.parent
        if parent != LOCAL and self.parent_heard < silent and self.host.heard(parent) < silent:
            self.lose_parent("it fell silent")

    def hello(self) -> None:
        """Say hello to the neighbours; a leader looks around."""
        self.look_around()
        parent, number = self.pointed()
        message = Hello(self.numbered(), parent, number, self.label, tuple(self.children))
        self.host.broadcast(message)

    def on_hello(self, sender: NodeId, message: Message) -> None:
        """A neighbour is there; it may have another parent, or have given this node up."""
        hello = cast("Hello", message)
        self.failed.pop(sender, None)
        moved = hello.parent != self.node
        child = self.children.get(sender)
        if child is not None:
            child.heard = self.host.now()
            if moved and hello.number >= child.number:
                self.child_elsewhere(sender)
        if moved and sender in self.dropped and hello.number >= self.dropped[sender]:
            del self.dropped[sender]
        if sender == self.parent:
            if hello.beat > self.parent_beat and self.node not in hello.children:
                self.lose_parent("it has given this node up")
            else:
                self.hear_parent(hello.beat, hello.label)

    def child_elsewhere(self, node: NodeId) -> None:
        """A child says that it has another parent, or none."""
        self.drop_child(node, "it is elsewhere")

    def hear_parent(self, beat: int, label: Label) -> None:
        """Follow the parent's label, unless a later one has been heard."""
        self.parent_heard = self.host.now()
        if beat <= self.parent_beat:
            return
        self.parent_beat = beat
        if leads(self.label, label):
            before = self.label
            self.label = below(before, label)
            if older(before, label):
                self.pass_on(Grph(self.numbered(), self.label, True))

    # Group hellos

    def group_hello(self) -> None:
        """Send a new group hello, if this node leads; called once a period."""
        if not self.leading or self.frozen():
            return
        if self.alone() and self.label[0] > 1:
            self.lead()  # nobody depends on its label any more: others need not give way to it
            return
        self.label = (*self.label[:3], self.label[3] + 1, 0.0)
        self.host.broadcast(Grph(self.numbered(), self.label, True))

    def lead(self) -> None:
        """Lead a tree of its own, with a label ahead of that of its former tree."""
        self.forget_label()
        if self.label[0] >= LONGEST:
            for node in list(self.children):
                self.drop_child(node, "a liar has used up the generations")
            self.dropped.clear()
            self.forget_label()
        self.leading = True
        self.label = (self.label[0] + 1, self.node, self.numbered(), 1, 0.0)
        self.host.broadcast(Grph(self.numbered(), self.label, True))

    def alone(self) -> bool:
        """Whether no node may still have this one for its parent, so that its label is free."""
        return not self.children and not self.dropped

    def forget_label(self) -> None:
        """A node that is nobody's parent begins anew."""
        if self.alone():
            self.label = BLANK
            self.offers.clear()

    def on_grph(self, sender: NodeId, message: Message) -> None:
        """GRPH: follow the parent's; pass on that of a tree that prevails, and perhaps join it."""
        grph = cast("Grph", message)
        label: Label = grph.label
        if sender == self.parent and grph.member:
            self.hear_parent(grph.beat, label)
            return
        if same_tree(label, self.label) or not older(self.label, label):
            return  # leaders of trees that prevail need not hear of others
        tree = label[:3]
        if self.flooded.get(tree, -1) < label[3]:
            remember(self.flooded, tree, label[3], REMEMBERED)
            if self.children or not self.leading:  # a lone node joins instead
                self.pass_on(Grph(self.numbered(), label, False))
        self.foreign(sender, grph)

    # Children

    def make_offer(self, sender: NodeId, requester: NodeId, request: int) -> None:
        """RREP: offer to be the parent of the node from which the request was heard."""
        offer = self.numbered()
        remember(self.offers, sender, offer, REMEMBERED)
        self.host.send(sender, Rrep(requester, request, self.node, offer, self.label, ()))

    def on_mact(self, sender: NodeId, message: Message) -> None:
        """MACT: accept the child, if the offer stands and labels allow it."""
        mact = cast("Mact", message)
        child = self.children.get(sender)
        if child is not None and child.number == mact.number:
            return  # repeated
        if self.offers.get(sender) != mact.offer or not leads(mact.label, self.label):
            self.host.send(sender, Leave(mact.number))
            return
        del self.offers[sender]
        if child is not None:
            self.drop_child(sender, "it attaches anew")
        self.add_child(sender, mact.number)
        self.host.send(sender, Confirm(self.numbered(), mact.number, self.label))
        self.link_up(sender, None if mact.repair < 0 else Reconfiguration(mact.repair))

    def add_child(self, node: NodeId, number: int) -> None:
        """A node without parent becomes a child."""
        self.children[node] = Child(number, self.host.now())
        self.dropped.pop(node, None)

    def drop_child(self, node: NodeId, why: str) -> None:
        """A node is no child any more, but may not know that yet."""
        self.dropped[node] = self.children.pop(node).number
        self.failed.pop(node, None)
        self.link_down(node)
        if self.host.watched:
            self.host.note("child lost", node, why)

    def on_leave(self, sender: NodeId, message: Message) -> None:
        """The other end of an attachment has given it up, or never had it."""
        leave = cast("Leave", message)
        child = self.children.get(sender)
        if child is not None and child.number == leave.number:
            self.drop_child(sender, "it left")
        elif sender == self.parent and leave.number == self.number:
            self.lose_parent("it gave this node up")
        else:
            self.given_up(sender, leave.number)

    def unreachable(self, contact: Contact) -> None:
        """A neighbour did not acknowledge a frame; after ``failures`` in a row it is lost."""
        node = contact.node
        if node != self.parent and node not in self.children:
            return
        failures = self.failed.get(node, 0) + 1
        self.failed[node] = failures
        if failures >= self.parameters.failures:
            del self.failed[node]
            if node == self.parent:
                self.lose_parent("it does not acknowledge")
            else:
                self.drop_child(node, "it does not acknowledge")

    # For those who watch

    def describe(self) -> dict[str, Any]:
        generation, leader, tree, sequence, distance = self.label
        return {
            "colour": f"{generation}:{leader}.{tree}" if generation else "none",
            "sequence": sequence,
            "depth": round(distance, 6),
            "parent": shown_parent(self.parent, self.leading),
            "children": len(self.children),
        }
