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

How links are made and given up: :mod:`~shoal.overlay.graph_links`. How a node leaves in good order:
:mod:`~shoal.overlay.graph_leave`. Here: a node's life, peer sampling, beats and healing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_leave import Leaver
from shoal.overlay.graph_links import key_of
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
from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Handler, Layer, Routing
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register

CALM: Final = 10
"""Shuffle periods between two exchanges of a node that has the links it wants."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Graph(Leaver):
    """A random graph in which every node has about the same number of links."""

    def __init__(self, host: Host, parameters: GraphParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.heartbeat = parameters.heartbeat
        self.shuffle_period = parameters.shuffle
        self.heal_period = parameters.heal
        self.heals_within = self.silence + 10 * parameters.heal
        self._shuffles = 0
        self._beaten = -1.0
        """When this node last sent beats."""

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
        return self.lost | {key_of(contact): contact for contact in self.contacts}

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

    # For those who watch

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


register(
    "overlay",
    "graph",
    Graph,
    GraphParameters,
    needs={"reach"},
    provides={"links"},
    summary="A random graph of near constant degree that builds and heals itself.",
)
