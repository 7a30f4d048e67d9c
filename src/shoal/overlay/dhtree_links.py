"""The links of a DHTree: how the two ends agree on one, and why no cycle forms.

The child asks for a link (ATTACH), and the parent accepts once it has found the child itself. The
parent that a node had until then stays until the new one has answered.

**No cycle, at any instant**, whatever the ring says. A link has a *level*, that of the child's key
when it asked. While the link lasts, the child stays at this level or below, and the parent above.
Each end sees to its own half: a node whose key moves first gives up the links that would break.
A node has one parent at most. So on a cycle each node would be the child of the next, and levels
would fall all the way round.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.chord import Ring, RingHolder
from shoal.overlay.dhtree_messages import (
    Attach,
    Attached,
    Detach,
    DHTreeParameters,
    Refused,
    TreeBeat,
)
from shoal.overlay.reference_tree import Place
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Overlay, Routing
from shoal.stack.message import Contact, Message

IDLE: Final = 4
"""Heartbeats after which a connection that is not needed is closed."""
BINARY_CHILDREN: Final = 2
"""Children that a node has at most where the fan-out is 2 (section 11.2.3)."""


class _Holder(RingHolder):
    """Passes the ring's calls on to the tree."""

    def __init__(self, tree: Linker) -> None:
        self.tree = tree

    def keys_changed(self) -> None:
        self.tree.keys_changed()

    def connect(self, contact: Contact) -> None:
        self.tree.connect(contact)


@mypyc_attr(allow_interpreted_subclasses=True)
class Linker(Overlay):
    """A node's links to parent and children, and the connections below them."""

    def __init__(self, host: Host, parameters: DHTreeParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.tree = parameters.tree()
        self.ring = Ring(host, parameters, self.tree.keys, _Holder(self))
        self.heartbeat = parameters.heartbeat
        self.silence = parameters.heartbeat * parameters.patience
        self.most = BINARY_CHILDREN if parameters.fan_out == 2 else 1 << 30
        self.place: Place = self.tree.root
        """This node's topmost key."""
        self.parent: NodeId = LOCAL
        self.parent_level = 0
        """The level of the link to the parent."""
        self.children: dict[NodeId, int] = {}
        """Per child the level of the link."""
        self.wanted: dict[NodeId, int] = {}
        """The children that the last search found, and their topmost keys."""
        self.contacts: dict[NodeId, Contact] = {}
        """The nodes that the last search found."""
        self.requests: dict[NodeId, Attach] = {}
        """Who asks to be a child, until a search tells whether it is one."""
        self.heard: dict[NodeId, float] = {}
        """Per open connection, when its other end was last heard."""
        self._attaching: NodeId = LOCAL
        """The node that was asked to be the parent, and has not answered."""
        self._attach: Attach | None = None
        self._tokens = 0
        self._asked: dict[Any, float] = {}
        """Connections that this node opened, by id or address, and when they were last needed."""
        self._beaten = -1.0
        self._stopped = False

    def search(self) -> None:
        """Find parent and children."""
        raise NotImplementedError

    def _search_later(self) -> None:
        """Find them after a pause: nodes disagree, or one does not answer."""
        raise NotImplementedError

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

    # Making a link: the child asks, the parent answers after a search

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

    def _withdraw(self) -> None:
        """Ask the node that was asked to be the parent no longer."""
        asked, self._attaching = self._attaching, LOCAL
        if asked != LOCAL and asked in self.heard:
            self.host.send(asked, Detach(False))

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

    # Giving up a link

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

    # Connections

    def connect(self, contact: Contact) -> None:
        """Open a connection; it is closed when neither the tree nor the ring needs it any more."""
        if contact.node not in self.heard:
            self._asked[contact.node if contact.node >= 0 else contact.address] = self.host.now()
            self.host.open(contact)

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

    def on_beat(self, sender: NodeId, message: Message) -> None:
        """A connection works; other messages may have come out of band."""
        if sender in self.heard:
            self.heard[sender] = self.host.now()
