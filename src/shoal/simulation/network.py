"""Wired links and the simulated host.

A link carries messages in order, each after its transmission time (bandwidth) and the propagation
delay. What is in flight when a link goes down is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from shoal.simulation.kernel import NANOSECONDS, Channel, Kernel, to_ns
from shoal.simulation.recorder import Recorder
from shoal.stack.chance import Chance
from shoal.stack.host import Host, NodeId, Timer
from shoal.stack.layer import Handler, Reconfiguration, Routing

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.stack.message import Message


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
        self.handlers: dict[type[Message], Handler] = {}
        self.routing: Routing | None = None

    def now(self) -> float:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.now / NANOSECONDS

    def send(self, to: NodeId, message: Message) -> None:
        """See :class:`~shoal.stack.host.Host`."""
        channel = self.channels.get(to)
        if channel is None:
            self.recorder.unlinked += 1
            return
        kernel = self.kernel
        at = kernel.now
        size = self.recorder.sent(channel, message)
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
        if channel.quality < 1.0 and self._loses(channel, message):
            kernel.lost += 1
            return
        kernel.post(at + channel.delay, channel, message)

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
        network = self.network
        target = network.hosts[to]
        channel = Channel(self.node, to, target.handlers)
        self.recorder.sent(channel, message)
        self.kernel.post(self.kernel.now + network.direct_delay, channel, message)

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """See :class:`~shoal.stack.host.Host`."""
        return self.kernel.call_at(self.kernel.now + to_ns(delay), callback)

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

    def add_host(self, seed: int) -> SimHost:
        """One more node; ids count from 0."""
        host = SimHost(self, len(self.hosts), seed)
        self.hosts.append(host)
        return host

    def attach(self, host: SimHost, routing: Routing) -> None:
        """Put a routing on a host."""
        host.routing = routing
        host.handlers.update(routing.handlers())

    def linked(self, a: NodeId, b: NodeId) -> bool:
        """Whether there is a link between two nodes."""
        return b in self.hosts[a].channels

    def neighbours(self, node: NodeId) -> list[NodeId]:
        """A node's neighbours, in the order in which they were linked."""
        return list(self.hosts[node].channels)

    def connect(self, a: NodeId, b: NodeId) -> None:
        """A link appears; nobody is told yet."""
        for source, target in ((a, b), (b, a)):
            channel = Channel(source, target, self.hosts[target].handlers)
            channel.delay = self.delay
            channel.ns_per_byte = self.ns_per_byte
            self.hosts[source].channels[target] = channel
            if self.plane is not None:
                self.plane.connected(channel)

    def disconnect(self, a: NodeId, b: NodeId) -> None:
        """A link vanishes, and with it what is in flight on it; nobody is told yet."""
        for source, target in ((a, b), (b, a)):
            channel = self.hosts[source].channels.pop(target)
            channel.up = False
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

    def link_replaced(
        self, a: NodeId, b: NodeId, c: NodeId, d: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """The ends of the old link a-b learn that c-d (c on a's side) stands in for it."""
        for end, old, near, far in ((a, b, c, d), (b, a, d, c)):
            routing = self.hosts[end].routing
            if routing is not None:
                routing.link_replaced(old, near, far, reconfiguration)
