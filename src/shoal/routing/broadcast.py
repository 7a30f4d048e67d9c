"""Semi-probabilistic routing by radio: one transmission reaches all neighbours.

Costa and Picco (section 6) hint at this variant for mobile ad hoc networks: where a broadcast costs
one message, a node decides not over which links to send an event on, but whether to send it on at
all. The rules, after theirs for links:

* A subscription is told to all neighbours at once, with the distance of the nearest subscriber; it
  travels ``horizon`` (phi) hops. What neighbours tell is kept per neighbour, and forgotten with it.
* A publisher transmits its event. Whoever hears an event for the first time transmits it again if a
  neighbour other than the one it came from has a matching subscriber within the horizon; and
  otherwise with probability ``threshold`` (tau), as in gossiping (their reference 11).

``threshold = 1`` is flooding by broadcast: one message per node and event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from shoal.routing.horizon import HorizonRouting
from shoal.routing.parameters import BroadcastParameters
from shoal.routing.semiprobabilistic_messages import Gone, Near, Spread
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Reconfiguration
from shoal.stack.registry import register

if TYPE_CHECKING:
    from shoal.content import Event, Filter


@mypyc_attr(allow_interpreted_subclasses=True)
class Broadcast(HorizonRouting):
    """Every node that hears an event decides whether to transmit it again."""

    def __init__(self, host: Host, parameters: BroadcastParameters) -> None:
        super().__init__(host, parameters.horizon)
        self.threshold = parameters.threshold
        self.announced: dict[Filter, int] = {}
        """What was last transmitted about each filter."""
        self.chance = host.chance("rebroadcast")
        self.jitter = parameters.jitter
        self.jitter_chance = host.chance("rebroadcast jitter")

    # Events

    def pass_on(self, sender: NodeId, spread: Spread) -> None:
        """A publisher transmits; another node if a subscriber is near, or else by chance."""
        event = spread.event
        if sender == LOCAL:
            self.host.broadcast(spread.onward(False))
            return
        known = self._wanted_beyond(sender, event)
        question = (event.publisher, event.sequence, self.host.node)
        if known or self.chance.uniform(*question) < self.threshold:
            self._transmit_later(spread.onward(known))
        else:
            self.host.stopped(event, "end", spread.hops, spread.deterministic)

    def _wanted_beyond(self, sender: NodeId, event: Event) -> bool:
        """Whether a neighbour that did not send the event leads to a subscriber."""
        for distance in range(1, self.horizon + 1):
            for source in self.table.match(event.content, distance):
                if source != sender:
                    return True
        return False

    def _transmit_later(self, spread: Spread) -> None:
        if not self.jitter:
            self.host.broadcast(spread)
            return
        event = spread.event
        wait = self.jitter_chance.uniform(event.publisher, event.sequence, self.host.node)
        self.host.after(wait * self.jitter, lambda: self.host.broadcast(spread))

    # Subscriptions

    def announce_change(self, filter: Filter) -> None:
        """Transmit how far the nearest subscriber is, if that is news.

        Neighbours hear their own subscriptions back, two hops farther. When a subscriber leaves,
        such echoes grow with every exchange until they pass the horizon, and are gone.
        """
        near = self.table.nearest(filter, self.horizon)[1]
        if near >= 0:
            before = self.announced.get(filter, 0)
            if before != near + 1:
                self.announced[filter] = near + 1
                self.host.broadcast(Near(filter, near + 1, before > 0))  # type: ignore[arg-type]  # wire union
        elif filter in self.announced:
            del self.announced[filter]
            self.host.broadcast(Gone(filter))  # type: ignore[arg-type]  # wire union

    def certain(self) -> bool:
        """Whether events reach everybody: only if all nodes transmit all of them."""
        return self.threshold >= 1.0

    # Links

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Tell the new neighbour alone what the others have heard."""
        self.neighbours[neighbour] = None
        for filter, distance in self.announced.items():
            self.host.send(neighbour, Near(filter, distance))  # type: ignore[arg-type]  # wire union


register(
    "routing",
    "broadcast",
    Broadcast,
    BroadcastParameters,
    needs={"links"},
    summary="By radio: whoever hears an event decides whether to transmit it again.",
)
