"""Lookups on a ring: whose is a key?

A lookup asks node after node, each nearer to the key; the owner alone answers for it. A node that
does not answer is passed over. A lookup that finds no way begins again, and fails after some
attempts: it always ends.

A node that looks up its *own position* from some other node finds its place there: whoever answers
on the way is heard, and so considered as a neighbour. That is how nodes join and rings merge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from shoal.overlay.chord_messages import FindOwner, KeyOwner, Nearer, RingPeer
from shoal.stack.host import NodeId, Timer
from shoal.stack.layer import Handler
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.overlay.chord import Ring

ASKED: Final = 64
"""Nodes that one attempt of a lookup asks at most."""
ATTEMPTS: Final = 5
"""Attempts after which a lookup fails."""

Answer: TypeAlias = Callable[[RingPeer | None, int], None]
"""Takes the owner of a key and its predecessor's position; None if none was found."""


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
        """How far at or behind the key the nearest node was that answered; -1 if none did."""
        self.attempts = 0
        """Attempts from the nodes known here; none for a lookup of one's own position."""
        self.waits_for: NodeId = -1
        self.timer: Timer | None = None


class Lookups:
    """One node's lookups, and its answers to those of others."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.count = 0
        """Lookups that were asked for, those answered here at once not counted."""
        self.questions = 0
        """Nodes asked, by lookups of all kinds."""
        self._tokens = 0
        self._pending: dict[int, Lookup] = {}
        self._background = 0
        """The token of the last lookup that nobody waits for."""
        self._finger = 0

    def handlers(self) -> dict[type[Message], Handler]:
        """Questions and answers."""
        return {FindOwner: self.on_find, KeyOwner: self.on_owner, Nearer: self.on_nearer}

    def look_up(self, key: int, answer: Answer) -> None:
        """Find a key's owner; the answer may come at once."""
        if self.ring.owns(key):
            answer(self.ring.me(), self.ring.after())
        else:
            self.count += 1
            self._begin(Lookup(key, answer, True))

    def find_place(self, contact: Contact, awaited: bool) -> None:
        """Look up one's own position from a node: who answers on the way is considered."""
        lookup = Lookup(self.ring.position, self.ring.placed, awaited)
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
        lookup.before = self.ring.distance(self.ring.position, lookup.key)
        lookup.behind = self.ring.distance(lookup.key, self.ring.position)
        lookup.pool = {peer.contact.node: peer for peer in self.ring.nearest(lookup.key)}
        self._next(lookup, self._token(lookup))

    def _next(self, lookup: Lookup, token: int) -> None:
        """Ask the nearest node before the key that is nearer than all so far, then behind it."""
        best: RingPeer | None = None
        least = -1
        for peer in lookup.pool.values():
            if peer.contact.node not in lookup.asked:
                away = self.ring.distance(peer.position, lookup.key)
                if away and (least < 0 or away < least) and _nearer(away, lookup.before):
                    best, least = peer, away
        if best is None:
            for peer in lookup.pool.values():
                if peer.contact.node not in lookup.asked:
                    away = self.ring.distance(lookup.key, peer.position)
                    if (least < 0 or away < least) and _nearer(away, lookup.behind):
                        best, least = peer, away
        if best is not None and len(lookup.asked) < ASKED:
            self._ask(lookup, token, best.contact)
            return
        self._pending.pop(token, None)
        if not lookup.awaited:
            return
        if 0 < lookup.attempts < ATTEMPTS:
            lookup.timer = self.ring.host.after(self.ring.reply, lambda: self._begin(lookup))
        else:
            lookup.answer(None, 0)

    def _ask(self, lookup: Lookup, token: int, contact: Contact) -> None:
        lookup.asked[contact.node] = None
        lookup.waits_for = contact.node
        self.questions += 1
        if lookup.awaited:
            lookup.timer = self.ring.host.after(
                self.ring.reply, lambda: self._no_answer(lookup, token)
            )
        self.ring.host.send_direct(contact, FindOwner(self.ring.me(), lookup.key, token))

    def _no_answer(self, lookup: Lookup, token: int) -> None:
        """A node that was asked does not answer: it may be gone."""
        if token not in self._pending:
            return
        silent = lookup.waits_for
        for number in [n for n, peer in self.ring.fingers.items() if peer.contact.node == silent]:
            del self.ring.fingers[number]
        self.ring.closed(silent)
        self._next(lookup, token)

    def on_find(self, sender: NodeId, message: FindOwner) -> None:
        """Somebody looks for a key's owner."""
        asker = message.me
        mine = self.ring.owns(message.key)
        after = self.ring.predecessors[0] if self.ring.predecessors else self.ring.me()
        near = tuple(self.ring.nearest(message.key))
        if not self.ring.hear(sender, asker):
            return
        if mine:
            self.ring.send(asker, KeyOwner(self.ring.me(), after, message.token))
        else:
            self.ring.send(asker, Nearer(self.ring.me(), near, message.token))
        self.ring.settle()

    def _answered(self, sender: NodeId, peer: RingPeer, token: int) -> Lookup | None:
        """The lookup that an answer belongs to, if it is still waited for."""
        lookup = self._pending.get(token)
        if not self.ring.hear(sender, peer) or lookup is None or lookup.waits_for != sender:
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
                self.ring.hear_of(message.predecessor)
            lookup.answer(message.me, message.predecessor.position)
        self.ring.settle()

    def on_nearer(self, sender: NodeId, message: Nearer) -> None:
        """Another node's key: go on with those that are nearer."""
        lookup = self._answered(sender, message.me, message.token)
        if lookup is not None:
            ahead = self.ring.distance(message.me.position, lookup.key)
            behind = self.ring.distance(lookup.key, message.me.position)
            if _nearer(ahead, lookup.before):
                lookup.before = ahead
            if _nearer(behind, lookup.behind):
                lookup.behind = behind
            for peer in message.peers:
                if (
                    peer.contact.node != self.ring.host.node
                    and 1 <= peer.position <= self.ring.keys
                ):
                    lookup.pool.setdefault(peer.contact.node, peer)
                    if not lookup.attempts:
                        self.ring.hear_of(peer)
            self._next(lookup, message.token)
        self.ring.settle()

    def renew_finger(self) -> None:
        """Look up one finger; those nearer than the successor are not needed."""
        if len(self.ring.successors) < self.ring.length:
            self.ring.fingers.clear()  # everybody is known
            return
        self._finger += 1
        step = self.ring.keys >> self._finger
        if step <= self.ring.distance(self.ring.position, self.ring.successors[0].position):
            self._finger = 1
            step = self.ring.keys >> 1
        number = self._finger
        key = 1 + (self.ring.position - 1 + step) % self.ring.keys
        if not self.ring.owns(key):
            self._begin(Lookup(key, lambda owner, _: self._point(number, owner), False))

    def _point(self, number: int, owner: RingPeer | None) -> None:
        """A finger is found."""
        if owner is not None:
            self.ring.fingers[number] = owner


def _nearer(away: int, best: int) -> bool:
    return best < 0 or away < best
