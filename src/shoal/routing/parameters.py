"""Parameters of the compiled routings (a compiled module cannot define structs)."""

from __future__ import annotations

import msgspec


class SubscriptionForwardingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How subscriptions are told over links.

    ``announced``: remember per link what was told over it; false is the pseudo-code to the letter.
    ``covering``: do not tell what a filter already told covers.
    """

    announced: bool = True
    covering: bool = False

    def __post_init__(self) -> None:
        if self.covering and not self.announced:
            raise ValueError("covering needs announced = true: it must know what was told")
