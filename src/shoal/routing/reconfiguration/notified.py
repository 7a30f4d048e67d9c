"""Notified Deferred Unsubscription (Frey, section 6.1.2): the new link says when to unsubscribe.

As Timed Deferred Unsubscription, but each end of the new link sends FLUSH across it behind its
subscriptions. Links are FIFO, so when FLUSH reaches an end of the old link the subscriptions have
arrived there too, and the deferred unsubscriptions can start. The timer remains for the case that
concurrent changes swallow the FLUSH.
"""

from __future__ import annotations

from typing import cast

import msgspec

from shoal.routing.reconfiguration.timed import Seconds, Timed
from shoal.routing.subscription_forwarding import SubscriptionForwarding
from shoal.stack import Message, NodeId, Reconfiguration, register
from shoal.stack.layer import Handler


class Flush(Message, frozen=True, tag="flush"):
    """FLUSH(rId): the subscriptions of this reconfiguration's new link have passed before me."""

    reconfiguration: int

    def weight(self) -> float:
        """Small and of fixed size (Frey, Table 7.2)."""
        return 0.1

    def involves(self) -> bool:
        """False: FLUSH visits everybody, so passing it on does not count as taking part."""
        return False


class NotifiedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``unsubscription_timer``: T_u, the fallback; ``flush``: whether FLUSH is sent at all."""

    unsubscription_timer: Seconds = 0.15
    """Seconds after which unsubscriptions start if no FLUSH comes (T_u)."""
    flush: bool = True
    """Send FLUSH behind the subscriptions; without it only the timer counts."""


class Notified(Timed):
    """Deferred unsubscription triggered by a FLUSH that trails the new link's subscriptions."""

    def __init__(self, routing: SubscriptionForwarding, parameters: NotifiedParameters) -> None:
        super().__init__(routing, parameters)  # type: ignore[arg-type]  # has the same timer
        self.flush = parameters.flush

    def handlers(self) -> dict[type[Message], Handler]:
        return {Flush: self.on_flush}

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Announce, then let FLUSH follow."""
        super().link_up(neighbour, reconfiguration)
        if reconfiguration is not None:
            self.send_flush(neighbour, reconfiguration.id)

    def send_flush(self, neighbour: NodeId, reconfiguration: int) -> None:
        """FLUSH across the new link."""
        if self.flush:
            self.host.send(neighbour, Flush(reconfiguration))

    def on_flush(self, sender: NodeId, message: Message) -> None:
        """At an end of the old link unsubscribe; elsewhere pass on to all but the sender."""
        flush = cast("Flush", message)
        if flush.reconfiguration in self.pending:
            if self.host.watched:
                self.host.note("flushed", sender, str(flush.reconfiguration))
            self.expire(flush.reconfiguration)
        else:
            for neighbour in self.routing.neighbours:
                if neighbour != sender:
                    self.host.send(neighbour, flush)


register(
    "reconfiguration",
    "notified",
    Notified,
    NotifiedParameters,
    needs={"links", "tables", "association"},
    provides={"reconfiguration"},
)
