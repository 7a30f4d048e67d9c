"""ShopParent: a publish/subscribe tree in which each node shops for the parent that costs least.

Huang and Garcia-Molina, *Publish/Subscribe Tree Construction in Wireless Ad-Hoc Networks* (2003),
section 3.1. The rules:

* A node without a parent broadcasts PARENT-PROBE. Neighbours that have a route to the root answer
  with PARENT-ADVERTISE. The node joins the one whose metric is smallest; without an answer it
  tries again later.
* Every node with a route advertises once a period, and soon when what it says has changed. A node
  compares what it hears with its parent, and changes to a parent that is strictly better.
* A parent that is silent for the timeout is expired, and its child probes as if it were new.
* A node never joins one of its descendants: an advertisement carries the sender's route.

What the paper leaves open:

* Parents are compared *detached*, as if the node and all below it were absent. An advertisement
  lists what each child wants and, for each node on the route, what it wants besides this branch;
  so an ancestor can be compared as well.
* Routes are out of date while several nodes move at once. So a request to join climbs to the root,
  and is refused by whoever has no route, is about to move itself, or has sent it: no cycle forms.
* A node whose ancestor lost its route stays where it is, but no longer advertises. It looks for
  another parent when that lasts longer than the timeout.
* When the root is gone an heir takes its place. Every node prefers the tree of the first heir, so
  that the parts of a network that was cut become one tree again.

With ``discovery = "radio"`` neighbours are whoever hears a broadcast. With ``"sampling"`` nodes
know others by peer sampling, and ask some of them for advertisements in each period.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_messages import Known
from shoal.overlay.sampling import View
from shoal.overlay.shopparent_costs import LEAST, RANDOM, Errors, Work, metric
from shoal.overlay.shopparent_interests import BySample, Interests, OnAxis
from shoal.overlay.shopparent_messages import (
    Advertise,
    Answer,
    Child,
    Here,
    Hop,
    Join,
    Moved,
    Probe,
    ShopParentParameters,
    Stray,
    Wanted,
    Welcome,
)
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Layer, Overlay, Reconfiguration, Routing, shown_parent
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event

NOBODY: Final = -1
LOST: Final = 32
"""Lost nodes that are remembered; the oldest is forgotten for a newer one."""
LONGEST: Final = 1000
"""Nodes on a route at most."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ShopParent(Overlay):
    """A tree in which every node has the parent that costs least."""

    def __init__(self, host: Host, parameters: ShopParentParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.metric = parameters.metric
        self.work = Work(parameters.receive, parameters.forward)
        self.radio = parameters.discovery == "radio"
        self.period = parameters.period
        self.timeout = parameters.timeout
        self.collect = parameters.collect
        self.hysteresis = parameters.hysteresis
        self.probes = parameters.probes
        self.interests: Interests = (
            OnAxis(parameters.attribute, parameters.merge == "hull")
            if parameters.overlap == "axis"
            else BySample()
        )
        if parameters.overlap == "sample":
            routing.watching = self
        self.most = parameters.children
        """Children that this node takes at most; 0: any number."""
        self.errors: Errors | None = None
        if parameters.error:
            shared = parameters.error_terms == "shared"
            self.errors = Errors(host.chance("errors"), parameters.error, shared)
        roots = parameters.roots
        self.place = roots.index(host.node) if host.node in roots else NOBODY
        """This node's place among those that may be the root; NOBODY if it may not."""
        self.patience = parameters.timeout * (1 + 2 * self.place)
        """Seconds without a route after which it takes the root's place."""
        if parameters.heirs == "anyone" and self.place != 0:
            self.place = 1 + host.node
            phase = host.chance("heir").uniform(host.node)
            self.patience = parameters.timeout * (2 + 2 * phase)
        self.parent: NodeId = LOCAL
        self.rank = NOBODY
        """The root's place among those that may be it; NOBODY without a route to a root."""
        self.route: tuple[Hop, ...] = ()
        """The way from the root to the parent; empty at the root."""
        self.unrouted_since = 0.0
        self.adverts: dict[NodeId, Advertise] = {}
        """The latest PARENT-ADVERTISE of each neighbour."""
        self.advertised: dict[NodeId, float] = {}
        """When each of them was heard."""
        self.heard: dict[NodeId, float] = {}
        """Per open connection, when its other end was last heard."""
        self.joining: NodeId = NOBODY
        """The node that this one asks to be its parent."""
        self.request = 0
        """The number of the latest request to join."""
        self.moves = 0
        """Parents that this node has left for a better one."""
        self.saved = 0.0
        """By how much the metrics of the better ones were smaller, in sum."""
        self.view = View(host, parameters.forget)
        self.contacts: tuple[Contact, ...] = ()
        self.lost: dict[tuple[NodeId, str], Contact] = {}
        """With sampling: nodes not heard of for long, or never, to be tried again."""
        self._chance = host.chance("parent")
        self._draws = 0
        self._ticked = -1.0
        self._choosing = False
        self._telling = False
        self._told: Advertise | None = None
        """What this node advertised last."""
        self._deadline: Timer | None = None
        self._saving = 0.0
        """By how much the parent that is being asked is better."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Looking for a parent, joining it, and losing it."""
        return {
            Probe: self.on_probe,
            Advertise: self.on_advertise,
            Join: self.on_join,
            Answer: self.on_answer,
            Welcome: self.on_welcome,
            Moved: self.on_moved,
            Stray: self.on_stray,
            Here: self.on_here,
        }

    # Life

    def start(self) -> None:
        """The root has a route from the start; all begin to look around, at different moments."""
        self.unrouted_since = self.host.now()
        if self.place == 0:
            self.rank = 0
        phase = self.host.chance("phase").uniform(self.host.node, self.host.epoch)
        self.host.every(self.period, self.tick, phase * self.period)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """A new node probes at once."""
        self.contacts = contacts
        for contact in contacts:
            self._lose(contact)
        if self.rank < 0:
            self.probe()

    def stop(self) -> None:
        """Close all connections, so that nobody has to wait for the timeout."""
        for peer in list(self.heard):
            self.host.close(peer)

    def tick(self) -> None:
        """Once a period: expire the silent, look for a better parent, and advertise."""
        now = self.host.now()
        if now - self._ticked > 2 * self.period and self._ticked >= 0:
            for peer in self.heard:  # this node itself was held up: nobody else is to blame
                self.heard[peer] = now
        self._ticked = now
        self._expire(now)
        if not self.radio:
            self._sample()
        if self.rank >= 0:
            self.shop()
            self.advertise()
        elif not self._take_over(now) and (
            self.parent == LOCAL or now - self.unrouted_since > self.timeout
        ):
            self.probe()
        if self.rank < 0:
            self.host.send_all(tuple(self.children()), Stray())
        if self.parent != LOCAL:
            self.host.send(self.parent, Here())

    def _expire(self, now: float) -> None:
        """Give up connections and forget advertisements of nodes that have been silent."""
        silent = now - self.timeout
        for peer in [p for p, at in self.heard.items() if at < silent]:
            if self.host.watched:
                self.host.note("expired", peer, "parent" if peer == self.parent else "child")
            self.host.close(peer)
            self._disconnected(peer)
        for node in [n for n, at in self.advertised.items() if at < silent]:
            self._forget(node)

    def _forget(self, node: NodeId) -> None:
        self.adverts.pop(node, None)
        self.advertised.pop(node, None)

    def _take_over(self, now: float) -> bool:
        """An heir becomes the root when it has had no route for long enough."""
        if self.place < 0 or now - self.unrouted_since <= self.patience:
            return False
        if self.parent != LOCAL:
            self.host.close(self.parent)
            self._disconnected(self.parent)
        self.rank = self.place
        self.advertise()
        return True

    # Looking for a parent

    def probe(self) -> None:
        """PARENT-PROBE to all neighbours; the best of those that answer becomes the parent."""
        if self.host.watched:
            self.host.note("probe", self.parent, "")
        if self.radio:
            self.host.broadcast(Probe())
        else:
            for contact in self.contacts:
                self.host.send_direct(contact, Probe(self.view.sample(contact.node)))
            self._sample()
        self._choose_soon()

    def _sample(self) -> None:
        """Ask some nodes known by peer sampling what they would cost."""
        view = self.view
        view.alive(self.neighbours)
        before = {node: entry.contact for node, entry in view.entries.items()}
        view.forget_old()
        for node, contact in before.items():
            if node not in view.entries:
                self._lose(contact)
        self._draws += 1
        known = list(view.entries)
        count = min(self.probes, len(known))
        asked = self._chance.sample(known, count, self.host.node, self._draws)
        contacts = [view.entries[node].contact for node in asked]
        if self.lost:
            contacts.append(list(self.lost.values())[view.below(len(self.lost))])
        for contact in contacts:
            self.host.send_direct(contact, Probe(view.sample(contact.node)))

    def _lose(self, contact: Contact) -> None:
        """Remember a node that is not heard of: the network may be cut."""
        self.lost[contact.node, contact.address] = contact
        if len(self.lost) > LOST:
            del self.lost[next(iter(self.lost))]

    def on_probe(self, sender: NodeId, message: Message) -> None:
        """Answer, if this node has a route to the root."""
        known = cast("Probe", message).known
        self._hear(sender, known)
        if self.rank >= 0:
            contact = known[0].contact if known else Contact(sender)
            if self.host.watched:
                self.host.note("answer", sender, str(len(self.route)))
            self.host.send_direct(contact, self.advertisement())

    def _hear(self, sender: NodeId, known: tuple[Known, ...]) -> None:
        """With sampling: others that a node knows."""
        if known:
            address = known[0].contact.address
            for node in (sender, NOBODY):  # of a contact only the address may be known
                self.lost.pop((node, address), None)
            self.view.hear(known, self.neighbours)

    def advertise(self) -> None:
        """PARENT-ADVERTISE to all neighbours; by sampling, to all children."""
        message = self.advertisement()
        self._told = message
        if self.radio:
            self.host.broadcast(message)
        else:
            self.host.send_all(tuple(self.children()), message)

    def _news(self) -> None:
        """Something that this node advertises may have changed: say so soon, not in a period."""
        if not self._telling:
            self._telling = True
            self.host.after(self.collect, self._tell_news)

    def _tell_news(self) -> None:
        self._telling = False
        if self.rank < 0:
            return
        now, told = self.advertisement(), self._told
        if (
            told is None
            or now.children != told.children
            or now.route != told.route
            or now.own != told.own
            or now.room != told.room
        ):
            self.advertise()

    def advertisement(self, new: NodeId = NOBODY) -> Advertise:
        """What this node costs as a parent; ``new`` is about to be a child."""
        routing, interests = self.routing, self.interests
        children = tuple(
            Child(child, interests.wanted(routing.filters_from(child))) for child in self.children()
        )
        if new != NOBODY and new not in self.neighbours:
            children = (*children, Child(new, Wanted()))
        known: tuple[Known, ...] = () if self.radio else self.view.sample(NOBODY)
        own = interests.wanted(routing.filters())
        return Advertise(self.rank, self.route, own, children, self._has_room(), known)

    def _has_room(self) -> bool:
        """Whether this node takes one more child."""
        return not self.most or len(self.children()) < self.most

    def children(self) -> list[NodeId]:
        """The nodes whose parent this one is."""
        return [node for node in self.neighbours if node != self.parent]

    def on_advertise(self, sender: NodeId, message: Message) -> None:
        """Remember it; that of the parent tells the way to the root."""
        advertise = cast("Advertise", message)
        now = self.host.now()
        self.adverts[sender] = advertise
        self.advertised[sender] = now
        self._hear(sender, advertise.known)
        if sender == self.parent:
            self.heard[sender] = now
            self._follow(advertise)
        elif _parent_in(advertise) == self.host.node:
            self._news()
        elif self.rank < 0 and self.parent == LOCAL:
            self._choose_soon()

    def _follow(self, advertise: Advertise) -> None:
        """Take over the parent's route; if it is another one, all below must know at once."""
        if self.host.node not in [child.node for child in advertise.children]:
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

    # Choosing a parent

    def _choose_soon(self) -> None:
        """Wait a moment, so that all answers to a probe are there."""
        if not self._choosing:
            self._choosing = True
            self.host.after(self.collect, self._choose)

    def _choose(self) -> None:
        """A node without a route joins the best of those that it heard."""
        self._choosing = False
        if self.rank >= 0 or self.joining != NOBODY:
            return
        candidates = self._candidates()
        if not candidates:
            return
        if self.metric == RANDOM:
            best = candidates
        else:
            values = self.metrics(candidates)
            least = min(values) + LEAST
            best = [c for c, value in zip(candidates, values, strict=True) if value <= least]
        self._draws += 1
        self._ask(best[self._chance.below(len(best), self.host.node, self._draws)])

    def shop(self) -> None:
        """A node with a route changes to a strictly better parent."""
        if self.joining != NOBODY:
            return
        candidates = self._candidates()
        if not candidates:
            return
        better_tree = self.adverts[candidates[0]].rank < self.rank
        if self.parent == LOCAL or better_tree:
            if better_tree:
                self._ask(candidates[self._least(self.metrics(candidates))])
            return
        if self.metric == RANDOM or self.parent not in candidates:
            return
        values = self.metrics(candidates)
        now = values[candidates.index(self.parent)]
        at = self._least(values)
        if values[at] < now * (1.0 - self.hysteresis) - LEAST:
            self._ask(candidates[at], now - values[at])

    def _least(self, values: list[float]) -> int:
        """Where the first of the least values is."""
        return values.index(min(values))

    def _candidates(self) -> list[NodeId]:
        """Nodes in the tree of the first root, and not below this one."""
        found: list[NodeId] = []
        first = NOBODY
        for node, advertise in self.adverts.items():
            if self._is_below(advertise) or (node in self.neighbours and node != self.parent):
                continue
            if not advertise.room and node != self.parent:
                continue
            if first == NOBODY or advertise.rank < first:
                first, found = advertise.rank, []
            if advertise.rank == first and len(advertise.route) < LONGEST:
                found.append(node)
        return found

    def _is_below(self, advertise: Advertise) -> bool:
        """Whether the way of whoever sent this leads over this node."""
        return any(hop.node == self.host.node for hop in advertise.route)

    def metrics(self, candidates: list[NodeId]) -> list[float]:
        """The routing metrics of candidates, with this node and all below it detached."""
        routing, interests = self.routing, self.interests
        mine = [routing.filters()] + [routing.filters_from(child) for child in self.children()]
        wanted = interests.merged([interests.wanted(filters) for filters in mine])
        offers = [self._offer(node) for node in candidates]
        space = interests.space([wanted, *(one for offer in offers for one in offer)])
        added = interests.interest(space, wanted)
        values: list[float] = []
        for node, (own, others) in zip(candidates, offers, strict=True):
            hops = len(self.adverts[node].route)
            error = (0.0, 0.0) if self.errors is None else self.errors.of(self.host.node, node)
            inherent = interests.interest(space, own)
            proxied = interests.interest(space, others)
            values.append(
                metric(self.metric, space, self.work, hops, inherent, proxied, added, error)
            )
        return values

    def _offer(self, node: NodeId) -> tuple[Wanted, Wanted]:
        """What a candidate wants, and what its children want without this node."""
        advertise = self.adverts[node]
        branch = self._branch(node)
        others: list[Wanted] = []
        for child in advertise.children:
            if child.node == self.host.node:
                continue
            if branch and child.node == branch[0].node:
                others.extend(hop.rest for hop in branch)
            else:
                others.append(child.wanted)
        return advertise.own, self.interests.merged(others)

    def _branch(self, ancestor: NodeId) -> tuple[Hop, ...]:
        """The part of the route below an ancestor; empty for a node that is none."""
        for place, hop in enumerate(self.route):
            if hop.node == ancestor:
                return self.route[place + 1 :]
        return ()

    # Joining a parent

    def _ask(self, node: NodeId, saving: float = 0.0) -> None:
        """Ask a node to be the parent, over a connection."""
        self.joining = node
        self._saving = saving
        self._deadline = self.host.after(self.timeout, self._give_up)
        if node in self.heard:
            self._request(node)
        else:
            known = self.adverts[node].known
            self.host.open(known[0].contact if known else Contact(node))

    def _request(self, node: NodeId) -> None:
        self._draws += 1
        self.request = self._chance.below(2**31, self.host.node, self.host.epoch, self._draws)
        self.host.send(node, Join((self.host.node,), self.request, self.parent != LOCAL))

    def on_join(self, sender: NodeId, message: Message) -> None:
        """A request climbs to the root, and is refused where it might close a cycle."""
        join = cast("Join", message)
        if sender not in self.heard or join.path[-1] != sender:
            return
        self.heard[sender] = self.host.now()
        moving = self.rank < 0 or self.joining != NOBODY
        full = len(join.path) == 1 and not self._has_room()
        if full or moving or self.host.node in join.path or len(join.path) >= LONGEST:
            self.host.send(sender, Answer(join.path, join.request, join.moves, False))
        elif self.parent == LOCAL:
            self._answer(join.path, join.request, join.moves, True)
        else:
            path = (*join.path, self.host.node)
            self.host.send(self.parent, Join(path, join.request, join.moves))

    def on_answer(self, sender: NodeId, message: Message) -> None:
        """The answer goes back down, to the parent to be or to the node that asked."""
        answer = cast("Answer", message)
        if answer.path[-1] != self.host.node or sender not in self.heard:
            return
        if len(answer.path) > 1:
            self._answer(answer.path[:-1], answer.request, answer.moves, answer.granted)
        elif sender == self.joining and answer.request == self.request:
            self._forget(sender)
            self._give_up()

    def _answer(self, path: tuple[int, ...], request: int, moves: bool, granted: bool) -> None:
        """One step back down; the parent to be makes its end of the link."""
        node = path[-1]
        if len(path) == 1 and node not in self.neighbours and not self._has_room():
            granted = False
        if len(path) > 1 or not granted:
            self.host.send(node, Answer(path, request, moves, granted))
        elif node in self.heard and node != self.parent:
            # Before the link is up: the child must hear of it before what goes over it.
            self.host.send(node, Welcome(self.advertisement(node), request))
            if node not in self.neighbours:
                self.link_up(node, Reconfiguration(request) if moves else None)
                self._news()

    def on_welcome(self, sender: NodeId, message: Message) -> None:
        """The new parent has made its end of the link: leave the old one."""
        welcome = cast("Welcome", message)
        if sender != self.joining or welcome.request != self.request:
            if sender != self.parent and sender in self.heard:
                self.host.close(sender)
                self._disconnected(sender)
            return
        value = self._saving
        self._asked()
        old = self.parent
        repair = Reconfiguration(welcome.request) if old != LOCAL else None
        if old != LOCAL:
            self.link_down(old, repair)
        self.parent = sender
        self.heard[sender] = self.host.now()
        self.link_up(sender, repair)
        self.parent_changed(sender)
        if repair is not None:
            self._leave(old, sender, repair)
            self.moves += 1
            self.saved += value
        self._note_parent(sender, value)
        self.adverts[sender] = welcome.advertise
        self.advertised[sender] = self.host.now()
        self._follow(welcome.advertise)

    def _leave(self, old: NodeId, new: NodeId, repair: Reconfiguration) -> None:
        """Tell the old parent which link stands in for the lost one."""
        del self.heard[old]
        self.host.send(old, Moved(new, repair.id))
        self.link_replaced(old, self.host.node, new, repair)
        self.host.close(old)

    def on_moved(self, sender: NodeId, message: Message) -> None:
        """A child has found a better parent."""
        moved = cast("Moved", message)
        if sender in self.neighbours and sender != self.parent:
            repair = Reconfiguration(moved.request)
            self.link_down(sender, repair)
            self.link_replaced(sender, moved.parent, sender, repair)
            self._news()

    def _asked(self) -> None:
        """A request is over."""
        self.joining = NOBODY
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        """A request was refused, or nobody answered: stay with the parent there is."""
        node = self.joining
        self._asked()
        if node in self.heard and node not in self.neighbours:
            self.host.close(node)
            del self.heard[node]

    # Connections, and losing them

    def opened(self, peer: Contact) -> None:
        """Ask to be a child if the connection was opened for that."""
        self.heard[peer.node] = self.host.now()
        if peer.node == self.joining:
            self._request(peer.node)

    def closed(self, peer: NodeId) -> None:
        """The connection broke, or the other end closed it."""
        if peer in self.heard:
            self._disconnected(peer)

    def unreachable(self, contact: Contact) -> None:
        """A node that was to be the parent is gone."""
        self.view.refused(contact.node, False)
        self._forget(contact.node)
        if contact.node == self.joining:
            self._asked()

    def _disconnected(self, peer: NodeId) -> None:
        """There is no connection to a node any more, and so no link."""
        del self.heard[peer]
        entry = self.view.entries.get(peer)
        if entry is not None:
            self._lose(entry.contact)
        if peer == self.joining:
            self._asked()
        if peer == self.parent:
            self._forget(peer)
            self.parent = LOCAL
            self.link_down(peer)
            self.parent_changed(LOCAL)
            self._note_parent(LOCAL, 0.0)
            self._unroute()
            self.probe()
        elif peer in self.neighbours:
            self.link_down(peer)
            self._news()

    def _unroute(self) -> None:
        """There is no way to the root any more, also for all below."""
        if self.rank < 0:
            return
        self.rank = NOBODY
        self.route = ()
        self.unrouted_since = self.host.now()
        self.host.send_all(tuple(self.children()), Stray())

    def on_stray(self, sender: NodeId, message: Message) -> None:
        """The parent has lost its route."""
        if sender == self.parent:
            self.heard[sender] = self.host.now()
            self._forget(sender)
            self._unroute()

    def on_here(self, sender: NodeId, message: Message) -> None:
        """A child is alive."""
        if sender in self.heard:
            self.heard[sender] = self.host.now()

    # For those who watch

    def _note_parent(self, parent: NodeId, saving: float) -> None:
        if self.host.watched:
            self.host.note("parent", parent, repr(saving))

    def routed(self, event: Event) -> None:
        """Keep the event in the sample by which interests are compared."""
        self.interests.observe(event.content)

    def wrong(self, running: Mapping[NodeId, Layer]) -> str | None:
        """See :class:`~shoal.stack.layer.Layer`: all are in one tree, and both ends know."""
        if self.rank < 0:
            return "has no route to a root"
        for node, other in running.items():
            if cast("ShopParent", other).rank != self.rank:
                return f"is in another tree than node {node}"
        if self.parent != LOCAL:
            above = running.get(self.parent)
            if above is None or self.host.node not in cast("ShopParent", above).children():
                return f"has the parent {self.parent}, which does not know it"
        for child in self.children():
            below = running.get(child)
            if below is None or cast("ShopParent", below).parent != self.host.node:
                return f"has the child {child}, whose parent is another node"
        return None

    def describe(self) -> dict[str, object]:
        """See :class:`~shoal.stack.layer.Overlay`."""
        return {
            "parent": shown_parent(self.parent, self.rank >= 0),
            "hops": len(self.route) if self.rank >= 0 else None,
            "children": len(self.children()),
            "moves": self.moves,
            "saved": round(self.saved, 3),
        }


def _parent_in(advertise: Advertise) -> NodeId:
    """The parent of whoever sent this; NOBODY for the root."""
    return advertise.route[-1].node if advertise.route else NOBODY


register(
    "overlay",
    "shopparent",
    ShopParent,
    ShopParentParameters,
    needs={"reach", "tables"},
    provides={"links", "tree", "root", "association"},
    summary="A tree in which each node shops for the parent that costs least.",
)
