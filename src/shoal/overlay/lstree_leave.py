"""How a node leaves an LSTree in good order, so that no event is lost by it.

A node that stops tells its children (LEAVING). Each searches for another parent as an orphan would,
but still has the old one. Once accepted, it asks the new parent to make its end of the link first
(ATTACH with ``moves``, answered by WELCOME), and then moves as :mod:`~shoal.overlay.handover` says.

A root that stops first makes a child its *heir*: the link between them stays, and its ends change
places. The heir becomes root under a new colour, and the old root follows it as a child. Colours
only advance by that, so what prevents cycles holds throughout.
"""

from __future__ import annotations

from typing import cast

from mypy_extensions import mypyc_attr

from shoal.overlay.handover import NOBODY
from shoal.overlay.lstree_caches import Search
from shoal.overlay.lstree_member import Child
from shoal.overlay.lstree_messages import (
    Accept,
    Attach,
    Heir,
    Leave,
    LSTreeParameters,
    Regional,
    Welcome,
)
from shoal.overlay.lstree_relation import LONGEST, can_connect, precedes
from shoal.overlay.lstree_search import Searcher
from shoal.stack.host import LOCAL, Host, NodeId, Timer, key_of
from shoal.stack.layer import Reconfiguration, Routing
from shoal.stack.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Leaver(Searcher):
    """Leaves when its children have other parents, and moves away from a parent that leaves."""

    def __init__(self, host: Host, parameters: LSTreeParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self._heir = NOBODY
        """The child that is to be root in this node's place."""
        self._heirless: Timer | None = None
        """Closes all connections if the heir does not answer."""
        self._predecessor = NOBODY
        """The root that made this node its heir."""
        self._stops = NOBODY
        """A parent that stops, until this node looks for another one."""

    # A node that stops

    def stop(self) -> None:
        """Let the children find other parents, then close all connections."""
        self.stopping = True
        self._end_search("stopped")
        for node in [node for node, child in self.children.items() if not child.attached]:
            self._forget_child(node)
            self._close(node)
        children = self.child_nodes()
        if self.parent != LOCAL:
            self.hand_over()
        elif self.root and children and self.colour[0] < LONGEST:
            self._name_heir()
            self._heirless = self.host.after(self.timeout, self.close_all)
        else:
            self.close_all()

    def _name_heir(self) -> None:
        """The first child that stays is to be root in this node's place."""
        staying = [node for node in self.child_nodes() if node not in self.departing]
        self._heir = staying[0] if staying else NOBODY
        if staying:
            self.host.send(self._heir, Heir())

    def close_all(self) -> None:
        """Tell all neighbours that this node is gone."""
        for child in list(self._parting):
            self._forget_parting(child)
        for peer in list(self.heard):
            self.host.send(peer, Leave(0, True))
            self._close(peer)

    def on_heir(self, sender: NodeId, message: Message) -> None:
        """HEIR: be root, and the old root's parent."""
        if sender != self.parent or self.stopping or self.colour[0] >= LONGEST:
            return
        self._end_search("heir of the root")
        child = Child(self.ancestors[0], self.parent_epoch, 0)
        child.attached = True
        self.children[sender] = child
        self.parent = LOCAL
        self._predecessor = sender
        self.parent_changed(LOCAL)
        self.be_root(sender, "heir")

    def comes_from_above(self, sender: NodeId) -> bool:
        return super().comes_from_above(sender) or (
            sender == self._predecessor and sender in self.children
        )

    def on_regional(self, sender: NodeId, message: Message) -> None:
        """The heir's first news make it the parent; otherwise as usual."""
        data = cast("Regional", message)
        if sender == self._heir and sender in self.children and precedes(self.colour, data.colour):
            self._heir = NOBODY
            if self._heirless is not None:
                self._heirless.cancel()
            child = self.children.pop(sender)
            self.root = False
            self.parent = sender
            self.parent_epoch = child.epoch
            self.adopt(child.contact, data.colour, data.depth, data.ancestors)
            self.parent_changed(sender)
            self.push()
            self.hand_over()
        else:
            super().on_regional(sender, message)

    # Its children

    def on_leaving(self, sender: NodeId, message: Message) -> None:
        """LEAVING: look for another parent, while this one still sends events.

        A child that stops cannot be heir.
        """
        if sender == self.parent:
            self._stops = sender
            self._move_away()
        elif sender in self.children:
            self.departing[sender] = None
            if sender == self._heir:
                self._name_heir()

    def _move_away(self) -> None:
        """Look for another parent in place of one that stops, one move at a time."""
        if self._stops == NOBODY or self.stopping or self.leaving != NOBODY:
            return
        stops, self._stops = self._stops, NOBODY
        if stops == self.parent and self.search is None:
            self.search = Search("leave", self.host.now(), stops, self.next_repair())
            self.search.why = "it stops"
            for contact in self.known.remembered.values():
                self.search.sighted[key_of(contact)] = contact
            self._ask_next()

    def _left(self) -> None:
        super()._left()
        self._move_away()

    def _nobody(self, search: Search) -> None:
        """Nobody accepts: candidates may be slow or busy, so try again until the parent is gone."""
        super()._nobody(search)
        if search.cause == "leave":
            self._stops = search.lost
            self.host.after(self.parameters.request_timeout, self._move_away)

    def move_to(self, search: Search, accept: Accept) -> None:
        """Ask the new parent to make its end of the link."""
        search.accepted = accept
        # It is there and has a connection, but what it announces before its answer may be long.
        search.timer = self.host.after(self.timeout, self._unanswered)
        self.expect_link(accept.parent.node)
        self.host.send(accept.parent.node, Attach(accept.request, search.repair, True))

    def on_welcome(self, sender: NodeId, message: Message) -> None:
        """WELCOME: leave the old parent, if that is still safe."""
        search = self.search
        accept = None if search is None else search.accepted
        if search is None or accept is None or sender != accept.parent.node:
            return
        if not search.request == accept.request == cast("Welcome", message).request:
            return
        search.accepted = None
        if search.timer is not None:
            search.timer.cancel()
        child = self.children.get(sender)
        if child is not None and not child.attached:
            self._forget_child(sender)  # it had asked this node, before it accepted it
        safe = can_connect(self.colour, self.depth, accept.colour, accept.depth)
        few = self.expects_link(sender)
        if not safe or not few or sender in self.children:
            self._note_answer(search, "no longer safe" if few else "announces too much")
            self._ask_next()
            return
        old = self.parent
        repair = Reconfiguration(search.repair)
        self.leaving = old
        self.follow(search, accept)
        self.link_down(old, repair)
        self.link_up(sender, repair)
        self.parent_changed(sender)
        self.handle_early(sender)
        self._leave(old, sender, repair)
        self.attached(search, sender)
