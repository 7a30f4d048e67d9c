"""How a node of ShopParent changes its parent without losing an event.

The new link is there before the old one is given up:

1. The node makes the new parent its parent, and announces there what it wants. Behind that it sends
   FLUSH, which climbs to the root and comes back as FLUSHED. Connections keep their order: by then
   every node above forwards to the new parent what the node wants.
2. Only now the old parent is told (MOVED). It sends a FLUSH of its own, and goes on to send the
   node events until that is back: events that were on their way to it have passed by then.
3. The old parent gives up its end of the link and closes the connection, behind the last event.

The node gave up its own end in the first step, so no cycle is there at any instant. Meanwhile it
gets some events twice; the routing drops the second. A FLUSH of an old parent waits at a node that
is between the steps itself, since events may come to it by two ways. A flush that does not come
back within the timeout, because a node on the way failed, is not waited for.

A node that stops tells its children (LEAVING), and closes its connections when all have moved.
"""

from __future__ import annotations

from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.shopparent_member import NOBODY, Member
from shoal.overlay.shopparent_messages import (
    Flush,
    Flushed,
    Leaving,
    Moved,
    ShopParentParameters,
)
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Reconfiguration, Routing
from shoal.stack.message import Message

LONGEST: Final = 1000
"""Nodes on a route at most."""


class Parting:
    """A child that has another parent, and gets events from this node still."""

    def __init__(self, child: NodeId, parent: NodeId, timer: Timer) -> None:
        self.child = child
        self.parent = parent
        self.timer = timer


@mypyc_attr(allow_interpreted_subclasses=True)
class Mover(Member):
    """The connections of a node, and how its link moves from one parent to another."""

    def __init__(self, host: Host, parameters: ShopParentParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.timeout = parameters.timeout
        self.heard: dict[NodeId, float] = {}
        """Per open connection, when its other end was last heard."""
        self.leaving: NodeId = NOBODY
        """The old parent, while it may still send events."""
        self._move = NOBODY
        """The number of this node's move, until the old parent is told."""
        self._leaving_timer: Timer | None = None
        self._parting: dict[int, Parting] = {}
        """By the number of their move, children that have another parent."""
        self._waiting: list[Flush] = []
        """Flushes that wait until this node has left its old parent."""

    # The node that moves

    def _leave(self, old: NodeId, new: NodeId, repair: Reconfiguration) -> None:
        """The new parent's link is up: the old one may go when nothing can be lost by it."""
        self.leaving = old
        self._move = repair.id
        self.link_replaced(old, self.host.node, new, repair)
        self._leaving_timer = self.host.after(self.timeout, self._say_moved)
        self.host.send(new, Flush((self.host.node,), repair.id, False))

    def _say_moved(self) -> None:
        """The old parent is no longer needed."""
        self._stop_waiting()
        self._leaving_timer = self.host.after(2 * self.timeout, self._abandon)
        self.host.send(self.leaving, Moved(self.parent, self._move))
        self._move = NOBODY

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
        """A child has found a better parent, and still gets what is on its way to it."""
        moved = cast("Moved", message)
        number = moved.request
        known = number in self._parting or sender in [p.child for p in self._parting.values()]
        if known or sender not in self.neighbours or sender == self.parent:
            return
        timer = self.host.after(self.timeout, lambda: self._part(number))
        self._parting[number] = Parting(sender, moved.parent, timer)
        self._climb(Flush((self.host.node,), number, True))

    def _part(self, number: int) -> None:
        """Give up the link to a child that has moved."""
        parting = self._parting.pop(number, None)
        if parting is None:
            return
        parting.timer.cancel()
        child, repair = parting.child, Reconfiguration(number)
        self.link_down(child, repair)
        self.link_replaced(child, parting.parent, child, repair)
        del self.heard[child]
        self.host.close(child)
        self._news()
        self._stop_at_last()

    # A node that stops

    def stop(self) -> None:
        """Let the children find other parents, then close all connections.

        The children of the root have nowhere to go before it is gone.
        """
        self.stopping = True
        children = self.children()
        if self.parent == LOCAL or not children:
            self._close_all()
            return
        self.host.send_all(tuple(children), Leaving())
        self.host.after(self.timeout, self._close_all)

    def _stop_at_last(self) -> None:
        if self.stopping and not self.children():
            self._close_all()

    def _close_all(self) -> None:
        """Nobody has to wait for the timeout to notice."""
        for peer in list(self.heard):
            self.host.close(peer)

    def _forget_parting(self, child: NodeId) -> None:
        """The connection to a child is gone."""
        for number, parting in list(self._parting.items()):
            if parting.child == child:
                parting.timer.cancel()
                del self._parting[number]

    # Up to the root and back

    def on_flush(self, sender: NodeId, message: Message) -> None:
        """Up behind all that was sent up; the top of the tree sends it back."""
        flush = cast("Flush", message)
        if sender in self.heard and flush.path[-1] == sender:
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
        """Back down, behind all that was sent down."""
        flushed = cast("Flushed", message)
        if sender in self.heard and flushed.path[-1] == self.host.node:
            self._flushed(flushed.path, flushed.request)

    def _flushed(self, path: tuple[int, ...], number: int) -> None:
        """One step back down; at its end a node is ready for the next step of a move."""
        if len(path) > 1:
            self.host.send(path[-2], Flushed(path[:-1], number))
        elif number in self._parting:
            self._part(number)
        elif number == self._move:
            self._say_moved()
