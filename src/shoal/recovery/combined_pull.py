"""Combined pull: some rounds ask the publisher's side, the others those who want the same.

With probability P_src a round is that of publisher-based pull, and else that of subscriber-based
pull: the former reaches what no other subscriber has, the latter what the publisher's side has
already dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.parameters import CombinedPullParameters
from shoal.recovery.pull import Pull
from shoal.stack import Host, Routing, register

if TYPE_CHECKING:
    from shoal.recovery.losses import Lost


class CombinedPull(Pull):
    """Missing events are requested in both directions, chosen at random each round."""

    def __init__(self, host: Host, parameters: CombinedPullParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.source_probability = parameters.source_probability

    def ask(self, lost: list[Lost], now: float) -> None:
        """Towards a publisher with probability P_src, else towards subscribers."""
        if self.chance.uniform(self.host.node, self.rounds, 8) < self.source_probability:
            self.ask_publisher(lost, now)
        else:
            self.ask_subscribers(lost, now)


register(
    "recovery",
    "combined-pull",
    CombinedPull,
    CombinedPullParameters,
    summary="Missing events are requested in both directions, chosen at random each round.",
)
