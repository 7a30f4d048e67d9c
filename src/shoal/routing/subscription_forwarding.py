"""Subscription forwarding (Frey, sections 2.4.1 and 5.1): subscriptions lay the routes of events.

The rules, for one filter p at one dispatcher:

* SUB(p) from n adds (n, p). The first entry for p is passed to all neighbours but n; the second to
  the source of the first, if that is a neighbour; further ones to nobody.
* UNSUB(p) from n removes (n, p). If none is left it is passed to all neighbours but n; if exactly
  one is left, to that one, if it is a neighbour.
* An event goes to every source of a matching filter but the one it came from.

At rest (n, p) is in the table iff a subscriber of p lies beyond n. What happens when a link comes
or goes is the business of a :class:`ReconfigurationProtocol`.

With ``covering``, a filter is not told over a link over which one that covers it has been told, and
is told when that one goes (before it goes, so that no delivery is lost).

``announced`` remembers per link what has been told over it, which keeps the thesis's promise that a
filter is not forwarded twice in the same direction also while the tree changes; the printed
pseudo-code keeps it on a static tree only. ``announced = false`` is the literal reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from mypy_extensions import mypyc_attr

from shoal.content.cover_index import CoverIndex
from shoal.routing.allowance import Allowance
from shoal.routing.messages import Forward, Subscribe, Unsubscribe
from shoal.routing.parameters import SubscriptionForwardingParameters
from shoal.routing.seen import SeenNumbers
from shoal.routing.table import SubscriptionTable
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class ReconfigurationProtocol:
    """How tables follow the tree. A protocol is one file in ``routing/reconfiguration``.

    It acts through its routing: ``add_neighbour``, ``drop_neighbour``, ``announce_table``,
    ``delete``, ``add_entry``, ``remove_entry`` and ``withdraw``.
    """

    def __init__(self, routing: SubscriptionForwarding) -> None:
        self.routing = routing
        self.host = routing.host

    def handlers(self) -> dict[type[Message], Handler]:
        """The protocol's own messages."""
        return {}

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """``addLinkTo``: tell the new neighbour the whole table."""
        self.routing.add_neighbour(neighbour)
        self.routing.announce_table(neighbour)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """A link is gone."""
        raise NotImplementedError

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """Another link took the place of one; nothing, unless a protocol makes use of it."""

    def remove_entries(self, neighbour: NodeId) -> None:
        """``removeLinkTo``: each entry of a lost neighbour goes as if it had unsubscribed."""
        for filter in self.routing.table.filters_of(neighbour):
            self.routing.delete(neighbour, filter)

    def ignores_unsubscription(self, sender: NodeId, filter: Filter) -> bool:
        """Whether an UNSUB that just arrived must not be believed (Reconfiguration Path only)."""
        return False

    def withholds(self, neighbour: NodeId, filter: Filter) -> bool:
        """Whether a filter is held back from a neighbour (Informed Link Activation only)."""
        return False


