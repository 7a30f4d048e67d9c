"""The messages of semi-probabilistic routing (Costa and Picco, section 3)."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

import msgspec

from shoal.content import AnyFilter, Event
from shoal.routing.messages import Carrier
from shoal.stack import Message
from shoal.stack.message import Hops

Weighted: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""A weighted count of events; an infinite one would make every threshold NaN."""


class Spread(Carrier, frozen=True, tag="event"):
    """An event on its way: links crossed on arrival, and how many of them by subscriptions."""

    hops: Hops
    deterministic: Hops
    before: Event | None = None
    """What its publisher published a while before, so that receivers notice what they missed."""

    def onward(self, deterministic: bool) -> Spread:
        """The same after one more hop, chosen by a subscription or at random.

        A count that a liar sent is lowered to the hops, which hosts bound.
        """
        hops = self.hops + 1
        chosen = min(self.deterministic + deterministic, hops)
        return Spread(self.event, hops, chosen, self.before)

    def events(self) -> tuple[Event, ...]:
        """The event, and the one before it."""
        return (self.event,) if self.before is None else (self.event, self.before)


class Near(Message, frozen=True, tag="near"):
    """A subscription: the nearest subscriber in the sender's direction is this many hops away."""

    KIND: ClassVar[str] = "sub"

    filter: AnyFilter
    distance: Annotated[int, msgspec.Meta(ge=1, le=64)]
    again: bool = False
    """Whether the filter was announced before, with another distance."""


class Gone(Message, frozen=True, tag="gone"):
    """An unsubscription: no subscriber within the horizon in the sender's direction any more."""

    KIND: ClassVar[str] = "unsub"

    filter: AnyFilter


class Leaf(Message, frozen=True, tag="leaf"):
    """The receiver is the sender's only neighbour (or not any more), and this is all it wants."""

    KIND: ClassVar[str] = "leaf"

    alone: bool
    filters: tuple[AnyFilter, ...] = ()


class Feedback(Message, frozen=True, tag="feedback"):
    """Of the events that nodes around the sender wanted, how many they missed (weighted counts).

    And the sender's threshold.
    """

    missed: Weighted
    wanted: Weighted
    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)]

    def involves(self) -> bool:
        """Watching is not repair."""
        return False
