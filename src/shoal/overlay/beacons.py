"""Beacons: on the air, the neighbours of a node are those whose hellos it hears.

No structure is kept. The overlay of routings that only need to know who is around.
"""

from __future__ import annotations

from typing import Annotated, cast

import msgspec

from shoal.overlay.maodv_messages import Seconds
from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Handler, Overlay, Routing
from shoal.stack.message import HEADER_BYTES, Message, RoutineUpkeep
from shoal.stack.registry import register


class BeaconParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often nodes show themselves."""

    hello: Seconds = 1.0
    """Seconds between two hellos of a node."""
    patience: Annotated[float, msgspec.Meta(ge=1.5, le=1000)] = 2.5
    """Hellos after which a silent neighbour is lost."""


class Beacon(RoutineUpkeep, frozen=True, tag="beacon"):
    """The sender is there, and hears these nodes."""

    heard: Annotated[tuple[NodeId, ...], msgspec.Meta(max_length=4096)]

    def size(self) -> int:
        """Size by the nodes that it names."""
        return HEADER_BYTES + 4 * len(self.heard)


class Beacons(Overlay):
    """Neighbours are nodes that hear each other's hellos."""

    def __init__(self, host: Host, parameters: BeaconParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.period = parameters.hello
        self.silence = parameters.hello * parameters.patience
        self.heals_within = 3 * self.silence
        self.heard: dict[NodeId, float] = {}
        """Per node in range, when its last hello came."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Hellos."""
        return {Beacon: self.on_beacon}

    def start(self) -> None:
        """Begin to send hellos, each node at another moment."""
        phase = self.host.chance("beacons").uniform(self.host.node, self.host.epoch)
        self.host.every(self.period, self.hello, phase * self.period)

    def hello(self) -> None:
        """Forget the silent, and say hello to the others."""
        silent = self.host.now() - self.silence
        for node in [n for n, at in self.heard.items() if at < silent]:
            del self.heard[node]
            if node in self.neighbours:
                self.link_down(node)
        self.host.broadcast(Beacon(tuple(self.heard)))

    def on_beacon(self, sender: NodeId, message: Message) -> None:
        """A node is in range; a neighbour if it hears this one, too."""
        self.heard[sender] = self.host.now()
        mutual = self.host.node in cast("Beacon", message).heard
        if mutual and sender not in self.neighbours:
            self.link_up(sender)
        elif not mutual and sender in self.neighbours:
            self.link_down(sender)


register("overlay", "beacons", Beacons, BeaconParameters, needs={"air"}, provides={"links"})
