"""Search for a parent on the air: requests, replies and activations (MAODV's three phases).

:mod:`~shoal.overlay.maodv` has the rules; this is mostly the requester's side.
"""

from __future__ import annotations

from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.maodv_label import BLANK, GAP, Label, leads, same_group
from shoal.overlay.maodv_member import REMEMBERED, Member
from shoal.overlay.maodv_messages import Confirm, Handover, Leave, Mact, MaodvParameters, Rrep, Rreq
from shoal.stack.host import LOCAL, Host, NodeId, Timer, remember
from shoal.stack.layer import Reconfiguration, Routing
from shoal.stack.message import Contact, Message

REPAIRS: Final = 1 << 20
"""Distinct numbers for the repairs of one node."""


class Search:
    """State of a node's search for a parent."""

    def __init__(self, cause: str, started: float, lost: NodeId, repair: int) -> None:
        self.cause = cause
        """``join``, ``lost``, ``merge`` or ``handed``."""
        self.started = started
        self.lost = lost
        self.repair = repair
        """Number of the repair; -1 if no link is replaced."""
        self.request = 0
        """Number of the latest request."""
        self.requests = 0
        self.replies: list[Rrep] = []
        self.target: NodeId = LOCAL
        """Node that was sent an activation or a handover; LOCAL: none."""
        self.number = 0
        """Number of the attachment to the target."""
        self.handover: Handover | None = None
        """Message sent to the target if that is a child that is to be the root; else None."""
        self.tries = 0
        self.timer: Timer | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class Searcher(Member):
    """Looks for a parent."""

    def __init__(self, host: Host, parameters: MaodvParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.search: Search | None = None
        self.answered: dict[NodeId, int] = {}
        """Number of the latest request answered or passed on, per requester."""
        self.sighted = False
        """True if this node leads, and heard of a tree that prevails over its own."""
        self.merges_from = 0.0
        """Time before which a leader that found no way into another tree does not try again."""
        self._repairs = 0

    def hand_over(self, path: tuple[NodeId, ...], far: NodeId, offer: int, step: float) -> None:
        """Let a child, the first of the path, be the root in this node's place."""
        raise NotImplementedError

    # Life

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """A new node looks for a parent."""
        self.seek("join", LOCAL, -1)

    def stop(self) -> None:
        """Tell parent and children, so that they need not wait."""
        if self.parent != LOCAL:
            self.host.send(self.parent, Leave(self.number))
        for node, child in self.children.items():
            self.host.send(node, Leave(child.number))

    def pointed(self) -> tuple[NodeId, int]:
        if self.parent != LOCAL:
            return self.parent, self.number
        if self.search is not None and self.search.target != LOCAL:
            return self.search.target, self.search.number
        return LOCAL, self.count

    def frozen(self) -> bool:
        return self.search is not None

    # A parent is needed

    def lose_parent(self, why: str) -> None:
        """The link to the parent is gone: look for another."""
        lost = self.parent
        self.parent = LOCAL
        self.failed.pop(lost, None)
        self._repairs += 1
        repair = self.node * REPAIRS + self._repairs % REPAIRS
        self.link_down(lost, Reconfiguration(repair))
        self.parent_changed(LOCAL)
        if self.host.watched:
            self.host.note("parent lost", lost, why)
        self.seek("lost", lost, repair)

    def seek(self, cause: str, lost: NodeId, repair: int) -> None:
        """Begin a search."""
        self.end_search()
        self.search = Search(cause, self.host.now(), lost, repair)
        self.request()

    def end_search(self) -> None:
        """Cancel the timer, and forget the search."""
        if self.search is not None and self.search.timer is not None:
            self.search.timer.cancel()
        self.search = None

    def look_around(self) -> None:
        """A leader looks for a way into a tree that prevails; not all at one moment."""
        if self.sighted and self.host.now() >= self.merges_from and self.search is None:
            self.sighted = False
            if self.leading:
                self.seek("merge", LOCAL, -1)

    def request(self) -> None:
        """RREQ; the replies are looked at after a while."""
        search = self.search
        assert search is not None
        search.requests += 1
        search.request = self.numbered()
        self.host.broadcast(Rreq(self.node, search.request, self.offered_label()))
        search.timer = self.host.after(self.parameters.reply_wait, self.choose)

    def offered_label(self) -> Label:
        """The label with which the node would attach; without children it forgets its own."""
        return BLANK if self.alone() else self.label

    # Who can be the parent?

    def on_rreq(self, sender: NodeId, message: Message) -> None:
        """RREQ: answer if this node is ahead of the requester."""
        request = cast("Rreq", message)
        if request.requester == self.node or not self.is_news(request):
            return
        rooted = self.parent != LOCAL or self.leading
        if rooted and sender != self.parent and leads(request.label, self.label):
            self.note_answered(request)
            if sender not in self.children or request.requester == sender:
                self.make_offer(sender, request.requester, request.number)

    def is_news(self, request: Rreq) -> bool:
        """Whether this request was neither answered nor passed on yet."""
        return self.answered.get(request.requester, -1) < request.number

    def note_answered(self, request: Rreq) -> None:
        """Remember a request as answered or passed on."""
        remember(self.answered, request.requester, request.number, REMEMBERED)

    def on_rrep(self, sender: NodeId, message: Message) -> None:
        """RREP: keep it until the wait is over."""
        reply, search = cast("Rrep", message), self.search
        if search is None or reply.requester != self.node or reply.number != search.request:
            return
        near = reply.path[-1] if reply.path else reply.far
        if near == sender and search.target == LOCAL and len(search.replies) < REMEMBERED:
            search.replies.append(reply)

    def choose(self) -> None:
        """Choose the best reply that labels still allow; ask again or lead if there is none."""
        search = self.search
        assert search is not None
        if search.target != LOCAL and search.handover is None:
            self.host.send(search.target, Leave(search.number))  # it did not confirm
        search.target = LOCAL
        while search.replies:
            best = max(search.replies, key=preference)
            search.replies.remove(best)
            if not leads(self.offered_label(), best.label):
                continue
            if not best.path:
                self.activate(best.far, best.offer)
                return
            path, step = best.path[::-1], 1.0
            if same_group(self.label, best.label):
                step = (self.label[4] - best.label[4]) / (len(path) + 1)
            if path[0] in self.children and step > GAP:
                self.hand_over(path, best.far, best.offer, step)
                return
        if search.requests <= self.parameters.retries and search.cause != "merge":
            self.request()
            return
        self.end_search()
        group = self.parameters.group_hello
        self.merges_from = self.host.now() + group * self.chance.uniform(self.node, self.numbered())
        if search.cause != "merge" or self.label == BLANK:
            self.lead()
            if self.host.watched:
                self.host.note("leader", search.lost, search.cause)

    # Activation

    def activate(self, far: NodeId, offer: int) -> None:
        """MACT: ask to be the child of a node that made an offer."""
        search = self.search
        assert search is not None
        self.offers.pop(far, None)
        if far in self.children:
            self.drop_child(far, "it is to be the parent")
        self.forget_label()
        search.target, search.number = far, self.numbered()
        search.handover = None
        search.timer = self.host.after(self.parameters.confirm_wait, self.choose)
        self.host.send(far, Mact(search.number, offer, self.label, search.repair))

    def on_mact(self, sender: NodeId, message: Message) -> None:
        """MACT: refuse the parent, and a node that this one asks to be its parent."""
        if sender in (self.pointed()[0], self.node):
            self.host.send(sender, Leave(cast("Mact", message).number))
        else:
            super().on_mact(sender, message)

    def on_confirm(self, sender: NodeId, message: Message) -> None:
        """The new parent agrees: there is a link."""
        confirm, search = cast("Confirm", message), self.search
        asked = search is not None and sender == search.target and search.handover is None
        if search is None or not asked or confirm.number != search.number:
            if sender != self.parent or confirm.number != self.number:
                self.host.send(sender, Leave(confirm.number))
            return
        if not leads(self.label, confirm.label):
            self.cancel_timer(search)
            self.choose()
            return
        self.end_search()
        self.attach(sender, confirm.number, confirm.beat, confirm.label)
        repair = None if search.repair < 0 else Reconfiguration(search.repair)
        self.link_up(sender, repair)
        self.parent_changed(sender)
        if repair is not None and search.lost != LOCAL:
            self.link_replaced(search.lost, self.node, sender, repair)
        self.note_attached(search, sender, self.node)

    def attach(self, parent: NodeId, number: int, beat: int, label: Label) -> None:
        """Make a node the parent, and follow its label."""
        self.parent = parent
        self.number = number
        self.leading = False
        self.parent_beat = 0
        self.hear_parent(beat, label)

    def cancel_timer(self, search: Search) -> None:
        """Cancel the timer of a search."""
        if search.timer is not None:
            search.timer.cancel()
            search.timer = None

    def given_up(self, node: NodeId, number: int) -> None:
        """The target refuses an activation: try the next reply. A handover goes on."""
        search = self.search
        if search is None or node != search.target or number != search.number:
            return
        if search.handover is None:
            self.cancel_timer(search)
            search.target = LOCAL
            self.choose()

    def unreachable(self, contact: Contact) -> None:
        """An activation that is not acknowledged has failed, and another reply is tried."""
        search = self.search
        if search is not None and contact.node == search.target and search.handover is None:
            self.given_up(contact.node, search.number)
        else:
            super().unreachable(contact)

    # For those who watch

    def note_attached(self, search: Search, far: NodeId, near: NodeId) -> None:
        """Note a repair: its cause, its duration, the nodes of the new link, and the lost node."""
        if self.host.watched:
            took = self.host.now() - search.started
            self.host.note("attached", far, f"{search.cause} {took:.6f} {near} {search.lost}")


def preference(reply: Rrep) -> tuple[tuple[int, ...], int, float]:
    """The latest group hello first, then the fewest hops, then the nearest to the leader."""
    return reply.label[:4], -len(reply.path), -reply.label[4]
