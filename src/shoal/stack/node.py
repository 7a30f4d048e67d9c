"""``Node``: all layers of one stack on one host.

Drivers (the simulator, a broker) hold nodes and nothing below them: they start and stop a node,
tell it of messages and connections, and speak for its application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mypy_extensions import mypyc_attr

from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Layer, Overlay, Recovery, Routing

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Contact, Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Node:
    """One node of the network. ``Stack.on`` makes it; it lives from ``start`` to ``stop``."""

    def __init__(
        self,
        host: Host,
        overlay: Overlay | None,
        routing: Routing,
        recovery: Recovery | None,
        handled_by: dict[type[Message], int] | None = None,
    ) -> None:
        layers = tuple([x for x in (overlay, routing, recovery) if x is not None])
        self.layers: tuple[Layer, ...] = layers
        """The layers that messages are handed to, lowest first."""
        self.handled_by: dict[type[Message], int] = {} if handled_by is None else handled_by
        """Per type of message, the place of the layer that handles it; shared within a stack."""
        if not self.handled_by:
            self.handled_by.update(_handled_by(layers))
        self.host = host
        self.overlay = overlay
        self.routing = routing
        self.recovery = recovery
        routing.recovery = recovery
        self._upwards: tuple[Layer, ...] = layers
        """The layers that are started and stopped, lowest first."""
        self.bottom: Layer = layers[0]
        """The layer that is told of connections."""

    def put_before_routing(self, routing: Routing) -> None:
        """Let another object hear what overlay and application tell the routing.

        Messages still go to the layers that the node was made of.
        """
        self.routing = routing
        if self.overlay is not None:
            self.overlay.routing = routing

    # Life

    def start(self, contacts: tuple[Contact, ...] = ()) -> None:
        """Start all layers, then join the network through these contacts."""
        for layer in self._upwards:
            layer.start()
        self.bottom.join(contacts)

    def stop(self) -> None:
        """Leave in good order. A crash is a node that is never called again."""
        for layer in reversed(self._upwards):
            layer.stop()

    # From the network

    def layer(self, kind: type[Message]) -> Layer:
        """The layer that handles messages of a type."""
        return self.layers[self.handled_by[kind]]

    def receive(self, sender: NodeId, message: Any) -> None:
        """Hand a message to the layer that handles its type."""
        self.layer(type(message)).receive(sender, message)

    def opened(self, peer: Contact) -> None:
        """A connection to a peer is open."""
        self.bottom.opened(peer)

    def closed(self, peer: NodeId) -> None:
        """A connection is gone."""
        self.bottom.closed(peer)

    def unreachable(self, contact: Contact) -> None:
        """Nobody answers at a contact."""
        self.bottom.unreachable(contact)

    # From the application

    def publish(self, event: Event) -> None:
        """Bring an event to all who want it."""
        recovery = self.recovery
        if recovery is None:
            self.routing.publish(event)
        else:
            recovery.published(event)
            self.routing.publish(event)
            recovery.routed(event)

    def subscribe(self, filter: Filter, age: float = 0.0) -> None:
        """Deliver events that match from now on.

        With a recovery, also those published up to ``age`` seconds ago that somebody still has.
        """
        if self.recovery is not None:
            self.recovery.subscribed(filter, age)
        self.routing.subscribe(filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Deliver them no longer."""
        if self.recovery is not None:
            self.recovery.unsubscribed(filter)
        self.routing.unsubscribe(filter)

    def advertise(self, filter: Filter) -> None:
        """Say that events that match will be published here."""
        self.routing.advertise(filter)

    def unadvertise(self, filter: Filter) -> None:
        """Say that they no longer will."""
        self.routing.unadvertise(filter)


def _handled_by(layers: tuple[Layer, ...]) -> dict[type[Message], int]:
    """Per type of message, the place of the layer that handles it."""
    places: dict[type[Message], int] = {}
    for place, layer in enumerate(layers):
        for kind in layer.handlers():
            if kind in places:
                raise ValueError(
                    f"{type(layer).__name__} and {type(layers[places[kind]]).__name__} both "
                    f"handle {kind.__name__} messages; a stack can have one of them"
                )
            places[kind] = place
    return places
