"""How a node of a tree changes its parent without losing an event.

The new link is there before the old one is given up:

1. The new parent makes its end of the link, and announces over it what it wants; this waits at the
   node (:attr:`~shoal.stack.layer.Routing.early`) until all of it is there. The node then makes it
   its parent, tells the old one (MOVED), and announces to the new one what it wants itself.
   At no time does it lack the routes for events that it publishes or passes on.
   Behind that it sends FLUSH, which climbs to the root and comes back as FLUSHED.
   Connections keep their order: by then every node above forwards to the new parent what the node
   wants. The old parent no longer counts it as a child, but goes on to send it events.
2. The node tells the old parent so (SETTLED), which sends a FLUSH of its own. When that is back,
   events that were on their way to the old parent have passed it.
3. The old parent gives up its end of the link and closes the connection, behind the last event.

The node gave up its own end in the first step, so no cycle is there at any instant. Meanwhile it
gets some events twice; the routing drops the second. A FLUSH of an old parent waits at a node that
is between the steps itself, since events may come to it by two ways. A flush that does not come
back within the timeout, because a node on the way failed, is not waited for.

A node that stops says so (LEAVING) to its children, which move, and to its parent, where its place
is free from then on: its children may need it. It closes its connections when all have moved. An
overlay decides who the new parent is: :mod:`~shoal.overlay.shopparent_join`,
:mod:`~shoal.overlay.lstree_leave`.
"""

from __future__ import annotations

from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.handover_messages import Flush, Flushed, Leaving, Moved, Settled
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Overlay, Reconfiguration, Routing
from shoal.stack.message import Message

NOBODY: Final = -1
"""No node."""

LONGEST: Final = 1000
"""Nodes on a route at most."""


