"""Wired links and the simulated host.

A link carries messages in order, each after its transmission time (bandwidth) and the propagation
delay. What is in flight when a link goes down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from shoal.simulation.kernel import NANOSECONDS, Channel, Fan, Kernel, to_ns
from shoal.simulation.recorder import Recorder
from shoal.stack.chance import Chance
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Layer, Reconfiguration, Routing

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.stack.message import Message


FANS_KEPT: Final = 64
"""Sets of neighbours remembered per node; nodes with few neighbours have few."""


NONE: Final = -1
"""No place in a fan is skipped."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Plane:
    """What forwards events on arrays in place of the hosts' objects, if anything does."""

    def connected(self, channel: Channel) -> None:
        """A channel comes up."""
        raise NotImplementedError

    def disconnected(self, channel: Channel) -> None:
        """A channel goes down."""
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
        self.channels: dict[NodeId, Channel] = {}
        self.fans: dict[tuple[NodeId, ...], Fan] = {}
        """The channels to several neighbours, as asked for since the links last changed."""
        self._last_to: tuple[NodeId, ...] | None = None
        self._last_fan: Fan | None = None
        self.direct: dict[NodeId, Fan] = {}
        """The ways out of band, as asked for."""
        self.busy_until = 0
        """When the last channel will have put its last message on the wire."""
        self.layers: dict[type[Message], Layer] = {}
        self.routing: Routing | None = None
        self.crashed = False

    def now(self) -> float:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.now / NANOSECONDS

    def send(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        channel = self.channels.get(to)
        if channel is None:
            self.recorder.unlinked += 1
            return
        size = self.recorder.sent(channel.alone(), NONE, 1, message)
        self._transmit(channel, message, size)

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        fan = self._last_fan
        if fan is None or to is not self._last_to:  # mostly the same again: no need to hash it
            fan = self.fans.get(to) or self._fan(to)
            self._last_to = to
            self._last_fan = fan
        skip = fan.places.get(but, NONE)
        copies = fan.size if skip < 0 else fan.size - 1
        if fan.missing:
            self.recorder.unlinked += fan.missing
        if not copies:
            return
        size = self.recorder.sent(fan, skip, copies, message)
        at = self.kernel.now
        network = self.network
        if network.lossy or (network.ns_per_byte and self.busy_until > at):
            for place, channel in enumerate(fan.channels):  # lost, or leaving at different times
                if place != skip:
                    self._transmit(channel, message, size)
            return
        if network.ns_per_byte:
            at += int(size * network.ns_per_byte)
            for place, channel in enumerate(fan.channels):
                if place != skip:
                    channel.free_at = at
            self.busy_until = at
        self.kernel.post(at + network.delay, fan, skip, message)

    def broadcast(self, to: tuple[NodeId, ...], message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`. Counted as one message."""
        fan = self.fans.get(to) or self._fan(to)
        if not fan.size:
            return
        self.recorder.sent(fan, NONE, 1, message)
        for channel in fan.channels:
            if channel.quality < 1.0 and self._loses(channel, message):
                self.kernel.lost += 1
            else:
                self.kernel.post(self.kernel.now + channel.delay, channel.alone(), NONE, message)

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

    def _transmit(self, channel: Channel, message: Message, size: int) -> None:
        """Send over one channel, behind what it is still busy with."""
        at = self.kernel.now
        if channel.ns_per_byte:
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
        if channel.quality < 1.0 and self._loses(channel, message):
            self.kernel.lost += 1
            return
        self.kernel.post(at + channel.delay, channel.alone(), NONE, message)

    def _loses(self, channel: Channel, message: Message) -> bool:
        """Whether a link of poor quality loses this message. Only events are lost for good."""
        event = getattr(message, "event", None)
        if event is None:
            return False
        uniform = Chance(self.seed, "losses").uniform(
            event.publisher, event.sequence, channel.source, channel.target
        )
        return uniform >= channel.quality

    def send_direct(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        if self.crashed:
            return
        network = self.network
        fan = self.direct.get(to)
        if fan is None:
            target = network.hosts[to]
            channel = Channel(self.node, to, target.layers)
            fan = channel.alone()
            if target.crashed:
                channel.take_down()
            self.direct[to] = fan
        self.recorder.sent(fan, NONE, 1, message)
        self.kernel.post(self.kernel.now + network.direct_delay, fan, NONE, message)

    def drop_fans(self) -> None:
        """Work fans out anew; what is in flight on old ones is checked channel by channel."""
        for fan in self.fans.values():
            fan.whole = False
        self.fans.clear()
        self._last_to = None

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.call_at(self.kernel.now + to_ns(delay), callback)

    def in_background(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.call_at(self.kernel.now + to_ns(delay), callback, True)

    def deliver(self, event: Event, hops: int) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.delivered(self.node, event, hops)

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        self.recorder.stopped(why, 1, hops, deterministic)

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
    ) -> None:
        self.kernel = kernel
        self.recorder = recorder
        self.delay = to_ns(delay)
        self.ns_per_byte = 8 * NANOSECONDS / bandwidth if bandwidth else 0.0
        self.direct_delay = self.delay if direct_delay is None else to_ns(direct_delay)
        self.hosts: list[SimHost] = []
        self.plane: Plane | None = None
        self.lossy = False
        """Whether there are links that lose events."""
        self.qualities: dict[tuple[NodeId, NodeId], float] = {}

    def add_host(self, seed: int) -> SimHost:
        """One more node; ids count from 0."""
        host = SimHost(self, len(self.hosts), seed)
        self.hosts.append(host)
        return host

    def attach(self, host: SimHost, routing: Routing) -> None:
        """Put a routing on a host."""
        host.routing = routing
        for kind in routing.handlers():
            host.layers[kind] = routing

    def set_quality(self, a: NodeId, b: NodeId, forth: float, back: float) -> None:
        """From its next appearance on, a link loses events: what share gets through each way."""
        self.qualities[a, b] = forth
        self.qualities[b, a] = back
        self.lossy = True

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
        for source, target in ((a, b), (b, a)):
            channel = Channel(source, target, self.hosts[target].layers)
            channel.delay = self.delay
            channel.ns_per_byte = self.ns_per_byte
            channel.quality = self.qualities.get((source, target), 1.0)
            self.hosts[source].channels[target] = channel
            self.hosts[source].drop_fans()
            if self.plane is not None:
                self.plane.connected(channel)

    def disconnect(self, a: NodeId, b: NodeId) -> None:
        """A link vanishes, and with it what is in flight on it; nobody is told yet."""
        for source, target in ((a, b), (b, a)):
            channel = self.hosts[source].channels.pop(target)
            channel.take_down()
            self.hosts[source].drop_fans()
            if self.plane is not None:
                self.plane.disconnected(channel)

    def link_up(self, a: NodeId, b: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """A link appears and both ends are told."""
        self.recorder.link(a, b, "up", reconfiguration)
        self.connect(a, b)
        for near, far in ((a, b), (b, a)):
            routing = self.hosts[near].routing
            if routing is not None:
                routing.link_up(far, reconfiguration)

    def link_down(
        self, a: NodeId, b: NodeId, reconfiguration: Reconfiguration | None = None
    ) -> None:
        """A link vanishes and both ends are told."""
        self.disconnect(a, b)
        self.recorder.link(a, b, "down", reconfiguration)
        for near, far in ((a, b), (b, a)):
            routing = self.hosts[near].routing
            if routing is not None:
                routing.link_down(far, reconfiguration)

    def crash(self, node: NodeId) -> None:
        """A node fails: it does nothing any more, and its neighbours see their links vanish."""
        host = self.hosts[node]
        host.crashed = True
        host.routing = None
        self.recorder.crashed(node)
        for neighbour in self.neighbours(node):
            self.link_down(node, neighbour)
        for other in self.hosts:
            way = other.direct.get(node)
            if way is not None:
                way.channels[0].take_down()

    def link_replaced(
        self, a: NodeId, b: NodeId, c: NodeId, d: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """The ends of the old link a-b learn that c-d (c on a's side) stands in for it."""
        for end, old, near, far in ((a, b, c, d), (b, a, d, c)):
            routing = self.hosts[end].routing
            if routing is not None:
                routing.link_replaced(old, near, far, reconfiguration)
