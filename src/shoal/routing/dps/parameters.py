"""Parameters of DPS; names and letters as in the paper."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from shoal.stack.registry import StackError

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Few: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=64)]


class DpsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of four systems (traversal times communication), and its constants."""

    traversal: Literal["root", "generic"] = "root"
    """Start of a visit of a tree: its root, or any node of it."""
    communication: Literal["leader", "epidemic"] = "leader"
    """Nodes that act for a group: its leader, or every member by gossip."""
    coleaders: Annotated[int, msgspec.Meta(ge=0, le=64)] = 2
    """K_c: members that stand ready to lead."""
    view: Few = 3
    """K: nodes of other groups in a predview or succview."""
    groupview: Few = 8
    """Members of its own group that a node knows, in epidemic communication."""
    fanout: Few = 2
    """k: members that an infected node sends an event to."""
    next_level: Few = 2
    """k': nodes of each adjacent group that it sends the event to."""
    subscription_fanout: Few = 3
    """F_s: members that a change of the views is gossiped to."""
    decay: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 1.0
    """Decay of forwarding: a member that has passed an event on n times passes a further copy on
    with probability 1/(1 + decay n)."""
    attribute: Literal["uniform", "first", "most-selective", "least-selective"] = "uniform"
    """Attribute whose tree a subscription joins; selectivity is judged by the events seen."""
    filter_at_sender: bool = False
    """Test a group's label before an event is sent to it, not on receipt."""
    interval: tuple[Seconds, Seconds] = (1.0, 2.5)
    """Seconds between two signs of life to the same node, drawn anew each time."""
    timeout: Seconds = 0.5
    """Seconds within which a node that lives answers."""
    shuffle: Seconds = 2.0
    """Seconds between exchanges of contact points."""

    def __post_init__(self) -> None:
        low, high = self.interval
        if low > high:
            raise StackError(f"interval ends before it starts; give [{high:g}, {low:g}]")
        if self.timeout > low:
            raise StackError(
                f"timeout is {self.timeout:g} s, but the next sign of life comes after {low:g} s; "
                "lower timeout or raise interval"
            )
