"""Wired links and the simulated host.

A link carries messages in order, each after its transmission time (bandwidth) and the propagation
delay. What is in flight when a link goes down is lost. Links are made and broken by a topology's
script (:meth:`Network.link_up`, :meth:`Network.link_down`), or by overlays that open connections
(:mod:`~shoal.simulation.connections`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from shoal.simulation.invariants import check_acyclic
from shoal.simulation.kernel import (
    KEPT,
    NANOSECONDS,
    NONE,
    ROUTINE,
    Channel,
    Clock,
    Fan,
    Kernel,
    Letter,
    to_ns,
)
from shoal.simulation.oracle import Forest
from shoal.simulation.recorder import Recorder
from shoal.stack.chance import Chance
from shoal.stack.host import LOCAL, NEVER, Host, NodeId, Timer
from shoal.stack.layer import Overlay, Reconfiguration
from shoal.stack.message import Contact, Heartbeat, Message
from shoal.stack.node import Node

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.simulation.connections import Connections
    from shoal.simulation.latency import Delays


FANS_KEPT: Final = 64
"""Sets of neighbours remembered per node; nodes with few neighbours have few."""


class Kind:
    """What a link needs to know of a type of message."""

    def __init__(self, message: Message) -> None:
        kind = type(message)
        self.type: object = kind
        self.size = message.size() if kind.size is Message.size else -1
        """Bytes of every message of this type; -1 if they differ."""
        self.kept = issubclass(kind, Heartbeat)
        self.skip = KEPT if self.kept else ROUTINE if kind.routine() else NONE
        self.carries_events = kind.events is not Message.events


@mypyc_attr(allow_interpreted_subclasses=True)
class Plane:
    """What forwards events on arrays in place of the hosts' objects, if anything does."""

    def connected(self, channel: Channel) -> None:
        """A channel comes up."""
        raise NotImplementedError

    def disconnected(self, channel: Channel) -> None:
        """A channel goes down."""
        raise NotImplementedError

    def crashed(self, node: NodeId) -> None:
        """A node is no more."""
        raise NotImplementedError

    def transmit(self, channel: Channel, duration: int) -> int:
        """A message takes its turn on a channel; when it has left."""
        raise NotImplementedError


