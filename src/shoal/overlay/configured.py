"""Configured links: a node is linked to those it was told to, and to those that were told so.

``join`` gets one contact per link; alternatives to one, tried in turn, stand in its address after
commas. A link that does not come about is tried again with growing pauses, for ever. A neighbour
with alternatives that fails is replaced by the next, as one reconfiguration.

Where the routing needs a tree, links that would close a cycle are refused, and those that do are
cut (:mod:`shoal.overlay.spanning`).

A node that stops in good order says so (:class:`Leaving`). Its neighbours then keep their tables,
and let their hosts keep the events for it (``host.hold``), for ``absence`` seconds at most. A node
that starts is *whole* when all its links are up and their tables announced, or ``settle`` seconds
have passed; only then do its neighbours send it what was kept.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from mypy_extensions import mypyc_attr

from shoal.overlay.configured_messages import (
    Accept,
    ConfiguredParameters,
    Leaving,
    Left,
    Link,
    Position,
    Ready,
    Refuse,
    Whole,
)
from shoal.overlay.spanning import Spanning
from shoal.overlay.wanted import Wanted
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Overlay, Reconfiguration, Routing
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register


class Absent:
    """A neighbour that has said that it will be back."""

    def __init__(self, opens: bool, timer: Timer) -> None:
        self.opens = opens
        """Whether the neighbour will open the connection, rather than this node."""
        self.timer = timer
        self.linked = False
        """Whether the neighbour is back; it may still lack neighbours of its own."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Configured(Overlay):
    """The links that a node was told to have, and no others."""

    def __init__(self, host: Host, parameters: ConfiguredParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.parameters = parameters
        self.spanning = Spanning(host.node, host.send)
        self.wanted: list[Wanted] = []
        self.connected: set[NodeId] = set()
        self.ready: set[NodeId] = set()
        """Neighbours that have announced what their side wants."""
        self.absent: dict[NodeId, Absent] = {}
        self.whole = True
        self.leaving = False
        self.left: set[NodeId] = set()
        """Neighbours that send nothing more, since this node leaves."""
        self._draws = 0

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            Link: self.on_link,
            Accept: self.on_accept,
            Refuse: self.on_refuse,
            Position: self.on_position,
            Ready: self.on_ready,
            Whole: self.on_whole,
            Leaving: self.on_leaving,
            Left: self.on_left,
        }

    # Life

    def start(self) -> None:
        if self.parameters.tree:
            self.host.every(self.parameters.look, self.cut_cycles)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        for contact in contacts:
            self.wanted.append(Wanted(contact, *self.parameters.reconnect))
        self.whole = not contacts
        if not self.whole:
            self.host.after(self.parameters.settle, self._be_whole)
        for wanted in self.wanted:
            self._open(wanted)

    def complete(self) -> bool:
        return self.whole

    # Opening

    def _open(self, wanted: Wanted) -> None:
        wanted.waiting = None
        if not self.leaving and not wanted.opening and wanted.node == LOCAL:
            wanted.opening = True
            self.host.open(wanted.contact)

    def _open_later(self, wanted: Wanted) -> None:
        """Try the next alternative after a pause, which grows."""
        pause = wanted.next(self._chance())
        if wanted.waiting is None:
            wanted.waiting = self.host.after(pause, partial(self._open, wanted))

    def _chance(self) -> float:
        """A number in [0, 1), so that many who lost one node do not all return at once."""
        self._draws += 1
        chance = self.host.chance("configured links")
        return chance.uniform(self.host.node, self.host.epoch, self._draws)

    def opened(self, peer: Contact) -> None:
        """Ask for a link, if this node wanted the connection; the link may be there already."""
        node = peer.node
        self.connected.add(node)
        asks = False
        for wanted in self.wanted:
            if wanted.node == LOCAL and wanted.leads_to(peer):
                wanted.connected(node)
                asks = True
        if node in self.neighbours and node not in self.absent:
            self._reached(node)
        elif asks:
            self.host.send(node, Link(self.spanning.root, self._replaces(node)))

    def unreachable(self, contact: Contact) -> None:
        for wanted in self.wanted:
            if wanted.opening and wanted.contact == contact:
                wanted.opening = False
                self._open_later(wanted)

    def _replaces(self, node: NodeId) -> tuple[NodeId, int] | None:
        for wanted in self.wanted:
            if wanted.node == node and wanted.replaces is not None:
                return wanted.replaces
        return None

    # Links

    def on_link(self, sender: NodeId, message: Message) -> None:
        """The other end wants a link."""
        link = cast("Link", message)
        if sender not in self.connected or self._linked(sender):
            return
        if self.leaving or self._closes_cycle(sender, link.root):
            self.host.send(sender, Refuse())
            self._close(sender)
            return
        self.host.send(sender, Accept(self.spanning.root))
        replaces = link.replaces
        self._link(sender, None if replaces is None else Reconfiguration(replaces[1]))

    def on_accept(self, sender: NodeId, message: Message) -> None:
        """The other end has made the link."""
        accept = cast("Accept", message)
        if not any(wanted.node == sender for wanted in self.wanted) or self._linked(sender):
            return
        if self._closes_cycle(sender, accept.root):
            self._close(sender)
            return
        replaces = self._replaces(sender)
        if replaces is None:
            self._link(sender, None)
            return
        old, repair = replaces[0], Reconfiguration(replaces[1], (self.host.node,))
        self._link(sender, repair)
        if old != sender:
            self.link_replaced(old, self.host.node, sender, repair)

    def on_refuse(self, sender: NodeId, message: Message) -> None:
        """The other end sees that the link would close a cycle."""
        self._warn(sender, "no link: it would close a cycle of configured links")
        self._close(sender)

    def _linked(self, node: NodeId) -> bool:
        absent = self.absent.get(node)
        return node in self.neighbours and (absent is None or absent.linked)

    def _closes_cycle(self, node: NodeId, root: NodeId) -> bool:
        """Whether a node is connected already over other links."""
        if not self.parameters.tree or root != self.spanning.root:
            return False
        self._warn(node, "a link to it would close a cycle of configured links")
        return True

    def _warn(self, node: NodeId, what: str) -> None:
        self.host.note("warning", node, f"{what}; leave out one link of the cycle")

    def _link(self, node: NodeId, repair: Reconfiguration | None) -> None:
        """Make a link, or make it anew with a neighbour that was absent."""
        absent = self.absent.get(node)
        if absent is not None:
            absent.linked = True
        self.link_up(node, repair)
        if self.parameters.tree:
            self.spanning.up(node)
        self.host.send(node, Ready())
        if self.whole:
            self.host.send(node, Whole())
        self._reached(node)

    def _reached(self, node: NodeId) -> None:
        for wanted in self.wanted:
            if wanted.node == node:
                wanted.linked()
        self._look_whole()

    def _close(self, node: NodeId) -> None:
        """Give up a connection."""
        self.host.close(node)
        self.closed(node)

    def closed(self, peer: NodeId) -> None:
        """A connection is gone, and with it the link, unless the neighbour will be back."""
        if peer not in self.connected:
            return
        self.connected.discard(peer)
        self.ready.discard(peer)
        self.left.discard(peer)
        self.spanning.down(peer)
        absent = self.absent.get(peer)
        returns = absent is not None and not absent.linked
        repair = None
        for wanted in self.wanted:
            if wanted.node == peer:
                if len(wanted.contacts) > 1 and peer in self.neighbours:
                    repair = Reconfiguration(self._repair())
                    wanted.lost(peer, repair.id)
                if absent is not None and returns and absent.opens:
                    wanted.node = LOCAL
                else:
                    self._open_later(wanted)
        if peer in self.neighbours and not returns:
            if absent is not None:
                self._forget_absent(peer)
            self.link_down(peer, repair)
        if self.leaving:
            self._leave_at_last()

    def _repair(self) -> int:
        self._draws += 1
        chance = self.host.chance("repairs")
        return chance.below(2**31, self.host.node, self.host.epoch, self._draws)

    # The tree

    def on_position(self, sender: NodeId, message: Message) -> None:
        """A neighbour says where it is in the tree."""
        if sender in self.neighbours:
            self.spanning.heard(sender, cast("Position", message))

    def cut_cycles(self) -> None:
        """Close links that were made at the same moment as others and close a cycle with them."""
        for node in self.spanning.look():
            if node in self.connected:
                self._warn(node, "its link closes a cycle of configured links and is cut")
                self._close(node)

    # Being whole

    def on_ready(self, sender: NodeId, message: Message) -> None:
        """A neighbour has announced what its side wants."""
        self.ready.add(sender)
        self._look_whole()

    def _look_whole(self) -> None:
        if all(wanted.node in self.ready for wanted in self.wanted):
            self._be_whole()

    def _be_whole(self) -> None:
        if not self.whole:
            self.whole = True
            for node in self.neighbours:
                self.host.send(node, Whole())

    # Leaving and coming back

    def stop(self) -> None:
        """Say goodbye to all neighbours, and close when each has sent its last word."""
        self.leaving = True
        for node in list(self.absent):
            self._give_up_absent(node)
        for node in list(self.connected):
            if node in self.neighbours:
                opens = any(wanted.node == node for wanted in self.wanted)
                self.host.send(node, Leaving(opens))
            else:
                self._close(node)
        self._leave_at_last()

    def on_leaving(self, sender: NodeId, message: Message) -> None:
        """A neighbour stops, and will be back."""
        if sender not in self.neighbours or sender in self.absent:
            return
        moves = any(len(w.contacts) > 1 and w.node == sender for w in self.wanted)
        if not moves and not self.leaving:
            timer = self.host.after(self.parameters.absence, partial(self._expired, sender))
            self.absent[sender] = Absent(cast("Leaving", message).opens, timer)
            self.host.hold(sender)
        self.host.send(sender, Left())

    def on_left(self, sender: NodeId, message: Message) -> None:
        """A neighbour of this leaving node sends nothing more."""
        if sender in self.connected:
            self.left.add(sender)
            if self.leaving:
                self._leave_at_last()

    def _leave_at_last(self) -> None:
        if self.left.issuperset(self.connected):
            nodes = list(self.connected)
            for node in nodes:
                self.host.close(node)
            for node in nodes:  # now that nobody hears what the routing makes of it
                self.closed(node)

    def on_whole(self, sender: NodeId, message: Message) -> None:
        """A neighbour is back with all its links: it gets what was kept."""
        absent = self.absent.get(sender)
        if absent is not None and absent.linked:
            self._forget_absent(sender)

    def _expired(self, node: NodeId) -> None:
        """A neighbour that should be back by now is not, or is not whole."""
        absent = self.absent[node]
        if node in self.connected and not absent.linked:  # it takes its time to leave
            again = partial(self._expired, node)
            absent.timer = self.host.after(self.parameters.absence, again)
            return
        if not absent.linked:
            self.host.note("warning", node, "it said that it would be back, and is not")
        self._give_up_absent(node)
        for wanted in self.wanted:
            if not wanted.opening and wanted.node == LOCAL and wanted.waiting is None:
                self._open(wanted)

    def _give_up_absent(self, node: NodeId) -> None:
        self._forget_absent(node)
        if node not in self.connected:
            self.link_down(node)

    def _forget_absent(self, node: NodeId) -> None:
        absent = self.absent.pop(node)
        absent.timer.cancel()
        if absent.linked:
            self.link_renewed(node)
        self.host.release(node)

    def describe(self) -> dict[str, object]:
        missing = [w.contact.address for w in self.wanted if w.node not in self.neighbours]
        described: dict[str, object] = {"configured": len(self.wanted), "missing": missing}
        if self.parameters.tree:
            described["root"] = self.spanning.root
        if self.absent:
            described["absent"] = list(self.absent)
        return described


register(
    "overlay",
    "links",
    Configured,
    ConfiguredParameters,
    needs={"reach", "notice"},
    provides={"links", "tree", "association"},
    agree={"tree"},
    summary="Configured links; that they form a tree is up to who configures them.",
)
