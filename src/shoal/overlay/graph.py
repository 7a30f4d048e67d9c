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
from shoal.stack.host import NEVER, Host, NodeId, Timer, key_of
from shoal.stack.layer import Handler, Layer, Reconfiguration, Routing, kept_by_host
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
        self._beat = Beat(0)
        self._beaten = -1.0
        """When this node last sent beats."""
        self._excused = NEVER
        """When this node was last held up: it cannot have heard anybody before."""
        self._look_at = 0.0
        """When somebody may have been silent for too long; not before."""
        self._hurry: Timer | None = None
        """Exchanges samples more often; while the number of links is not as it should be."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Beats, samples, and the making and giving up of links."""
        return {
            Beat: kept_by_host,
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
        calm = CALM * self.shuffle_period
        self.host.every(calm, self.shuffle, phase * calm)
        self._hurry = self.host.every(self.shuffle_period, self.hurry, phase * self.shuffle_period)
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

    def hurry(self) -> None:
        """Shuffle once more, until the number of links is right."""
        if not self._content():
            self.shuffle()
        elif self._hurry is not None:
            self._hurry.cancel()
            self._hurry = None

    def _content(self) -> bool:
        """Whether this node has as many links as it should, give or take one."""
        return self.degree - 1 <= len(self.neighbours) <= self.degree + 1

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Make a link; one too many makes the node restless."""
        super().link_up(neighbour, reconfiguration)
        self._recount()

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Give up a link; one too few makes the node restless."""
        super().link_down(neighbour, reconfiguration)
        self._recount()

    def _recount(self) -> None:
        """The number of links is another one."""
        self._beat = Beat(len(self.neighbours))
        if self._hurry is None and not self._content():
            self._hurry = self.host.every(self.shuffle_period, self.hurry)

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
            self._excused = now  # this node itself was held up: nobody is to blame
        self._beaten = now
        if now > self._look_at:
            self._look_at = self._give_up_silent(now) + self.silence
        if self._all:
            self.host.send_all(self._all, self._beat)

    def _give_up_silent(self, now: float) -> float:
        """Give up connections over which nothing came; since when something came over all others.

        Nobody can be silent for too long before a whole ``silence`` after that.
        """
        oldest = max(self.host.heard_all(self._all), self._excused)
        if oldest >= now - self.silence:
            return oldest
        oldest = now
        for node in self._all:
            heard = max(self.host.heard(node), self._excused)
            if heard < now - self.silence and node in self.peers:
                self.host.close(node)
                self._lose(node)
            elif heard < oldest:
                oldest = heard
        return oldest

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
        if known and known[0][0].node == sender:
            self.host.send_direct(known[0][0], Found(self.view.sample(sender)))

    def on_found(self, sender: NodeId, message: Message) -> None:
        """A lost node is there: insist on a link to it, which joins the two parts."""
        known = cast("Found", message).known
        self._hear(known)
        found = known[0][0] if known else Contact(sender)
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

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """The number of links is ``degree``, give or take one, where there are nodes enough."""
        links = len(self.neighbours)
        if min(self.degree, len(running)) - 1 <= links <= self.degree + 1:
            return None
        return f"it has {links} links, not {self.degree} give or take one"

    def describe(self) -> dict[str, object]:
        return {"known": len(self.view.entries), "lost": len(self.lost)}


register(
    "overlay",
    "graph",
    Graph,
    GraphParameters,
    needs={"reach"},
    provides={"links"},
    agree={"heartbeat", "patience"},
    summary="A random graph of near constant degree that builds and heals itself.",
)
