"""Flooding by radio, without any structure: every node transmits every event once.

The baseline of Frey (section 16.1). There is no overlay: one frame is for whoever hears it. A node
waits a random time before it passes an event on, as otherwise all that heard it would transmit at
once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from shoal.routing.event_forwarding import EventForwarding
from shoal.routing.messages import Forward
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.registry import NoParameters, register

if TYPE_CHECKING:
    from shoal.content import Event


class AirFloodingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a node waits before it passes an event on."""

    jitter: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.01
    """Seconds, drawn at random up to this."""


class AirFlooding(EventForwarding):
    """Every event in one frame of every node, for whoever hears it."""

    def __init__(self, host: Host, parameters: AirFloodingParameters) -> None:
        super().__init__(host, NoParameters())
        self.jitter = parameters.jitter
        self.chance = host.chance("flooding jitter")

    def publish(self, event: Event) -> None:
        """Transmit at once."""
        self.seen.first(event.id)
        self.on_first_arrival(LOCAL, event, 0)
        self.host.broadcast(Forward(event, 1))

    def receive(self, sender: NodeId, message: Forward) -> None:
        """On first receipt, deliver if wanted and transmit a little later."""
        event = message.event
        if self.seen.first(event.id):
            self.on_first_arrival(sender, event, message.hops)
            wait = self.chance.uniform(event.publisher, event.sequence, self.host.node)
            onward = Forward(event, message.hops + 1)
            self.host.after(self.jitter * wait, partial(self.host.broadcast, onward))

    def on_first_arrival(self, sender: NodeId, event: Event, hops: int) -> None:
        """Deliver an event if it is wanted here."""
        if self.recovery is not None:
            self.recovery.seen(event, sender)
        if self.table.match(event.content):
            self.deliver(event, hops)


register(
    "routing",
    "air-flooding",
    AirFlooding,
    AirFloodingParameters,
    needs={"air"},
    summary="Every event in one frame of every node, for whoever hears it.",
)
