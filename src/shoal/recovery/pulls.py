"""The four pulls: whom a round asks for what is missing.

* *Subscriber-based* pull asks nodes that want the same: it chooses a random filter among those with
  losses, and its message is routed like an event that matches the filter. Events that no subscriber
  of the filter and no node between them holds are out of its reach: the publisher need not be one
  of these nodes.
* *Publisher-based* pull asks back along the route of the publisher of whose events most are
  missing. Any node on the way may have them; the publisher itself comes last. Few nodes are asked,
  so gossip costs least of all; but each round asks about a single publisher.
* *Combined* pull is publisher-based with probability P_src, else subscriber-based. The former finds
  what no other subscriber has, the latter what the publisher's side has already dropped.
* *Random* pull, the baseline of the others, chooses a random filter too, and asks over links drawn
  at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.parameters import CombinedPullParameters, RecoveryParameters
from shoal.recovery.pull import Pull
from shoal.stack import LOCAL, Host, Routing, register

if TYPE_CHECKING:
    from shoal.recovery.losses import Lost


class CombinedPull(Pull):
    """Missing events are requested in both directions, chosen at random each round."""

    def __init__(self, host: Host, parameters: CombinedPullParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.source_probability = parameters.source_probability

    def ask(self, lost: list[Lost], now: float) -> None:
        """Ask towards a publisher with probability P_src, else towards subscribers."""
        if self.chance.uniform(self.host.node, self.rounds, 8) < self.source_probability:
            self.ask_publisher(lost, now)
        else:
            self.ask_subscribers(lost, now)


class PublisherPull(Pull):
    """Missing events are requested on the way back to their publisher."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Ask towards the publisher of which most is missing."""
        self.ask_publisher(lost, now)


class RandomPull(Pull):
    """Missing events are requested over random links."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Ask over each link with probability P_f."""
        chosen = self.some_filter(lost)
        message = self.missing("random", [one for one in lost if one.wanted is chosen], now)
        self.spread(self.routing.linked(), LOCAL, self.host.node, self.rounds, message)


class SubscriberPull(Pull):
    """Missing events are requested from nodes that want the same."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Ask towards nodes that want the same."""
        self.ask_subscribers(lost, now)


register(
    "recovery",
    "combined-pull",
    CombinedPull,
    CombinedPullParameters,
    summary="Missing events are requested in both directions, chosen at random each round.",
)
register(
    "recovery",
    "publisher-pull",
    PublisherPull,
    RecoveryParameters,
    summary="Missing events are requested on the way back to their publisher.",
)
register(
    "recovery",
    "random-pull",
    RandomPull,
    RecoveryParameters,
    summary="Missing events are requested over random links.",
)
register(
    "recovery",
    "subscriber-pull",
    SubscriberPull,
    RecoveryParameters,
    summary="Missing events are requested from nodes that want the same.",
)
