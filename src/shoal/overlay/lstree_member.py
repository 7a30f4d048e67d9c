"""A node's place in an LSTree: its colour and depth, its parent and children (Frey, section 10.2).

The rule that prevents cycles: every child → its parent, at every instant
(:func:`~shoal.overlay.lstree_relation.can_connect`). It follows from two others. A node's colour
and depth only advance in the order of the relation, and they precede those last heard from the
parent. As the parent only advances too, they precede its present ones.

This half of the protocol answers requests (*candidate*) and monitors neighbours; the other half,
:mod:`~shoal.overlay.lstree_search`, searches for a parent (*requester*).
"""

from __future__ import annotations

from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.handover import Handover
from shoal.overlay.lstree_caches import Dice, GlobalCache, Search
from shoal.overlay.lstree_messages import (
    Accept,
    Attach,
    Beat,
    Drop,
    Leave,
    LSTreeParameters,
    ParentRequest,
    Refuse,
    Regional,
    Welcome,
)
from shoal.overlay.lstree_relation import (
    BLANK,
    DEEPEST,
    GAP,
    LONGEST,
    Colour,
    can_connect,
    precedes,
)
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Reconfiguration, Routing, shown_parent
from shoal.stack.message import Contact, Message

PLACES: Final = 1 << 16
"""Bound of the random number that selects where in a cache to begin."""


