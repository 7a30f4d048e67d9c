"""How a node of ShopParent joins a parent, leaves it for a better one, and loses it.

A request to join (JOIN) climbs from the parent to be to the root, and the answer comes back the
same way. The parent to be refuses it for want of room; a node on the way refuses it if it has no
route, is asking for another parent, or sent the request itself (it came back round). So no cycle
forms, however many nodes move at once. The new parent makes its end of the link and answers
WELCOME; then the child makes its own. How the old link ends: :mod:`~shoal.overlay.handover`.

A node that loses its route tells its children (STRAY), which thereby lose theirs.
"""

from __future__ import annotations

from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.handover import LONGEST, NOBODY
from shoal.overlay.shopparent_member import Member
from shoal.overlay.shopparent_messages import (
    Advertise,
    Answer,
    Hop,
    Join,
    ShopParentParameters,
    Stray,
    Welcome,
)
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Reconfiguration, Routing
from shoal.stack.message import Contact, Message

SHUNNED: Final = 32
"""Longest time, in timeouts, for which a node that does not answer requests is not asked again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Joiner(Member):
    """Makes and gives up the links to parent and children."""

    def __init__(self, host: Host, parameters: ShopParentParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.joining: NodeId = NOBODY
        """Node that is being asked to be the parent; else NOBODY."""
        self.request = 0
        """Number of the latest request to join."""
        self.unrouted_since = 0.0
        """Time when this node lost its route to the root."""
        self.moves = 0
        """Parents that this node has left for a better one."""
        self.avoided: NodeId = NOBODY
        """Parent that has announced its stop; else NOBODY."""
        self.shunned: dict[NodeId, float] = {}
        """Time before which no request is sent, per node that did not answer one."""
        self._spans: dict[NodeId, float] = {}
        """Seconds for which a node was shunned last, per node."""
        self._deadline: Timer | None = None
        self._saving = 0.0
        """Units of work per event that a move to the node asked would save."""
        self._welcome_at = 0.0
        """When the parent made this node its child."""

    def probe(self) -> None:
        """Look for a parent."""
        raise NotImplementedError

    def move_away(self) -> bool:
        """Ask another node to be the parent; False if none is known."""
        raise NotImplementedError

    # Asking a node to be the parent

    def _ask(self, node: NodeId, saving: float = 0.0) -> None:
        """Ask a node to be the parent, over a connection."""
        self.joining = node
        self._saving = saving
        self._deadline = self.host.after(self.timeout, self._shun)
        if node in self.heard:
            self._request(node)
        else:
            known = self.adverts[node].known
            self.host.open(known[0][0] if known else Contact(node))

    def _request(self, node: NodeId) -> None:
        self._draws += 1
        self.request = self._chance.below(2**31, self.host.node, self.host.epoch, self._draws)
        self.expect_link(node)
        self.host.send(node, Join((self.host.node,), self.request, self.parent != LOCAL))

    def on_join(self, sender: NodeId, message: Message) -> None:
        """JOIN: pass it on to the root, or refuse it (see above)."""
        join = cast("Join", message)
        if sender not in self.heard or join.path[-1] != sender:
            return
        self.heard[sender] = self.host.now()
        moving = self.rank < 0 or self.joining != NOBODY or self.stopping
        full = len(join.path) == 1 and not self._has_room()
        if full or moving or self.host.node in join.path or len(join.path) >= LONGEST:
            self.host.send(sender, Answer(join.path, join.request, join.moves, False))
        elif self.parent == LOCAL:
            self._answer(join.path, join.request, join.moves, True)
        else:
            path = (*join.path, self.host.node)
            self.host.send(self.parent, Join(path, join.request, join.moves))

    def on_answer(self, sender: NodeId, message: Message) -> None:
        """The answer goes back down the path, and a refusal on to the node that asked."""
        answer = cast("Answer", message)
        if answer.path[-1] != self.host.node or sender not in self.heard:
            return
        if len(answer.path) > 1:
            if sender not in (self.parent, self.leaving):
                return  # nobody below may grant anything
            self._answer(answer.path[:-1], answer.request, answer.moves, answer.granted)
        elif sender == self.joining and answer.request == self.request:
            self._forget(sender)
            self._give_up()
            if self.avoided != NOBODY:
                self.move_away()

    def _answer(self, path: tuple[int, ...], request: int, moves: bool, granted: bool) -> None:
        """Send an answer one step down; a parent to be, if granted, makes its end of the link."""
        node = path[-1]
        if len(path) == 1 and node not in self.neighbours and not self._has_room():
            granted = False
        if len(path) > 1 or not granted:
            self.host.send(node, Answer(path, request, moves, granted))
        elif node in self.heard and node != self.parent:
            welcome = Welcome(self.advertisement(node), request)
            if node in self.neighbours:
                self.host.send(node, welcome)
            else:
                self.link_up(node, Reconfiguration(request) if moves else None)
                # Behind what this node announces, so that the child can route at once.
                self.host.send(node, welcome)
                self._news()

    def on_welcome(self, sender: NodeId, message: Message) -> None:
        """The new parent has made its end of the link: leave the old one."""
        welcome = cast("Welcome", message)
        asked = sender == self.joining and welcome.request == self.request
        if not asked or not self.expects_link(sender):
            if sender != self.parent and sender in self.heard:
                self.host.close(sender)
                self._disconnected(sender)
            return
        value = self._saving
        self._asked()
        self._spans.pop(sender, None)
        old = self.parent
        repair = Reconfiguration(welcome.request) if old != LOCAL else None
        if old != LOCAL:
            self.link_down(old, repair)
        self.parent = sender
        self.avoided = NOBODY
        self.heard[sender] = self._welcome_at = self.host.now()
        self.link_up(sender, repair)
        self.parent_changed(sender)
        self.handle_early(sender)
        if repair is not None:
            self._leave(old, sender, repair)
            self.moves += 1
            self.saving += value
        self._note_parent(sender, value)
        self.adverts[sender] = welcome.advertise
        self.advertised[sender] = self.host.now()
        self._follow(welcome.advertise)

    def _asked(self) -> None:
        """A request is over, whatever its outcome."""
        self.joining = NOBODY
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _shun(self) -> None:
        """The node asked did not answer: do not ask it for a while, twice as long each time."""
        node = self.joining
        span = min(2 * self._spans.get(node, 0.5 * self.timeout), SHUNNED * self.timeout)
        self._spans[node] = span
        self.shunned[node] = self.host.now() + span
        if len(self._spans) > LONGEST:
            self._spans.clear()
        self._give_up()

    def _give_up(self) -> None:
        """A request was refused or not answered: keep the present parent, if any."""
        node = self.joining
        self._asked()
        self.forget_early(node)
        if node in self.heard and node not in self.neighbours:
            self.host.close(node)
            del self.heard[node]

    # The parent's route

    def _follow(self, advertise: Advertise) -> None:
        """Adopt the parent's route; if it has changed, all below must know at once."""
        cycle = any(hop.node == self.host.node for hop in advertise.route)  # a liar has closed it
        if cycle or self.host.node not in [child.node for child in advertise.children]:
            # An answer to a probe comes by another way, and may be older than the parent's WELCOME.
            if cycle or self.radio or self.host.now() - self._welcome_at > self.timeout:
                self.host.close(self.parent)  # the parent has expired this node
                self._disconnected(self.parent)
            return
        others = [child.wanted for child in advertise.children if child.node != self.host.node]
        rest = self.interests.merged([advertise.own, *others])
        route = (*advertise.route, Hop(self.parent, rest))
        changed = self.rank != advertise.rank or len(route) != len(self.route)
        for new, old in zip(route, self.route, strict=False):
            if new.node != old.node:
                changed = True
        self.route = route
        self.rank = advertise.rank
        if changed:
            self.advertise()
        else:
            self._news()

    def _unroute(self) -> None:
        """The route to the root is lost, also for all below."""
        if self.rank < 0:
            return
        self.rank = NOBODY
        self.route = ()
        self.unrouted_since = self.host.now()
        self.host.send_all(tuple(self.child_nodes()), Stray())

    def on_stray(self, sender: NodeId, message: Message) -> None:
        """The parent has lost its route."""
        if sender == self.parent:
            self.heard[sender] = self.host.now()
            self._forget(sender)
            self._unroute()

    # Connections, and losing them

    def opened(self, peer: Contact) -> None:
        """Ask to be a child if the connection was opened for that."""
        self.heard[peer.node] = self.host.now()
        if peer.node == self.joining:
            self._request(peer.node)

    def closed(self, peer: NodeId) -> None:
        if peer in self.heard:
            self._disconnected(peer)

    def unreachable(self, contact: Contact) -> None:
        """A node that was sent something is gone, perhaps the one asked to be the parent."""
        self.view.refused(contact.node, False)
        self._forget(contact.node)
        if contact.node == self.joining:
            self._asked()

    def _disconnected(self, peer: NodeId) -> None:
        """There is no connection to a node any more, and so no link."""
        del self.heard[peer]
        self.forget_early(peer)
        if peer == self.leaving:
            self._left()
            return
        entry = self.view.entries.get(peer)
        if entry is not None:
            self._lose(entry.contact)
        if peer == self.joining:
            self._asked()
        if peer == self.parent:
            self._forget(peer)
            self.parent = LOCAL
            self.avoided = NOBODY
            self.link_down(peer)
            self.parent_changed(LOCAL)
            self._note_parent(LOCAL, 0.0)
            self.saving = 0.0
            self._unroute()
            self._abandon()
            self.probe()
        elif peer in self.neighbours:
            self._forget_parting(peer)
            self.link_down(peer)
            self._news()
            self._stop_at_last()

    def on_here(self, sender: NodeId, message: Message) -> None:
        """A child, or a parent that stops, is alive."""
        if sender in self.heard:
            self.heard[sender] = self.host.now()

    def _note_parent(self, parent: NodeId, saving: float) -> None:
        if self.host.watched:
            self.host.note("parent", parent, repr(saving))
