"""Connections that overlays open and close, and what becomes of them when nodes and networks fail.

A connection has two ends, and each end learns on its own what happens to it:

* ``open``: the request takes a link's delay; the other end is open then, and this one a delay
  later. A node that is not there, or out of reach, is reported after ``timeout`` seconds.
* ``close``: this end is closed at once; the other end is told behind what was sent before.
* A crash, or a cut network, is silent: messages are lost and nobody is told. An end notices by
  itself and closes, or is told after ``notice`` seconds where the topology says so (a driver sees
  a broken connection of TCP; it sees nothing of a radio). Until then the kernel counts the end as
  ``unnoticed``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shoal.simulation.kernel import Channel, to_ns
from shoal.simulation.network import Network
from shoal.stack.host import NodeId
from shoal.stack.layer import Reconfiguration
from shoal.stack.message import Contact


class Connections:
    """All connections of a network whose overlays build themselves."""

    def __init__(self, network: Network, timeout: float, notice: float | None) -> None:
        self.network = network
        self.kernel = network.kernel
        self.timeout = to_ns(timeout)
        self.notice = None if notice is None else to_ns(notice)
        self.side: list[int] | None = None
        """Per node its part of a network that is cut; None while it is whole."""
        self._opening: set[tuple[NodeId, NodeId]] = set()
        self._broken: set[Channel] = set()
        """Ends that lead nowhere and have not noticed."""
        self._links: set[tuple[NodeId, NodeId]] = set()
        """Ends of links, as overlays make them: (this end, the other)."""
        network.connections = self

    def reaches(self, a: NodeId, b: NodeId) -> bool:
        """Whether messages get from one node to another."""
        return self.network.nodes[b] is not None and (
            self.side is None or self.side[a] == self.side[b]
        )

    # Opening

    def open(self, a: NodeId, b: NodeId) -> None:
        """A node asks for a connection; one that is there, or asked for, stays as it is."""
        if a == b:
            self._later(a, self.network.delay, partial(self._fail, a, b))
        elif b not in self.network.hosts[a].channels and (a, b) not in self._opening:
            self._opening.add((a, b))
            self.kernel.call_at(
                self.kernel.now + self.network.delay,
                partial(self._asked, a, self.network.hosts[a].epoch, b),
            )

    def _asked(self, a: NodeId, epoch: int, b: NodeId) -> None:
        """A request reaches its target."""
        network = self.network
        if network.nodes[a] is None or network.hosts[a].epoch != epoch:
            self._opening.discard((a, b))
            return
        if not self.reaches(a, b):
            self._later(a, self.timeout, partial(self._fail, a, b))
            return
        held = network.hosts[b].channels.get(a)
        if held is not None and (not held.up or held in self._broken):
            self._end(b, a, held)  # of an earlier connection, whose end the other side has seen
        elif held is not None:
            self._opening.discard((a, b))  # the other node asked as well
            return
        network.add_channel(b, a)
        self._later(a, network.delay, partial(self._opened, a, b, network.hosts[b].epoch))
        self._tell(b, a)

    def _opened(self, a: NodeId, b: NodeId, epoch: int) -> None:
        """The answer is back: the end that asked is open."""
        self._opening.discard((a, b))
        hosts = self.network.hosts
        if b in hosts[a].channels:
            return
        channel = self.network.add_channel(a, b)
        if a not in hosts[b].channels or hosts[b].epoch != epoch:
            self._break(channel)  # closed or crashed meanwhile; that is still to be noticed
        self._tell(a, b)

    def _fail(self, a: NodeId, b: NodeId) -> None:
        self._opening.discard((a, b))
        node = self.network.nodes[a]
        if node is not None and b not in self.network.hosts[a].channels:
            node.unreachable(Contact(b))

    def _tell(self, a: NodeId, b: NodeId) -> None:
        node = self.network.nodes[a]
        if node is not None:
            node.opened(Contact(b))

    def _later(self, a: NodeId, delay: int, callback: Callable[[], None]) -> None:
        """Call back unless the node has crashed by then."""
        epoch = self.network.hosts[a].epoch

        def call() -> None:
            if self.network.nodes[a] is not None and self.network.hosts[a].epoch == epoch:
                callback()
            else:
                self._opening = {pair for pair in self._opening if pair[0] != a}

        self.kernel.call_at(self.kernel.now + delay, call)

    # Closing

    def close(self, a: NodeId, b: NodeId) -> None:
        """A node closes its end."""
        hosts = self.network.hosts
        if b not in hosts[a].channels:
            return
        channel = self.network.drop_channel(a, b)
        self._mend(channel)
        other = hosts[b].channels.get(a)
        if other is None or not other.up:
            return
        other.take_down()
        hosts[b].drop_fans()
        if not self.reaches(a, b):
            self._break(other)
            return
        at = max(self.kernel.now, channel.free_at) + channel.delay
        self.kernel.call_at(at, partial(self._end, b, a, other))

    def _end(self, b: NodeId, a: NodeId, held: Channel) -> None:
        """An end is told that its connection is gone."""
        if self.network.hosts[b].channels.get(a) is held:
            self.network.drop_channel(b, a).take_down()
            self._mend(held)
            node = self.network.nodes[b]
            if node is not None:
                node.closed(a)

    # Failures

    def crash(self, node: NodeId) -> None:
        """A node fails without a word. What it has sent still arrives."""
        network = self.network
        for neighbour in [b for a, b in self._links if a == node]:
            self.link_end(node, neighbour, False, -1)
        network.remove(node)
        for peer in network.neighbours(node):
            self._mend(network.drop_channel(node, peer))
            held = network.hosts[peer].channels.get(node)
            if held is not None:
                held.take_down()
                network.hosts[peer].drop_fans()
                self._break(held)

    def cut(self, side: list[int]) -> None:
        """The network falls apart: messages between different sides are lost."""
        self.side = side
        for host in self.network.hosts:
            for channel in host.channels.values():
                if channel.up and side[channel.source] != side[channel.target]:
                    channel.take_down()
                    self._break(channel)
            host.drop_fans()

    def heal(self) -> None:
        """The network is whole again, and connections that nobody has given up work again."""
        self.side = None
        hosts = self.network.hosts
        for channel in list(self._broken):
            back = hosts[channel.target].channels.get(channel.source)
            if self.network.nodes[channel.target] is not None and back in self._broken:
                channel.restore()
        for channel in [c for c in self._broken if c.up]:
            self._mend(channel)
            hosts[channel.source].drop_fans()

    def _break(self, channel: Channel) -> None:
        """An end leads nowhere from now on, which its node does not know."""
        if channel in self._broken:
            return
        self._broken.add(channel)
        self.kernel.unnoticed += 1
        if self.notice is not None:
            self.kernel.call_at(
                self.kernel.now + self.notice,
                partial(self._notice, channel),
                True,
            )

    def _notice(self, channel: Channel) -> None:
        if channel in self._broken:
            self._end(channel.source, channel.target, channel)

    def _mend(self, channel: Channel) -> None:
        """An end is known to be gone, or leads somewhere again."""
        if channel in self._broken:
            self._broken.remove(channel)
            self.kernel.unnoticed -= 1

    # Links

    def link_end(self, a: NodeId, b: NodeId, up: bool, repair: int) -> None:
        """An overlay makes or gives up its end of a link; the link is there while both ends are."""
        both = (b, a) in self._links
        if up == ((a, b) in self._links):
            raise ValueError(f"node {a} makes a link to {b} twice, or gives up one it has not")
        if up:
            self._links.add((a, b))
        else:
            self._links.remove((a, b))
        if both:
            reconfiguration = None if repair < 0 else Reconfiguration(repair)
            self.network.recorder.link(a, b, "up" if up else "down", reconfiguration)
