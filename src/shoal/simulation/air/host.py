"""A host with a radio, and the links that overlays make on the air."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.simulation.air.state import NOBODY
from shoal.simulation.connections import Connections
from shoal.simulation.host import SimHost
from shoal.simulation.network import Network
from shoal.stack.chance import Chance
from shoal.stack.host import LOCAL, NodeId
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.simulation.air.medium import Medium


class AirHost(SimHost):
    """A node with a radio. It has no connections: it sends frames, and hears those of others."""

    def __init__(self, network: Network, medium: Medium, node: NodeId, seed: int) -> None:
        super().__init__(network, node, seed)
        self.medium = medium
        self._named: list[NodeId] = []
        """Receivers of the event that was sent last."""
        self._chance = Chance(seed, "event jitter")

    def heard(self, node: NodeId) -> float:
        return self.medium.heard_at(self.node, node)

    def open(self, contact: Contact) -> None:
        """Refused: on the air there are no connections to open."""
        raise TypeError(
            f"node {self.node} opens a connection, but on the air there are none; "
            "use an overlay for radios, or a topology in which nodes reach each other"
        )

    def close(self, node: NodeId) -> None:
        """Does nothing: on the air there are no connections."""

    def send(self, to: NodeId, message: Message) -> None:
        """Send one frame to a node in range, acknowledged and repeated.

        If no attempt gets through, the bottom layer is told by ``unreachable`` when the last has
        failed. An event sent to several neighbours at one instant is one frame, as ``send_all``
        would send it.
        """
        if self.clock.stopped:
            return
        if not self.medium.broadcasts or not message.events():
            self.medium.send(self.node, to, message)
        elif message is self._frame and self.kernel.now == self._framed_at:
            self._named.append(to)
        else:
            self._frame, self._framed_at = message, self.kernel.now
            self._broadcast_to([to], message)

    def _broadcast_to(self, named: list[NodeId], message: Message) -> None:
        """Send one frame to these after a random wait, as others may send the same event now."""
        self._named = named
        event = message.events()[0]
        wait = self._chance.uniform(event.publisher, event.sequence, self.node)
        delay = wait * self.medium.parameters.event_jitter
        self.after(delay, lambda: self._transmit_to(tuple(named), message))

    def _transmit_to(self, named: tuple[NodeId, ...], message: Message) -> None:
        self.medium.send(self.node, NOBODY, message, named)

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        """Events go out as one frame that names its receivers, or as ``event_transport`` says."""
        if self.clock.stopped:
            return
        addressees = tuple([node for node in to if node != but]) if but in to else to
        if not addressees:
            return
        if self.medium.broadcasts and message.events():
            self._broadcast_to(list(addressees), message)
            return
        for node in addressees:
            self.medium.send(self.node, node, message)

    def broadcast(self, message: Message) -> None:
        """Send one frame to all nodes in range; nobody acknowledges it."""
        if not self.clock.stopped:
            self.medium.send(self.node, NOBODY, message)

    def send_direct(self, to: Contact, message: Message) -> None:
        """Send as ``send`` does; a failure is not reported."""
        if not self.clock.stopped:
            self.medium.send(self.node, to.node, message, quiet=True)


class AirLinks(Connections):
    """The links that overlays make on the air, and the nodes that fail there."""

    def __init__(self, network: Network, medium: Medium, seed: int) -> None:
        super().__init__(network, 0.0, None, Chance(seed, "air"))
        self.medium = medium

    def crash(self, node: NodeId) -> None:
        """A node fails without a word; so does its radio."""
        self.medium.turn(node, False)
        super().crash(node)

    def link_end(self, a: NodeId, b: NodeId, up: bool, repair: int) -> None:
        """Note that a link is up or down at one end; an end without the other has yet to notice."""
        held = b in self._links.get(a, ())
        super().link_end(a, b, up, repair)
        if held != up:
            paired = a in self._links.get(b, ())
            self.kernel.unnoticed += 1 if paired != up else -1

    def attached(self, node: NodeId, parent: NodeId) -> bool:
        """Whether a node's parent runs, in range or not."""
        return parent != LOCAL and self.network.nodes[parent] is not None
