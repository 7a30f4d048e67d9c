"""A graph of near constant degree that builds and heals itself.

Each node knows some of the others by peer sampling (:mod:`shoal.overlay.sampling`) and draws its
neighbours among them, so as to have ``degree`` links, give or take one:

* With fewer than ``degree`` it asks random known nodes for a link. One that has at most ``degree``
  accepts; others refuse, and name nodes that may have room.
* With fewer than ``degree - 1``, and refused three times, it asks urgently. The other node then
  accepts in any case, and drops the neighbour that can best spare a link.
* With more than ``degree + 1`` links a node drops one.

Neighbours exchange a beat every ``heartbeat`` seconds. One that is silent for ``patience`` beats,
or whose connection breaks, is *lost*: a lost node is tried again every ``heal`` seconds, and asked
urgently for a link when it answers. So the parts of a network that was cut grow together again.

A node that leaves in good order asks its neighbours, in a ring, to link to each other. Each does so
before it gives up its link to the leaving node, and that node passes events on until all have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_messages import (
    Accept,
    Ask,
    Beat,
    Found,
    GraphParameters,
    Known,
    Leave,
    Left,
    Part,
    Probe,
    Refuse,
    Shuffle,
)
from shoal.overlay.sampling import View
from shoal.stack.host import Host, NodeId, Timer
from shoal.stack.layer import Handler, Layer, Overlay, Routing
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register

LOST: Final = 32
"""Lost nodes that are remembered; the oldest is forgotten for a newer one."""
REFUSALS: Final = 3
"""Refusals after which a node with too few links insists."""
CALM: Final = 10
"""Shuffle periods between two exchanges of a node that has the links it wants."""
PAUSE: Final = 1.0
"""Shuffle periods before a node that refused is asked again."""


class Peer:
    """The other end of an open connection."""

    def __init__(self, heard: float) -> None:
        self.heard = heard
        """When it was last heard."""
        self.degree = 0
        """Links that it has, as it last said."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Graph(Overlay):
    """A random graph in which every node has about the same number of links."""

    def __init__(self, host: Host, parameters: GraphParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.degree = parameters.degree
        self.heartbeat = parameters.heartbeat
        self.silence = parameters.heartbeat * parameters.patience
        self.shuffle_period = parameters.shuffle
        self.heal_period = parameters.heal
        self.heals_within = self.silence + 10 * parameters.heal
        self.view = View(host, parameters.forget)
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with; tried again while there is no link."""
        self.peers: dict[NodeId, Peer] = {}
        """The other ends of open connections."""
        self.asking: dict[Any, bool] = {}
        """Whom this node is asking for a link (by id or address), and whether urgently."""
        self.lost: dict[Any, Contact] = {}
        """Nodes that were not reached, or fell silent, to be tried again (by id or address)."""
        self.lost_at = -1e9
        """When the last one was lost."""
        self.leaving = False
        """Whether this node is about to leave."""
        self.left: set[NodeId] = set()
        """Neighbours that have answered its goodbye."""
        self.leavers: dict[NodeId, bool] = {}
        """Nodes that are about to leave, and whether the link to each has been given up."""
        self.heirs: dict[NodeId, NodeId] = {}
        """The leaving node that each of these will stand in for."""
        self.refusals = 0
        """Refusals since the last link was made."""
        self._again: Timer | None = None
        self._shuffles = 0
        self._beaten = -1.0
        """When this node last sent beats."""
        self._all: tuple[NodeId, ...] = ()
        """The other ends of all open connections."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Beats, samples, and the making and giving up of links."""
        return {
            Beat: self.on_beat,
            Shuffle: self.on_shuffle,
            Probe: self.on_probe,
            Found: self.on_found,
            Ask: self.on_ask,
            Accept: self.on_accept,
            Refuse: self.on_refuse,
            Part: self.on_part,
            Leave: self.on_leave,
            Left: self.on_left,
        }

    # Life

    def start(self) -> None:
        """Begin to beat, to shuffle and to heal, each node at another moment."""
        phase = self.host.chance("phase").uniform(self.host.node, self.host.epoch)
        self.host.every(self.heartbeat, self.beat, phase * self.heartbeat)
        self.host.every(self.shuffle_period, self.shuffle, phase * self.shuffle_period)
        self.host.every(self.heal_period, self.heal, (0.5 + phase) * self.heal_period)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Ask the nodes to begin with for links."""
        self.contacts = contacts
        for contact in contacts:
            self._ask(contact, False)

    # Connections

    def opened(self, peer: Contact) -> None:
        """Ask for a link if the connection was opened for that; the other end may ask, too."""
        node = peer.node
        if node not in self.peers:
            self.peers[node] = Peer(self.host.now())
            self._all = tuple(self.peers)
        self.lost.pop(peer.address, None)
        asked = self.asking.pop(peer.address, None)
        urgent = self.asking.get(node, asked)
        if urgent is not None and node not in self.neighbours:
            self.asking[node] = urgent
            self.host.send(node, Ask(self.view.sample(node), len(self.neighbours), urgent))

    def closed(self, peer: NodeId) -> None:
        """The connection broke, or the other end closed it without a word."""
        if self.leavers.get(peer, False):
            self._forget_connection(peer)
        elif peer in self.peers:
            self._lose(peer)

    def unreachable(self, contact: Contact) -> None:
        """A node does not answer: it may be gone."""
        self.asking.pop(contact.node, None)
        self.asking.pop(contact.address, None)
        self.view.refused(contact.node, False)
        if contact in self.contacts:
            self._remember_lost(contact)
        self._let_go(self.heirs.pop(contact.node, -1))
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
        self.lost.pop(_key(contact), None)
        self.lost[_key(contact)] = contact
        if len(self.lost) > LOST:
            del self.lost[next(iter(self.lost))]

    def _forget_connection(self, peer: NodeId) -> None:
        """There is no connection to a node any more, and so no link."""
        if self.peers.pop(peer, None) is None:
            return  # it was closed because this node leaves
        self._all = tuple(self.peers)
        self.asking.pop(peer, None)
        self.leavers.pop(peer, None)
        self._unlink(peer)
        self._let_go(self.heirs.pop(peer, -1))
        if self.leaving:
            self._leave_at_last()

    def _unlink(self, peer: NodeId) -> None:
        if peer in self.neighbours:
            self.link_down(peer)

    # Beats

    def beat(self) -> None:
        """Send a sign of life over every connection, and give up those who have sent none."""
        now = self.host.now()
        if now - self._beaten > 2 * self.heartbeat and self._beaten >= 0:
            for peer in self.peers.values():  # this node itself was held up: nobody is to blame
                peer.heard = now
        self._beaten = now
        since = now - self.silence
        silent = [node for node, peer in self.peers.items() if peer.heard < since]
        for node in silent:
            self.host.close(node)
            self._lose(node)
        if self._all:
            self.host.send_all(self._all, Beat(len(self.neighbours)))

    def receive(self, sender: NodeId, message: Any) -> None:
        """Beats, of which there are many, take the short way."""
        peer = self.peers.get(sender)
        if peer is not None:
            peer.heard = self.host.now()
            if type(message) is Beat:
                peer.degree = message.degree
                return
        if type(message) is not Beat:
            super().receive(sender, message)

    def on_beat(self, sender: NodeId, message: Message) -> None:
        """See :meth:`receive`."""

    # Peer sampling

    def shuffle(self) -> None:
        """Exchange samples with a random neighbour, and look whether all is well."""
        if self.leaving:
            return
        self._shuffles += 1
        if self._shuffles % CALM and self.degree - 1 <= len(self.neighbours) <= self.degree + 1:
            return
        self.view.alive(self.neighbours)
        self.view.forget_old()
        if self.neighbours:
            partner = self.view.draw(list(self.neighbours))
            self.host.send(partner, Shuffle(self.view.sample(partner), True))
        else:
            for contact in self.contacts:
                self._ask(contact, False)
        if len(self.neighbours) < self.degree - 1:
            self._seek()
        self._shed(-1)

    def on_shuffle(self, sender: NodeId, message: Message) -> None:
        """Remember what the other node knows, and tell it some in return."""
        shuffle = cast("Shuffle", message)
        self._hear(shuffle.known)
        if shuffle.answer and sender in self.peers:
            self.host.send(sender, Shuffle(self.view.sample(sender), False))

    def _hear(self, known: tuple[Known, ...]) -> None:
        """Nodes become known; a new one may be a neighbour to be."""
        if self.view.hear(known, self.neighbours):
            self._seek()

    # Links

    def _seek(self) -> None:
        """With too few links, ask somebody for one; nobody is left to ask: perhaps later."""
        if self.leaving or len(self.neighbours) + len(self.asking) >= self.degree:
            return
        contact = self.view.candidate({**self.peers, **self.asking}, PAUSE * self.shuffle_period)
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
            self._again = self.host.after(PAUSE * self.shuffle_period, self._seek_again)

    def _seek_again(self) -> None:
        self._again = None
        self._seek()

    def _ask(self, contact: Contact, urgent: bool) -> None:
        """Ask a node for a link, over a new connection."""
        key = _key(contact)
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
            self.peers[sender].degree = ask.degree
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
            self.peers[sender].degree = accept.degree
        elif self.asking.pop(sender, None) is not None:
            self._linked(sender, accept.degree)
        else:
            self._part(sender)  # a link with one end would be worse than none

    def _linked(self, node: NodeId, degree: int) -> None:
        self.refusals = 0
        self.lost.pop(node, None)
        self.peers[node].degree = degree
        self.link_up(node)
        self._let_go(self.heirs.pop(node, -1))
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

    def _shed(self, but: NodeId) -> None:
        """With too many links, drop the neighbour that has most itself."""
        if len(self.neighbours) <= self.degree + 1:
            return
        most = -1
        chosen = -1
        for node in self.neighbours:
            degree = self.peers[node].degree
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

    # Leaving

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

    # Healing

    def heal(self) -> None:
        """Look whether a lost node is there again: the network may have been cut."""
        if self.leaving:
            return
        lost = list(self._sought().values())
        if lost:
            contact = lost[self.view.below(len(lost))]
            if contact.node in self.peers:
                self.lost.pop(contact.node, None)
            else:
                self.host.send_direct(contact, Probe(self.view.sample(contact.node)))

    def _sought(self) -> dict[Any, Contact]:
        """Lost nodes and, with too few links, those to begin with: one may have come back alone."""
        if len(self.neighbours) >= self.degree - 1:
            return self.lost
        return self.lost | {_key(contact): contact for contact in self.contacts}

    def on_probe(self, sender: NodeId, message: Message) -> None:
        """Somebody that lost this node looks for it."""
        known = cast("Probe", message).known
        self._hear(known)
        if known and known[0].contact.node == sender:
            self.host.send_direct(known[0].contact, Found(self.view.sample(sender)))

    def on_found(self, sender: NodeId, message: Message) -> None:
        """A lost node is there: insist on a link to it, which joins the two parts."""
        known = cast("Found", message).known
        self._hear(known)
        found = known[0].contact if known else Contact(sender)
        sought = self._sought()
        if found.node == sender and (sender in sought or found.address in sought):
            self.lost.pop(found.address, None)
            self.lost[sender] = found
            self._ask(found, True)

    def complete(self) -> bool:
        """Whether there is a link, or nobody to have one to."""
        lately = self.host.now() - self.lost_at < self.view.forget
        return bool(self.neighbours) or not (self.asking or self.view.entries or lately)

    def wrong(self, running: Mapping[NodeId, Layer]) -> str | None:
        """The number of links is ``degree``, give or take one, where there are nodes enough."""
        links = len(self.neighbours)
        if min(self.degree, len(running)) - 1 <= links <= self.degree + 1:
            return None
        return f"it has {links} links, not {self.degree} give or take one"

    def describe(self) -> dict[str, object]:
        """See :class:`~shoal.stack.layer.Overlay`."""
        return {"known": len(self.view.entries), "lost": len(self.lost)}


def _key(contact: Contact) -> Any:
    """What a node is known by before it has been met: its id or, without one, its address."""
    return contact.address if contact.node < 0 else contact.node


register(
    "overlay",
    "graph",
    Graph,
    GraphParameters,
    needs={"reach"},
    provides={"links"},
    summary="A random graph of near constant degree that builds and heals itself.",
)