@mypyc_attr(allow_interpreted_subclasses=True)
class SubscriptionForwarding(Routing):
    """Routes laid by subscriptions along a tree."""

    def __init__(
        self,
        host: Host,
        parameters: SubscriptionForwardingParameters,
        reconfiguration: Callable[[SubscriptionForwarding], ReconfigurationProtocol],
    ) -> None:
        super().__init__(host)
        self.allowance = Allowance(host)
        self.table = SubscriptionTable(host, self.allowance if self.allowance.bounded else None)
        self.remembers = parameters.announced
        self.covering = parameters.covering
        self.announced: dict[NodeId, dict[Filter, None]] = {}
        self.doubted: dict[NodeId, dict[Filter, None]] = {}
        """Filters that a neighbour announced before it was away, and not since it is back."""
        self.cover_index = CoverIndex()
        """With ``covering``, every filter that is in the table or announced over a link."""
        self.seen = SeenNumbers()
        """Events that have been here; kept where one may come twice."""
        self.reconfiguration = reconfiguration(self)

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            Forward: self.receive,
            Subscribe: self.on_subscribe,
            Unsubscribe: self.on_unsubscribe,
            **self.reconfiguration.handlers(),
        }

    # Events

    def publish(self, event: Event) -> None:
        self.forward(LOCAL, event, 0)

    def receive(self, sender: NodeId, message: Any) -> None:
        """The usual messages do not take the way over the handlers."""
        kind = type(message)
        if self.early and self.is_early(sender, message):
            return
        if kind is Forward:
            self.forward(sender, message.event, message.hops)
        elif kind is Subscribe:
            self.on_subscribe(sender, message)
        elif kind is Unsubscribe:
            self.on_unsubscribe(sender, message)
        else:
            super().receive(sender, message)

    def forward(self, sender: NodeId, event: Event, hops: int) -> None:
        """Deliver an event if it is wanted here, and send it on to all other matching sources."""
        if not self.first_arrival(sender, event):
            return
        onward: Forward | None = None
        for source in self.table.match(event.content):
            if source == LOCAL:
                self.deliver(event, hops)
            elif source != sender:
                if onward is None:
                    onward = Forward(event, hops + 1)
                self.host.send(source, onward)

    def first_arrival(self, sender: NodeId, event: Event) -> bool:
        """Whether an event is here for the first time; if so the other layers see it."""
        if self.moving and not self.seen.first(event.publisher, event.sequence):
            return False
        if self.recovery is not None:
            self.recovery.seen(event, sender)
        if self.watching is not None:
            self.watching.routed(event)
        return True

    # Subscriptions

    def subscribe(self, filter: Filter) -> None:
        self.insert(LOCAL, filter)

    def unsubscribe(self, filter: Filter) -> None:
        self.delete(LOCAL, filter)

    def on_subscribe(self, sender: NodeId, message: Message) -> None:
        """SUB(p) from a neighbour; one that is no longer linked is not believed."""
        if sender in self.neighbours:
            filter: Filter = cast("Subscribe", message).filter
            if self.allowance.bounded:
                filter = self.allowance.admit(sender, filter, self.table.has(sender, filter))
            if sender in self.doubted:
                self.doubted[sender].pop(filter, None)
            self.insert(sender, filter)

    def on_unsubscribe(self, sender: NodeId, message: Message) -> None:
        """UNSUB(p) from a neighbour."""
        filter = cast("Unsubscribe", message).filter
        if self.reconfiguration.ignores_unsubscription(sender, filter):
            return
        gone: Filter | None = filter
        if self.allowance.bounded:
            gone = self.allowance.retract(sender, filter, self.table.has(sender, filter))
        if gone is not None:
            self.delete(sender, gone)

    def insert(self, source: NodeId, filter: Filter) -> None:
        """The SUB rule."""
        before = self.table.sources(filter)
        if self.add_entry(source, filter):
            for neighbour in self.concerned(source, before):
                self.announce(neighbour, filter)

    def delete(self, source: NodeId, filter: Filter) -> None:
        """The UNSUB rule."""
        if self.remove_entry(source, filter):
            self.withdraw(filter, source)

    def add_entry(self, source: NodeId, filter: Filter) -> bool:
        """Add an entry and tell nobody; False if it was there."""
        if not self.table.add(source, filter):
            return False
        if self.covering and not self.table.wanted_beside(filter, source):
            self.cover_index.add(filter)
        if self.host.watched:
            self.host.note("entry added", source, str(filter))
        return True

    def remove_entry(self, source: NodeId, filter: Filter) -> bool:
        """Remove an entry and tell nobody; False if it was not there."""
        if not self.table.remove(source, filter):
            return False
        if self.covering:
            self.forget(filter)
        if self.host.watched:
            self.host.note("entry removed", source, str(filter))
        return True

    def forget(self, filter: Filter) -> None:
        """Drop a filter from the index once it is in no table and announced over no link."""
        if self.table.sources(filter):
            return
        for told in self.announced.values():
            if filter in told:
                return
        self.cover_index.discard(filter)

    def withdraw(self, filter: Filter, source: NodeId) -> None:
        """Retract a filter from neighbours for whom nobody here wants it now, except ``source``."""
        for neighbour in self.concerned(source, self.table.sources(filter)):
            self.retract(neighbour, filter)

    def concerned(self, source: NodeId, others: list[NodeId]) -> list[NodeId]:
        """The neighbours to which ``source`` makes a difference, beside the other sources."""
        if not others:
            return [neighbour for neighbour in self.neighbours if neighbour != source]
        return others if len(others) == 1 and others[0] != LOCAL else []

    def allows(self, neighbour: NodeId, filter: Filter) -> bool:
        """Whether subscriptions to this filter travel towards this neighbour at all."""
        return True

    def announce(self, neighbour: NodeId, filter: Filter) -> None:
        """Send SUB(p), unless it, or a filter that covers it, has been told over this link."""
        if not self.allows(neighbour, filter):
            return
        if self.remembers:
            told = self.announced.get(neighbour)
            if told is None or filter in told or (self.covering and self.covered(filter, told)):
                return
            told[filter] = None
        self.host.send(neighbour, Subscribe(filter))  # type: ignore[arg-type]  # wire union

    def retract(self, neighbour: NodeId, filter: Filter) -> None:
        """Send UNSUB(p), unless nothing of it has been told over this link."""
        if self.remembers:
            told = self.announced.get(neighbour)
            if told is None or filter not in told:
                return
            del told[filter]
            if self.covering:
                self.uncover(neighbour, filter)
                self.forget(filter)
        self.host.send(neighbour, Unsubscribe(filter))  # type: ignore[arg-type]  # wire union

    def undelivered(self, to: NodeId, message: Any) -> None:
        """Send again what did not arrive, if it still holds."""
        told = self.announced.get(to)
        if told is None or not self.remembers or type(message) not in (Subscribe, Unsubscribe):
            return
        if (message.filter in told) == (type(message) is Subscribe):
            self.host.send(to, message)

    def covered(self, filter: Filter, told: dict[Filter, None]) -> bool:
        """Whether a filter that was told covers this one."""
        for other in self.cover_index.above(filter):  # compiled, the loop is faster
            if other in told and other.covers(filter):
                return True
        return False

    def widest_first(self, filters: list[Filter]) -> list[Filter]:
        """Filters that no other one covers come first, so that fewer are told."""
        among = dict.fromkeys(filters)
        first: list[Filter] = []
        rest: list[Filter] = []
        for filter in filters:
            hidden = False
            for other in self.cover_index.above(filter):
                if other in among and other.covers(filter) and not filter.covers(other):
                    hidden = True
                    break
            if hidden:
                rest.append(filter)
            else:
                first.append(filter)
        return first + rest

    def uncover(self, neighbour: NodeId, gone: Filter) -> None:
        """Announce over this link what ``gone`` covered until now, widest filters first."""
        told = self.announced[neighbour]
        hidden = [
            filter
            for filter in self.cover_index.below(gone)
            if filter != gone
            and gone.covers(filter)
            and self.table.wanted_beside(filter, neighbour)
            and not self.reconfiguration.withholds(neighbour, filter)
            and not self.covered(filter, told)
        ]
        for filter in self.widest_first(hidden):
            self.announce(neighbour, filter)

    def filters(self) -> list[Filter]:
        return self.table.filters_of(LOCAL)

    def known_filters(self) -> list[Filter]:
        return self.table.filters()

    def filters_from(self, neighbour: NodeId) -> list[Filter]:
        return self.table.filters_of(neighbour)

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """The neighbours that subscribed to this filter; with covering, to one that covers it too.

        And to one that it covers: of a subscription that was not told beyond a wider one, an event
        that matches the wider one must find the rest of the way.
        """
        sources = dict.fromkeys([*self.table.sources(filter), *self.allowance.excess])
        if self.covering:
            for other in [*self.cover_index.above(filter), *self.cover_index.below(filter)]:
                if other.covers(filter) or filter.covers(other):
                    sources.update(dict.fromkeys(self.table.sources(other)))
        return [source for source in sources if source != LOCAL]

    # Links

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.reconfiguration.link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.reconfiguration.link_down(neighbour, reconfiguration)

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        self.reconfiguration.link_replaced(old, near, far, reconfiguration)

    def link_renewed(self, neighbour: NodeId) -> None:
        """As if the neighbour had unsubscribed from what it did not announce again."""
        for filter in self.doubted.pop(neighbour, {}):
            self.delete(neighbour, filter)

    def add_neighbour(self, neighbour: NodeId) -> None:
        """A neighbour is new, or is back if it was there already."""
        if neighbour in self.neighbours:
            self.doubted[neighbour] = dict.fromkeys(self.table.filters_of(neighbour))
            self.allowance.forget(neighbour)
        self.neighbours[neighbour] = None
        self.announced[neighbour] = {}

    def drop_neighbour(self, neighbour: NodeId) -> None:
        """A neighbour is gone; what was announced over the link is forgotten."""
        self.neighbours.pop(neighbour, None)
        self.allowance.forget(neighbour)
        self.doubted.pop(neighbour, None)
        told = self.announced.pop(neighbour, None)
        if self.covering and told is not None:
            for filter in told:
                self.forget(filter)

    def announce_table(self, neighbour: NodeId) -> None:
        """Announce to a new neighbour every filter that somebody other than itself wants."""
        filters = [
            filter
            for filter in self.table.filters()
            if self.table.wanted_beside(filter, neighbour)
            and not self.reconfiguration.withholds(neighbour, filter)
        ]
        for filter in self.widest_first(filters) if self.covering else filters:
            self.announce(neighbour, filter)

    def assume_announced(self, neighbour: NodeId, filters: Iterable[Filter]) -> None:
        """The neighbour knows these without having been told by SUB (Reconfiguration Path)."""
        told = self.announced.get(neighbour)
        if told is not None:
            for filter in filters:
                told[filter] = None
                if self.covering and filter not in self.cover_index:
                    self.cover_index.add(filter)

    def assume_retracted(self, neighbour: NodeId, filters: Iterable[Filter]) -> None:
        """The neighbour forgets these without being told by UNSUB (Reconfiguration Path)."""
        told = self.announced.get(neighbour)
        if told is not None:
            for filter in filters:
                if filter in told:
                    del told[filter]
                    if self.covering:
                        self.uncover(neighbour, filter)
                        self.forget(filter)


register(
    "routing",
    "subscription-forwarding",
    SubscriptionForwarding,
    SubscriptionForwardingParameters,
    needs={"tree", "reconfiguration"},
    provides={"tables", "symmetric"},
    summary="Subscriptions lay the routes that events follow along a tree.",
)
