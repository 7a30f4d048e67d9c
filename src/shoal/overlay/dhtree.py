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

How links are made, and why no cycle forms at any instant: :mod:`~shoal.overlay.dhtree_links`. Here:
a node's life, and its searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.chord_messages import RingPeer
from shoal.overlay.dhtree_links import Linker
from shoal.overlay.dhtree_messages import (
    Attach,
    Attached,
    Detach,
    DHTreeParameters,
    NeighbourChange,
    Refused,
    TreeBeat,
)
from shoal.overlay.reference_tree import Owner, Owners, UnknownOwnerError, children_of, parent_of
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Layer, Routing, shown_parent
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register


@mypyc_attr(allow_interpreted_subclasses=True)
class DHTree(Linker):
    """A tree of bounded degree that copies a reference tree over a hash table's keys."""

    def __init__(self, host: Host, parameters: DHTreeParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.pause = parameters.reply
        self.heals_within = self.silence + 4 * parameters.heal
        self.wanted_parent: NodeId = LOCAL
        """The parent that the last search found."""
        self.searches = 0
        self._owners: Owners | None = None
        """What the present search knows; None if there is none."""
        self._search_again = False
        self._retry: Timer | None = None

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
        for peer in list(self.heard):
            self.host.close(peer)

    def receive(self, sender: NodeId, message: Any) -> None:
        """A node that has left takes part no longer."""
        if not self._stopped:
            super().receive(sender, message)

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
            self._send_change(node)
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
                self._send_change(child)
            self._search_later()

    def _send_change(self, node: NodeId) -> None:
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

    # For those who watch

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
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
    agree={"fan_out", "levels", "heartbeat", "patience"},
    summary="A tree of bounded degree that copies a reference tree over a hash table's keys.",
)
