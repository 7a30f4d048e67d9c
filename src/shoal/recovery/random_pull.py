"""Random pull: who lacks events asks neighbours at random. The baseline of the other pulls.

A round chooses a random filter among those that lack something, and says what is missing over links
drawn at random, whoever may hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.parameters import RecoveryParameters
from shoal.recovery.pull import Pull
from shoal.stack import LOCAL, register

if TYPE_CHECKING:
    from shoal.recovery.losses import Lost


class RandomPull(Pull):
    """Missing events are requested over random links."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Over each link with probability P_f."""
        chosen = self.some_filter(lost)
        message = self.missing("random", [one for one in lost if one.wanted is chosen], now)
        self.spread(self.routing.linked(), LOCAL, self.host.node, self.rounds, message)


register(
    "recovery",
    "random-pull",
    RandomPull,
    RecoveryParameters,
    summary="Missing events are requested over random links.",
)
