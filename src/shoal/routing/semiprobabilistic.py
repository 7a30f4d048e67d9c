"""Semi-probabilistic routing on a graph (Costa and Picco 2005, section 3).

Subscriptions travel ``horizon`` (phi) hops; within that reach an event follows them, beyond it
links are drawn at random. Rules, for a dispatcher with l links:

* A subscription lays (link, filter, distance): how far beyond the link the nearest subscriber is,
  1 to phi. Over a link is announced the best distance of all *other* sources plus one, unless that
  exceeds phi; a change of it is announced as a change. A new link is told everything so; what a
  vanished link brought is gone, and the others are told what follows from that.
* An event is taken on its first arrival only; later copies are dropped. It goes on over
  f = ceil(tau (l - 1)) links other than the one it came by:

  1. every link with a matching subscription at distance 1, even beyond f;
  2. then matching links at distance 2, 3, ... while fewer than f are chosen, ties at random;
  3. then random other links, up to f.

  Links of 1 and 2 are deterministic hops, those of 3 probabilistic ones.
* A publisher, having no incoming link, sends over all its links (``publisher``).
* TTLs count links crossed: all of them (``ttl``), deterministic and probabilistic ones apart
  (``ttl_deterministic``, ``ttl_probabilistic``). ``ttl_rule`` says what an exhausted one stops.
* ``leaf_rule``: a dispatcher with a single link tells its neighbour so and what it wants, and gets
  nothing else.

``horizon = 0`` is purely probabilistic routing, ``threshold = 1`` flooding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from shoal.routing.horizon import HorizonRouting
from shoal.routing.parameters import SemiProbabilisticParameters
from shoal.routing.semiprobabilistic_messages import Gone, Leaf, Near, Spread
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message

UNLIMITED = 1 << 30
WHOLE = 1 << 16
"""Fanouts are counted in such parts of a link; a part of one is used by some events, by chance."""
ROUNDING = 1
"""Number of the draw that rounds a fanout. A draw among links has the subscribers' distance as its
number, or 0; at distance 1 all links are used without a draw, so that 1 is free."""
MEASURED: Final = ((0, 0.5, 0.991), (2, 0.25, 0.998), (1, 0.5, 0.998), (3, 0.5, 0.999))
"""Horizon, threshold, and the share of deliveries made at rest: 200 nodes of degree 5, each event
wanted by one of them. Where none of 2,000 or 5,000 was missed, a bound that is 95% sure."""
NOWHERE = (-2, -1, -1)
"""What a table says of a filter that nobody within the horizon wants."""


def share(threshold: float, links: int) -> int:
    """ceil(tau links); products that should be whole numbers are, in spite of rounding."""
    return math.ceil(threshold * links - 1e-9)


@mypyc_attr(allow_interpreted_subclasses=True)
class SemiProbabilistic(HorizonRouting):
    """Events follow nearby subscriptions, and random links where there are none."""

    def __init__(self, host: Host, parameters: SemiProbabilisticParameters) -> None:
        super().__init__(host, parameters.horizon)
        self.follows = parameters.horizon
        """How far away a subscriber may be for events to be sent its way."""
        self.farthest = parameters.horizon
        """The farthest that the horizon will ever be."""
        self.threshold = parameters.threshold
        self.ttl = parameters.ttl or UNLIMITED
        self.ttl_deterministic = parameters.ttl_deterministic or UNLIMITED
        self.ttl_probabilistic = parameters.ttl_probabilistic or UNLIMITED
        self.either = parameters.ttl_rule == "either"
        self.publisher = parameters.publisher
        self.leaf_rule = parameters.leaf_rule
        self.announced: dict[NodeId, dict[Filter, int]] = {}
        """Per link, the distances announced over it."""
        self.announcements = 0
        """(Un)subscriptions sent so far."""
        self.offered: dict[Filter, tuple[NodeId, int, int]] = {}
        """Per filter, what the neighbours were last told about it follows from this."""
        self.alone = False
        """Whether the only neighbour was told that it is the only one."""
        self.chance = host.chance("links")

    def handlers(self) -> dict[type[Message], Handler]:
        return {**super().handlers(), Leaf: self.on_leaf}

    # Events

    def pass_on(self, sender: NodeId, spread: Spread) -> None:
        """Send over the chosen links; a publisher over its own."""
        event = spread.event
        chosen, known = self.choose(sender, event, spread.hops, spread.deterministic)
        if not chosen:
            self.host.stopped(event, "end", spread.hops, spread.deterministic)
            return
        by_subscription = spread.onward(True)
        by_chance = spread.onward(False)
        for i, neighbour in enumerate(chosen):
            self.host.send(neighbour, by_subscription if i < known else by_chance)

    def choose(
        self, sender: NodeId, event: Event, hops: int, deterministic: int
    ) -> tuple[list[NodeId], int]:
        """The links to use: first those (so many) that a subscription names, then random ones."""
        may_follow = deterministic < self.ttl_deterministic
        may_guess = hops - deterministic < self.ttl_probabilistic
        if hops >= self.ttl or (self.either and not (may_follow and may_guess)):
            return [], 0
        table, content = self.table, event.content
        left = [n for n in self.neighbours if n != sender and table.may_want(n, content)]
        links = self._links_for(event, self.fanout(sender == LOCAL))
        chosen: list[NodeId] = []
        if may_follow:
            for distance in range(1, self.follows + 1):
                if distance > 1 and len(chosen) >= links:
                    break
                matching = table.match(content, distance)
                group = [n for n in left if n in matching]
                if distance > 1:
                    group = self._some(group, links - len(chosen), event, distance)
                chosen += group
                left = [n for n in left if n not in group]
        known = len(chosen)
        if may_guess and known < links:
            chosen += self._some(left, links - known, event, 0)
        return chosen, known

    def fanout(self, publishing: bool) -> int:
        """How many links to use, in parts of a link (see :data:`WHOLE`)."""
        links = len(self.neighbours)
        if publishing and self.publisher == "all":
            return WHOLE * links
        return self.share_of(links if publishing and self.publisher == "degree" else links - 1)

    def share_of(self, links: int) -> int:
        """f = ceil(tau links), in parts of a link."""
        return WHOLE * share(self.threshold, links)

    def _links_for(self, event: Event, fanout: int) -> int:
        """A fanout as a whole number of links for one event."""
        links, rest = divmod(fanout, WHOLE)
        if rest and rest > self.chance.below(
            WHOLE, event.publisher, event.sequence, self.host.node, ROUNDING
        ):
            return links + 1
        return links

    def _some(self, links: list[NodeId], room: int, event: Event, question: int) -> list[NodeId]:
        """All the links if there is room for them, or else so many drawn at random."""
        if len(links) <= room:
            return links
        return self.chance.sample(
            links, room, event.publisher, event.sequence, self.host.node, question
        )

    # Subscriptions

    def changed_here(self, filter: Filter) -> None:
        """A leaf's neighbour is told as well."""
        super().changed_here(filter)
        self._tell_leaf()

    def announce_change(self, filter: Filter) -> None:
        nearest = self.table.nearest(filter, self.horizon)
        if nearest == self.offered.get(filter, NOWHERE):
            return
        if nearest == NOWHERE:
            del self.offered[filter]
        else:
            self.offered[filter] = nearest
        first, near, next_near = nearest
        for neighbour in self.neighbours:
            self._announce(neighbour, filter, next_near if neighbour == first else near)

    def _announce(self, neighbour: NodeId, filter: Filter, distance: int) -> None:
        """Say how far the nearest subscriber on this side is (-1: nowhere), if that is news."""
        told = self.announced[neighbour]
        if distance >= 0:
            before = told.get(filter, 0)
            if before != distance + 1:
                told[filter] = distance + 1
                self.announcements += 1
                self.host.send(neighbour, Near(filter, distance + 1, before > 0))  # type: ignore[arg-type]  # wire union
        elif filter in told:
            del told[filter]
            self.announcements += 1
            self.host.send(neighbour, Gone(filter))  # type: ignore[arg-type]  # wire union

    def certain(self) -> bool:
        """Never: beyond the horizon events go at random."""
        return False

    def expected(self) -> float | None:
        """The share measured with parameters up to these; flooding reaches everybody."""
        if min(self.ttl, self.ttl_deterministic, self.ttl_probabilistic) < UNLIMITED:
            return None
        if self.threshold >= 1.0:
            return 1.0
        found = [s for h, t, s in MEASURED if h <= self.horizon and t <= self.threshold]
        return max(found) if found else None

    # Links

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Tell a new neighbour all that lies within its horizon."""
        if self.alone:  # the neighbour that was the only one is no longer
            self.alone = False
            for only in self.neighbours:
                self.host.send(only, Leaf(False))
        super().link_up(neighbour, reconfiguration)
        self.announced[neighbour] = {}
        for filter in self.table.filters():
            self._announce(neighbour, filter, self.table.nearest(filter, self.horizon)[1])
        self._tell_leaf()

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.announced.pop(neighbour, None)
        self.table.put_leaf(neighbour, None)
        super().link_down(neighbour, reconfiguration)
        self.alone = False
        self._tell_leaf()

    def _tell_leaf(self) -> None:
        """With a single link: tell the neighbour at its end so, and what is wanted here."""
        if self.leaf_rule and len(self.neighbours) == 1:
            self.alone = True
            for only in self.neighbours:
                self.host.send(only, Leaf(True, tuple(self.table.filters_of(LOCAL))))  # type: ignore[arg-type]  # wire union

    def on_leaf(self, sender: NodeId, message: Message) -> None:
        """A neighbour has, or no longer has, this node as its only one."""
        leaf = cast("Leaf", message)
        if sender in self.neighbours:
            known = leaf.alone and self.allowance.fits(leaf.filters)
            self.table.put_leaf(sender, leaf.filters if known else None)


register(
    "routing",
    "semi-probabilistic",
    SemiProbabilistic,
    SemiProbabilisticParameters,
    needs={"links"},
    summary="Subscriptions lay routes a few hops around; beyond them events go at random.",
)
