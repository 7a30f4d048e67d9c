"""Trees and their owners, and contact points in them (sections 3 and 4.1).

Each node knows some others (peer sampling), for some trees the owner, and for some a node of the
tree to start a generic traversal from. Two nodes exchange what they know every ``shuffle`` seconds.
The news of an owner spreads at once, as a rumour. A tree that a node has not heard of is looked for
by a random walk, which visits owners first and ends after a few. If nobody has heard of the tree,
it is created.

Of two owners of the same tree the one with the later term wins, then the one with the smaller id.
An owner that hears of a better one probes it. A probed node that still owns the tree answers, and
the trees merge (:mod:`.leadership`). One that no longer owns it names the owner it knows, who is
probed next. If the probed node is silent, the probing owner takes a later term and announces it. A
node whose search for a place fails also probes the owner, and recreates the tree if it is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shoal.routing.dps.labels import ROOT, label
from shoal.routing.dps.messages import Here, Owner, Peer, Point, Probe, Root, Shuffle, Where
from shoal.routing.dps.views import Group
from shoal.stack.chance import mix
from shoal.stack.host import remember

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.stack.host import NodeId
    from shoal.stack.message import Contact

PEERS: Final = 32
"""Nodes known besides those of views."""
ROOTS: Final = 4096
"""Entries of each table of trees: owners, contact points, terms, trees found nowhere."""
SAMPLE: Final = 6
"""Peers named in one exchange."""
TOLD: Final = 16
"""Trees named in one exchange."""
TOLD_NEW: Final = 240
"""Trees named to a node that was not known before."""
POINTS: Final = 4
"""Contact points kept per tree."""
MONITORED: Final = 4
"""Trees whose contact points get a sign of life in one round."""
WALK: Final = 4
"""Nodes that a random walk visits."""
NEWS: Final = 3
"""Peers that a node forwards the news of an owner to, on average: all, or most often none."""
NOWHERE: Final = 5.0
"""Shuffle periods after which a tree that was not found is looked for again."""
OWNERS: Final = 3
"""Further nodes that a walk visits after the first owner: owners hear of new trees first."""
LOST: Final = 32
"""Silent nodes that are tried again from time to time, as a cut network may be whole again."""
TERMS: Final = 2**62
"""Number of terms, after which they wrap around: a liar cannot use them up. 0 is no term."""


def next_term(term: int) -> int:
    """The term of whoever leads a group after that one."""
    return term % TERMS + 1


def later(term: int, other: int) -> bool:
    """Whether the first of two terms is later: less than half way round ahead."""
    if term == 0 or other == 0:
        return term > other
    return 0 < (term - other) % TERMS < TERMS // 2


def better(term: int, node: NodeId, other_term: int, other: NodeId) -> bool:
    """Whether the first of two leaders of the same group counts."""
    return node < other if term == other_term else later(term, other_term)


def _bound(known: dict[str, Any]) -> None:
    """Forget the first entry of a table with more than ROOTS entries."""
    if len(known) > ROOTS:
        del known[next(iter(known))]


class Trees:
    """What one node knows of the other trees and nodes."""

    def __init__(self, node: Dps) -> None:
        self.node = node
        self.roots: dict[str, Root] = {}
        self.points: dict[str, dict[NodeId, Contact]] = {}
        """Some nodes of each tree: its contact points."""
        self.peers: dict[NodeId, tuple[Contact, float]] = {}
        """Known nodes, each with the time when it was last known to live."""
        self.lost: dict[NodeId, Contact] = {}
        self.contacts: tuple[Contact, ...] = ()
        """Nodes to begin with; tried again while no other is known."""
        self.walks: dict[str, int] = {}
        """Number of walks sent so far, per tree that is being looked for."""
        self.nowhere: dict[str, float] = {}
        """Time when a walk last did not find a tree, per tree."""
        self.terms: dict[str, int] = {}
        """Latest term of an owner heard of, per tree."""
        self.probes: dict[str, Root] = {}
        """Owner that was probed and has not answered yet, per tree."""
        self._partner: NodeId = -1

    # Peer sampling

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Begin with these nodes."""
        self.contacts = contacts
        for contact in contacts:
            if contact.node >= 0:
                self.meet(contact, 0.0)
            self.node.send(contact, self._shuffle(True))

    def meet(self, contact: Contact, age: float) -> None:
        """Note that a node was alive some seconds ago."""
        number = contact.node
        if number == self.node.host.node or number < 0:
            return
        heard = self.node.host.now() - age
        known = self.peers.get(number)
        if known is None or known[1] < heard:
            self.peers[number] = (contact, heard)
            if known is None and len(self.peers) > PEERS:
                del self.peers[next(iter(self.peers))]
        if age == 0.0:
            self.lost.pop(number, None)

    def forget(self, number: NodeId) -> None:
        """Remove a node that did not answer; it is tried again from time to time."""
        known = self.peers.pop(number, None)
        if known is not None:
            self.lost[number] = known[0]
            if len(self.lost) > LOST:
                del self.lost[next(iter(self.lost))]
        for points in self.points.values():
            points.pop(number, None)

    def shuffle(self) -> None:
        """Exchange what is known with a random node, now and then with one that was lost."""
        if self._partner >= 0:
            self.forget(self._partner)
        self._partner = -1
        if not self.peers:
            for contact in self.contacts:
                self.node.send(contact, self._shuffle(True))
        bits = self.node.draw()
        if self.lost and (not self.peers or bits % 4 == 0):
            lost = list(self.lost.values())
            self.node.send(lost[(bits >> 8) % len(lost)], self._shuffle(True))
        elif self.peers:
            numbers = list(self.peers)
            self._partner = numbers[(bits >> 8) % len(numbers)]
            self.node.send(self.peers[self._partner][0], self._shuffle(True))

    def _shuffle(self, answer: bool, trees: int = TOLD) -> Shuffle:
        host = self.node.host
        now = host.now()
        bits = self.node.draw()
        numbers = list(self.peers)
        start = bits % (len(numbers) or 1)
        chosen = (numbers[start:] + numbers[:start])[:SAMPLE]
        peers = tuple(
            Peer(self.peers[number][0], max(0.0, now - self.peers[number][1])) for number in chosen
        )
        owned = [self.roots[attribute] for attribute in self.node.owned if attribute in self.roots]
        names = list(self.roots)
        first = (bits >> 16) % (len(names) or 1)
        others = [self.roots[name] for name in (names[first:] + names[:first])[:trees]]
        mine = list(self.node.by_tree)
        at = (bits >> 32) % (len(mine) or 1)
        points = tuple(
            Point(attribute, self.node.acting(attribute, bits >> 48))
            for attribute in (mine[at:] + mine[:at])[:SAMPLE]
        )
        roots = tuple(dict.fromkeys((*owned[:SAMPLE], *others)))
        return Shuffle(host.contact(), peers, roots, points, answer)

    def on_shuffle(self, sender: NodeId, message: Shuffle) -> None:
        """Note what another node knows, and send it some entries in return."""
        if sender != message.sender.node:
            return
        if sender == self._partner:
            self._partner = -1
        new = sender not in self.peers
        self.meet(message.sender, 0.0)
        for peer in message.peers:
            self.meet(peer.contact, peer.age)
        for root in message.roots:
            self.hear(root)
        for point in message.points:
            self.add_point(point.attribute, point.contact)
        if message.answer:
            # A newcomer has missed the news of all trees.
            self.node.send(message.sender, self._shuffle(False, TOLD_NEW if new else TOLD))

    def add_point(self, attribute: str, contact: Contact) -> None:
        """Remember a node of a tree as a contact point, where a generic traversal can start."""
        if contact.node == self.node.host.node:
            return
        points = self.points.setdefault(attribute, {})
        _bound(self.points)
        remember(points, contact.node, contact, POINTS)

    # Owners

    def hear(self, root: Root) -> None:
        """Handle the news that a tree has, or had, an owner."""
        node = self.node
        attribute, mine = root.attribute, root.owner.node == node.host.node
        if later(root.term, self.terms.get(attribute, 0)):
            self.terms[attribute] = root.term
            _bound(self.terms)
        owned = node.owned.get(attribute)
        if owned is not None:
            if not mine and better(root.term, root.owner.node, owned.term, node.host.node):
                self.ask(root)
            elif not mine:
                node.send(root.owner, owned.leadership())
            return
        if mine:
            return  # of an earlier life
        known = self.roots.get(attribute)
        if known is None or better(root.term, root.owner.node, known.term, known.owner.node):
            if known is None and len(self.roots) >= ROOTS:
                del self.roots[next(iter(self.roots))]
            self.roots[attribute] = root
            self.nowhere.pop(attribute, None)
            self._pass_on(root)

    def ask(self, root: Root) -> None:
        """Probe an owner of a tree, one per tree at a time."""
        if root.attribute not in self.probes:
            self.probes[root.attribute] = root
            self.node.send(root.owner, Probe(root.attribute, self.node.host.contact()))
            self.node.later(self.node.timeout, lambda: self._silent(root))

    def answered(self, attribute: str, sender: NodeId) -> None:
        """Note that a probed owner has answered."""
        asked = self.probes.get(attribute)
        if asked is not None and asked.owner.node == sender:
            del self.probes[attribute]

    def _silent(self, root: Root) -> None:
        """A probed owner is silent: this node takes its place if it owns or looks for the tree."""
        attribute = root.attribute
        if self.probes.get(attribute) is not root:
            return
        del self.probes[attribute]
        owned = self.node.owned.get(attribute)
        if owned is None:
            self.node.searches.tree_lost(attribute)
        elif better(root.term, root.owner.node, owned.term, self.node.host.node):
            owned.term = next_term(root.term)
            self.announce(owned)
            self.node.leadership.announce(owned)

    def on_probe(self, sender: NodeId, message: Probe) -> None:
        """Answer as the owner, or name the owner that this node knows."""
        owned = self.node.owned.get(message.attribute)
        known = self.roots.get(message.attribute)
        if owned is not None:
            self.node.send(message.origin, owned.leadership())
        elif known is not None:
            self.node.send(message.origin, Owner(known))

    def create(self, attribute: str) -> Group:
        """Nobody has a tree for this attribute: this node owns it from now on."""
        host = self.node.host
        term = next_term(self.terms.get(attribute, 0))
        self.terms[attribute] = term
        group = Group(label(attribute, ROOT), host.contact(), term)
        self.node.add_group(group)
        self.announce(group)
        return group

    def announce(self, group: Group) -> None:
        """This node owns a tree: send the news to others."""
        contact = self.node.host.contact()
        root = Root(group.label.attribute, group.term, contact)
        before = self.roots.get(root.attribute)
        self.roots[root.attribute] = root
        if before is not None and before.owner.node != contact.node:
            self.node.send(before.owner, Owner(root))
        self._pass_on(root)

    def doubt(self, attribute: str) -> None:
        """Send a walk in search of a later owner of a tree, as the known one did not answer."""
        contact = self._next(attribute, self.node.host.node)
        if contact is not None:
            self.node.send(contact, Where(attribute, self.node.host.contact(), WALK))

    def absent(self, attribute: str) -> bool:
        """Whether a walk has lately found no such tree."""
        since = self.nowhere.get(attribute)
        return since is not None and (
            self.node.host.now() - since < NOWHERE * self.node.shuffle_period
        )

    def point(self, attribute: str) -> Contact | None:
        """The contact point of a tree that was last heard of; None if none is known."""
        points = self.points.get(attribute)
        return points[next(reversed(points))] if points else None

    def monitored(self) -> list[Contact]:
        """Contact points for a few of the trees that this node is in no group of, in turn."""
        absent = [name for name in self.points if name not in self.node.by_tree]
        start = self.node.draw() % len(absent) if absent else 0
        found = map(self.point, (absent[start:] + absent[:start])[:MONITORED])
        return [point for point in found if point is not None]

    def _pass_on(self, root: Root) -> None:
        """Forward the news of an owner to all known nodes, if this is one of the few that do.

        These are always the same, so news is soon everywhere, and most nodes send nothing.
        """
        here = self.node.host.node
        if here != root.owner.node and mix(here) % (len(self.peers) or 1) >= NEWS:
            return
        for number, (contact, _) in list(self.peers.items()):
            if number != root.owner.node:
                self.node.send(contact, Owner(root))

    def on_owner(self, sender: NodeId, message: Owner) -> None:
        """Handle the news of an owner; it may be the answer of a probed node that owns no more."""
        root = message.root
        asked = self.probes.get(root.attribute)
        if asked is not None and better(root.term, root.owner.node, asked.term, asked.owner.node):
            self.answered(root.attribute, sender)
        self.hear(root)

    # Random walks

    def look_for(self, attribute: str) -> None:
        """Send a walk in search of a tree; :meth:`Dps.found` is called at its end."""
        if attribute in self.walks:
            return
        self.walks[attribute] = 0
        self._walk(attribute)

    def _walk(self, attribute: str) -> None:
        attempt = self.walks.get(attribute)
        if attempt is None:
            return
        contact = self._next(attribute, self.node.host.node)
        if contact is None or attempt >= 3:
            del self.walks[attribute]
            remember(self.nowhere, attribute, self.node.host.now(), ROOTS)
            self.node.found(attribute, None)
            return
        self.walks[attribute] = attempt + 1
        self.node.send(contact, Where(attribute, self.node.host.contact(), WALK))
        patience = (2 + WALK) * self.node.timeout / 2
        self.node.host.after(patience, lambda: self._again(attribute, attempt + 1))

    def _again(self, attribute: str, attempt: int) -> None:
        if self.walks.get(attribute) == attempt:
            self._walk(attribute)

    def _next(self, attribute: str, but: NodeId) -> Contact | None:
        """The next node of a walk: an owner of any tree if one is known, else any node."""
        host = self.node.host
        owners = {
            root.owner.node: root.owner
            for root in self.roots.values()
            if root.owner.node != host.node and root.owner.node != but
        }
        bits = self.node.draw()
        if owners:
            chosen = list(owners.values())
        else:
            chosen = [contact for contact, _ in self.peers.values() if contact.node != but]
        return chosen[(bits >> 8) % len(chosen)] if chosen else None

    def on_where(self, sender: NodeId, message: Where) -> None:
        """Pass a walk on, or end it: the tree is known here, or the walk has been long enough."""
        attribute = message.attribute
        root = self.roots.get(attribute)
        if root is not None or message.steps <= 1:
            point = None
            if attribute in self.node.by_tree:
                point = self.node.acting(attribute, message.steps)
            elif self.points.get(attribute):
                point = next(iter(self.points[attribute].values()))
            self.node.send(message.origin, Here(attribute, root, point))
            return
        contact = self._next(attribute, message.origin.node)
        if contact is None:
            self.node.send(message.origin, Here(attribute, None, None))
        else:
            steps = min(message.steps - 1, OWNERS if self.node.owned else WALK)
            self.node.send(contact, Where(attribute, message.origin, steps))

    def on_here(self, sender: NodeId, message: Here) -> None:
        """Handle the end of a walk: what it found, if anything."""
        if message.root is not None and message.root.attribute == message.attribute:
            self.hear(message.root)
        if message.point is not None:
            self.add_point(message.attribute, message.point)
        if self.walks.pop(message.attribute, None) is not None:
            if message.attribute not in self.roots:
                remember(self.nowhere, message.attribute, self.node.host.now(), ROOTS)
            self.node.found(message.attribute, self.roots.get(message.attribute))
