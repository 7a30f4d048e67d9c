"""``Layer`` and its kinds: overlay, routing, recovery.

An overlay knows who the neighbours are, a routing who wants an event, a recovery what was lost.
Layers call their neighbours in the stack directly:

==========  ========  ===========================================================================
from        to        calls
==========  ========  ===========================================================================
overlay     routing   ``link_up``, ``link_down``, ``link_replaced``, ``link_renewed``,
                      ``parent_changed``; ShopParent also ``filters``, ``filters_from``
routing     overlay   ``routed``, where the overlay asked for it (``Routing.watching``)
routing     recovery  ``seen``, ``arrived``
recovery    routing   ``known_filters``, ``linked``, ``next_hops``, ``send_to_neighbour``
recovery    host      ``deliver``, ``gap``; without a recovery the routing calls ``deliver``
==========  ========  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.stack.host import LOCAL, Host, NodeId

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.stack.message import Contact, Message

Handler: TypeAlias = Callable[[NodeId, Any], None]
"""Takes a message (of the type it is registered for) and the node it came from."""


EARLY: Final = 2**17
"""Messages at most that wait for one link: more than an honest neighbour has to announce."""


def kept_by_host(sender: NodeId, message: Any) -> None:
    """The handler of a heartbeat: none is called, as the host keeps it."""


class Reconfiguration(NamedTuple):
    """One link replaced by another, as the overlay knows it.

    ``path`` is the reconfiguration path (Frey, section 5.2): from the first end of the old link
    through the new link to the other end. It is empty where the overlay does not know it.
    """

    id: int
    path: tuple[NodeId, ...] = ()


@mypyc_attr(allow_interpreted_subclasses=True)
class Layer:
    """A protocol on one node. It acts only when called, and only through its host.

    The bottom layer of a stack (the overlay; the routing if there is none) is also told of
    connections: it asks for them with ``host.open`` and ``host.close``.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self._handlers: dict[type[Message], Handler] | None = None
        self.heals_within = 60.0
        """Seconds from the last failure until the network is whole again; inf if it may never be
        (bottom layer only)."""

    def start(self) -> None:
        """The node starts: timers begin here. Lower layers start first."""

    def stop(self) -> None:
        """The node stops in good order: say goodbye here. Upper layers stop first.

        Messages still arrive until the bottom layer has closed all connections, or the driver's
        patience is at its end.
        """

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

    def undelivered(self, to: NodeId, message: Any) -> None:
        """On the air: a message that this layer sent to a node was given up after all attempts."""

    # The bottom layer only

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Nodes of the network that this one may begin with; none if it is the first."""

    def opened(self, peer: Contact) -> None:
        """A connection to a node is there, whichever end asked for it.

        If a node asked for by its address turns out to be connected already, it is told again,
        with that address.
        """

    def closed(self, peer: NodeId) -> None:
        """The connection to a node is gone: closed by its other end, or seen to be broken."""

    def unreachable(self, contact: Contact) -> None:
        """A connection that this node asked for does not come about."""

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """The promise that this node breaks once the network has healed; None if it keeps all.

        Chaos tests ask every node ``heals_within`` seconds after the last failure, and show it the
        bottom layers of all nodes that run. They check themselves that an overlay's links connect
        all nodes and have two ends; its degrees, parents and other promises are checked here.
        """
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class Routing(Layer):
    """Who wants this event? Keeps tables right while links come and go."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.recovery: Recovery | None = None
        """The layer above, if there is one."""
        self.watching: Overlay | None = None
        """The overlay, where it wants to see the events that are routed here."""
        self.moving = False
        """Whether tree links move while events cross them, so that an event may come twice."""
        self.neighbours: dict[NodeId, None] = {}
        """Nodes that this one has a link to, in the order in which links were made."""
        self.early: dict[NodeId, list[Message]] = {}
        """Messages over links that the other end has made already, by node: an overlay names the
        node, and hands them over (:meth:`Overlay.handle_early`) once the link is up here too."""

    def receive(self, sender: NodeId, message: Any) -> None:
        if not self.early or not self.is_early(sender, message):
            super().receive(sender, message)

    def is_early(self, sender: NodeId, message: Message) -> bool:
        """Whether a message has to wait for its link, and now does; events never have to."""
        waiting = self.early.get(sender)
        if waiting is None or message.events():
            return False
        if len(waiting) < EARLY:
            waiting.append(message)
        else:  # the overlay finds that there is nothing, and takes the node for a bad one
            del self.early[sender]
        return True

    def publish(self, event: Event) -> None:
        """Bring an event of this node's application to all who want it."""
        raise NotImplementedError

    def subscribe(self, filter: Filter) -> None:
        """This node's application wants events that match."""
        raise NotImplementedError

    def unsubscribe(self, filter: Filter) -> None:
        """This node's application no longer wants events that match."""
        raise NotImplementedError

    def advertise(self, filter: Filter) -> None:
        """This node's application will publish events that match; only some routings use it."""

    def unadvertise(self, filter: Filter) -> None:
        """This node's application no longer publishes events that match."""

    def undelivered(self, to: NodeId, message: Any) -> None:
        """Send again what did not arrive, except events, while there is a link."""
        if to in self.linked() and not message.events():
            self.host.send(to, message)

    # Upwards

    def deliver(self, event: Event, hops: int) -> None:
        """Hand an event that this node's application wants to the layer above."""
        if self.recovery is None:
            self.host.deliver(event, hops)
        else:
            self.recovery.arrived(event, hops)

    def inventory(self) -> None:
        """Note what this routing holds, row by row; called at the end of a watched run."""

    def filters(self) -> list[Filter]:
        """The filters of this node's application."""
        raise NotImplementedError

    def known_filters(self) -> list[Filter]:
        """Every filter that this node knows somebody to want; its own if it knows no others."""
        return self.filters()

    def linked(self) -> list[NodeId]:
        """The neighbours, in the order in which they were linked."""
        return list(self.neighbours)

    def send_to_neighbour(self, neighbour: NodeId, message: Message) -> None:
        """Send a message of another layer to a neighbour, as this routing would its own."""
        self.host.send(neighbour, message)

    def filters_from(self, neighbour: NodeId) -> list[Filter]:
        """The filters that a neighbour asked for; known to routings that keep tables."""
        raise NotImplementedError

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """The neighbours over which events that match this very filter would be sent."""
        raise NotImplementedError

    def certain(self) -> bool:
        """Whether every event reaches all who want it while nothing changes; tests ask."""
        return True

    def expected(self) -> float | None:
        """Share of the deliveries that is made while nothing changes; None if it is not known."""
        return 1.0 if self.certain() else None

    # From the overlay

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """A link to a neighbour appeared, possibly in place of another."""
        raise NotImplementedError

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """The link to a neighbour vanished; known to be replaced if a reconfiguration is given."""
        raise NotImplementedError

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """Called at an end of a lost link, after ``link_up`` at the ends of the new one.

        The link to ``old`` was replaced by ``near``-``far``; ``near`` is on this node's side.
        Routings that do not use the association ignore it.
        """

    def link_renewed(self, neighbour: NodeId) -> None:
        """A neighbour that was linked twice, since it was away, has announced all that it wants.

        What it announced before the second ``link_up``, and not again since, it no longer wants.
        """

    def parent_changed(self, parent: NodeId) -> None:
        """On a rooted overlay: the neighbour towards the root is another one (LOCAL: none)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Overlay(Layer):
    """Who are my neighbours? Opens and closes connections, and makes links of some of them.

    Its methods ``link_up``, ``link_down``, ``link_replaced``, ``link_renewed`` and
    ``parent_changed`` are the only way in which a routing hears of links.
    """

    def __init__(self, host: Host, routing: Routing) -> None:
        super().__init__(host)
        self.routing = routing
        self._receiver = routing
        """The routing that handles messages, also where another object was put before it."""
        self.neighbours: dict[NodeId, None] = {}
        """The nodes that this one has a link to, in the order in which links were made."""

    def expect_link(self, node: NodeId) -> None:
        """A node is about to make its end of a link: what comes over it must wait for this end."""
        self._receiver.early[node] = []

    def expects_link(self, node: NodeId) -> bool:
        """Whether all that came over such a link has waited; False if it was too much."""
        return node in self._receiver.early

    def forget_early(self, node: NodeId) -> None:
        """The link to a node does not come about."""
        self._receiver.early.pop(node, None)

    def handle_early(self, neighbour: NodeId) -> None:
        """Let the routing handle what came over a link before it was up at this end."""
        for message in self._receiver.early.pop(neighbour, ()):
            self._receiver.receive(neighbour, message)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Make a link of the connection to a node."""
        self.neighbours[neighbour] = None
        self.host.link_changed(
            neighbour, True, -1 if reconfiguration is None else reconfiguration.id
        )
        self.routing.link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Give up the link to a node."""
        del self.neighbours[neighbour]
        self.host.link_changed(
            neighbour, False, -1 if reconfiguration is None else reconfiguration.id
        )
        self.routing.link_down(neighbour, reconfiguration)

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """Say which link stands in for a lost one; see :meth:`Routing.link_replaced`."""
        self.routing.link_replaced(old, near, far, reconfiguration)

    def link_renewed(self, neighbour: NodeId) -> None:
        """Say that a neighbour is back, and all its side is; see :meth:`Routing.link_renewed`."""
        self.routing.link_renewed(neighbour)

    def parent_changed(self, parent: NodeId) -> None:
        """Say which neighbour lies towards the root (LOCAL: none)."""
        self.host.parent_changed(parent)
        self.routing.parent_changed(parent)

    def complete(self) -> bool:
        """Whether the node has the links that its application should wait for."""
        return bool(self.neighbours)

    def routed(self, event: Event) -> None:
        """An event came to this node for the first time; told if ``routing.watching`` is set."""

    def describe(self) -> dict[str, object]:
        """What an operator should see of this overlay's state, by name."""
        return {}


