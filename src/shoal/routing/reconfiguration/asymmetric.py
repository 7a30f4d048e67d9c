"""Informed Link Activation, asymmetric (Frey, section 14.2.3): one end acts for both.

Overlays such as LSTree tell only the end that repairs the tree which new link replaces the lost
one. That end's table says what both ends of the new link need to know:

* P1, the filters that only the far side of the lost link wanted;
* P2, the filters of its table that the far side did not want. In stable conditions these are just
  what the other end of the lost link would find only *this* side wanted.

A filter wanted on both sides is in neither. The near end of the new link holds P1 back from the
far end, and sends it ACTIVATE(P2) across the link; the far end holds P2 back in its turn. After
T_s each releases what is wanted still. There is no FLUSH: unsubscriptions wait for T_u, also at a
lost node's other neighbours, whose links nothing replaces.

On WiTree the near end may be another node than the one that repairs. With ``routed``, ACTIVATE(P1,
P2) goes to it along the tree, on the path that the overlay names; it may be there before the link.

An end that expects an ACTIVATE and gets none within T_s announces its table all the same.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, cast

import msgspec

from shoal.content import AnyFilter, Filter
from shoal.routing.messages import Carries
from shoal.routing.reconfiguration.informed import Informed, InformedParameters
from shoal.routing.reconfiguration.timed import Seconds, Waiting
from shoal.routing.subscription_forwarding import SubscriptionForwarding
from shoal.stack import Contact, Message, NodeId, Reconfiguration, Timer, register
from shoal.stack.host import remember
from shoal.stack.layer import Handler

REPAIRS: Final = 64
"""Repairs that are remembered while they go on; some are never ended."""

Filters = Annotated[tuple[AnyFilter, ...], msgspec.Meta(max_length=1 << 20)]


class ActivateFar(Carries, frozen=True, tag="activate far"):
    """ACTIVATE(P2), across the new link: announce your table, but hold these filters back."""

    KIND: ClassVar[str] = "activate"

    filters: Filters

    def carried(self) -> int:
        return len(self.filters)


class ActivateBoth(ActivateFar, frozen=True, tag="activate both"):
    """ACTIVATE(P1, P2), to the near end of the new link if that is another node."""

    far: NodeId
    far_filters: Filters
    way: Annotated[tuple[NodeId, ...], msgspec.Meta(max_length=4096)] = ()
    """Nodes still to be crossed, the near end last; empty out of band."""

    def carried(self) -> int:
        return len(self.filters) + len(self.far_filters)


class AsymmetricParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The two timers, in seconds."""

    unsubscription_timer: Seconds = 1.5
    """T_u: how long unsubscriptions wait after a break."""
    subscription_timer: Seconds = 1.5
    """T_s: how long filters are held back from the other end of a new link."""
    routed: bool = False
    """Send ACTIVATE along the tree and not out of band: on the air a node reaches only those in
    range."""


class AsymmetricInformed(Informed):
    """The end that repairs a link tells the other end of the new one what to hold back."""

    def __init__(self, routing: SubscriptionForwarding, parameters: AsymmetricParameters) -> None:
        unsubscribing, subscribing = parameters.unsubscription_timer, parameters.subscription_timer
        super().__init__(routing, InformedParameters(unsubscribing, subscribing, flush=False))
        self.routed = parameters.routed
        self.lost: dict[int, dict[Filter, None]] = {}
        """Per repair going on here, what was wanted across the lost link."""
        self.early: dict[NodeId, tuple[ActivateBoth, int]] = {}
        """Per far end, an ACTIVATE that came before the link to it was there, and its size: as many
        bytes together as one neighbour may announce. A lost one is made up for, see above."""
        self.waiting: dict[NodeId, Timer] = {}
        """Neighbours over new links, of which ACTIVATE has not come yet."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {ActivateBoth: self.on_activate_both, ActivateFar: self.on_activate_far}

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Also remember the filters behind a link that is being replaced."""
        if reconfiguration is not None:
            self.lost[reconfiguration.id] = dict.fromkeys(self.routing.table.filters_of(neighbour))
            if len(self.lost) > REPAIRS:
                del self.lost[next(iter(self.lost))]
        self._stop_waiting(neighbour)
        super().link_down(neighbour, reconfiguration)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        super().link_up(neighbour, reconfiguration)
        if reconfiguration is None:
            return
        self.waiting[neighbour] = self.host.after(
            self.subscription_timer, lambda: self._activate(neighbour, ())
        )
        early = self.early.pop(neighbour, None)
        if early is not None:
            self.on_activate_both(neighbour, early[0])

    def _stop_waiting(self, neighbour: NodeId) -> None:
        timer = self.waiting.pop(neighbour, None)
        if timer is not None:
            timer.cancel()

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """At the end that repairs: work out P1 and P2, and activate both ends of the new link."""
        lost = self.lost.pop(reconfiguration.id, {})
        if reconfiguration.path and reconfiguration.path[0] != self.host.node:
            return  # both ends were told, and the first of the path is in charge
        table = self.routing.table
        p1 = tuple(filter for filter in lost if not table.sources(filter))
        p2 = tuple(filter for filter in table.filters() if filter not in lost)
        path = reconfiguration.path
        way = path[1 : path.index(near) + 1] if self.routed and near in path else ()
        activate = ActivateBoth(p1, far, p2, way)  # type: ignore[arg-type]  # wire union
        if near == self.host.node or way:
            self.on_activate_both(near, activate)
        else:
            self.host.send_direct(Contact(near), activate)

    def on_activate_both(self, sender: NodeId, message: Message) -> None:
        """Pass it on along the tree; at the near end hold P1 back, and tell the far end P2."""
        activate = cast("ActivateBoth", message)
        far, way = activate.far, activate.way
        if way:
            onward = ActivateBoth(activate.filters, far, activate.far_filters, way[1:])
            self.host.send(way[0], onward)
        elif far in self.routing.neighbours:
            self.host.send(far, ActivateFar(activate.far_filters))
            self._activate(far, activate.filters)
        else:
            size = sum(f.size() for f in (*activate.filters, *activate.far_filters))
            remember(self.early, far, (activate, size), REPAIRS)
            while sum(size for _, size in self.early.values()) > self.host.neighbour_filter_bytes:
                del self.early[next(iter(self.early))]

    def on_activate_far(self, sender: NodeId, message: Message) -> None:
        """At the far end: hold P2 back."""
        if sender in self.routing.neighbours:
            self._activate(sender, cast("ActivateFar", message).filters)

    def _activate(self, neighbour: NodeId, filters: tuple[Filter, ...]) -> None:
        """Announce the table over the new link, except these filters; they wait for T_s."""
        self._stop_waiting(neighbour)
        self.untag(neighbour)
        held = self.to_hold_back(filters)
        if held:
            tagged = Waiting(neighbour, held)
            self.tagged[neighbour] = tagged
            tagged.timer = self.host.after(self.subscription_timer, lambda: self.release(tagged))
        self.routing.announce_table(neighbour)


register(
    "reconfiguration",
    "informed-asymmetric",
    AsymmetricInformed,
    AsymmetricParameters,
    needs={"links", "tables", "association"},
    provides={"reconfiguration"},
)
