"""DHTree (Frey, chapter 11): a tree that copies a reference tree, by way of a hash table.

Every key of a reference tree (:mod:`~shoal.overlay.reference_tree`) has one owner on a ring
(:mod:`~shoal.overlay.chord`). A node stands where its *topmost key* is, the first of its keys in
breadth-first order. Its parent owns the first topmost key above, its children the first ones below
on every branch. Both searches agree, so the two ends of a link find each other.

* A node searches when its keys change, when it loses a neighbour, and on NEIGHBOURCHANGE. It sends
  NEIGHBOURCHANGE to whoever has become a neighbour by that or is none any more, and nothing if all
  is as before.
* The thesis lets nodes search only when the ring is settled. Here they may search at any time, so
  two nodes may disagree for a while. A link is made only when both agree: the child asks, and the
  parent accepts once it has found the child itself. Who disagrees searches again after a while.

**No cycle, at any instant**, whatever the ring says. A link has a *level*, that of the child's key
when it asked. While the link lasts, the child stays at this level or below, and the parent above.
Each end sees to its own half: a node whose key moves first gives up the links that would break.
A node has one parent at most. So on a cycle each node would be the child of the next, and levels
would fall all the way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.chord import Ring, RingHolder
from shoal.overlay.chord_messages import RingPeer
from shoal.overlay.dhtree_messages import (
    Attach,
    Attached,
    Detach,
    DHTreeParameters,
    NeighbourChange,
    Refused,
    TreeBeat,
)
from shoal.overlay.reference_tree import (
    Owner,
    Owners,
    Place,
    UnknownOwnerError,
    children_of,
    parent_of,
)
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Layer, Overlay, Routing, shown_parent
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register

IDLE: Final = 4
"""Heartbeats after which a connection that is not needed is closed."""
BINARY_CHILDREN: Final = 2
"""Children that a node has at most where the fan-out is 2 (section 11.2.3)."""


class _Holder(RingHolder):
    """Tells the tree of the ring."""

    def __init__(self, tree: DHTree) -> None:
        self.tree = tree

    def keys_changed(self) -> None:
        self.tree.keys_changed()

    def connect(self, contact: Contact) -> None:
        self.tree.connect(contact)


@mypyc_attr(allow_interpreted_subclasses=True)
class DHTree(Overlay):
    """A tree of bounded degree that copies a reference tree over a hash table's keys."""

    def __init__(self, host: Host, parameters: DHTreeParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.tree = parameters.tree()
        self.ring = Ring(host, parameters, self.tree.keys, _Holder(self))
        self.heartbeat = parameters.heartbeat
        self.silence = parameters.heartbeat * parameters.patience
        self.pause = parameters.reply
        self.heals_within = self.silence + 4 * parameters.heal
        self.most = BINARY_CHILDREN if parameters.fan_out == 2 else 1 << 30
        self.place: Place = self.tree.root
        """This node's topmost key."""
        self.parent: NodeId = LOCAL
        self.parent_level = 0
        """The level of the link to the parent."""
        self.children: dict[NodeId, int] = {}
        """Per child the level of the link."""
        self.wanted_parent: NodeId = LOCAL
        self.wanted: dict[NodeId, int] = {}
        """The children that the last search found, and their topmost keys."""
        self.contacts: dict[NodeId, Contact] = {}
        """The nodes that the last search found."""
        self.requests: dict[NodeId, Attach] = {}
        """Who asks to be a child, until a search tells whether it is one."""
        self.heard: dict[NodeId, float] = {}
        """Per open connection, when its other end was last heard."""
        self.searches = 0
        self._owners: Owners | None = None
        """What the present search knows; None if there is none."""
        self._search_again = False
        self._attaching: NodeId = LOCAL
        """The node that was asked to be the parent, and has not answered."""
        self._attach: Attach | None = None
        self._tokens = 0
        self._asked: dict[Any, float] = {}
        """Connections that this node opened, by id or address, and when they were last needed."""
        self._retry: Timer | None = None
        self._beaten = -1.0
        self._stopped = False

    def handlers(self) -> dict[type[Message], Handler]:
        """The ring's messages and the tree's own."""
        return {
            **self.ring.handlers(),
            TreeBeat: self.on_beat,
            NeighbourChange: self.on_change,
            Attach: self.on_attach,
            Attached: self.on_attached,
            Refused: self.on_refused,
            Detach: self.on_detach,
        }

    # Life

    def start(self) -> None:
        """Begin as the root of a tree of one."""
        self.ring.start()
        phase = self.host.chance("beat phase").uniform(self.host.node, self.host.epoch)
        self.host.every(self.heartbeat, self.beat, phase * self.heartbeat)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Join the ring; the keys that this node gets there say where in the tree it belongs."""
        self.ring.join(contacts)

    def stop(self) -> None:
        """Tell all neighbours that this node leaves."""
        self._stopped = True
        for peer in list(self.neighbours):
            self._give_up(peer, True)
        self.ring.leave()

    # Connections

    def opened(self, peer: Contact) -> None:
        """A connection is there, for the ring or for a link to the parent."""
        self.heard[peer.node] = self.host.now()
        if self._asked.pop(peer.address, None) is not None:
            self._asked[peer.node] = self.host.now()
        self.ring.opened(peer)
        if peer.node == self._attaching and self._attach is not None:
            self.host.send(peer.node, self._attach)

    def closed(self, peer: NodeId) -> None:
        """A connection broke, or the other end closed it without a word."""
        if peer in self.heard:
            self._lose(peer)
        self.ring.closed(peer)

    def unreachable(self, contact: Contact) -> None:
        """A node does not answer; the next search may find another one."""
        self._asked.pop(contact.node if contact.node >= 0 else contact.address, None)
        if contact.node == self._attaching and contact.node >= 0:
            self._attaching = LOCAL
            self._search_later()
        self.ring.unreachable(contact)

    def _lose(self, peer: NodeId) -> None:
        """There is no connection to a node any more, and so no link."""
        del self.heard[peer]
        self._asked.pop(peer, None)
        self.requests.pop(peer, None)
        if peer == self._attaching:
            self._attaching = LOCAL
            self._search_later()
        if peer in self.neighbours:
            self._unlink(peer)
            self.search()

    def connect(self, contact: Contact) -> None:
        """Open a connection; it is closed when neither the tree nor the ring needs it any more."""
        if contact.node not in self.heard:
            self._asked[contact.node if contact.node >= 0 else contact.address] = self.host.now()
            self.host.open(contact)

    def beat(self) -> None:
        """Send a sign of life over every connection; close those of the silent and the unneeded."""
        now = self.host.now()
        if now - self._beaten > 2 * self.heartbeat and self._beaten >= 0:
            for peer in self.heard:  # this node itself was held up: nobody else is to blame
                self.heard[peer] = now
        self._beaten = now
        for peer, heard in list(self.heard.items()):
            if heard < now - self.silence:
                self.host.close(peer)
                self._lose(peer)
                self.ring.closed(peer)
        for peer in list(self._asked):
            if peer in self.neighbours or peer == self._attaching or self.ring.needs(peer):
                self._asked[peer] = now
            elif peer in self.heard and self._asked[peer] < now - IDLE * self.heartbeat:
                self.host.close(peer)
                self._lose(peer)
        if self.heard:
            self.host.send_all(tuple(self.heard), TreeBeat())

    def receive(self, sender: NodeId, message: Any) -> None:
        """A node that has left takes part no longer."""
        if not self._stopped:
            super().receive(sender, message)

    def on_beat(self, sender: NodeId, message: Message) -> None:
        """A connection works; other messages may have come out of band."""
        if sender in self.heard:
            self.heard[sender] = self.host.now()

    # The topmost key

    def keys_changed(self) -> None:
        """The ring gives this node other keys: first give up the links that would break."""
        if self._stopped:
            return
        place = self.tree.topmost(self.ring.after(), self.ring.position)
        if self.parent != LOCAL and place.level < self.parent_level:
            self._give_up(self.parent, False)
        for child, level in list(self.children.items()):
            if place.level >= level:
                self._give_up(child, False)
        if place.key != self.place.key:
            self._withdraw()
            if self.host.watched:
                self.host.note("topmost key", LOCAL, str(place.key))
        self.place = place
        self.search()

    def _withdraw(self) -> None:
        """Ask the node that was asked to be the parent no longer."""
        asked, self._attaching = self._attaching, LOCAL
        if asked != LOCAL and asked in self.heard:
            self.host.send(asked, Detach(False))

    # The search (section 11.2.2)

    def search(self) -> None:
        """Find parent and children; once more if a search is going on."""
        if self._stopped:
            return
        if self._owners is not None:
            self._search_again = True
            return
        self.searches += 1
        ring = self.ring
        self._owners = Owners(self.tree, Owner(self.host.node, ring.after(), ring.position))
        self.contacts = {}
        if ring.successors:
            self._learn(ring.successors[0], ring.position)
        self._go_on()

    def _learn(self, peer: RingPeer, after: int) -> None:
        """An owner is known."""
        owners = cast("Owners", self._owners)
        owners.learn(Owner(peer.contact.node, after, peer.position))
        self.contacts[peer.contact.node] = peer.contact

    def _go_on(self) -> None:
        """Search with what is known, and look up what is not."""
        owners = self._owners
        if owners is None:
            return
        try:
            parent = parent_of(owners)
            children = children_of(owners)
        except UnknownOwnerError as unknown:
            self.ring.lookups.look_up(unknown.key, self._found)
            return
        self._owners = None
        again, self._search_again = self._search_again, False
        mine = Owner(self.host.node, self.ring.after(), self.ring.position)
        if owners.me == mine:  # else it was a search from another place
            self._searched(parent, {child.host: owners.top(child) for child in children})
        if again:  # after what was found: a node that is told of changes all the time gets on, too
            self.search()

    def _found(self, owner: RingPeer | None, after: int) -> None:
        """A lookup has ended; without an answer the ring is in trouble, and the search waits."""
        if self._owners is None or self._stopped:
            return
        if owner is None or owner.contact.node == self.host.node or after == owner.position:
            self._owners = None
            self._search_again = False
            self._search_later()
        else:
            self._learn(owner, after)
            self._go_on()

    def _search_later(self) -> None:
        if self._retry is None and not self._stopped:
            self._retry = self.host.after(self.pause, self._search_now)

    def _search_now(self) -> None:
        self._retry = None
        self.search()

    def _searched(self, parent: Owner | None, children: dict[NodeId, int]) -> None:
        """Compare with the neighbours before; tell those that have changed, and link."""
        before = {*self.wanted, self.wanted_parent}
        self.wanted_parent = LOCAL if parent is None else parent.host
        self.wanted = children
        wanted = {*self.wanted, self.wanted_parent}
        changed = sorted((before ^ wanted) - {LOCAL})
        for node in changed:
            self._tell(node)
        self._answer_requests()
        if self.wanted_parent in (LOCAL, self.parent):
            self._withdraw()
        if self.wanted_parent == LOCAL:
            if self.parent != LOCAL and self.place.level == 0:
                self._give_up(self.parent, False)
            elif self.place.level > 0:
                self._search_later()  # owners disagree
        elif self.wanted_parent != self.parent:
            self._attach_to(self.wanted_parent)
        for child in sorted(self.wanted.keys() ^ self.children.keys()):
            if child not in changed:
                self._tell(child)
            self._search_later()

    def _tell(self, node: NodeId) -> None:
        """NEIGHBOURCHANGE."""
        if node in self.heard:
            self.host.send(node, NeighbourChange(node in self.neighbours))
        elif node in self.contacts:
            self.host.send_direct(self.contacts[node], NeighbourChange(False))

    def on_change(self, sender: NodeId, message: Message) -> None:
        """Another node's neighbours are others than before."""
        linked = sender in self.neighbours
        if sender in self.heard and cast("NeighbourChange", message).linked != linked:
            self.host.send(sender, Detach(False))  # one end of the link got lost
            if linked:
                self._unlink(sender)
        self.search()

    # Links

    def _attach_to(self, node: NodeId) -> None:
        """Ask a node to be the parent; the present one stays until it answers."""
        if self._attaching == node:
            return
        self._withdraw()
        self._tokens += 1
        self._attaching = node
        self._attach = Attach(self.place.key, self._tokens)
        if node in self.heard:
            self.host.send(node, self._attach)
        else:
            self.connect(self.contacts[node])

    def on_attach(self, sender: NodeId, message: Message) -> None:
        """A node asks to be a child: it is one if a search finds it with that key."""
        attach = cast("Attach", message)
        if sender not in self.heard:
            return
        self.requests[sender] = attach
        if self._owners is None and self.wanted.get(sender) == attach.key:
            self._answer_requests()
        else:
            self.search()

    def _answer_requests(self) -> None:
        """After a search: who is a child?"""
        requests, self.requests = self.requests, {}
        for node, attach in requests.items():
            agreed = self.wanted.get(node) == attach.key and node not in self.children
            level = self.tree.path(attach.key)[-1].level if agreed else 0
            if self.place.level < level and len(self.children) < self.most:
                if node == self.parent:
                    self._give_up(node, False)
                self.host.send(node, Attached(attach.token))
                self.children[node] = level
                self.link_up(node)
            else:
                self.host.send(node, Refused(attach.token))

    def on_attached(self, sender: NodeId, message: Message) -> None:
        """The link to a new parent: it takes the place of the one before in one instant."""
        attach = self._attach
        if sender not in self.heard:
            return
        if (
            attach is None
            or self._attaching != sender
            or attach.token != cast("Attached", message).token
        ):
            return  # withdrawn since; the other node has been told
        self._attaching = LOCAL
        if self.parent != LOCAL:
            self._give_up(self.parent, False)
        self.parent = sender
        self.parent_level = self.tree.path(attach.key)[-1].level
        self.link_up(sender)
        self.parent_changed(sender)

    def on_refused(self, sender: NodeId, message: Message) -> None:
        """The other node does not agree (yet)."""
        attach = self._attach
        if attach is not None and attach.token == cast("Refused", message).token:
            self._attaching = LOCAL
            self._search_later()

    def _give_up(self, peer: NodeId, leaves: bool) -> None:
        """Give up a link."""
        self.host.send(peer, Detach(leaves))
        self._unlink(peer)

    def _unlink(self, peer: NodeId) -> None:
        self.children.pop(peer, None)
        was_parent = peer == self.parent
        if was_parent:
            self.parent = LOCAL
        self.link_down(peer)
        if was_parent:
            self.parent_changed(LOCAL)

    def on_detach(self, sender: NodeId, message: Message) -> None:
        """The other end gives up the link, or asks no longer."""
        self.requests.pop(sender, None)
        if sender in self.neighbours:
            self._unlink(sender)
            self.search()

    def wrong(self, running: Mapping[NodeId, Layer]) -> str | None:
        """Parent and children are those that the keys of all nodes give."""
        at = {node: cast("DHTree", layer).ring.position for node, layer in running.items()}
        order = sorted(at, key=lambda node: at[node])
        owners = [Owner(n, at[order[place - 1]], at[n]) for place, n in enumerate(order)]
        known = Owners(self.tree, owners[order.index(self.host.node)])
        for owner in owners:
            known.learn(owner)
        parent = parent_of(known)
        above = LOCAL if parent is None else parent.host
        if self.parent != above:
            return f"its parent is {self.parent}, not {above}"
        below = sorted(child.host for child in children_of(known))
        if sorted(self.children) != below:
            return f"its children are {sorted(self.children)}, not {below}"
        return None

    def describe(self) -> dict[str, object]:
        """See :class:`~shoal.stack.layer.Overlay`."""
        return {
            "key": self.place.key,
            "level": self.place.level,
            "parent": shown_parent(self.parent, self.place.level == 0),
            "children": len(self.children),
            "lookups": self.ring.lookups.count,
        }


register(
    "overlay",
    "dhtree",
    DHTree,
    DHTreeParameters,
    needs={"reach"},
    provides={"links", "tree", "root"},
    summary="A tree of bounded degree that copies a reference tree over a hash table's keys.",
)