class Parting:
    """A child that has another parent, and gets events from this node still."""

    def __init__(self, number: int, parent: NodeId, timer: Timer) -> None:
        self.number = number
        self.parent = parent
        self.timer = timer
        self.settled = False
        """Whether the child has said that it is served by its new parent."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Handover(Overlay):
    """The connections of a node, and how its link moves from one parent to another."""

    def __init__(self, host: Host, routing: Routing, timeout: float) -> None:
        super().__init__(host, routing)
        self.timeout = timeout
        """Seconds that a step of a move may take."""
        self.parent: NodeId = LOCAL
        self.stopping = False
        """True if this node has been stopped, and takes no more children."""
        self.departing: dict[NodeId, None] = {}
        """Children that have been stopped: they count no more, as theirs may need their place."""
        self.heard: dict[NodeId, float] = {}
        """Time when the other end of each open connection was last heard."""
        self.leaving: NodeId = NOBODY
        """The old parent, while it may still send events."""
        self._move = NOBODY
        """The number of this node's move, until it is settled."""
        self._leaving_timer: Timer | None = None
        self._parting: dict[NodeId, Parting] = {}
        """Children that have another parent, and get events from this node still."""
        self._waiting: list[Flush] = []
        """Flushes that wait until this node has left its old parent."""

    def handlers(self) -> dict[type[Message], Handler]:
        """The messages of a move."""
        return {
            Flush: self.on_flush,
            Flushed: self.on_flushed,
            Moved: self.on_moved,
            Settled: self.on_settled,
            Leaving: self.on_leaving,
        }

    # What an overlay adds

    def child_nodes(self) -> list[NodeId]:
        """The nodes whose parent this one is."""
        raise NotImplementedError

    def child_moved(self, child: NodeId) -> None:
        """A child has another parent, and gets events from this node still."""
        raise NotImplementedError

    def on_leaving(self, sender: NodeId, message: Message) -> None:
        """The parent stops: move to another one, while it still sends events."""
        raise NotImplementedError

    def comes_from_above(self, sender: NodeId) -> bool:
        """Whether a node is the parent, or was when something was sent up to it."""
        return sender in self.heard and sender in (self.parent, self.leaving)

    def complete(self) -> bool:
        """A node that moves is not cut off."""
        return bool(self.neighbours) or self.leaving != NOBODY

    def close_all(self) -> None:
        """Close all connections: nobody has to wait for a timeout to notice."""
        for peer in list(self.heard):
            self.host.close(peer)

    # The node that moves

    def _leave(self, old: NodeId, new: NodeId, repair: Reconfiguration) -> None:
        """The new parent's link is up: the old one may go when nothing can be lost by it."""
        self.leaving = old
        self._move = repair.id
        self.host.send(old, Moved(new, repair.id))
        self.link_replaced(old, self.host.node, new, repair)
        self._leaving_timer = self.host.after(self.timeout, self._settle)
        self.host.send(new, Flush((self.host.node,), repair.id, False))

    def _settle(self) -> None:
        """The old parent is no longer needed."""
        self._stop_waiting()
        self._leaving_timer = self.host.after(2 * self.timeout, self._abandon)
        self._move = NOBODY
        self.host.send(self.leaving, Settled())

    def _abandon(self) -> None:
        """Leave the old parent at once."""
        old = self.leaving
        if old != NOBODY:
            self._left()
            if old in self.heard:
                del self.heard[old]
                self.host.close(old)

    def _left(self) -> None:
        """The connection to the old parent is gone: flushes that waited for that go on."""
        self.leaving = NOBODY
        self._move = NOBODY
        self._stop_waiting()
        waiting, self._waiting = self._waiting, []
        for flush in waiting:
            self._climb(flush)

    def _stop_waiting(self) -> None:
        if self._leaving_timer is not None:
            self._leaving_timer.cancel()
            self._leaving_timer = None

    # The old parent

    def on_moved(self, sender: NodeId, message: Message) -> None:
        """A child has found a better parent, and still gets events from this one."""
        moved = cast("Moved", message)
        if sender in self.child_nodes():
            timer = self.host.after(2 * self.timeout, lambda: self._part(sender))
            self._parting[sender] = Parting(moved.request, moved.parent, timer)
            self.child_moved(sender)

    def on_settled(self, sender: NodeId, message: Message) -> None:
        """SETTLED: the child is served by its new parent; flush what is on its way to this node."""
        parting = self._parting.get(sender)
        if parting is not None and not parting.settled:
            parting.settled = True
            self._climb(Flush((self.host.node,), parting.number, True))

    def _part(self, child: NodeId) -> None:
        """Give up the link to a child that has moved."""
        parting = self._parting.pop(child, None)
        if parting is None:
            return
        parting.timer.cancel()
        self.departing.pop(child, None)
        repair = Reconfiguration(parting.number)
        self.link_down(child, repair)
        self.link_replaced(child, parting.parent, child, repair)
        if self.heard.pop(child, None) is not None:
            self.host.close(child)
        self._stop_at_last()

    # A node that stops

    def hand_over(self) -> None:
        """Let children find other parents, for twice the timeout, then close all connections."""
        children = self.child_nodes()
        if children:
            self.host.send_all((self.parent, *children), Leaving())
            self.host.after(2 * self.timeout, self.close_all)
        else:
            self._stop_at_last()

    def _stop_at_last(self) -> None:
        if self.stopping and not self._parting and not self.child_nodes():
            self.close_all()

    def _forget_parting(self, child: NodeId) -> None:
        """The connection to a child is gone."""
        parting = self._parting.pop(child, None)
        if parting is not None:
            parting.timer.cancel()
        self.departing.pop(child, None)

    # Up to the root and back

    def on_flush(self, sender: NodeId, message: Message) -> None:
        """FLUSH of a child: pass it up, behind all that was sent up; the root sends it back."""
        flush = cast("Flush", message)
        if sender in self.child_nodes() and flush.path[-1] == sender:
            self._climb(Flush((*flush.path, self.host.node), flush.request, flush.waits))

    def _climb(self, flush: Flush) -> None:
        """Send a flush whose path ends here upwards, or back."""
        path = flush.path
        if flush.waits and self.leaving != NOBODY:
            if len(self._waiting) < LONGEST:
                self._waiting.append(flush)
        elif self.parent == LOCAL or len(path) >= LONGEST or path.index(path[-1]) < len(path) - 1:
            self._flushed(path, flush.request)
        else:
            self.host.send(self.parent, flush)

    def on_flushed(self, sender: NodeId, message: Message) -> None:
        """FLUSHED of the parent: pass it down, behind all that was sent down; ignore others'."""
        flushed = cast("Flushed", message)
        if self.comes_from_above(sender) and flushed.path[-1] == self.host.node:
            self._flushed(flushed.path, flushed.request)

    def _flushed(self, path: tuple[int, ...], number: int) -> None:
        """Pass FLUSHED down its path; the node at its end goes on with the next step of a move."""
        if len(path) > 1:
            self.host.send(path[-2], Flushed(path[:-1], number))
        elif number == self._move:
            self._settle()
        else:
            for child, parting in list(self._parting.items()):
                if parting.number == number:
                    self._part(child)