class Child:
    """A node that was accepted; a neighbour once it has attached."""

    def __init__(self, contact: Contact, epoch: int, request: int) -> None:
        self.contact = contact
        self.epoch = epoch
        self.request = request
        self.attached = False
        self.timer: Timer | None = None
        """Gives up a child that does not attach."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Member(Handover):
    """Colour, depth, parent and children; what a candidate answers."""

    def __init__(self, host: Host, parameters: LSTreeParameters, routing: Routing) -> None:
        silence = parameters.heartbeat * parameters.patience
        super().__init__(host, routing, max(silence, 8 * parameters.request_timeout))
        self.parameters = parameters
        self.node: NodeId = host.node
        self.colour: Colour = BLANK
        self.depth = 0.0
        self.parent_epoch = 0
        """Which life of the parent this is."""
        self.parent_depth = 0.0
        """The parent's depth, as last heard."""
        self.root = False
        self.children: dict[NodeId, Child] = {}
        self.ancestors: tuple[Contact, ...] = ()
        """The Ancestor Chain, nearest first."""
        self.siblings: tuple[Contact, ...] = ()
        """The Sibling Set: all children of the parent."""
        self.known = GlobalCache(host.node, parameters.global_size)
        self.search: Search | None = None
        self.min_degree = parameters.least()
        self.real = parameters.depth == "real"
        self.dice = Dice(host.chance("lstree").bits(host.node, host.epoch))
        self.me = Contact(host.node)
        """This node, as others can reach it."""
        self._beaten = -1.0

    # The requester's half

    def lose_parent(self, why: str) -> None:
        """The link to the parent is gone: search for another."""
        raise NotImplementedError

    def begin_anew(self) -> None:
        """Forget the colour, which cannot be extended any more."""
        raise NotImplementedError

    def sighted(self, contact: Contact, colour: Colour) -> None:
        """A node of another tree was seen, one that this tree can join."""
        raise NotImplementedError

    # A candidate

    def degree(self) -> int:
        """Number of neighbours; for a root or an orphan it includes a place for a parent."""
        return len(self.children) + 1

    def tied(self, node: NodeId) -> bool:
        """Whether a link is, or is about to be, on the connection to a node."""
        if node == self.parent or node == self.leaving:
            return True
        return node in self.children or node in self._parting

    def on_request(self, sender: NodeId, message: Message) -> None:
        """PARENTREQUEST: step 4 of the protocol."""
        request = cast("ParentRequest", message)
        if request.requester.node != sender:
            return  # in somebody else's name
        known = self.children.get(sender)
        if known is not None:
            if (request.epoch, request.request) <= (known.epoch, known.request):
                return  # late
            self._forget_child(sender)  # it has lost the link, or lives again
            self._close(sender)
        if sender == self.parent and request.epoch > self.parent_epoch:
            self._close(sender)
            self.lose_parent("it lives again")
        lower = self.depth
        reason = "self" if sender == self.node else ""
        if sender == self.parent or self.stopping:
            reason = "colour"  # an old request: by now it is ahead of this node
        elif sender == self.leaving:
            reason = "busy"  # this node's link from it is to go first
        candidates: tuple[Contact, ...] = ()
        if self.stopping:  # those around it stay
            candidates = (*self.ancestors[:1], *self._some_children())
        if not reason and not can_connect(request.colour, request.depth, self.colour, self.depth):
            lower, reason = self._lowered(request)
        if not reason and self.colour[0] >= LONGEST and self.parent == LOCAL:
            reason = "busy"  # it is about to forget that colour
        if not reason and lower >= DEEPEST:
            reason = "colour"  # nothing fits below
        if not reason and not request.break_max and self._is_full():
            reason, candidates = "full", self._some_children()
        if not reason and not request.break_min and self._is_leaf():
            reason, candidates = "leaf", self.ancestors[:1] if self.parent != LOCAL else ()
        if reason:
            self._refuse(request, Refuse(request.request, reason, candidates))  # type: ignore[arg-type]  # one of them
            return
        self.depth = lower
        self._accept(request)

    def _refuse(self, request: ParentRequest, refusal: Refuse) -> None:
        """REFUSE, out of band."""
        self.host.send_direct(request.requester, refusal)

    def _lowered(self, request: ParentRequest) -> tuple[float, str]:
        """A depth at which the requester can connect; or why there is none."""
        if self.colour != request.colour:
            if precedes(self.colour, request.colour):
                self.sighted(request.requester, request.colour)
            return self.depth, "colour"
        if self.parent == LOCAL:
            return self.depth, "colour" if self.root else "busy"
        if not self.real or request.depth - self.parent_depth < GAP:
            return self.depth, "colour"
        return (self.parent_depth + request.depth) / 2, ""

    def _is_full(self) -> bool:
        return 0 < self.parameters.max_degree <= self.degree()

    def _is_leaf(self) -> bool:
        return not self.root and self.degree() < self.min_degree

    def _some_children(self) -> tuple[Contact, ...]:
        """Children for a requester's Downstream cache."""
        able = [child.contact for child in self.children.values() if child.attached]
        count = self.parameters.references
        if len(able) > count:
            start = self.dice.below(len(able))
            able = [able[(start + i) % len(able)] for i in range(count)]
        return tuple(able)

    def _accept(self, request: ParentRequest) -> None:
        """Keep a place for the child, and open a connection to it."""
        contact = request.requester
        child = Child(contact, request.epoch, request.request)
        self.children[contact.node] = child
        child.timer = self.host.after(self.timeout, lambda: self._give_up(contact.node, child))
        if contact.node in self.heard:
            self._send_accept(child)
        else:
            self.host.open(contact)

    def _send_accept(self, child: Child) -> None:
        """ACCEPT, over a connection: only so does it come from this life of this node."""
        known = self.known.some(self.parameters.references, self.dice.below(PLACES))
        accept = Accept(
            child.epoch,
            child.request,
            self.me,
            self.host.epoch,
            self.colour,
            self.depth,
            self.ancestors,
            self._siblings(),
            tuple(known),
        )
        self.host.send(child.contact.node, accept)

    def opened(self, peer: Contact) -> None:
        """A connection: to a child to be, or of the candidate that accepts."""
        self.heard[peer.node] = self.host.now()
        child = self.children.get(peer.node)
        if child is not None and not child.attached:
            self._send_accept(child)

    def _give_up(self, node: NodeId, child: Child) -> None:
        """A node that was accepted does not attach."""
        if self.children.get(node) is child and not child.attached:
            child.timer = None
            self._forget_child(node)
            self._close(node)

    def on_attach(self, sender: NodeId, message: Message) -> None:
        """The child has chosen this node: there is a link from now on."""
        attach = cast("Attach", message)
        child = self.children.get(sender)
        if sender not in self.heard:
            return
        if child is None or child.attached or child.request != attach.request:
            if not self.tied(sender):
                self.host.send(sender, Drop())
                self._close(sender)
            return
        child.attached = True
        if child.timer is not None:
            child.timer.cancel()
            child.timer = None
        repair = None if attach.repair < 0 else Reconfiguration(attach.repair)
        self.link_up(sender, repair)
        if attach.moves:  # behind what this node announces, so that the child can route at once
            self.host.send(sender, Welcome(attach.request))
        self.push()

    def on_leave(self, sender: NodeId, message: Message) -> None:
        """A child detaches, or does not attach after all; or the parent stops."""
        leave = cast("Leave", message)
        child = self.children.get(sender)
        if child is not None and leave.request in (0, child.request):
            self._forget_child(sender)
            self._close(sender)
        elif sender == self.parent and leave.request == 0:
            self._close(sender)
            self.lose_parent("it left")
        elif sender == self.leaving:
            self._abandon()
        if leave.goes:
            self.known.drop(sender)

    def _forget_child(self, node: NodeId) -> None:
        """Remove a child, attached or not."""
        child = self.children.pop(node)
        self.departing.pop(node, None)
        if child.timer is not None:
            child.timer.cancel()
        if child.attached:
            self.link_down(node)
            self.push()
            self._stop_at_last()

    def child_nodes(self) -> list[NodeId]:
        return [node for node, child in self.children.items() if child.attached]

    def child_moved(self, child: NodeId) -> None:
        del self.children[child]
        self.push()

    # Regional data

    def _siblings(self) -> tuple[Contact, ...]:
        return tuple([child.contact for child in self.children.values() if child.attached])

    def push(self) -> None:
        """Send all children this node's colour, depth, ancestors and children."""
        to = tuple(self.child_nodes())
        if to:
            data = Regional(self.colour, self.depth, self.ancestors, self._siblings())
            self.host.send_all(to, data)

    def on_regional(self, sender: NodeId, message: Message) -> None:
        """Adopt the parent's regional data; a sender that is not the parent gets LEAVE."""
        data = cast("Regional", message)
        if sender != self.parent:
            if sender in self.heard and not self.tied(sender):
                self.host.send(sender, Leave())
                self._close(sender)
            return
        same = data.colour == self.colour
        ahead = data.depth < self.depth if same else precedes(self.colour, data.colour)
        if not ahead or data.depth >= DEEPEST:
            self.host.send(sender, Leave())  # an honest parent only advances
            self._close(sender)
            self.lose_parent("it broke the order")
            return
        contact = self.ancestors[0]
        if self.adopt(contact, data.colour, data.depth, data.ancestors):
            self.push()
        self.siblings = data.siblings

    def adopt(
        self, parent: Contact, colour: Colour, depth: float, ancestors: tuple[Contact, ...]
    ) -> bool:
        """Adopt a parent's colour, depth and ancestors; whether children must be informed."""
        above = self.parameters.ancestors - 1
        chain = (parent, *ancestors[:above])
        changed = chain[:above] != self.ancestors[:above]
        self.ancestors = chain
        self.parent_depth = depth
        before = self.depth
        if colour != self.colour:
            self.colour = colour
            self.depth = min(depth + 1.0 - (self.dice.uniform() if self.real else 0.0), DEEPEST)
            return True
        if not self.real:
            self.depth = min(before, depth + 1.0)  # a hop count follows the parent's
        return changed or self.depth != before

    # Connections and beats

    def _close(self, peer: NodeId) -> None:
        if self.heard.pop(peer, None) is not None:
            self.host.close(peer)

    def on_drop(self, sender: NodeId, message: Message) -> None:
        """The parent has given this node up."""
        if sender == self.parent:
            self._close(sender)
            self.lose_parent("it dropped this node")
            if cast("Drop", message).anew and self.parent == LOCAL and not self.root:
                self.begin_anew()

    def beat(self) -> None:
        """Send a sign of life over every connection, and close those that have been silent."""
        now = self.host.now()
        heartbeat = self.parameters.heartbeat
        if now - self._beaten > 2 * heartbeat and self._beaten >= 0:
            for peer in self.heard:  # this node itself was held up: nobody else is to blame
                self.heard[peer] = now
        self._beaten = now
        silent = now - heartbeat * self.parameters.patience
        for peer in [peer for peer, heard in self.heard.items() if heard < silent]:
            self.host.send(peer, Drop() if peer in self.children else Leave())
            self._close(peer)
            self.gone(peer, "it fell silent")
        if self.heard:
            self.host.send_all(tuple(self.heard), Beat())

    def on_beat(self, sender: NodeId, message: Message) -> None:
        """Do nothing: :meth:`LSTree.receive` has noted the sign of life."""

    def closed(self, peer: NodeId) -> None:
        """The connection broke, or its other end closed it."""
        if self.heard.pop(peer, None) is not None:
            self.gone(peer, "the connection broke")

    def unreachable(self, contact: Contact) -> None:
        """A node that was accepted cannot be reached."""
        child = self.children.get(contact.node)
        if child is not None and not child.attached:
            self._forget_child(contact.node)

    def gone(self, peer: NodeId, why: str) -> None:
        """The connection to a node is gone."""
        self.forget_early(peer)
        if peer == self.leaving:
            self._left()
        elif peer in self._parting:
            self._forget_parting(peer)
            self.link_down(peer)
            self._stop_at_last()
        if peer in self.children:
            self._forget_child(peer)
        if peer == self.parent:
            self.lose_parent(why)

    def describe(self) -> dict[str, Any]:
        length, node, life = self.colour
        return {
            "colour": f"{length}:{node}.{life}" if length else "none",
            "depth": round(self.depth, 6),
            "parent": shown_parent(self.parent, self.root),
            "children": len(self.children),
            "known": len(self.known.contacts),
        }
