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
* A lookup asks node after node, each nearer to the key; its owner alone answers it. A node that
  does not answer is passed over. A lookup that finds no way begins again, and fails after some
  attempts.

A ring is not a layer: a layer holds one, hands it messages and tells it of connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.overlay.chord_messages import (
    FindOwner,
    KeyOwner,
    Nearer,
    Ping,
    Pong,
    RingChange,
    RingLeave,
    RingParameters,
    RingPeer,
    Stabilise,
)
from shoal.stack.host import Host, NodeId, Timer
from shoal.stack.layer import Handler
from shoal.stack.message import Contact, Message

LOST: Final = 32
"""Lost nodes that are remembered; the oldest is forgotten for a newer one."""
NEAREST: Final = 3
"""Nodes on either side of a key that are named to who looks for its owner."""
ASKED: Final = 64
"""Nodes that one attempt of a lookup asks at most."""
FINGER_ROUNDS: Final = 4
"""Heartbeats from the renewal of one finger to that of the next."""
ATTEMPTS: Final = 5
"""Attempts after which a lookup fails."""

Answer: TypeAlias = Callable[[RingPeer | None, int], None]
"""Takes the owner of a key and its predecessor's position; None if none was found."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RingHolder:
    """The layer that holds a ring, as the ring sees it."""

    def keys_changed(self) -> None:
        """This node owns other keys than before."""


class Lookup:
    """The search for a key's owner."""

    def __init__(self, key: int, answer: Answer, awaited: bool) -> None:
        self.key = key
        self.answer = answer
        self.awaited = awaited
        """Whether somebody waits for the answer; if not, a lookup that gets lost is let go."""
        self.pool: dict[NodeId, RingPeer] = {}
        """Nodes that may be asked, or were."""
        self.asked: dict[NodeId, None] = {}
        self.before = -1
        """How far before the key the nearest node was that answered; -1 if none did."""
        self.behind = -1
        """The same at or behind the key."""
        self.attempts = 0
        """Attempts from the nodes known here; none for a lookup of one's own position."""
        self.waits_for: NodeId = -1
        self.timer: Timer | None = None


