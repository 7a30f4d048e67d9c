"""Parameters of the routings whose modules are compiled (compiled modules cannot define structs)."""

from __future__ import annotations

import msgspec


class SubscriptionForwardingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``announced``: remember per link what was told over it; false is the pseudo-code to the letter."""

    announced: bool = True
