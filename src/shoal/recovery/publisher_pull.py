"""Publisher-based pull: who lacks events asks back along the route of their publisher's events.

A round chooses the publisher of which most is missing, and says what, back along the route of its
last event. Any node on the way may have it; the publisher itself comes last. Few nodes are asked,
so digests cost least of all; but each round asks about a single publisher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.recovery.parameters import RecoveryParameters
from shoal.recovery.pull import Pull
from shoal.stack import register

if TYPE_CHECKING:
    from shoal.recovery.losses import Lost


class PublisherPull(Pull):
    """Missing events are requested on the way back to their publisher."""

    def ask(self, lost: list[Lost], now: float) -> None:
        """Towards the publisher of which most is missing."""
        self.ask_publisher(lost, now)


register(
    "recovery",
    "publisher-pull",
    PublisherPull,
    RecoveryParameters,
    summary="Missing events are requested on the way back to their publisher.",
)
