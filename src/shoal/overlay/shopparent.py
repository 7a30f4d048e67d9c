"""ShopParent: a publish/subscribe tree in which each node shops for the parent that costs least.

Huang and Garcia-Molina, *Publish/Subscribe Tree Construction in Wireless Ad-Hoc Networks* (2003),
section 3.1. The rules:

* A node without a parent broadcasts PARENT-PROBE. Neighbours that have a route to the root answer
  with PARENT-ADVERTISE. The node joins the one whose metric is smallest; without an answer it
  tries again later.
* Every node with a route advertises once a period, and soon when what it says has changed. A node
  compares what it hears with its parent, and changes to one whose metric is smaller by more than
  the share ``hysteresis``.
* A parent that is silent for the timeout is expired, and its child probes as if it were new.
* A node never joins one of its descendants: an advertisement carries the sender's route.

What the paper leaves open:

* Parents are compared *detached*, as if the node and all below it were absent. An advertisement
  lists what each child wants and, for each node on the route, what it wants besides this branch;
  so an ancestor can be compared as well.
* Routes are out of date while several nodes move at once. So a request to join climbs to the root,
  and is refused by whoever has no route, is about to move itself, or sent the request itself (it
  came back round): no cycle forms.
* A node whose ancestor lost its route stays where it is, but no longer advertises. It looks for
  another parent when that lasts longer than the timeout.
* When the root is gone an heir takes its place. Every node prefers the tree whose root comes first
  in the list of root and heirs, so that the parts of a network that was cut become one tree again.

With ``discovery = "radio"`` neighbours are whoever hears a broadcast. With ``"sampling"`` nodes
know others by peer sampling, and ask some of them for advertisements in each period.

What a node advertises: :mod:`~shoal.overlay.shopparent_member`. How it joins a parent and loses it:
:mod:`~shoal.overlay.shopparent_join`. How it leaves one for another without losing an event:
:mod:`~shoal.overlay.handover`. What a parent costs, as a formula:
:mod:`~shoal.overlay.shopparent_costs`. Here: a node's life, and how it chooses a parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from mypy_extensions import mypyc_attr

from shoal.overlay.handover import LONGEST, NOBODY
from shoal.overlay.shopparent_costs import LEAST, OVHD, RANDOM, Errors, Work, metric
from shoal.overlay.shopparent_join import Joiner
from shoal.overlay.shopparent_messages import (
    Advertise,
    Answer,
    Here,
    Hop,
    Join,
    Probe,
    ShopParentParameters,
    Stray,
    Wanted,
    Welcome,
)
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Layer, Routing, shown_parent
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register


@mypyc_attr(allow_interpreted_subclasses=True)
class ShopParent(Joiner):
    """A tree in which every node has the parent that costs least."""

    def __init__(self, host: Host, parameters: ShopParentParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.metric = parameters.metric
        self.work = Work(parameters.receive, parameters.forward)
        self.errors: Errors | None = None
        if parameters.error:
            shared = parameters.error_terms == "shared"
            self.errors = Errors(host.chance("errors"), parameters.error, shared)
        self.period = parameters.period
        self.hysteresis = parameters.hysteresis
        self.roots = roots = parameters.roots
        self.anyone = parameters.heirs == "anyone"
        self.place = roots.index(host.node) if host.node in roots else NOBODY
        """Position of this node in the list of root and heirs; NOBODY if it may not be the root."""
        self.patience = parameters.timeout * (1 + 2 * self.place)
        """Seconds without a route after which it takes the root's place."""
        if self.anyone and self.place != 0:
            self.place = 1 + host.node
            phase = host.chance("heir").uniform(host.node)
            self.patience = parameters.timeout * (2 + 2 * phase)
        self.contacts: tuple[Contact, ...] = ()
        """The nodes that it was told of when it started."""
        self._ticked = -1.0
        self._choosing = False

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            Probe: self.on_probe,
            Advertise: self.on_advertise,
            Join: self.on_join,
            Answer: self.on_answer,
            Welcome: self.on_welcome,
            **super().handlers(),
            Stray: self.on_stray,
            Here: self.on_here,
        }

    # Life

    def start(self) -> None:
        """The root has a route at once; every node begins its periods at a moment of its own."""
        self.unrouted_since = self.host.now()
        if self.place == 0:
            self.rank = 0
        phase = self.host.chance("phase").uniform(self.host.node, self.host.epoch)
        self.host.every(self.period, self.tick, phase * self.period)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        self.contacts = contacts
        for contact in contacts:
            self._lose(contact)
        if self.rank < 0:
            self.probe()

    def tick(self) -> None:
        """Expire silent nodes, look for a better parent, advertise; called once a period."""
        now = self.host.now()
        if self.stopping:
            self.host.send_all(tuple(self.neighbours), Here())
            return
        if now - self._ticked > 2 * self.period and self._ticked >= 0:
            for peer in self.heard:  # this node itself was held up: nobody else is to blame
                self.heard[peer] = now
        self._ticked = now
        self._expire(now)
        if not self.radio:
            self._sample()
        if self.rank >= 0:
            if self.avoided == NOBODY:
                self.shop()
            elif not self.move_away():
                self.probe()
            self.advertise()
        elif not self._take_over(now) and (
            self.parent == LOCAL or now - self.unrouted_since > self.timeout
        ):
            self.probe()
        if self.rank < 0:
            self.host.send_all(tuple(self.child_nodes()), Stray())
        if self.parent != LOCAL:
            self.host.send(self.parent, Here())
        if self.leaving != NOBODY:
            self.host.send(self.leaving, Here())

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
        self.shunned = {node: until for node, until in self.shunned.items() if until > now}

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

    def on_advertise(self, sender: NodeId, message: Message) -> None:
        """Remember the advertisement; the parent's has the route to the root."""
        advertise = cast("Advertise", message)
        now = self.host.now()
        if not self._is_rooted(sender, advertise):
            return
        self.adverts[sender] = advertise
        self.advertised[sender] = now
        self._hear(sender, advertise.known)
        if sender in (self.parent, self.leaving):
            self.heard[sender] = now
        if sender == self.parent:
            self._follow(advertise)
        elif advertise.route and advertise.route[-1].node == self.host.node:
            self._news()
        elif self.rank < 0 and self.parent == LOCAL:
            self._choose_soon()

    def _is_rooted(self, sender: NodeId, advertise: Advertise) -> bool:
        """Whether the route begins at the root of that rank; a node that lies may send another."""
        top = advertise.route[0].node if advertise.route else sender
        if advertise.rank < len(self.roots):
            return top == self.roots[advertise.rank]
        return self.anyone and top == advertise.rank - 1

    def _choose_soon(self) -> None:
        """Wait a moment, so that all answers to a probe are there."""
        if not self._choosing:
            self._choosing = True
            self.host.after(self.collect, self._choose)

    def _choose(self) -> None:
        """A node without a route joins the best of those that it heard."""
        self._choosing = False
        if self.avoided != NOBODY:
            self.move_away()
        if self.rank >= 0 or self.joining != NOBODY:
            return
        candidates = self._candidates()
        if not candidates:
            return
        if self.metric == RANDOM:
            best = candidates
        else:
            values = self.metrics(candidates, self.metric)
            least = min(values) + LEAST
            best = [c for c, value in zip(candidates, values, strict=True) if value <= least]
        self._draws += 1
        self._ask(best[self._chance.below(len(best), self.host.node, self._draws)])

    def shop(self) -> None:
        """A node with a route changes to a better root's tree, or to a parent that costs less."""
        if self.joining != NOBODY or self.leaving != NOBODY:
            return
        candidates = self._candidates()
        if not candidates:
            return
        if self.adverts[candidates[0]].rank < self.rank:
            self._ask(self._cheapest(candidates))
            return
        if self.metric == RANDOM or self.parent not in candidates:
            return
        values = self.metrics(candidates, self.metric)
        now = values[candidates.index(self.parent)]
        at = values.index(min(values))
        if values[at] < now * (1.0 - self.hysteresis) - LEAST:
            old, new = self.metrics([self.parent, candidates[at]], OVHD)
            self._ask(candidates[at], old - new)

    def on_leaving(self, sender: NodeId, message: Message) -> None:
        """The parent stops: move to another one, while it still sends events.

        A child that stops leaves its place to others.
        """
        if sender == self.parent:
            self.avoided = sender
            self._forget(sender)
            if not self.move_away():
                self.probe()
        elif sender in self.child_nodes():
            self.departing[sender] = None
            self._news()

    def move_away(self) -> bool:
        """Ask the cheapest node whose route does not lead over the parent; False if there is none.

        As the parent stops soon, the next one is asked at once after a refusal.
        """
        if self.joining != NOBODY or self.leaving != NOBODY:
            return True
        candidates = [
            node
            for node in self._candidates()
            if node != self.parent
            and all(hop.node != self.parent for hop in self.adverts[node].route)
        ]
        if candidates:
            self._ask(self._cheapest(candidates))
        return bool(candidates)

    def _cheapest(self, candidates: list[NodeId]) -> NodeId:
        """The first of the candidates with the least metric."""
        values = self.metrics(candidates, self.metric)
        return candidates[values.index(min(values))]

    def _candidates(self) -> list[NodeId]:
        """Nodes that may be asked: those of the prevailing tree, not below this one, with room."""
        found: list[NodeId] = []
        first = NOBODY
        now = self.host.now()
        for node, advertise in self.adverts.items():
            if self.shunned.get(node, now) > now:
                continue
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
        """Whether the sender's route to the root leads over this node."""
        return any(hop.node == self.host.node for hop in advertise.route)

    # What a parent costs

    def metrics(self, candidates: list[NodeId], name: str) -> list[float]:
        """A routing metric of candidates, with this node and all below it detached."""
        routing, interests = self.routing, self.interests
        mine = [routing.filters()] + [routing.filters_from(child) for child in self.child_nodes()]
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
            values.append(metric(name, space, self.work, hops, inherent, proxied, added, error))
        return values

    def _offer(self, node: NodeId) -> tuple[Wanted, Wanted]:
        """Interests of a candidate, and those of its children without this node."""
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

    # For those who watch

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """Promised: all nodes are in one tree, and both ends of a link know of it."""
        if self.rank < 0:
            return "has no route to a root"
        for node, other in running.items():
            if cast("ShopParent", other).rank != self.rank:
                return f"is in another tree than node {node}"
        if self.parent != LOCAL:
            above = running.get(self.parent)
            if above is None or self.host.node not in cast("ShopParent", above).child_nodes():
                return f"has the parent {self.parent}, which does not know it"
        for child in self.child_nodes():
            below = running.get(child)
            if below is None or cast("ShopParent", below).parent != self.host.node:
                return f"has the child {child}, whose parent is another node"
        return None

    def describe(self) -> dict[str, object]:
        """Shares and savings are there with ``overlap = "sample"`` only."""
        described: dict[str, object] = {
            "parent": shown_parent(self.parent, self.rank >= 0),
            "hops": len(self.route) if self.rank >= 0 else None,
            "children": len(self.child_nodes()),
            "moves": self.moves,
        }
        if self.routing.watching is not None:
            forwarded, foreign = self.for_others()
            described["forwards"] = round(forwarded, 3)
            described["only for others"] = round(foreign, 3)
            described["work saved"] = round(self.saved)
        return described


register(
    "overlay",
    "shopparent",
    ShopParent,
    ShopParentParameters,
    needs={"reach", "tables"},
    provides={"links", "tree", "root", "association"},
    agree={"root", "heirs", "overlap", "attribute", "period", "timeout"},
    summary="A tree in which each node shops for the parent that costs least.",
)
