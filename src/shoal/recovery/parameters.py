"""Parameters of the recoveries."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Probability = Annotated[float, msgspec.Meta(gt=0, le=1)]
Period = Annotated[float, msgspec.Meta(ge=0.001, le=86_400)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**40)]


class RecoveryParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many events are kept, how often gossip is sent, and what that may cost."""

    buffer: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 1500
    """beta: events kept per node."""
    buffer_bytes: Bytes = 64 * 2**20
    """Bytes of events kept per node."""
    buffer_age: Period = 60.0
    """Seconds after which an event is no longer kept."""
    eviction: Literal["first in first out", "least spread first"] = "first in first out"
    """What a full buffer drops: the oldest event; or (``least spread first``, after what stays) the
    most spread one, which most other nodes are known to have."""
    transit: bool = False
    """Whether events that only pass through are kept as well."""
    period: Period = 0.1
    """T: seconds between two gossip rounds of a node; the shortest if the period adapts."""
    adaptive: bool = True
    """Whether rounds that find nothing to do become rarer, up to ``longest``."""
    longest: Period = 30.0
    """Seconds between two rounds where nothing is lost."""
    probability: Probability = 0.8
    """P_f: a gossip message is passed on to each eligible neighbour with this probability."""
    digest: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    """Entries of a gossip message; of more, as many are drawn at random."""
    marks: Annotated[int, msgspec.Meta(ge=0, le=64)] = 16
    """Numbers that an event carries at most; with 0 losses are noticed by comparing only."""
    tail: Period = 1.0
    """Seconds without a new event after which a publisher sends its followers the last number."""
    retry: Period = 0.5
    """Seconds after which an event that was asked for is asked for again."""
    patience: Period = 30.0
    """Seconds after its loss was noticed for which an event is sought; then it is a gap."""
    compare: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 5.0
    """Seconds between two comparisons with nodes met at random (0: never)."""
    share: Share = 0.25
    """Bytes of gossip sent for each byte of events that came by."""
    rate: Bytes = 20_000
    """Bytes of gossip per second that a node may send in any case."""
    reply_rate: Bytes = 1_000_000
    """Bytes per second that a node sends in reply to others."""
    looks: Bytes = 200_000
    """Evaluations of filters per second that a node does to answer others."""

    def __post_init__(self) -> None:
        if self.longest < self.period:
            raise ValueError(
                f"longest ({self.longest:g} s) is shorter than period ({self.period:g} s); "
                "raise it, or set adaptive = false"
            )


class CombinedPullParameters(RecoveryParameters, frozen=True, forbid_unknown_fields=True):
    """Parameters of all recoveries, and how often publishers are asked rather than subscribers."""

    source_probability: Share = 0.5
    """P_src: the share of rounds that go towards a publisher."""
