"""``Delivered``: which events the application has had, in bounded memory and without forgetting.

When a generation of sequence numbers goes, its greatest per publisher stays: what is not above it
counts as delivered. So nothing is delivered twice, however late it comes; an event that is later
than a whole generation of others is refused, and reported as a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.routing.seen import WORDS, SeenNumbers

if TYPE_CHECKING:
    from shoal.content import EventId


class Delivered(SeenNumbers):
    """Ids of delivered events."""

    def __init__(self, generation: int = WORDS) -> None:
        super().__init__(generation)
        self._floor: dict[object, int] = {}
        """The greatest sequence number that was forgotten, per publisher."""

    def doubtful(self, publisher: object, sequence: int) -> bool:
        """Whether an event that was refused may be new: it is only not above what was forgotten."""
        return not super().has(publisher, sequence)

    def has(self, publisher: object, sequence: int) -> bool:
        """Whether an event was delivered, or is not above what was forgotten."""
        return sequence <= self._floor.get(publisher, -1) or super().has(publisher, sequence)

    def __contains__(self, key: EventId) -> bool:
        return self.has(*key)

    def _greatest(self, publisher: object) -> int:
        return max(self._floor.get(publisher, -1), super()._greatest(publisher))

    def _forget(self) -> None:
        for publisher, had in self._before.items():
            self._floor[publisher] = had.last()
        super()._forget()
