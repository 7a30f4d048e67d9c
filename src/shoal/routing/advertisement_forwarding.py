"""Advertisement forwarding (Frey, section 2.4.1): subscriptions go only where publishers are.

Publishers advertise what they will publish. Advertisements visit every dispatcher, by the same
rules as subscriptions in subscription forwarding, and a subscription is told to a neighbour only if
an advertisement that overlaps it came from there. When the tree changes, advertisements follow it
as in Strawman; subscriptions follow by the stack's reconfiguration protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from mypy_extensions import mypyc_attr

from shoal.routing.allowance import Allowance
from shoal.routing.messages import Advertise, Unadvertise
from shoal.routing.parameters import SubscriptionForwardingParameters
from shoal.routing.subscription_forwarding import ReconfigurationProtocol, SubscriptionForwarding
from shoal.routing.table import SubscriptionTable
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.stack.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class AdvertisementForwarding(SubscriptionForwarding):
    """Subscriptions travel only towards publishers that advertised something they may match."""

    def __init__(
        self,
        host: Host,
        parameters: SubscriptionForwardingParameters,
        reconfiguration: Callable[[SubscriptionForwarding], ReconfigurationProtocol],
    ) -> None:
        super().__init__(host, parameters, reconfiguration)
        self.advertising = Allowance(host)
        self.advertisements = SubscriptionTable(None, self.advertising)

    def handlers(self) -> dict[type[Message], Handler]:
        handlers = super().handlers()
        handlers[Advertise] = self.on_advertise
        handlers[Unadvertise] = self.on_unadvertise
        return handlers

    def allows(self, neighbour: NodeId, filter: Filter) -> bool:
        for advertised in self.advertisements.filters_of(neighbour):  # as a loop it compiles well
            if advertised.overlaps(filter):
                return True
        return False

    # Advertisements

    def advertise(self, filter: Filter) -> None:
        self._advertised(LOCAL, filter)

    def unadvertise(self, filter: Filter) -> None:
        self._unadvertised(LOCAL, filter)

    def on_advertise(self, sender: NodeId, message: Message) -> None:
        """ADV(a) from a neighbour."""
        if sender in self.neighbours:
            filter = cast("Advertise", message).filter
            kept = self.advertisements.has(sender, filter)
            self._advertised(sender, self.advertising.admit(sender, filter, kept))

    def on_unadvertise(self, sender: NodeId, message: Message) -> None:
        """UNADV(a) from a neighbour."""
        filter = cast("Unadvertise", message).filter
        kept = self.advertisements.has(sender, filter)
        gone = self.advertising.retract(sender, filter, kept)
        if gone is not None:
            self._unadvertised(sender, gone)

    def _advertised(self, source: NodeId, filter: Filter) -> None:
        """Pass on as a subscription would be; tell the source what it may now be asked for."""
        before = self.advertisements.sources(filter)
        if not self.advertisements.add(source, filter):
            return
        for neighbour in self.concerned(source, before):
            self.host.send(neighbour, Advertise(filter))  # type: ignore[arg-type]  # wire union
        if source != LOCAL:
            self.announce_table(source)

    def _unadvertised(self, source: NodeId, filter: Filter) -> None:
        """Pass on as an unsubscription is; the source need no longer know our subscriptions."""
        if not self.advertisements.remove(source, filter):
            return
        for neighbour in self.concerned(source, self.advertisements.sources(filter)):
            self.host.send(neighbour, Unadvertise(filter))  # type: ignore[arg-type]  # wire union
        for wanted in list(self.announced.get(source, {})):
            if not self.allows(source, wanted):
                self.retract(source, wanted)

    def undelivered(self, to: NodeId, message: Any) -> None:
        """Send lost advertisements and their withdrawals again, if they still hold."""
        kind = type(message)
        if kind is not Advertise and kind is not Unadvertise:
            super().undelivered(to, message)
        elif to in self.neighbours:
            known = self.advertisements.wanted_beside(message.filter, to)
            if known == (kind is Advertise):
                self.host.send(to, message)

    # Links

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Advertise to the new neighbour; subscriptions follow its own advertisements."""
        super().link_up(neighbour, reconfiguration)
        for filter in self.advertisements.filters():
            if self.advertisements.wanted_beside(filter, neighbour):
                self.host.send(neighbour, Advertise(filter))  # type: ignore[arg-type]  # wire union

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Remove at once what the lost neighbour advertised."""
        super().link_down(neighbour, reconfiguration)
        self.advertising.forget(neighbour)
        for filter in self.advertisements.filters_of(neighbour):
            self._unadvertised(neighbour, filter)


register(
    "routing",
    "advertisement-forwarding",
    AdvertisementForwarding,
    SubscriptionForwardingParameters,
    needs={"tree", "reconfiguration"},
    provides={"tables"},
    summary="Subscriptions travel only towards nodes that advertise what they publish.",
)
