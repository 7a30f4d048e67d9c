"""The links of a node of the graph overlay: how they are asked for, made, given up and lost.

A node asks over a new connection (ASK), and gets ACCEPT, or REFUSE with nodes that may have room.
Whoever accepts has made its end of the link. PART gives a connection up in good order; one that
breaks, or whose other end is silent, is *lost*.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_messages import Accept, Ask, Beat, GraphParameters, Part, Refuse
from shoal.overlay.sampling import View
from shoal.stack.host import Host, NodeId, Timer, key_of, remember
from shoal.stack.layer import Overlay, Routing
from shoal.stack.message import Contact, Message

LOST: Final = 32
"""Lost nodes that are remembered; the oldest is forgotten for a newer one."""
REFUSALS: Final = 3
"""Refusals after which a node with too few links insists."""
SAMPLE: Final = 8
"""Nodes told to another in one exchange: with twelve the graph heals no faster."""
PAUSE: Final = 1.0
"""Shuffle periods before a node that refused is asked again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Links(Overlay):
    """Links of a node, about ``degree`` of them, and the connections below them."""

    def __init__(self, host: Host, parameters: GraphParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.degree = parameters.degree
        self.pause = PAUSE * parameters.shuffle
        """Seconds before a node that refused is asked again."""
        self.view = View(host, parameters.forget, SAMPLE)
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with; tried again while there is no link."""
        self.peers: dict[NodeId, int] = {}
        """The other ends of open connections, and how many links each had when it last said so in
        another message than a beat."""
        self.asking: dict[Any, bool] = {}
        """Whom this node is asking for a link (by id or address), and whether urgently."""
        self.lost: dict[Any, Contact] = {}
        """Nodes that were not reached, or fell silent, to be tried again (by id or address)."""
        self.lost_at = -1e9
        """When the last one was lost."""
        self.leaving = False
        """Whether this node is about to leave; it makes no more links then."""
        self.refusals = 0
        """Refusals since the last link was made."""
        self._again: Timer | None = None
        self._all: tuple[NodeId, ...] = ()
        """The other ends of all open connections."""

    def heir_settled(self, node: NodeId) -> None:
        """A link to a node was made, or will not be: whom it stands in for may leave."""
        raise NotImplementedError

    # Asking for links

    def _seek(self) -> None:
        """Ask a node for a link if there are too few; if there is nobody to ask, perhaps later."""
        if self.leaving or len(self.neighbours) + len(self.asking) >= self.degree:
            return
        contact = self.view.candidate({**self.peers, **self.asking}, self.pause)
        short = len(self.neighbours) < self.degree - 1
        if contact is not None:
            self._ask(contact, short and self.refusals >= REFUSALS)
        elif (
            short
            and not self.asking
            and self._again is None
            and self.view.entries.keys() - self.peers.keys()
        ):
            self.refusals += 1
            self._again = self.host.after(self.pause, self._seek_again)

    def _seek_again(self) -> None:
        self._again = None
        self._seek()

    def _ask(self, contact: Contact, urgent: bool) -> None:
        """Ask a node for a link, over a new connection."""
        key = key_of(contact)
        if key not in self.asking and contact.node not in self.peers:
            self.asking[key] = urgent
            self.host.open(contact)

    def on_ask(self, sender: NodeId, message: Message) -> None:
        """Accept if there is room, if it is urgent, or if this node asked as well."""
        ask = cast("Ask", message)
        self.view.hear(ask.known, self.neighbours)
        mutual = self.asking.pop(sender, None) is not None
        if sender not in self.peers:
            return
        if sender in self.neighbours:
            self.peers[sender] = ask.degree
        elif not self.leaving and (mutual or ask.urgent or len(self.neighbours) <= self.degree):
            self.host.send(sender, Accept(self.view.sample(sender), len(self.neighbours) + 1))
            self._linked(sender, ask.degree + 1)
        else:
            self.host.send(sender, Refuse(self.view.sample(sender)))

    def on_accept(self, sender: NodeId, message: Message) -> None:
        """The other node has made its end of the link."""
        accept = cast("Accept", message)
        self.view.hear(accept.known, self.neighbours)
        if sender not in self.peers:
            return
        if sender in self.neighbours:
            self.peers[sender] = accept.degree
        elif self.asking.pop(sender, None) is not None:
            self._linked(sender, accept.degree)
        else:
            self._part(sender)  # a link with one end would be worse than none

    def _linked(self, node: NodeId, degree: int) -> None:
        self.refusals = 0
        self.lost.pop(node, None)
        self.peers[node] = degree
        self.link_up(node)
        self.heir_settled(node)
        self._shed(node)
        self._seek()

    def on_refuse(self, sender: NodeId, message: Message) -> None:
        """Try somebody else."""
        refuse = cast("Refuse", message)
        if self.asking.pop(sender, None) is None or sender in self.neighbours:
            return
        self.refusals += 1
        self.view.hear(refuse.known, self.neighbours)
        self.view.refused(sender, True)
        self._part(sender)
        self._seek()

    # Giving up links

    def _shed(self, but: NodeId) -> None:
        """With too many links, drop the neighbour that has most itself."""
        if len(self.neighbours) <= self.degree + 1:
            return
        most = -1
        chosen = -1
        for node in self.neighbours:
            beat = self.host.last_beat(node)
            degree = self.peers[node] if beat is None else cast("Beat", beat).degree
            if node != but and (degree, node) > (most, chosen):
                most, chosen = degree, node
        if chosen >= 0:
            self._part(chosen)

    def _part(self, peer: NodeId) -> None:
        """Give up a connection in good order."""
        self.host.send(peer, Part())
        self.host.close(peer)
        self._forget_connection(peer)

    def on_part(self, sender: NodeId, message: Message) -> None:
        """The other node makes room."""
        if sender not in self.peers:
            return
        self.view.refused(sender, True)
        self.host.close(sender)
        self._forget_connection(sender)
        self._seek()

    def _unlink(self, peer: NodeId) -> None:
        if peer in self.neighbours:
            self.link_down(peer)

    # Connections

    def opened(self, peer: Contact) -> None:
        """Ask for a link if the connection was opened for that; the other end may ask, too."""
        node = peer.node
        if node not in self.peers:
            self.peers[node] = 0
            self._all = tuple(self.peers)
        self.lost.pop(peer.address, None)
        asked = self.asking.pop(peer.address, None)
        urgent = self.asking.get(node, asked)
        if urgent is not None and node not in self.neighbours:
            self.asking[node] = urgent
            self.host.send(node, Ask(self.view.sample(node), len(self.neighbours), urgent))

    def closed(self, peer: NodeId) -> None:
        """The connection broke, or the other end closed it without a word."""
        if peer in self.peers:
            self._lose(peer)

    def unreachable(self, contact: Contact) -> None:
        """A node does not answer: it may be gone."""
        self.asking.pop(contact.node, None)
        self.asking.pop(contact.address, None)
        self.view.refused(contact.node, False)
        if contact in self.contacts:
            self._remember_lost(contact)
        self.heir_settled(contact.node)
        self._seek()

    def _lose(self, peer: NodeId) -> None:
        """A node is silent, or its connection broke."""
        self.lost_at = self.host.now()
        entry = self.view.entries.get(peer)
        self._remember_lost(Contact(peer) if entry is None else entry.contact)
        self.view.drop(peer)
        self._forget_connection(peer)
        self._seek()

    def _remember_lost(self, contact: Contact) -> None:
        remember(self.lost, key_of(contact), contact, LOST)

    def _forget_connection(self, peer: NodeId) -> None:
        """There is no connection to a node any more, and so no link."""
        del self.peers[peer]
        self._all = tuple(self.peers)
        self.asking.pop(peer, None)
        self._unlink(peer)
        self.heir_settled(peer)
