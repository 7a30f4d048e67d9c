"""Messages and parameters of DHTree (a compiled module cannot define structs)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from shoal.overlay.chord_messages import Key, RingParameters
from shoal.overlay.reference_tree import ReferenceTree
from shoal.stack.message import Count, RoutineUpkeep, Upkeep

MOST_KEYS: Final = 2**62


class DHTreeParameters(RingParameters, frozen=True, forbid_unknown_fields=True):
    """The shape of the tree, and how it and its ring look after themselves."""

    fan_out: Annotated[int, msgspec.Meta(ge=2, le=16)] = 2
    """Children of an inner key of the reference tree."""
    levels: Annotated[int, msgspec.Meta(ge=1, le=62)] | None = None
    """Levels of the reference tree; as many as keys of 62 bits allow if not given."""

    def __post_init__(self) -> None:
        if self.levels is not None and ReferenceTree(self.fan_out, self.levels).keys >= MOST_KEYS:
            raise ValueError(
                f"{self.levels} levels of fan-out {self.fan_out} are more than 2^62 keys; "
                f"at most {most_levels(self.fan_out)} are possible"
            )

    def tree(self) -> ReferenceTree:
        """The reference tree."""
        levels = most_levels(self.fan_out) if self.levels is None else self.levels
        return ReferenceTree(self.fan_out, levels)


def most_levels(fan_out: int) -> int:
    """The levels of the largest reference tree of a fan-out."""
    levels = 1
    while (fan_out ** (levels + 1) - 1) // (fan_out - 1) < MOST_KEYS:
        levels += 1
    return levels


class TreeBeat(RoutineUpkeep, frozen=True, tag="dhtree beat"):
    """The sender is alive."""


class NeighbourChange(Upkeep, frozen=True, tag="dhtree change"):
    """NEIGHBOURCHANGE: the receiver has become, or no longer is, a neighbour: it should look."""

    linked: bool
    """Whether the sender has its end of a link to the receiver."""


class Attach(Upkeep, frozen=True, tag="dhtree attach"):
    """The sender's topmost key lies below the receiver's: it asks to be its child."""

    key: Key
    token: Count


class Attached(Upkeep, frozen=True, tag="dhtree attached"):
    """The receiver of this is a child of the sender from now on."""

    token: Count


class Refused(Upkeep, frozen=True, tag="dhtree refused"):
    """The sender does not find the receiver among its children."""

    token: Count


class Detach(Upkeep, frozen=True, tag="dhtree detach"):
    """The sender gives up the link; ``leaves`` says that it leaves the network."""

    leaves: bool
