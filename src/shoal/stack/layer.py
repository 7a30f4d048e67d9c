"""``Layer`` and its kinds.

An overlay knows who the neighbours are, a routing who wants an event, a recovery what was lost.
The overlay tells the routing three things and no more: ``link_up``, ``link_down`` and
``link_replaced``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.stack.host import Host, NodeId

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Message

Handler: TypeAlias = Callable[[NodeId, Any], None]
"""Takes a message (of the type it is registered for) and the neighbour it came from."""


class Reconfiguration(NamedTuple):
    """One link replaced by another, as the overlay knows it.

    ``path`` is the reconfiguration path (Frey, section 5.2): from the first end of the old link
    through the new link to the other end. It is empty where the overlay does not know it.
    """

    id: int
    path: tuple[NodeId, ...] = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class Layer:
    """A protocol on one node. It acts only when called, and only through its host."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._handlers: dict[type[Message], Handler] | None = None

    def receive(self, sender: NodeId, message: Any) -> None:
        """A message of one of this layer's types arrived. Override it only for speed."""
        handlers = self._handlers
        if handlers is None:
            handlers = self.handlers()
            self._handlers = handlers
        handlers[type(message)](sender, message)

    def handlers(self) -> dict[type[Message], Handler]:
        """Which message types this layer takes, and with which method ``(sender, message)``."""
        return {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Routing(Layer):
    """Who wants this event? Keeps tables right while links come and go."""

    def publish(self, event: Event) -> None:
        """Bring an event of this node's application to all who want it."""
        raise NotImplementedError

    def subscribe(self, filter: Filter) -> None:
        """This node's application wants events that match."""
        raise NotImplementedError

    def unsubscribe(self, filter: Filter) -> None:
        """This node's application no longer wants them."""
        raise NotImplementedError

    def advertise(self, filter: Filter) -> None:
        """This node's application will publish events that match; only some routings use it."""

    def unadvertise(self, filter: Filter) -> None:
        """It no longer will."""

    def parent_changed(self, parent: NodeId) -> None:
        """On a rooted overlay: the neighbour towards the root is another one (LOCAL: none)."""

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """A link to a neighbour appeared, possibly in place of another."""
        raise NotImplementedError

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """The link to a neighbour vanished; known to be replaced if a reconfiguration is given."""
        raise NotImplementedError

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """At an end of an old link, after ``link_up`` at the ends of the new one.

        The link to ``old`` was replaced by ``near``-``far``; ``near`` is on this node's side.
        Routings that do not use the association ignore it.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class Overlay(Layer):
    """Who are my neighbours? Tells the routing above when that changes."""

    def __init__(self, host: Host, routing: Routing) -> None:
        super().__init__(host)
        self.routing = routing


@mypyc_attr(allow_interpreted_subclasses=True)
class Recovery(Layer):
    """Notices what was lost and fetches it from a peer that has it."""

    def __init__(self, host: Host, routing: Routing) -> None:
        super().__init__(host)
        self.routing = routing
