"""MAODV (Royer and Perkins 1999; Frey, section 14.1.2): a tree over radios that move.

Every node is a member of the tree. The rules:

* The leader, which is the root, sends a group hello (GRPH) once a period. Members follow the label
  of their parent and pass the group hello on; nodes of other trees pass it on too.
* The lower end of a lost link repairs it. It broadcasts a request (RREQ) with its label. A node
  that hears it and is ahead of that label replies (RREP); others ignore it. After ``reply_wait``
  the requester chooses the reply with the latest group hello, of several the nearest, and activates
  it (MACT). The new parent confirms that, and there is a link.
* If no reply comes, also to ``retries`` more requests, the node takes the network to be
  partitioned, and leads a tree of its own.
* Trees merge: a member that hears a neighbour in a tree that prevails tells its leader (MERGE), and
  the leader hands its role over to that member, which then looks for a parent as above.

A *handover* passes the role of the root from a node to its child, and the link between them turns
round. The root keeps the child until the child has answered (TAKEN).

``docs/witree.md`` proves that there are no cycles. :mod:`~shoal.overlay.maodv_member` is a node's
place in the tree, :mod:`~shoal.overlay.maodv_search` its search for a parent. Here: handovers, and
how trees merge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.maodv_label import GAP, leads, nearer, older
from shoal.overlay.maodv_member import Member
from shoal.overlay.maodv_messages import (
    Confirm,
    Grph,
    Handover,
    Hello,
    Leave,
    Mact,
    MaodvParameters,
    Merge,
    Rrep,
    Rreq,
    Taken,
)
from shoal.overlay.maodv_search import Search, Searcher
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Layer, Reconfiguration, Routing
from shoal.stack.message import Message
from shoal.stack.registry import register

DEEPEST: Final = 1024
"""Nodes at most on the path of a reply or a merge."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MAODV(Searcher):
    """A tree in which the lower end of a lost link asks its neighbours for a new parent."""

    def __init__(self, host: Host, parameters: MaodvParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self._merged = -1.0
        """Time of the last request to merge; -1 if there was none."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Hellos, requests, activations and handovers."""
        return {
            Hello: self.on_hello,
            Grph: self.on_grph,
            Rreq: self.on_rreq,
            Rrep: self.on_rrep,
            Mact: self.on_mact,
            Confirm: self.on_confirm,
            Leave: self.on_leave,
            Handover: self.on_handover,
            Taken: self.on_taken,
            Merge: self.on_merge,
        }

    # Handover

    def hand_over(self, path: tuple[NodeId, ...], far: NodeId, offer: int, step: float) -> None:
        """Hand the role of the root over to a child, the first of the path."""
        search = self.search
        assert search is not None
        child = path[0]
        self.offers.pop(child, None)
        self.leading = False
        search.target, search.number, search.tries = child, self.numbered(), 0
        search.handover = Handover(
            self.children[child].number,
            search.number,
            self.label,
            step,
            path[1:],
            far,
            offer,
            search.repair,
        )
        if search.repair >= 0 and search.lost != LOCAL and self.host.watched:
            self.note_attached(search, far, path[-1])
        self.send_handover()

    def send_handover(self) -> None:
        """Send HANDOVER, again until it is answered; a child that never answers is dropped."""
        search = self.search
        assert search is not None
        assert search.handover is not None
        if search.tries > self.parameters.retries:
            self.drop_child(search.target, "it does not take over")
            return
        search.tries += 1
        search.timer = self.host.after(self.parameters.confirm_wait, self.send_handover)
        self.host.send(search.target, search.handover)

    def drop_child(self, node: NodeId, why: str) -> None:
        """A node is no child any more; if it was to take over, this one is the root again."""
        super().drop_child(node, why)
        search = self.search
        if search is not None and search.handover is not None and node == search.target:
            self.seek("handed", LOCAL, -1)

    def child_elsewhere(self, node: NodeId) -> None:
        """A child that has taken over says that it has no parent: it is not lost."""
        search = self.search
        if search is None or search.handover is None or node != search.target:
            super().child_elsewhere(node)

    def on_handover(self, sender: NodeId, message: Message) -> None:
        """HANDOVER: be the root in the parent's place; the parent is a child from now on."""
        handover = cast("Handover", message)
        child = self.children.get(sender)
        if child is not None and child.number == handover.back:
            self.host.send(sender, Taken(self.numbered(), handover.back, self.label))
            return  # it was sent again
        if (
            sender != self.parent
            or handover.number != self.number
            or handover.step <= GAP
            or not leads(self.label, handover.label)
        ):
            return
        self.offers.pop(sender, None)
        self.parent = LOCAL
        self.label = nearer(handover.label, handover.step)
        self.add_child(sender, handover.back)
        self.host.send(sender, Taken(self.numbered(), handover.back, self.label))
        self.parent_changed(LOCAL)
        self.search = Search("handed", self.host.now(), LOCAL, handover.repair)
        path = handover.path
        if path and path[0] in self.children:
            self.hand_over(path, handover.far, handover.offer, handover.step)
        elif not path and handover.far not in (LOCAL, self.node):
            self.activate(handover.far, handover.offer)
        else:
            self.seek("handed", LOCAL, -1)

    def on_taken(self, sender: NodeId, message: Message) -> None:
        """TAKEN: the child is the root now, and this node's parent."""
        taken, search = cast("Taken", message), self.search
        if (
            search is None
            or search.handover is None
            or sender != search.target
            or taken.back != search.number
            or not leads(self.label, taken.label)
        ):
            return
        handover = search.handover
        self.end_search()
        del self.children[sender]
        self.attach(sender, taken.back, taken.beat, taken.label)
        self.parent_changed(sender)
        if search.repair >= 0 and search.lost != LOCAL:
            path = (self.node, sender, *handover.path, handover.far)
            repair = Reconfiguration(search.repair, path)
            self.link_replaced(search.lost, path[-2], handover.far, repair)

    # Merging

    def foreign(self, sender: NodeId, message: Grph) -> None:
        """A member next to a tree that prevails asks its leader for permission to join it."""
        if not message.member or self.search is not None:
            return
        if self.leading:
            self.sighted = True
        elif self.host.now() - self._merged >= self.parameters.group_hello:
            self._merged = self.host.now()
            self.host.send(self.parent, Merge(message.label, (self.node,)))

    def on_merge(self, sender: NodeId, message: Message) -> None:
        """MERGE: pass it on to the leader, which hands its role over to the first of the path."""
        merge = cast("Merge", message)
        path = merge.path
        if sender not in self.children or path[-1:] != (sender,) or len(path) >= DEEPEST:
            return
        if self.parent != LOCAL:
            self.host.send(self.parent, Merge(merge.label, (*path, self.node)))
        elif self.leading and self.search is None and older(self.label, merge.label):
            self.search = Search("merge", self.host.now(), LOCAL, -1)
            self.hand_over(path[::-1], LOCAL, 0, 1.0)

    # For those who watch

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """Promised: there is one tree, and both ends of each link agree on who is the parent."""
        if self.parent == LOCAL:
            others = [n for n, layer in running.items() if cast("Member", layer).leading]
            return None if others == [self.node] else f"it is a root; leaders are {others}"
        above = cast("Member", running.get(self.parent))
        if above is None or self.node not in above.children:
            return f"its parent {self.parent} does not have it for a child"
        if not leads(self.label, above.label):
            return f"its label {self.label} is not behind that of its parent, {above.label}"
        return None


register(
    "overlay",
    "maodv",
    MAODV,
    MaodvParameters,
    needs={"air"},
    provides={"links", "tree", "root", "association"},
    summary="A tree over radios that move; the lower end of a lost link finds a new one.",
)
