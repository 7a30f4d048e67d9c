"""Adaptive routing: each dispatcher finds its own horizon and threshold.

Semi-probabilistic routing works well where its two parameters fit the network, and Costa and Picco
(section 6) name as their goal a mechanism that adjusts them by itself. This is one. It is told what
to aim at, not what the network is like, and goes by what a node can see:

* **What is missed.** An event carries the one that its publisher published a while before. Whoever
  gets the one knows whether it wanted, and got, the other; and it counts for as many events as its
  sequence number says did not come, or publishers that are hard to hear would be forgotten.
  Neighbours tell each other such counts, mixed with what they were told, so that a node acts on the
  losses of its surroundings.
* **The threshold** rises while more than ``target`` of what is wanted is missed, and falls while it
  is less, the faster the farther away the target is. It begins at a few links, and is careful once
  losses have crossed the target. It may have any value: of a fanout of 1.4 links, the 0.4 is one
  more link for 40% of the events. So losses on bad or vanishing links, sparse networks and growing
  ones are all met in the same way.
* **The horizon** is a matter of cost: (un)subscriptions may make up a ``budget``, a share of the
  events sent. A node saves up for telling its neighbours of subscriptions one hop farther away, and
  takes them back when what they cost, as links come and go, has used up more than was earned. So
  subscriptions travel far in a quiet network and stay near in a restless one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from mypy_extensions import mypyc_attr

from shoal.routing.parameters import AdaptiveParameters, SemiProbabilisticParameters
from shoal.routing.seen import Seen
from shoal.routing.semiprobabilistic import WHOLE, SemiProbabilistic
from shoal.routing.semiprobabilistic_messages import Feedback, Spread
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.stack.message import Message

SETTLED = 0.5
"""Seconds after which an event has reached whom it will reach."""
START = 3
"""Links to begin with: on a random graph so many reach 95% of the nodes, and subscribers next door
are reached in any case."""
FIRST, LATER = 0.1, 0.05
"""Change of the threshold for each factor of e between losses and target: until losses have crossed
the target once, and afterwards. Losses shrink exponentially with the links used, and are heard of
late: with greater steps thresholds would swing."""
STEEPEST = 4.0
"""Factors of e that count."""
SURROUNDINGS = 0.7
"""How much the neighbours' counts weigh against a node's own."""
LONGEST = 10
"""Events that one that came stands for; more of them missing in a row were out of reach."""
CROWDED = 1.5
"""Links by which a subscription comes, on average, from which on it is not followed."""
TOGETHER = 0.5
"""How much of the way to its neighbours' thresholds a node goes: what one of them sends too little
of, nodes far away miss."""
SPARING = 20
"""Events sent over a link for each word about losses."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Observed:
    """What a node has observed so far; the counts only grow."""

    def __init__(self) -> None:
        self.sent = 0
        """Copies of events sent."""
        self.wanted = 0
        """Events known to have been published that were wanted here."""
        self.missed = 0
        """Wanted events that never arrived."""

    def look(self) -> None:
        """Bring the counts up to date, where something else keeps them."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Adaptive(SemiProbabilistic):
    """Semi-probabilistic routing that tunes itself to what it observes."""

    def __init__(self, host: Host, parameters: AdaptiveParameters) -> None:
        start = SemiProbabilisticParameters(
            horizon=1, threshold=1.0, leaf_rule=parameters.leaf_rule
        )
        super().__init__(host, start)
        self.target = parameters.target
        self.budget = parameters.budget
        self.farthest = parameters.farthest
        self.period = parameters.period
        self.observed = Observed()
        self.got = Seen()
        """Wanted events that came."""
        self.last: dict[NodeId, int] = {}
        """Per publisher, the sequence number of its last event that came."""
        self.published: list[tuple[float, Event]] = []
        """Own events: the last that has settled, and those after it."""
        self.missed = 0.0
        self.wanted = 0.0
        """Counts of the recent past, older ones fading."""
        self.around: dict[NodeId, Feedback] = {}
        """What neighbours last said about their surroundings."""
        self.sent = 0
        """Copies of events sent since neighbours were last told."""
        self.way = 0.0
        """Where the threshold goes as long as losses have not crossed the target: up or down."""
        self.found = False
        """Whether losses have crossed the target at least once."""
        self.credit = 0.0
        """(Un)subscriptions that may still be sent."""
        self._looked = (0, 0, 0, 0)
        self._known = -1
        self._costs: list[int] = [0]

    def expected(self) -> float | None:
        """The share of deliveries that the target aims at, if the budget allows for it."""
        return 1.0 - self.target

    def handlers(self) -> dict[type[Message], Handler]:
        handlers = super().handlers()
        handlers[Feedback] = self.on_feedback
        return handlers

    # What is missed

    def publish(self, event: Event) -> None:
        """Publish, together with what was published a while before."""
        now = self.host.now()
        while len(self.published) > 1 and now - self.published[1][0] >= SETTLED:
            self.published.pop(0)
        before: Event | None = None
        if self.published and now - self.published[0][0] >= SETTLED:
            before = self.published[0][1]
        self.published.append((now, event))
        self.seen.first(event.id)
        self.on_first_arrival(LOCAL, Spread(event, 0, 0, before))

    def on_first_arrival(self, sender: NodeId, spread: Spread) -> None:
        """Look whether what came before was missed, then do as usual."""
        event, before = spread.event, spread.before
        if self.table.match(event.content, 0):
            self.got.first(event.id)
        if sender != LOCAL:
            stands_for = event.sequence - self.last.get(event.publisher, event.sequence - 1)
            if stands_for > 0:
                self.last[event.publisher] = event.sequence
                if before is not None and self.table.match(before.content, 0):
                    stands_for = min(stands_for, LONGEST)
                    self.observed.wanted += stands_for
                    if before.id not in self.got:
                        self.observed.missed += stands_for
        super().on_first_arrival(sender, spread)

    def choose(
        self, sender: NodeId, event: Event, hops: int, deterministic: int
    ) -> tuple[list[NodeId], int]:
        chosen, known = super().choose(sender, event, hops, deterministic)
        self.observed.sent += len(chosen)
        return chosen, known

    def share_of(self, links: int) -> int:
        """tau links, but at least one, in parts of a link."""
        return min(max(int(WHOLE * self.threshold * links), WHOLE), WHOLE * max(links, 0))

    def on_feedback(self, sender: NodeId, message: Message) -> None:
        """Remember what a neighbour says, and come nearer to its threshold."""
        if sender in self.neighbours:
            feedback = cast("Feedback", message)
            self.around[sender] = feedback
            weight = TOGETHER / len(self.neighbours)
            self.threshold += weight * (feedback.threshold - self.threshold)
            if self.table.watcher is not None:
                self.table.watcher.tuned()

    # Adjusting

    def start(self) -> None:
        self.host.every(self.period, self.adjust)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Start from a threshold that fits the number of links."""
        super().link_up(neighbour, reconfiguration)
        if self._looked[2] == 0:  # nothing learned yet
            self.threshold = min(1.0, START / max(len(self.neighbours) - 1, 1))

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.around.pop(neighbour, None)
        super().link_down(neighbour, reconfiguration)

    def adjust(self) -> None:
        """Once in a period: learn what happened, tell the neighbours, and tune."""
        observed = self.observed
        observed.look()
        seen = (observed.sent, self.announcements, observed.wanted, observed.missed)
        sent, announced, wanted, missed = (seen[i] - self._looked[i] for i in range(4))
        self._looked = seen
        self.wanted += wanted
        self.missed += missed
        self.sent += sent
        if sent or wanted:
            mixed = self._mixed()
            if self.sent >= SPARING * len(self.neighbours):
                self.sent = 0
                for neighbour in self.neighbours:
                    self.host.send(neighbour, mixed)
            heard = 1 + len(self.around)
            fresh = heard * wanted * self.target
            fresh /= 1.0 + fresh
            self._tune_threshold(heard * mixed.missed, heard * mixed.wanted, fresh)
            self.wanted *= 1.0 - fresh
            self.missed *= 1.0 - fresh
            self._tune_horizon(self.budget * sent - announced)
            if self.table.watcher is not None:
                self.table.watcher.tuned()

    def _mixed(self) -> Feedback:
        """A node's own counts, and its neighbours' on average."""
        if not self.around:
            return Feedback(self.missed, self.wanted, self.threshold)
        missed = wanted = 0.0
        for said in self.around.values():
            missed += said.missed
            wanted += said.wanted
        own, weight = 1.0 - SURROUNDINGS, SURROUNDINGS / len(self.around)
        return Feedback(
            own * self.missed + weight * missed, own * self.wanted + weight * wanted, self.threshold
        )

    def _tune_threshold(self, missed: float, wanted: float, fresh: float) -> None:
        """More links where too much is missed, fewer where it is little.

        Whoever has seen little takes losses to be as they should: one event missed of as many as
        make one at the target. Of what a node acts upon, a share is ``fresh``; with the rest it
        has reckoned before.
        """
        loss = (missed + 1.0) / (self.target * wanted + 1.0)
        step = min(max(math.log(loss), -STEEPEST), STEEPEST)
        if step * self.way < 0.0:
            self.found = True
        if self.threshold < 1.0 or step < 0.0:  # what flooding misses is no reason to be careful
            self.way = step
        if not self.found:
            step *= FIRST
        else:
            step *= LATER if step > 0.0 else LATER * fresh
        least = 1.0 / max(len(self.neighbours) - 1, 1)
        self.threshold = min(max(self.threshold * (1.0 + step), least), 1.0)

    def _tune_horizon(self, earned: float) -> None:
        """A wider horizon once it is paid for, a narrower one when it costs too much."""
        if self._known != self.table.changes:
            self._known = self.table.changes
            self._look_around()
        self.credit = min(self.credit + earned, float(max(self._costs)))
        wider = self.horizon < self.farthest and self.horizon <= self.follows
        if wider and self.credit >= self._costs[self.horizon]:
            self._set_horizon(self.horizon + 1)
        elif self.horizon > 1 and self.credit < -self._costs[self.horizon - 1]:
            self._set_horizon(self.horizon - 1)
            self.credit = 0.0

    def _look_around(self) -> None:
        """Work out what announcing subscribers at each distance costs, and how far to do it."""
        layers = self.table.layers(self.farthest)
        self._costs = [filters * len(self.neighbours) for filters, _ in layers]
        self.follows = 1
        while self.follows < self.farthest:
            filters, links = layers[self.follows + 1]
            if not filters or links > CROWDED * filters:
                break
            self.follows += 1

    def _set_horizon(self, horizon: int) -> None:
        self.horizon = horizon
        for filter in self.table.filters():
            self.announce_change(filter)


register(
    "routing",
    "adaptive",
    Adaptive,
    AdaptiveParameters,
    needs={"links"},
    summary="Semi-probabilistic routing that finds its horizon and threshold by itself.",
)
