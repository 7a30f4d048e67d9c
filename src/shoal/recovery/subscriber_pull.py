"""Subscriber-based pull: who lacks events asks others who want the same.

A round chooses a random filter among those that lack something, and says what is missing, routed
like an event that matches the filter. Others that want it mostly hold it. What no subscriber of the
filter, and no node between them, holds is out of its reach: the publisher need not be among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.parameters import RecoveryParameters
from shoal.recovery.pull import Pull
from shoal.stack import register

if TYPE_CHECKING:
    from shoal.recovery.losses import Lost


class SubscriberPull(Pull):
    """Missing events are requested from nodes that want the same."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Towards those who want the same."""
        self.ask_subscribers(lost, now)


register(
    "recovery",
    "subscriber-pull",
    SubscriberPull,
    RecoveryParameters,
    summary="Missing events are requested from nodes that want the same.",
)
