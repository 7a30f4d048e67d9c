"""Parameters of the compiled routings (a compiled module cannot define structs)."""

from __future__ import annotations

import msgspec


class SubscriptionForwardingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``announced``: remember per link what was told over it; false: the pseudo-code as printed."""

    announced: bool = True
