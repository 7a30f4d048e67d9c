"""Informed Link Activation (Frey, section 6.2).

Deferred unsubscription announces over the new link also what was wanted only across the old one.
Here each end of the old link tells the end of the new link on its side, by ACTIVATE out of band,
which filters those are (P). They are *tagged*: held back for T_s, and released then if by that time
the unsubscriptions have not removed them. T_s delays nobody by more than its value, and saves most
if T_u + t_prop < T_s + t_rep (6.1).

Both ends of the old link must know which link replaces it. Where only one does, the asymmetric form
(:mod:`~shoal.routing.reconfiguration.asymmetric`) does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from shoal.content import AnyFilter, Filter
from shoal.routing.messages import Carries
from shoal.routing.reconfiguration.notified import Notified
from shoal.routing.reconfiguration.timed import Seconds, Waiting
from shoal.routing.subscription_forwarding import SubscriptionForwarding
from shoal.stack import LOCAL, Contact, Message, NodeId, Reconfiguration, register
from shoal.stack.layer import Handler


class Activate(Carries, frozen=True, tag="activate"):
    """ACTIVATE(rId, P, n): announce your table to ``far``, but hold these filters back."""

    reconfiguration: int
    filters: tuple[AnyFilter, ...]
    far: NodeId

    def carried(self) -> int:
        return len(self.filters)


class InformedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """T_u and T_s in seconds; ``flush`` as in Notified."""

    unsubscription_timer: Seconds = 0.15
    """Seconds from the break to the deferred unsubscriptions (T_u)."""
    subscription_timer: Seconds = 0.15
    """Seconds from the activation until tagged patterns are subscribed to after all (T_s)."""
    flush: bool = True
    """Send FLUSH over the new link, which ends the timers early."""


class Informed(Notified):
    """The old link's ends tell the new link's ends what need not be announced."""

    def __init__(self, routing: SubscriptionForwarding, parameters: InformedParameters) -> None:
        super().__init__(routing, parameters)  # type: ignore[arg-type]  # has the same fields
        self.subscription_timer = parameters.subscription_timer
        self.tagged: dict[NodeId, Waiting] = {}
        """Per neighbour what is held back from it."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {**super().handlers(), Activate: self.on_activate}

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Over a link that replaces another announce when ACTIVATE comes, else at once."""
        self.routing.add_neighbour(neighbour)
        if reconfiguration is None:
            self.routing.announce_table(neighbour)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Forget what was held back from a lost neighbour."""
        self.untag(neighbour)
        super().link_down(neighbour, reconfiguration)

    def untag(self, neighbour: NodeId) -> None:
        """Hold nothing back from a neighbour any more, and announce nothing for that."""
        tagged = self.tagged.pop(neighbour, None)
        if tagged is not None and tagged.timer is not None:
            tagged.timer.cancel()

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """``substituteLinkTo``: tell the near end of the new link what only ``old`` wanted."""
        pending = self.pending.get(reconfiguration.id)
        lost = {} if pending is None else pending.filters
        only_old = tuple(f for f in lost if not self.routing.table.sources(f))
        activate = Activate(reconfiguration.id, only_old, far)  # type: ignore[arg-type]  # wire union
        if near == self.host.node:
            self.on_activate(near, activate)
        else:
            self.host.send_direct(Contact(near), activate)

    def on_activate(self, sender: NodeId, message: Message) -> None:
        """Announce the table over the new link, holding back what only the lost link wanted."""
        activate = cast("Activate", message)
        routing, far = self.routing, activate.far
        if far not in routing.neighbours:
            return  # the new link has gone again
        tagged = Waiting(far, self.to_hold_back(activate.filters))
        self.tagged[far] = tagged
        routing.announce_table(far)
        tagged.timer = self.host.after(self.subscription_timer, lambda: self.release(tagged))
        self.send_flush(far, activate.reconfiguration)

    def to_hold_back(self, filters: tuple[Filter, ...]) -> dict[Filter, None]:
        """The filters that a neighbour wants, and this node's application does not."""
        table = self.routing.table
        return dict.fromkeys(f for f in filters if table.sources(f) and not table.has(LOCAL, f))

    def withholds(self, neighbour: NodeId, filter: Filter) -> bool:
        """Whether a filter is tagged for this neighbour."""
        tagged = self.tagged.get(neighbour)
        return tagged is not None and filter in tagged.filters

    def release(self, tagged: Waiting) -> None:
        """The subscription timer: announce what was held back and is still wanted."""
        if self.tagged.get(tagged.neighbour) is tagged:
            del self.tagged[tagged.neighbour]
            for filter in tagged.filters:
                if self.routing.table.wanted_beside(filter, tagged.neighbour):
                    if self.host.watched:
                        self.host.note("released", tagged.neighbour, str(filter))
                    self.routing.announce(tagged.neighbour, filter)


def timers_violate_6_1(parameters: Mapping[str, Any]) -> str | None:
    """Condition (6.1), with t_prop at its best (nothing) and t_rep where a topology states it."""
    mine: InformedParameters = parameters["reconfiguration"]
    repair_time: float = getattr(parameters.get("topology"), "repair_time", 0.0)
    latest = mine.subscription_timer + repair_time
    if mine.unsubscription_timer < latest:
        return None
    return (
        f"reconfiguration 'informed': timers violate (6.1) T_u + t_prop < T_s + t_rep: "
        f"T_u = {mine.unsubscription_timer:g} s is not below {mine.subscription_timer:g} + "
        f"{repair_time:g} s, so subscriptions held back are released before the unsubscriptions "
        f"come; set unsubscription_timer below {latest:g}, or subscription_timer above "
        f"{mine.unsubscription_timer - repair_time:g}"
    )


register(
    "reconfiguration",
    "informed",
    Informed,
    InformedParameters,
    needs={"links", "tables", "association", "both ends"},
    provides={"reconfiguration"},
    warn=timers_violate_6_1,
)
