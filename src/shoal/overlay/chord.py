"""A ring of nodes on which every key has one owner: a distributed hash table after Chord.

Nodes and keys have positions on a ring. A node owns the keys after its predecessor's position up
to its own (Frey, section 11.2.4). Each knows the next ``successors`` nodes on either side, and
*fingers*: the owners of the keys half the ring away, a quarter, an eighth, and so on.

* Who is alive is known first hand: a node becomes a neighbour only when it was heard. The rest of
  the list on either side is that neighbour's own list.
* Whoever is heard is *considered*: it becomes a neighbour if it is nearer than the present one. So
  to join is to look up one's own position from a node of the ring, and so do rings merge that were
  cut: nodes that were lost, and those to begin with, are asked now and then.
* A neighbour that is silent, or does not answer after its connection broke, is removed, and not
  believed to be back on hearsay.
* Lookups are in :mod:`~shoal.overlay.chord_lookup`; positions, lists and who owns a key are in
  :mod:`~shoal.overlay.chord_neighbours`.

A ring is not a layer: a layer holds one, hands it messages and tells it of connections.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import mypyc_attr

from shoal.overlay.chord_lookup import Lookups
from shoal.overlay.chord_messages import (
    Ping,
    Pong,
    RingChange,
    RingLeave,
    RingParameters,
    RingPeer,
    Stabilise,
)
from shoal.overlay.chord_neighbours import Neighbourhood
from shoal.stack.host import Host, NodeId, Timer, remember
from shoal.stack.layer import Handler
from shoal.stack.message import Contact, Message

LOST: Final = 32
"""Lost nodes that are remembered; the oldest is forgotten for a newer one."""
ASKED_AGAIN: Final = 4
"""Lost nodes that are asked at a time whether they are there."""
FINGER_ROUNDS: Final = 4
"""Heartbeats from the renewal of one finger to that of the next."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RingHolder:
    """The layer that holds a ring, as the ring sees it."""

    def keys_changed(self) -> None:
        """This node owns other keys than before."""
        raise NotImplementedError

    def connect(self, contact: Contact) -> None:
        """The ring wants a connection to a node; see :meth:`Ring.needs` for how long."""
        raise NotImplementedError


