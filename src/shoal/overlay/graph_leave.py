"""How a node leaves the graph overlay in good order, missed by nobody.

It asks its neighbours, in a ring, to link to each other (LEAVE names the next one, the *heir*).
Each does so before it gives up its link to the leaving node, and says so (LEFT). The leaving node
passes events on until all have.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_links import Links
from shoal.overlay.graph_messages import Ask, GraphParameters, Leave, Left
from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Routing
from shoal.stack.message import Contact, Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Leaver(Links):
    """Leaves when all neighbours can do without it, and links to the heirs of those that leave."""

    def __init__(self, host: Host, parameters: GraphParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.silence = parameters.heartbeat * parameters.patience
        """Seconds after which a silent neighbour is taken for lost."""
        self.left: set[NodeId] = set()
        """Neighbours that have answered this node's goodbye."""
        self.leavers: dict[NodeId, bool] = {}
        """Nodes that are about to leave, and whether the link to each has been given up."""
        self.heirs: dict[NodeId, NodeId] = {}
        """The leaving node that each of these will stand in for."""

    # The node that leaves

    def stop(self) -> None:
        """Ask the neighbours to link to each other, in a ring, and then to let this node go."""
        self.leaving = True
        for peer in list(self.peers):
            if peer in self.peers and peer not in self.neighbours:  # parting from one may end all
                self._part(peer)
        ring = sorted(self.neighbours)
        for at, node in enumerate(ring):
            after = ring[(at + 1) % len(ring)]
            self.host.send(node, Leave(None if after == node else self._contact(after)))

    def _contact(self, node: NodeId) -> Contact:
        entry = self.view.entries.get(node)
        return Contact(node) if entry is None else entry.contact

    def on_left(self, sender: NodeId, message: Message) -> None:
        """A neighbour can do without this node."""
        self.left.add(sender)
        self._leave_at_last()

    def _leave_at_last(self) -> None:
        """Close all connections once every neighbour has what it needs."""
        if self.leaving and self.left.issuperset(self.neighbours):
            for peer in self._all:
                self.host.close(peer)
            peers, self._all = self._all, ()
            self.peers.clear()
            for peer in peers:  # now that nobody hears what the routing makes of it
                self._unlink(peer)

    # Its neighbours

    def on_leave(self, sender: NodeId, message: Message) -> None:
        """A neighbour leaves: link to its heir first."""
        heir = cast("Leave", message).heir
        self.view.drop(sender)
        if sender not in self.neighbours:
            return
        self.leavers[sender] = False
        if (
            heir is None
            or self.leaving
            or heir.node == self.host.node
            or heir.node in self.neighbours
        ):
            self._let_go(sender)
            return
        self.heirs[heir.node] = sender
        self.host.after(self.silence, partial(self._let_go, sender))
        if heir.node not in self.peers:
            self._ask(heir, True)
        elif heir.node not in self.asking:
            self.asking[heir.node] = True
            self.host.send(heir.node, Ask(self.view.sample(heir.node), len(self.neighbours), True))

    def _let_go(self, leaver: NodeId) -> None:
        """Give up the link to a leaving node; what it still passes on is taken."""
        if self.leavers.get(leaver, True):
            return
        self.leavers[leaver] = True
        self._unlink(leaver)
        self.host.send(leaver, Left())
        self._seek()

    def heir_settled(self, node: NodeId) -> None:
        self._let_go(self.heirs.pop(node, -1))

    # Connections

    def closed(self, peer: NodeId) -> None:
        """A node to whom the link was given up has left; any other is lost."""
        if self.leavers.get(peer, False):
            self._forget_connection(peer)
        else:
            super().closed(peer)

    def _forget_connection(self, peer: NodeId) -> None:
        """Also wait no longer for a node that is gone."""
        if peer not in self.peers:
            return  # it was closed because this node leaves
        self.leavers.pop(peer, None)
        super()._forget_connection(peer)
        if self.leaving:
            self._leave_at_last()
