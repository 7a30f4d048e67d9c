"""Parameters of the compiled routings (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Hops = Annotated[int, msgspec.Meta(ge=1)]


class SubscriptionForwardingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How subscriptions are told over links."""

    announced: bool = True
    """Remember per neighbour what it was told, and tell nothing twice; false is the pseudo-code to
    the letter."""
    covering: bool = False
    """Tell a neighbour no filter that another one it knows covers."""

    def __post_init__(self) -> None:
        if self.covering and not self.announced:
            raise ValueError("covering needs announced = true: it must know what was told")


class SemiProbabilisticParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far subscriptions travel, over how many links events do, and when they stop."""

    horizon: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    """phi: hops that a subscription travels; 0 is purely probabilistic routing."""
    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.25
    """tau: the share of the other links that an event is sent over; 1 is flooding."""
    ttl: Hops | None = None
    """Links that an event may cross."""
    ttl_deterministic: Hops | None = None
    """TTL_d: of those, links chosen by a subscription."""
    ttl_probabilistic: Hops | None = None
    """TTL_p: of those, links chosen at random."""
    ttl_rule: Literal["either", "own kind"] = "either"
    """An exhausted TTL_d or TTL_p stops all propagation (as printed), or its own kind of hop."""
    publisher: Literal["all", "others", "degree"] = "all"
    """Links a publisher uses: all, ceil(tau (l - 1)) as everybody, or ceil(tau l)."""
    leaf_rule: bool = False
    """A neighbour with a single link gets an event only if it wants it."""


class BroadcastParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a node that hears an event transmits it again."""

    horizon: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    """phi: hops that a subscription travels; 0 is gossip alone."""
    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    """tau: how likely an event is sent on where no subscriber is known; 1 is flooding."""
    jitter: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """Seconds, drawn at random up to this, that a node waits before it sends an event on; on the
    air all that heard it would otherwise send at once."""


class AdaptiveParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What adaptive routing aims at, and within which bounds."""

    target: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.005
    """The share of wanted events that may be missed."""
    budget: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.05
    """(Un)subscriptions that may be sent for each event sent."""
    farthest: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """The widest horizon."""
    period: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 0.5
    """Seconds from one adjustment to the next."""
    leaf_rule: bool = True
    """A neighbour with a single link gets an event only if it wants it."""
