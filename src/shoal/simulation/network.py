"""Hosts, and the wired links between them.

A link carries messages in order, each after its transmission time (bandwidth) and the propagation
delay. What is in flight when a link goes down is lost. Links are made and broken by a topology's
script (:meth:`Network.link_up`, :meth:`Network.link_down`), or by overlays that open connections
(:mod:`~shoal.simulation.connections`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from shoal.simulation.channels import Channel, Direct
from shoal.simulation.host import SimHost
from shoal.simulation.invariants import check_acyclic
from shoal.simulation.kernel import NANOSECONDS, Clock, Kernel, to_ns
from shoal.simulation.oracle import Forest
from shoal.simulation.recorder import Recorder
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Layer, Overlay, Reconfiguration
from shoal.stack.message import Contact
from shoal.stack.node import Node

if TYPE_CHECKING:
    from shoal.simulation.connections import Connections
    from shoal.simulation.latency import Delays


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
        self.duration = 3600.0
        """Seconds for which topologies draw movement: an hour, or the run and its rest."""
        self.hosts: list[SimHost] = []
        self.nodes: list[Node | None] = []
        """Per host the node that runs on it; None if none does (yet, or after a crash)."""
        self.layers: list[list[Layer | None]] = [[], [], []]
        """The layers of these nodes: the lowest of each, those above them, and those on top."""
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

    def add_host(self, seed: int) -> SimHost:
        """One more host; ids count from 0."""
        host = SimHost(self, len(self.hosts), seed)
        self.hosts.append(host)
        self.nodes.append(None)
        for layers in self.layers:
            layers.append(None)
        return host

    def put_node(self, node: NodeId) -> Node:
        """Make a node's layers."""
        assert self.make_node is not None
        host = self.hosts[node]
        made = self.make_node(host)
        self.nodes[node] = made
        for place, layer in enumerate(made.layers):
            self.layers[place][node] = layer
        host.out_of_band = Direct(node, self.layers, made.handled_by)
        return made

    def start_node(self, node: NodeId, contacts: tuple[Contact, ...]) -> None:
        """A node starts, perhaps not for the first time."""
        host = self.hosts[node]
        if host.clock.stopped:
            host.clock = Clock(self.kernel)
            host.epoch += 1
            host.floor = host.published
            self.recorder.restarted(node)
        self.recorder.noted(node, "node up", LOCAL, "")
        self.put_node(node).start(contacts)
        if self.started is not None:
            self.started(node)

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
        channel = Channel(source, target, self.nodes[target])
        channel.delay = self.delay_between(source, target)
        channel.ns_per_byte = self.ns_per_byte
        if self.uneven:
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
        for layers in self.layers:
            layers[node] = None
        self.hosts[node].out_of_band = None
        self.hosts[node].clock.stop()
        if self.crashed is not None:
            self.crashed(node)
        if self.plane is not None:
            self.plane.crashed(node)
