"""The messages of tree routing (Frey, chapter 2): events, subscriptions, unsubscriptions."""

from __future__ import annotations

from shoal.content import AnyFilter, Event
from shoal.stack import Message
from shoal.stack.message import Hops


class Forward(Message, frozen=True, tag="event"):
    """An event on its way, and how many links it will have crossed on arrival."""

    event: Event
    hops: Hops

    def events(self) -> tuple[Event, ...]:
        """The event."""
        return (self.event,)

    def involves(self) -> bool:
        """Carrying an event is not repair."""
        return False

    @classmethod
    def kind(cls) -> str:
        """Recorded as ``event``."""
        return "event"


class Subscribe(Message, frozen=True, tag="sub"):
    """SUB(p): somebody in the sender's direction wants this."""

    filter: AnyFilter

    @classmethod
    def kind(cls) -> str:
        """Recorded as ``sub``."""
        return "sub"


class Unsubscribe(Message, frozen=True, tag="unsub"):
    """UNSUB(p): nobody in the sender's direction wants this any more."""

    filter: AnyFilter

    @classmethod
    def kind(cls) -> str:
        """Recorded as ``unsub``."""
        return "unsub"


class Advertise(Message, frozen=True, tag="adv"):
    """ADV(a): somebody in the sender's direction will publish such events."""

    filter: AnyFilter

    @classmethod
    def kind(cls) -> str:
        """Recorded as ``adv``."""
        return "adv"


class Unadvertise(Message, frozen=True, tag="unadv"):
    """UNADV(a): nobody in the sender's direction will publish such events any more."""

    filter: AnyFilter

    @classmethod
    def kind(cls) -> str:
        """Recorded as ``unadv``."""
        return "unadv"