class Ring(Neighbourhood):
    """One node's place on the ring."""

    def __init__(
        self, host: Host, parameters: RingParameters, keys: int, holder: RingHolder
    ) -> None:
        super().__init__(host, keys, parameters.successors)
        self.holder = holder
        self.heartbeat = parameters.heartbeat
        self.silence = parameters.heartbeat * parameters.patience
        self.reply = parameters.reply
        self.heal_period = parameters.heal
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with; asked again now and then."""
        self.heard: dict[NodeId, float] = {}
        """When the nearest neighbours were last heard."""
        self.probes: dict[NodeId, Timer] = {}
        """Nodes that have to answer in time."""
        self.lost: dict[NodeId, Contact] = {}
        """Nodes that fell silent, to be asked again."""
        self.lookups = Lookups(self)
        self._after = 0
        """The predecessor's position when keys last changed."""
        self._told: tuple[tuple[RingPeer, ...], tuple[RingPeer, ...]] = ((), ())
        """Predecessors and successors as neighbours were last told."""
        self._joining: dict[str, None] = {}
        """Nodes to begin with that are being connected to, by address."""
        self._stabilised = -1.0
        self._rounds = 0
        self._member = False
        """Whether this node has found its place; until then it tells nobody of neighbours."""
        self._left = False

    def handlers(self) -> dict[type[Message], Handler]:
        """What the holder must pass on."""
        return {
            Stabilise: self.on_stabilise,
            RingChange: self.on_stabilise,
            RingLeave: self.on_leave,
            Ping: self.on_ping,
            Pong: self.on_pong,
            **self.lookups.handlers(),
        }

    # Life

    def start(self) -> None:
        """A ring of one; begin to stabilise, each node at another moment."""
        if not self.position:
            self.draw_position()
        self._after = self.position
        phase = self.host.chance("phase").uniform(self.host.node, self.host.epoch)
        self.host.every(self.heartbeat, self.stabilise, phase * self.heartbeat)
        self.host.every(self.heal_period, self.heal, (0.5 + phase) * self.heal_period)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Merge with the ring of these nodes."""
        self.contacts = contacts
        self._member = not contacts
        for contact in contacts:
            self._begin_with(contact)

    def placed(self, owner: RingPeer | None, after: int) -> None:
        """One's own position was looked up; if that failed, this node is a ring of its own."""
        self._member = True
        self.settle()

    def _begin_with(self, contact: Contact) -> None:
        """Look up one's own position there; a node without an id is met first."""
        if contact.node < 0:
            self._joining[contact.address] = None
            self.holder.connect(contact)
        elif contact.node != self.host.node:
            self.lookups.find_place(contact, True)
        else:
            self.placed(None, 0)

    def leave(self) -> None:
        """Leave: from now on this node says nothing."""
        self._announce_leave()
        self._left = True

    def _announce_leave(self) -> None:
        for peer in self._neighbours():
            self.send(peer, RingLeave(self.me()))

    # Connections, as the holder hears of them

    def needs(self, node: NodeId) -> bool:
        """Whether the ring wants a connection to a node: it does to the successor."""
        return bool(self.successors) and self.successors[0].contact.node == node

    def opened(self, peer: Contact) -> None:
        """A connection is there; begin with this node if it was asked for that."""
        if peer.address in self._joining:
            del self._joining[peer.address]
            self._begin_with(peer)

    def unreachable(self, contact: Contact) -> None:
        """A connection does not come about."""
        if contact.address in self._joining:
            del self._joining[contact.address]
            self.placed(None, 0)
        self.closed(contact.node)

    def closed(self, node: NodeId) -> None:
        """A connection broke, or was closed: is its other end still there?"""
        for peer in self.successors + self.predecessors:
            if peer.contact.node == node:
                self._probe(peer)
                return

    def send(self, peer: RingPeer, message: Message) -> None:
        """Send to a node of the ring, out of band."""
        self.host.send_direct(peer.contact, message)

    # Stabilisation

    def stabilise(self) -> None:
        """Exchange lists with both neighbours, drop the silent, and look after one finger."""
        if self._left:
            return
        now = self.host.now()
        held_up = now - self._stabilised > 2 * self.heartbeat and self._stabilised >= 0
        self._stabilised = now
        self._forget(now)
        for peer in self._neighbours():
            if held_up:  # this node itself was: nobody else is to blame
                self.heard[peer.contact.node] = now
            elif self._silent(peer):
                self._lose(peer)
        for peer in self._neighbours():
            self.send(peer, self._lists(Stabilise, True))
        self._rounds += 1
        if self._rounds % FINGER_ROUNDS == 0:
            self.lookups.renew_finger()

    def _silent(self, peer: RingPeer) -> bool:
        return self.heard.get(peer.contact.node, -1e9) < self.host.now() - self.silence

    def _forget(self, now: float) -> None:
        """Keep nothing of nodes that no longer matter."""
        near = {peer.contact.node for peer in self.successors + self.predecessors}
        self.heard = {node: at for node, at in self.heard.items() if node in near}
        self.gone = {node: entry for node, entry in self.gone.items() if entry[1] >= now}

    def _lists(self, kind: type[Stabilise] | type[RingChange], answer: bool) -> Message:
        return kind(self.me(), tuple(self.predecessors), tuple(self.successors), answer)

    def on_stabilise(self, sender: NodeId, message: Any) -> None:
        """A node and its lists: the rest of one's own, and perhaps nodes that are nearer."""
        peer: RingPeer = message.me
        if not self.hear(sender, peer):
            return
        if self.successors and self.successors[0] == peer:
            self.successors = self._list_of(peer, message.successors, True)
        if self.predecessors and self.predecessors[0] == peer:
            self.predecessors = self._list_of(peer, message.predecessors, False)
        self._hear_of_all(message.predecessors + message.successors)
        self._compare(peer, message.successors, self.predecessors)
        self._compare(peer, message.predecessors, self.successors)
        if message.answer:
            self.send(peer, self._lists(type(message), False))
        self.settle()

    def _compare(self, peer: RingPeer, its: tuple[RingPeer, ...], mine: list[RingPeer]) -> None:
        """A node takes this one for its neighbour: whoever is between them may be gone."""
        if its and mine and its[0].contact.node == self.host.node and mine[0] != peer:
            self._probe(mine[0])

    def hear(self, sender: NodeId, peer: RingPeer) -> bool:
        """A node was heard: it is alive. False if it speaks for another."""
        node = peer.contact.node
        if node != sender or not 1 <= peer.position <= self.keys:
            return False
        probe = self.probes.pop(node, None)
        if probe is not None:
            probe.cancel()
        self.gone.pop(node, None)
        self.heard[node] = self.host.now()
        self._consider(peer)
        if self.lost.pop(node, None) is not None:
            self.lookups.find_place(peer.contact, True)  # it may be on another ring by now
        return True

    def _consider(self, peer: RingPeer) -> None:
        """Make a node that is alive a neighbour if it is nearer than the present one."""
        node = peer.contact.node
        if node == self.host.node:
            return
        if peer.position == self.position:
            if node < self.host.node:
                self._move(peer)
            return
        for held in (self.successors, self.predecessors):
            for place, other in enumerate(held):
                if other.contact.node == node and other != peer:
                    if other.position == peer.position:
                        held[place] = peer
                    else:
                        del held[place]
                    break
        for held, ahead in ((self.successors, True), (self.predecessors, False)):
            if not held or self._away(peer, ahead) < self._away(held[0], ahead):
                held.insert(0, peer)
                del held[self.length :]

    def hear_of(self, peer: RingPeer) -> None:
        """Somebody names a node: if it would be a neighbour, see whether it is there."""
        if peer.contact.node == self.host.node or not 1 <= peer.position <= self.keys:
            return
        if self._distrusts(peer):
            return
        for held, ahead in ((self.successors, True), (self.predecessors, False)):
            if not held or self._away(peer, ahead) < self._away(held[0], ahead):
                self._probe(peer)

    def _hear_of_all(self, peers: tuple[RingPeer, ...]) -> None:
        """Hear of several nodes; those farther away than the neighbours are skipped quickly."""
        here, keys = self.position, self.keys
        ahead = self._away(self.successors[0], True) if self.successors else keys
        behind = self._away(self.predecessors[0], False) if self.predecessors else keys
        for peer in peers:
            away = (peer.position - here) % keys
            if away < ahead or keys - away < behind:
                self.hear_of(peer)

    def _move(self, other: RingPeer) -> None:
        """Another node has this position: take another one, and join anew."""
        self._announce_leave()
        self.draw_position()
        self.successors = []
        self.predecessors = []
        self.fingers.clear()
        self._consider(other)
        self.settle()
        self.lookups.find_place(other.contact, True)

    def settle(self) -> None:
        """After a change: tell the neighbours, keep a connection to the successor."""
        if not self._member:
            return
        told = (tuple(self.predecessors), tuple(self.successors))
        after = self.after()
        if told != self._told:
            before, self._told = self._told, told
            for peer in self._neighbours():
                if self._silent(peer):
                    self._probe(peer)
                new = peer not in before[0][:1] + before[1][:1]
                self.send(peer, self._lists(RingChange, new))
            if self.successors and told[1][:1] != before[1][:1]:
                self.holder.connect(self.successors[0].contact)
        if after != self._after:
            self._after = after
            self.holder.keys_changed()

    # Failures

    def on_leave(self, sender: NodeId, message: RingLeave) -> None:
        """A neighbour leaves."""
        if message.me.contact.node == sender:
            self.gone[sender] = (message.me.epoch, self.host.now() + self.heal_period)
            self._remove(sender)

    def _probe(self, peer: RingPeer) -> None:
        """A node must answer, or is gone."""
        node = peer.contact.node
        if node not in self.probes:
            self.probes[node] = self.host.after(self.reply, lambda: self._unanswered(peer))
            self.send(peer, Ping(self.me()))

    def _unanswered(self, peer: RingPeer) -> None:
        self.probes.pop(peer.contact.node, None)
        self._lose(peer)

    def on_ping(self, sender: NodeId, message: Ping) -> None:
        """Somebody wants to know whether this node is there."""
        if self.hear(sender, message.me):
            self.send(message.me, Pong(self.me()))
            self.settle()

    def on_pong(self, sender: NodeId, message: Pong) -> None:
        """A node is there."""
        if self.hear(sender, message.me):
            self.settle()

    def _lose(self, peer: RingPeer) -> None:
        """A node is silent: it is gone, or the network is cut."""
        node = peer.contact.node
        self.gone[node] = (peer.epoch, self.host.now() + self.silence + self.heal_period)
        remember(self.lost, node, peer.contact, LOST)
        self._remove(node)

    def _remove(self, node: NodeId) -> None:
        """A node is no longer on the ring."""
        self.heard.pop(node, None)
        self.successors = [peer for peer in self.successors if peer.contact.node != node]
        self.predecessors = [peer for peer in self.predecessors if peer.contact.node != node]
        for number in [n for n, peer in self.fingers.items() if peer.contact.node == node]:
            del self.fingers[number]
        if not self.successors and self.predecessors:
            self.successors = [self.predecessors[-1]]  # the farthest back is the next ahead
        elif self.successors and not self.predecessors:
            self.predecessors = [self.successors[-1]]
        elif not self.successors:
            for peer in list(self.fingers.values()):
                self._probe(peer)
        self.settle()

    def heal(self) -> None:
        """Ask nodes that were lost, and those to begin with, whether they are there.

        Beside that, look up one's own position from a finger: rings that wind twice merge so.
        """
        if self._left:
            return
        self._joining.clear()
        self._rounds += 1
        chance, node, epoch = self.host.chance("ring healing"), self.host.node, self.host.epoch
        lost = list(self.lost.values())
        asked = chance.sample(lost, min(len(lost), ASKED_AGAIN), node, epoch, self._rounds)
        for contact in (*asked, *self.contacts):
            if contact.node < 0:
                self._begin_with(contact)
            elif contact.node != node:
                self.host.send_direct(contact, Ping(self.me()))
        if self.fingers:
            finger = chance.choice(list(self.fingers.values()), node, epoch, self._rounds, 1)
            self.lookups.find_place(finger.contact, False)
