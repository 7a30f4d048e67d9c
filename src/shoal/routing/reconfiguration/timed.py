"""Timed Deferred Unsubscription (Frey, section 6.1.1): subscribe at once, unsubscribe later.

While a link is being replaced the entries it brought are *pending*: out of the table, so that they
count neither for forwarding decisions nor for announcements over new links, but not yet
unsubscribed. The other routes stay dense, so most subscriptions of the new link stop after a few
hops; when the timer expires only what is really gone is unsubscribed.

* Links sharing a dispatcher: because pending entries are not announced, an end common to the old
  and the new link never announces what was wanted only across the old one.
* A detached leaf has nobody to tell: it forgets at once, without pending entries or timer.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.content import Filter
from shoal.routing.subscription_forwarding import ReconfigurationProtocol, SubscriptionForwarding
from shoal.stack import LOCAL, NodeId, Reconfiguration, Timer, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class TimedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``unsubscription_timer``: T_u, how long unsubscriptions wait after a break, in seconds."""

    unsubscription_timer: Seconds = 0.15
    """Seconds from the loss of a link to the unsubscriptions it causes (T_u)."""


class Waiting:
    """Filters of a neighbour that wait for a timer."""

    def __init__(self, neighbour: NodeId, filters: dict[Filter, None]) -> None:
        self.neighbour = neighbour
        self.filters = filters
        self.timer: Timer | None = None


class Timed(ReconfigurationProtocol):
    """Announce over a new link at once, unsubscribe a broken one's entries after a timer."""

    def __init__(self, routing: SubscriptionForwarding, parameters: TimedParameters) -> None:
        super().__init__(routing)
        self.unsubscription_timer = parameters.unsubscription_timer
        self.pending: dict[int, Waiting] = {}
        """Entries of lost neighbours by reconfiguration; those of no reconfiguration below 0."""
        self._unnamed = 0

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """``manageBrokenLink``: make the lost neighbour's entries pending and start T_u."""
        routing = self.routing
        filters = routing.table.filters_of(neighbour)
        for filter in filters:
            routing.remove_entry(neighbour, filter)
        routing.drop_neighbour(neighbour)
        if not routing.neighbours:  # there is nobody to unsubscribe from
            for pending in self.pending.values():
                if pending.timer is not None:
                    pending.timer.cancel()
            self.pending.clear()
            return
        if reconfiguration is None:
            self._unnamed -= 1
            key = self._unnamed
        else:
            key = reconfiguration.id
        pending = Waiting(neighbour, dict.fromkeys(filters))
        self.pending[key] = pending
        if self.unsubscription_timer:
            pending.timer = self.host.after(self.unsubscription_timer, lambda: self.expire(key))
        else:
            self.expire(key)

    def expire(self, key: int) -> None:
        """The unsubscription timer: withdraw what, by the present table, nobody here wants."""
        pending = self.pending.pop(key)
        if pending.timer is not None:
            pending.timer.cancel()
        if self.host.watched:
            self.host.note("unsubscribing", pending.neighbour, str(key))
        for filter in pending.filters:
            self.routing.withdraw(filter, LOCAL)


register(
    "reconfiguration",
    "timed",
    Timed,
    TimedParameters,
    needs={"links", "tables"},
    provides={"reconfiguration"},
)
