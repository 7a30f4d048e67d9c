"""Limits of a filter, and the error for anything wrong with one.

Filters come from strangers. The first limits bound what reading one costs, :data:`MAX_COST` what
matching one costs (:mod:`shoal.content.language.cost`).
"""

from __future__ import annotations

from typing import Final, Literal

MAX_LENGTH: Final = 32_768
"""Characters of a filter."""
MAX_DEPTH: Final = 64
"""Levels of nesting."""
MAX_ELEMENTS: Final = 4_096
"""Elements of an ``IN`` list, arguments of a function."""
MAX_DISJUNCTS: Final = 128
"""Conjunctions in a normal form; what would need more stays an expression in the residue."""

MAX_COST: Final = 500_000_000
"""Steps of about a nanosecond that a filter may take on an event of :data:`EVENT_BYTES`."""
EVENT_BYTES: Final = 1 << 20
"""Bytes of the largest event, unless a broker says otherwise."""
REMEMBERED: Final = 2_048
"""Most characters of a filter whose parsed form is cached."""

FilterErrorKind = Literal["parse", "missingFunction"]


class FilterWarning(UserWarning):
    """A filter that can be used, but probably does not mean what its author meant."""


class FilterError(ValueError):
    """A filter that cannot be used: says where, why, and what to write instead."""

    def __init__(
        self, message: str, position: int = 0, hint: str = "", kind: FilterErrorKind = "parse"
    ) -> None:
        self.message = message
        self.position = position
        self.hint = hint
        self.kind = kind
        place = f"filter, character {position + 1}: {message}"
        super().__init__(f"{place} ({hint})" if hint else place)