class SimHost(Host):
    """A node in simulated time."""

    def __init__(self, network: Network, node: NodeId, seed: int) -> None:
        super().__init__(node, seed)
        self.network = network
        self.kernel = network.kernel
        self.recorder = network.recorder
        self.clock = Clock(network.kernel)
        self.channels: dict[NodeId, Channel] = {}
        """This end of every connection: the channel to the other end."""
        self.fans: dict[tuple[NodeId, ...], Fan] = {}
        """The channels to several neighbours, as asked for since the links last changed."""
        self._last_to: tuple[NodeId, ...] | None = None
        self._last_fan: Fan | None = None
        self.reached_by: list[Channel] = []
        """The ways by radio to this node."""
        self._frame: Message | None = None
        self._framed_at = -1
        """The latest message by radio, and when it was sent."""
        self.busy_until = 0
        """When the last channel will have put its last message on the wire."""

    # Time

    def now(self) -> float:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.now / NANOSECONDS

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return self.clock.after(delay, callback)

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return self.clock.every(period, callback, period if first is None else first)

    # Connections and messages

    def contact(self) -> Contact:
        """See :class:`~shoal.stack.host.Host`."""
        return Contact(self.node)

    def open(self, contact: Contact) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.network.connections_of(self).open(self.node, contact.node)

    def close(self, node: NodeId) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.network.connections_of(self).close(self.node, node)

    def send(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        channel = self.channels.get(to)
        if channel is None:
            self.recorder.unlinked += 1
            return
        copies = 1
        if self.network.radio:
            if message is self._frame and self.kernel.now == self._framed_at:
                copies = 0  # in range of the same transmission
            self._frame = message
            self._framed_at = self.kernel.now
        self.recorder.sent(channel.alone(), NONE, copies, message)
        self._transmit(channel, message, self.network.kind_of(message))

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        fan = self._last_fan
        if fan is None or to is not self._last_to:  # mostly the same again: no need to hash it
            fan = self.fans.get(to) or self._fan(to)
            self._last_to = to
            self._last_fan = fan
        skip = NONE if but == LOCAL else fan.places.get(but, NONE)
        copies = fan.size if skip < 0 else fan.size - 1
        if fan.missing:
            self.recorder.unlinked += fan.missing
        if not copies:
            return
        self.recorder.sent(fan, skip, copies, message)
        at = self.kernel.now
        network = self.network
        kind = network.kind_of(message)
        if skip < 0:
            skip = kind.skip
        if (
            network.uneven
            or (network.ns_per_byte and self.busy_until > at)
            or (kind.kept and skip != KEPT)
        ):
            for place, channel in enumerate(fan.channels):  # lost, or leaving at different times
                if place != skip:
                    self._transmit(channel, message, kind)
            return
        if network.ns_per_byte:
            size = kind.size if kind.size >= 0 else message.size()
            at += int(size * network.ns_per_byte)
            for place, channel in enumerate(fan.channels):
                if place != skip:
                    channel.free_at = at
            self.busy_until = at
        if kind.kept and not fan.carries:
            fan.carry()
        self.kernel.post(at + network.delay, fan, skip, message)

    def broadcast(self, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`. Counted as one message."""
        connections = self.network.connections
        audience = None if connections is None else connections.audience(self.node)
        if audience is not None:
            if audience.size and not self.clock.stopped:
                self.recorder.sent(audience, NONE, 1, message)
                skip = max(self.network.kind_of(message).skip, ROUTINE)
                self.kernel.post(self.kernel.now + self.network.delay, audience, skip, message)
            return
        to = tuple(self.channels)
        fan = self.fans.get(to) or self._fan(to)
        if not fan.size:
            return
        self.recorder.sent(fan, NONE, 1, message)
        kind = self.network.kind_of(message)
        for channel in fan.channels:
            if channel.quality < 1.0 and kind.carries_events and self._loses(channel, message):
                self.kernel.lost += 1
            else:
                self._post(self.kernel.now + channel.delay, channel, message, kind)

    def _fan(self, to: tuple[NodeId, ...]) -> Fan:
        """The channels to these neighbours; those that are not linked are left out."""
        channels: list[Channel] = []
        for node in to:
            channel = self.channels.get(node)
            if channel is not None:
                channels.append(channel)
        fan = Fan(channels)
        fan.missing = len(to) - len(channels)
        if len(self.fans) >= FANS_KEPT:
            self.drop_fans()
        self.fans[to] = fan
        return fan

    def _transmit(self, channel: Channel, message: Message, kind: Kind) -> None:
        """Send over one channel, behind what it is still busy with."""
        at = self.kernel.now
        if channel.ns_per_byte:
            size = kind.size if kind.size >= 0 else message.size()
            duration = int(size * channel.ns_per_byte)
            plane = self.network.plane
            if plane is not None:
                at = plane.transmit(channel, duration)
            else:
                if channel.free_at > at:
                    at = channel.free_at
                at += duration
                channel.free_at = at
                if at > self.busy_until:
                    self.busy_until = at
        if channel.quality < 1.0 and kind.carries_events and self._loses(channel, message):
            self.kernel.lost += 1
            return
        self._post(at + channel.delay, channel, message, kind)

    def _post(self, at: int, channel: Channel, message: Message, kind: Kind) -> None:
        fan = channel.alone()
        if kind.kept and not fan.carries:
            fan.carry()
        self.kernel.post(at, fan, kind.skip, message)

    def _loses(self, channel: Channel, message: Message) -> bool:
        """Whether a link of poor quality loses this message. Only events are lost for good."""
        events = message.events()
        if not events:
            return False
        event = events[0]
        uniform = Chance(self.seed, "losses").uniform(
            event.publisher, event.sequence, channel.source, channel.target
        )
        return uniform >= channel.quality

    def heard(self, node: NodeId) -> float:
        """See :class:`~shoal.stack.host.Host`."""
        channel = self.channels.get(node)
        back = None if channel is None else channel.back
        return NEVER if back is None else back.last_heard() / NANOSECONDS

    def last_beat(self, node: NodeId) -> object:
        """See :class:`~shoal.stack.host.Host`."""
        channel = self.channels.get(node)
        back = None if channel is None else channel.back
        return None if back is None else back.last_beat()

    def send_direct(self, to: Contact, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        if self.clock.stopped:
            return
        network = self.network
        connections = network.connections
        target: NodeId = to.node
        self.recorder.sent_direct(self.node, target, message)
        if connections is not None and not connections.lets_through(self.node, target):
            self.kernel.lost += 1
            return
        delay = network.direct_delay
        if network.delays is not None:
            delay = network.delays.between(self.node, target)
        routine = network.kind_of(message).skip == ROUTINE
        letter = Letter(self.kernel, network.nodes, self.node, target, message, routine)
        self.kernel.queue(self.kernel.now + delay, letter)

    def drop_fans(self) -> None:
        """Work fans out anew; what is in flight on old ones is checked channel by channel."""
        for fan in self.fans.values():
            fan.whole = False
        self.fans.clear()
        self._last_to = None

    # The application, and the recorder

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.delivered(self.node, event, hops, recovered)

    def gap(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.gap(self.node, publisher, count)

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.stopped(why, 1, hops, deterministic)

    def link_changed(self, neighbour: NodeId, up: bool, repair: int) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.network.connections_of(self).link_end(self.node, neighbour, up, repair)

    def parent_changed(self, parent: NodeId) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        if self.network.connections is not None:
            self.network.connections.parent_changed(self.node, parent)

    def note(self, what: str, peer: NodeId, value: str) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.noted(self.node, what, peer, value)


class Network:
    """All hosts and the links between them."""

    def __init__(
        self,
        kernel: Kernel,
        recorder: Recorder,
        delay: float = 0.001,
        bandwidth: float = 0.0,
        direct_delay: float | None = None,
        loss: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.recorder = recorder
        self.delay = to_ns(delay)
        self.ns_per_byte = 8 * NANOSECONDS / bandwidth if bandwidth else 0.0
        self.direct_delay = self.delay if direct_delay is None else to_ns(direct_delay)
        self.hosts: list[SimHost] = []
        self.nodes: list[Node | None] = []
        """Per host the node that runs on it; None if none does (yet, or after a crash)."""
        self.connections: Connections | None = None
        """What overlays open and close; None if links follow a script."""
        self.make_node: Callable[[Host], Node] | None = None
        """Makes a node's layers on its host."""
        self.started: Callable[[NodeId], None] | None = None
        """Called when a node has started: its application speaks up."""
        self.crashed: Callable[[NodeId], None] | None = None
        """Called when a node is no more, and its application with it."""
        self.forest: Forest | None = None
        """The links there are, as the oracle sees them; None if nobody asks."""
        self.acyclic = False
        """Whether links must form a forest at every instant."""
        self.plane: Plane | None = None
        self.radio = False
        """Whether all in range hear one transmission, also of what is sent to one of them."""
        self.delays: Delays | None = None
        """The delay of each pair of nodes, where those differ."""
        self.loss = loss
        """The share of events that every link loses."""
        self.uneven = loss > 0.0
        """Whether copies of a message fare differently: links lose events, or differ in delay."""
        self.qualities: dict[tuple[NodeId, NodeId], float] = {}
        self._kinds: dict[type[Message], Kind] = {}
        self._kind: Kind | None = None

    def add_host(self, seed: int) -> SimHost:
        """One more host; ids count from 0."""
        host = SimHost(self, len(self.hosts), seed)
        self.hosts.append(host)
        self.nodes.append(None)
        return host

    def put_node(self, node: NodeId) -> Node:
        """Make a node's layers."""
        assert self.make_node is not None
        made = self.make_node(self.hosts[node])
        self.nodes[node] = made
        return made

    def start_node(self, node: NodeId, contacts: tuple[Contact, ...]) -> None:
        """A node starts, perhaps not for the first time."""
        host = self.hosts[node]
        if host.clock.stopped:
            host.clock = Clock(self.kernel)
            host.epoch += 1
            self.recorder.restarted(node)
        self.recorder.noted(node, "node up", LOCAL, "")
        self.put_node(node).start(contacts)
        if self.started is not None:
            self.started(node)

    def kind_of(self, message: Message) -> Kind:
        """What is known of a message's type, kept at hand: the next is mostly of it too."""
        kind = self._kind
        if kind is not None and type(message) is kind.type:
            return kind
        kind = self._kinds.get(type(message))
        if kind is None:
            kind = Kind(message)
            self._kinds[type(message)] = kind
        self._kind = kind
        return kind

    def connections_of(self, host: SimHost) -> Connections:
        """The connections that overlays open."""
        if self.connections is None:
            raise TypeError(
                f"node {host.node} opens or closes a connection, but links follow a topology's "
                "script; use a topology in which nodes reach each other, such as full-mesh"
            )
        return self.connections

    def set_quality(self, a: NodeId, b: NodeId, forth: float, back: float) -> None:
        """From its next appearance on, a link loses events: what share gets through each way."""
        self.qualities[a, b] = forth
        self.qualities[b, a] = back
        self.uneven = True

    def delay_between(self, a: NodeId, b: NodeId) -> int:
        """Nanoseconds that a message takes from one node to another."""
        return self.delay if self.delays is None else self.delays.between(a, b)

    def linked(self, a: NodeId, b: NodeId) -> bool:
        """Whether there is a link between two nodes."""
        return b in self.hosts[a].channels

    def neighbours(self, node: NodeId) -> list[NodeId]:
        """A node's neighbours, in the order in which they were linked."""
        return list(self.hosts[node].channels)

    def connect(self, a: NodeId, b: NodeId) -> None:
        """A link appears; nobody is told yet."""
        if self.linked(a, b):
            raise ValueError(f"{a}-{b} are linked already")
        self.add_channel(a, b)
        self.add_channel(b, a)

    def add_channel(self, source: NodeId, target: NodeId) -> Channel:
        """One end of a connection."""
        node = self.nodes[target]
        channel = Channel(source, target, {} if node is None else node.layers)
        channel.delay = self.delay_between(source, target)
        channel.ns_per_byte = self.ns_per_byte
        channel.quality = self.qualities.get((source, target), 1.0) * (1.0 - self.loss)
        channel.heard = self.kernel.now
        host = self.hosts[source]
        host.channels[target] = channel
        host.drop_fans()
        back = self.hosts[target].channels.get(source)
        if back is not None:
            channel.back = back
            back.back = channel
        if self.plane is not None:
            self.plane.connected(channel)
        return channel

    def disconnect(self, a: NodeId, b: NodeId) -> None:
        """A link vanishes, and with it what is in flight on it; nobody is told yet."""
        self.drop_channel(a, b).take_down()
        self.drop_channel(b, a).take_down()

    def drop_channel(self, source: NodeId, target: NodeId) -> Channel:
        """One end of a connection goes; what is in flight from it may still arrive."""
        host = self.hosts[source]
        channel = host.channels.pop(target)
        channel.end()
        host.drop_fans()
        if self.plane is not None:
            self.plane.disconnected(channel)
        return channel

    def changed(
        self, a: NodeId, b: NodeId, up: bool, reconfiguration: Reconfiguration | None
    ) -> None:
        """Check a change of a link, and let those who watch know; its ends are told later."""
        if self.forest is not None:
            if up and self.acyclic:
                check_acyclic(self.forest.links, a, b, self.kernel.now / NANOSECONDS)
            self.forest.link(a, b, up)
        self.recorder.link(a, b, "up" if up else "down", reconfiguration)

    # What a topology's script does

    def overlay(self, node: NodeId) -> Overlay | None:
        """The overlay to tell of a script's links; None if the node is gone."""
        found = self.nodes[node]
        return None if found is None else found.overlay

    def link_up(self, a: NodeId, b: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """A link appears and both ends are told."""
        self.changed(a, b, True, reconfiguration)
        self.connect(a, b)
        for near, far in ((a, b), (b, a)):
            overlay = self.overlay(near)
            if overlay is not None:
                overlay.link_up(far, reconfiguration)

    def link_down(
        self, a: NodeId, b: NodeId, reconfiguration: Reconfiguration | None = None
    ) -> None:
        """A link vanishes and both ends are told."""
        self.disconnect(a, b)
        self.changed(a, b, False, reconfiguration)
        for near, far in ((a, b), (b, a)):
            overlay = self.overlay(near)
            if overlay is not None:
                overlay.link_down(far, reconfiguration)

    def link_replaced(
        self, a: NodeId, b: NodeId, c: NodeId, d: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """The ends of the old link a-b learn that c-d (c on a's side) stands in for it."""
        for end, old, near, far in ((a, b, c, d), (b, a, d, c)):
            overlay = self.overlay(end)
            if overlay is not None:
                overlay.link_replaced(old, near, far, reconfiguration)

    def crash(self, node: NodeId) -> None:
        """A node fails: it does nothing any more, and its neighbours see their links vanish."""
        self.remove(node)
        for neighbour in self.neighbours(node):
            self.link_down(node, neighbour)

    def remove(self, node: NodeId) -> None:
        """A node is no more; its neighbours are not told."""
        self.recorder.noted(node, "node down", LOCAL, "")
        self.nodes[node] = None
        self.hosts[node].clock.stop()
        if self.crashed is not None:
            self.crashed(node)
        if self.plane is not None:
            self.plane.crashed(node)