def shown_parent(parent: NodeId, root: bool) -> NodeId | str:
    """A node's parent on a tree, as :meth:`Overlay.describe` shows it on every tree."""
    if parent != LOCAL:
        return parent
    return "none (root)" if root else "none (searching)"


@mypyc_attr(allow_interpreted_subclasses=True)
class Recovery(Layer):
    """Notices what was lost and fetches it from a node that has it."""

    def __init__(self, host: Host, routing: Routing) -> None:
        super().__init__(host)
        self.routing = routing

    def published(self, event: Event) -> None:
        """This node's application publishes: put marks on the event before it is routed."""

    def routed(self, event: Event) -> None:
        """The routing has sent an event that this node's application published."""

    def subscribed(self, filter: Filter, age: float = 0.0) -> None:
        """This node's application wants events that match from now on.

        And those published up to ``age`` seconds ago, as far as somebody still has them: it wanted
        them already, at another node or before it lost its connection.
        """

    def held(self, filter: Filter, age: float) -> list[Event]:
        """The events kept at this node that match and are no older than so many seconds."""
        return []

    def doubtful(self, filter: Filter, age: float) -> list[tuple[NodeId, float]]:
        """Publishers whose matching events of up to ``age`` seconds ago may be lost.

        And for each, how many seconds ago the last of these events was published at the latest.
        """
        return []

    def life(self, contact: Contact, age: float, ended: bool | None) -> None:
        """Another node started so many seconds ago.

        ``ended``: its life before that ended in good order (None: no such life was heard of).
        """

    def publisher(self, contact: Contact, neighbour: NodeId) -> None:
        """Another node publishes, says a neighbour."""

    def awaits(self, filter: Filter, publisher: NodeId, sequence: int) -> bool:
        """Whether an event that matches may still come before a publisher's event."""
        return False

    def secure(self, event: Event, nodes: int, done: Callable[[int], None]) -> None:
        """See to it that so many nodes hold an event that this node's application published.

        Calls back with the number of those that do, at once if this recovery asks nobody.
        """
        done(1)

    def unsubscribed(self, filter: Filter) -> None:
        """This node's application no longer wants events that match."""

    def seen(self, event: Event, sender: NodeId = LOCAL) -> None:
        """The routing brought an event to this node for the first time, wanted here or not.

        ``sender`` is the neighbour that it came from (LOCAL: this node published it).
        """

    def arrived(self, event: Event, hops: int) -> None:
        """The routing brought an event that this node's application wants; pass it on once."""
        self.host.deliver(event, hops)

    def describe(self) -> dict[str, float]:
        """What an operator should see of this recovery's work, by name."""
        return {}
