"""The messages of tree routing (Frey, chapter 2): events, subscriptions, unsubscriptions."""

from __future__ import annotations

from typing import ClassVar

from shoal.content import AnyFilter, Event
from shoal.stack import Message
from shoal.stack.message import HEADER_BYTES, PAYLOAD_BYTES, Hops


class Carrier(Message, frozen=True):
    """Base of messages that bring an event from node to node."""

    KIND: ClassVar[str] = "event"

    event: Event

    def events(self) -> tuple[Event, ...]:
        return (self.event,)

    def involves(self) -> bool:
        """Carrying an event is not repair."""
        return False


class Forward(Carrier, frozen=True, tag="event"):
    """An event on its way, and how many links it will have crossed on arrival."""

    hops: Hops


class Announcement(Message, frozen=True):
    """Base of messages that say one thing of one filter."""

    filter: AnyFilter


class Subscribe(Announcement, frozen=True, tag="sub"):
    """SUB(p): somebody in the sender's direction wants this."""

    KIND: ClassVar[str] = "sub"


class Unsubscribe(Announcement, frozen=True, tag="unsub"):
    """UNSUB(p): nobody in the sender's direction wants this any more."""

    KIND: ClassVar[str] = "unsub"


class Advertise(Announcement, frozen=True, tag="adv"):
    """ADV(a): somebody in the sender's direction will publish such events."""

    KIND: ClassVar[str] = "adv"


class Unadvertise(Announcement, frozen=True, tag="unadv"):
    """UNADV(a): nobody in the sender's direction will publish such events any more."""

    KIND: ClassVar[str] = "unadv"


class Carries(Message, frozen=True):
    """Base of messages that repair tables and carry filters (Frey, Table 7.2)."""

    def carried(self) -> int:
        """How many filters it carries."""
        raise NotImplementedError

    def weight(self) -> float:
        return float(self.carried())

    def size(self) -> int:
        return HEADER_BYTES + PAYLOAD_BYTES * self.carried()
