"""Beacons: on the air, a link to every node that hears this one and is heard by it.

Every node broadcasts a beacon from time to time, which names the nodes it has heard of late.
Whoever finds itself in one knows that frames get through both ways, and has a link. A neighbour
whose beacons stay away, or no longer name this node, is lost. Radios that move thus have links as
:mod:`shoal.routing.broadcast` wants them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Handler, Overlay, Routing
from shoal.stack.message import Message
from shoal.stack.registry import register


class BeaconsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often nodes show themselves."""

    period: Annotated[float, msgspec.Meta(ge=0.01, le=60)] = 1.0
    """Seconds between two beacons of a node."""
    missed: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    """Beacons that may fail to come, one after the other, before a node is given up."""


class Beacon(Message, frozen=True, tag="beacon"):
    """The sender is there, and has heard these nodes of late."""

    heard: tuple[Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)], ...] = ()

    def size(self) -> int:
        """Twenty bytes, and four for every node that is named."""
        return 20 + 4 * len(self.heard)

    @classmethod
    def routine(cls) -> bool:
        """Sent whether or not anything happens."""
        return True


class Beacons(Overlay):
    """On the air, a link to every node that hears this one and is heard by it."""

    def __init__(self, host: Host, parameters: BeaconsParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.period = parameters.period
        self.patience = (parameters.missed + 0.5) * parameters.period
        self.heals_within = 2 * self.patience + 2 * self.period
        self.heard: dict[NodeId, float] = {}
        """Per node when its last beacon came."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Beacons only."""
        return {Beacon: self.on_beacon}

    def start(self) -> None:
        """Show this node from now on; not all nodes at the same instant."""
        wait = self.host.chance("beacons").uniform(self.host.node, self.host.epoch)
        self.host.every(self.period, self.beat, wait * self.period)

    def beat(self) -> None:
        """Give up the silent, and broadcast a beacon."""
        now = self.host.now()
        for node in [n for n, heard in self.heard.items() if heard < now - self.patience]:
            del self.heard[node]
            if node in self.neighbours:
                self.link_down(node)
        self.host.broadcast(Beacon(tuple(self.heard)))

    def on_beacon(self, sender: NodeId, message: Beacon) -> None:
        """A node is there; a link if it hears this one, too."""
        self.heard[sender] = self.host.now()
        if (self.host.node in message.heard) != (sender in self.neighbours):
            if sender in self.neighbours:
                self.link_down(sender)
            else:
                self.link_up(sender)


register("overlay", "beacons", Beacons, BeaconsParameters, needs={"air"}, provides={"links"})