class Ring:
    """One node's place on the ring."""

    def __init__(
        self, host: Host, parameters: RingParameters, keys: int, holder: RingHolder
    ) -> None:
        self.host = host
        self.holder = holder
        self.keys = keys
        """Keys are 1 to this."""
        self.length = parameters.successors
        self.heartbeat = parameters.heartbeat
        self.silence = parameters.heartbeat * parameters.patience
        self.reply = parameters.reply
        self.heal_period = parameters.heal
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with; asked again now and then."""
        self.successors: list[RingPeer] = []
        self.predecessors: list[RingPeer] = []
        self.fingers: dict[int, RingPeer] = {}
        """By how many times the ring is halved to get the distance."""
        self.heard: dict[NodeId, float] = {}
        """When the nearest neighbours were last heard."""
        self.probes: dict[NodeId, Timer] = {}
        """Nodes that have to answer in time."""
        self.gone: dict[NodeId, tuple[int, float]] = {}
        """Nodes not to be believed in on hearsay: which start of theirs, and until when."""
        self.lost: dict[NodeId, Contact] = {}
        """Nodes that fell silent, to be asked again."""
        self.lookups = 0
        """Lookups begun for somebody, those answered at once not counted."""
        self.questions = 0
        """Nodes asked in lookups."""
        self.position = 0
        self._drawn = 0
        self._tokens = 0
        self._pending: dict[int, Lookup] = {}
        self._after = 0
        """The predecessor's position when keys last changed."""
        self._told: tuple[tuple[RingPeer, ...], tuple[RingPeer, ...]] = ((), ())
        """Predecessors and successors as neighbours were last told."""
        self._joining: dict[str, None] = {}
        """Nodes to begin with that are being connected to, by address."""
        self._background = 0
        """The token of the last lookup that nobody waits for."""
        self._stabilised = -1.0
        self._rounds = 0
        self._finger = 0
        self._left = False

    def handlers(self) -> dict[type[Message], Handler]:
        """What the holder must pass on."""
        return {
            Stabilise: self.on_stabilise,
            RingChange: self.on_stabilise,
            RingLeave: self.on_leave,
            Ping: self.on_ping,
            Pong: self.on_pong,
            FindOwner: self.on_find,
            KeyOwner: self.on_owner,
            Nearer: self.on_nearer,
        }

    # Positions

    def draw_position(self) -> None:
        """A position of one's own; another one each time, as one may be taken."""
        chance = self.host.chance("ring position")
        self.position = 1 + chance.below(self.keys, self.host.node, self._drawn)
        self._drawn += 1

    def me(self) -> RingPeer:
        """This node, for others."""
        return RingPeer(self.host.contact(), self.position, self.host.epoch)

    def distance(self, a: int, b: int) -> int:
        """Steps from a to b along the ring."""
        return (b - a) % self.keys

    def after(self) -> int:
        """The predecessor's position; one's own if there is no other node."""
        return self.predecessors[0].position if self.predecessors else self.position

    def owns(self, key: int) -> bool:
        """Whether a key lies in (predecessor, self]."""
        after = self.after()
        span = self.distance(after, self.position)
        return span == 0 or 0 < self.distance(after, key) <= span

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
        for contact in contacts:
            self._begin_with(contact)

    def _begin_with(self, contact: Contact) -> None:
        """Look up one's own position there; a node without an id is met first."""
        if contact.node < 0:
            self._joining[contact.address] = None
            self.host.open(contact)
        elif contact.node != self.host.node:
            self._look_up_self(contact, True)

    def leave(self) -> None:
        """Leave: from now on this node says nothing."""
        self._announce_leave()
        self._left = True

    def _announce_leave(self) -> None:
        for peer in self._neighbours():
            self._send(peer, RingLeave(self.me()))

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
        self._joining.pop(contact.address, None)
        self.closed(contact.node)

    def closed(self, node: NodeId) -> None:
        """A connection broke, or was closed: is its other end still there?"""
        for peer in self.successors + self.predecessors:
            if peer.contact.node == node:
                self._probe(peer)
                return

    def _send(self, peer: RingPeer, message: Message) -> None:
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
            self._send(peer, self._lists(Stabilise, True))
        self._rounds += 1
        if self._rounds % FINGER_ROUNDS == 0:
            self._renew_finger()

    def _neighbours(self) -> list[RingPeer]:
        """The successor and the predecessor, once if they are one."""
        found = self.successors[:1]
        if self.predecessors and self.predecessors[0] not in found:
            found.append(self.predecessors[0])
        return found

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
        if not self._hear(sender, peer):
            return
        if self.successors and self.successors[0] == peer:
            self.successors = self._list_of(peer, message.successors, True)
        if self.predecessors and self.predecessors[0] == peer:
            self.predecessors = self._list_of(peer, message.predecessors, False)
        for other in message.predecessors + message.successors:
            self._hear_of(other)
        self._compare(peer, message.successors, self.predecessors)
        self._compare(peer, message.predecessors, self.successors)
        if message.answer:
            self._send(peer, self._lists(type(message), False))
        self._settle()

    def _list_of(self, first: RingPeer, rest: tuple[RingPeer, ...], ahead: bool) -> list[RingPeer]:
        """A list is the first neighbour and what follows it, as far as oneself."""
        found = [first]
        last = self._away(first, ahead)
        for peer in rest:
            away = self._away(peer, ahead)
            if len(found) >= self.length or away <= last:
                break
            if not self._distrusts(peer):
                found.append(peer)
                last = away
        return found

    def _away(self, peer: RingPeer, ahead: bool) -> int:
        """Steps to a node, ahead or back."""
        if ahead:
            return self.distance(self.position, peer.position)
        return self.distance(peer.position, self.position)

    def _compare(self, peer: RingPeer, its: tuple[RingPeer, ...], mine: list[RingPeer]) -> None:
        """A node takes this one for its neighbour: whoever is between them may be gone."""
        if its and mine and its[0].contact.node == self.host.node and mine[0] != peer:
            self._probe(mine[0])

    def _distrusts(self, peer: RingPeer) -> bool:
        """Whether a node was seen to be gone lately, whatever others say."""
        gone = self.gone.get(peer.contact.node)
        if gone is None:
            return False
        if peer.epoch > gone[0] or self.host.now() > gone[1]:
            del self.gone[peer.contact.node]
            return False
        return True

    def _hear(self, sender: NodeId, peer: RingPeer) -> bool:
        """A node was heard: it is alive. False if it speaks for another."""
        node = peer.contact.node
        if node != sender or not 1 <= peer.position <= self.keys:
            return False
        probe = self.probes.pop(node, None)
        if probe is not None:
            probe.cancel()
        self.gone.pop(node, None)
        self.lost.pop(node, None)
        self.heard[node] = self.host.now()
        self._consider(peer)
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

    def _hear_of(self, peer: RingPeer) -> None:
        """Somebody names a node: if it would be a neighbour, see whether it is there."""
        if peer.contact.node == self.host.node or not 1 <= peer.position <= self.keys:
            return
        if self._distrusts(peer):
            return
        for held, ahead in ((self.successors, True), (self.predecessors, False)):
            if not held or self._away(peer, ahead) < self._away(held[0], ahead):
                self._probe(peer)

    def _move(self, other: RingPeer) -> None:
        """Another node has this position: take another one, and join anew."""
        self._announce_leave()
        self.draw_position()
        self.successors = []
        self.predecessors = []
        self.fingers.clear()
        self._consider(other)
        self._settle()
        self._look_up_self(other.contact, True)

    def _settle(self) -> None:
        """After a change: tell the neighbours, keep a connection to the successor."""
        told = (tuple(self.predecessors), tuple(self.successors))
        after = self.after()
        if told != self._told:
            before, self._told = self._told, told
            for peer in self._neighbours():
                if self._silent(peer):
                    self._probe(peer)
                new = peer not in (*before[0][:1], *before[1][:1])
                self._send(peer, self._lists(RingChange, new))
            if self.successors and told[1][:1] != before[1][:1]:
                self.host.open(self.successors[0].contact)
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
            self._send(peer, Ping(self.me()))

    def _unanswered(self, peer: RingPeer) -> None:
        self.probes.pop(peer.contact.node, None)
        self._lose(peer)

    def on_ping(self, sender: NodeId, message: Ping) -> None:
        """Somebody wants to know whether this node is there."""
        if self._hear(sender, message.me):
            self._send(message.me, Pong(self.me()))
            self._settle()

    def on_pong(self, sender: NodeId, message: Pong) -> None:
        """A node is there."""
        if self._hear(sender, message.me):
            self._settle()

    def _lose(self, peer: RingPeer) -> None:
        """A node is silent: it is gone, or the network is cut."""
        node = peer.contact.node
        self.gone[node] = (peer.epoch, self.host.now() + self.silence + self.heal_period)
        self.lost.pop(node, None)
        self.lost[node] = peer.contact
        if len(self.lost) > LOST:
            del self.lost[next(iter(self.lost))]
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
        self._settle()

    def heal(self) -> None:
        """Look up one's own position from some other node: rings that were cut merge so."""
        if self._left:
            return
        self._joining.clear()
        known = [peer.contact for peer in self.fingers.values()]
        known += [*self.lost.values(), *self.contacts]
        if known:
            self._rounds += 1
            chance = self.host.chance("ring healing")
            contact = known[chance.below(len(known), self.host.node, self.host.epoch, self._rounds)]
            if contact.node < 0:
                self._begin_with(contact)
            elif contact.node != self.host.node:
                self._look_up_self(contact, False)

    # Lookups

    def look_up(self, key: int, answer: Answer) -> None:
        """Find a key's owner; the answer may come at once."""
        if self.owns(key):
            answer(self.me(), self.after())
        else:
            self.lookups += 1
            self._begin(Lookup(key, answer, True))

    def _look_up_self(self, contact: Contact, awaited: bool) -> None:
        """Look up one's own position from a node: who answers on the way is considered."""
        lookup = Lookup(self.position, _nothing, awaited)
        self._ask(lookup, self._token(lookup), contact)

    def _token(self, lookup: Lookup) -> int:
        """A number by which answers are told apart."""
        self._tokens += 1
        if not lookup.awaited:
            self._pending.pop(self._background, None)
            self._background = self._tokens
        self._pending[self._tokens] = lookup
        return self._tokens

    def _begin(self, lookup: Lookup) -> None:
        """Begin with the nodes known here."""
        lookup.attempts += 1
        lookup.asked.clear()
        lookup.before = self.distance(self.position, lookup.key)
        lookup.behind = self.distance(lookup.key, self.position)
        lookup.pool = {peer.contact.node: peer for peer in self.nearest(lookup.key)}
        self._next(lookup, self._token(lookup))

    def nearest(self, key: int) -> list[RingPeer]:
        """The nodes known that are nearest to a key, on either side."""
        known: dict[NodeId, RingPeer] = {}
        for peer in self.fingers.values():
            known[peer.contact.node] = peer
        for peer in self.successors + self.predecessors:
            known[peer.contact.node] = peer
        before = sorted((self.distance(peer.position, key), node) for node, peer in known.items())
        behind = sorted((self.distance(key, peer.position), node) for node, peer in known.items())
        chosen: dict[NodeId, None] = {}
        for _, node in before[:NEAREST] + behind[:NEAREST]:
            chosen[node] = None
        return [known[node] for node in chosen]

    def _next(self, lookup: Lookup, token: int) -> None:
        """Ask the nearest node before the key that is nearer than all so far, then behind it."""
        best: RingPeer | None = None
        least = -1
        for peer in lookup.pool.values():
            if peer.contact.node not in lookup.asked:
                away = self.distance(peer.position, lookup.key)
                if away and (least < 0 or away < least) and _nearer(away, lookup.before):
                    best, least = peer, away
        if best is None:
            for peer in lookup.pool.values():
                if peer.contact.node not in lookup.asked:
                    away = self.distance(lookup.key, peer.position)
                    if (least < 0 or away < least) and _nearer(away, lookup.behind):
                        best, least = peer, away
        if best is not None and len(lookup.asked) < ASKED:
            self._ask(lookup, token, best.contact)
            return
        self._pending.pop(token, None)
        if not lookup.awaited or not lookup.attempts:
            return
        if lookup.attempts < ATTEMPTS:
            lookup.timer = self.host.after(self.reply, lambda: self._begin(lookup))
        else:
            lookup.answer(None, 0)

    def _ask(self, lookup: Lookup, token: int, contact: Contact) -> None:
        lookup.asked[contact.node] = None
        lookup.waits_for = contact.node
        self.questions += 1
        if lookup.awaited:
            lookup.timer = self.host.after(self.reply, lambda: self._no_answer(lookup, token))
        self.host.send_direct(contact, FindOwner(self.me(), lookup.key, token))

    def _no_answer(self, lookup: Lookup, token: int) -> None:
        """A node that was asked does not answer: it may be gone."""
        if token not in self._pending:
            return
        silent = lookup.waits_for
        for number in [n for n, peer in self.fingers.items() if peer.contact.node == silent]:
            del self.fingers[number]
        self.closed(silent)
        self._next(lookup, token)

    def on_find(self, sender: NodeId, message: FindOwner) -> None:
        """Somebody looks for a key's owner."""
        asker = message.me
        mine = self.owns(message.key)
        after = self.predecessors[0] if self.predecessors else self.me()
        near = tuple(self.nearest(message.key))
        if not self._hear(sender, asker):
            return
        if mine:
            self._send(asker, KeyOwner(self.me(), after, message.token))
        else:
            self._send(asker, Nearer(self.me(), near, message.token))
        self._settle()

    def _answered(self, sender: NodeId, peer: RingPeer, token: int) -> Lookup | None:
        """The lookup that an answer belongs to, if it is still waited for."""
        lookup = self._pending.get(token)
        if not self._hear(sender, peer) or lookup is None or lookup.waits_for != sender:
            return None
        if lookup.timer is not None:
            lookup.timer.cancel()
        return lookup

    def on_owner(self, sender: NodeId, message: KeyOwner) -> None:
        """The owner itself answers."""
        lookup = self._answered(sender, message.me, message.token)
        if lookup is not None:
            self._pending.pop(message.token, None)
            if not lookup.attempts:
                self._hear_of(message.predecessor)
            lookup.answer(message.me, message.predecessor.position)
        self._settle()

    def on_nearer(self, sender: NodeId, message: Nearer) -> None:
        """Another node's key: go on with those that are nearer."""
        lookup = self._answered(sender, message.me, message.token)
        if lookup is not None:
            ahead = self.distance(message.me.position, lookup.key)
            behind = self.distance(lookup.key, message.me.position)
            if _nearer(ahead, lookup.before):
                lookup.before = ahead
            if _nearer(behind, lookup.behind):
                lookup.behind = behind
            for peer in message.peers:
                if peer.contact.node != self.host.node and 1 <= peer.position <= self.keys:
                    lookup.pool.setdefault(peer.contact.node, peer)
                    if not lookup.attempts:
                        self._hear_of(peer)
            self._next(lookup, message.token)
        self._settle()

    def _renew_finger(self) -> None:
        """Look up one finger; those nearer than the successor are not needed."""
        if len(self.successors) < self.length:
            self.fingers.clear()  # everybody is known
            return
        self._finger += 1
        step = self.keys >> self._finger
        if step <= self.distance(self.position, self.successors[0].position):
            self._finger = 1
            step = self.keys >> 1
        number = self._finger
        key = 1 + (self.position - 1 + step) % self.keys
        if not self.owns(key):
            self._begin(Lookup(key, lambda owner, _: self._point(number, owner), False))

    def _point(self, number: int, owner: RingPeer | None) -> None:
        """A finger is found."""
        if owner is not None:
            self.fingers[number] = owner


def _nearer(away: int, best: int) -> bool:
    return best < 0 or away < best


def _nothing(owner: RingPeer | None, after: int) -> None:
    """For lookups whose way is what counts."""
