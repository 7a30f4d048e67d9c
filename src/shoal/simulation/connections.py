"""Connections that overlays open and close, and what becomes of them when nodes and networks fail.

A connection has two ends, and each end learns on its own what happens to it:

* ``open``: the request takes a link's delay; the other end is open then, and this one a delay
  later. A node that is not there, or out of reach, is reported after ``timeout`` seconds.
* ``close``: this end is closed at once; the other end is told behind what was sent before.
* A crash is silent: messages are lost and nobody is told. So is a cut network, whose messages
  arrive when it is whole again, unless an end has given up the connection. An end notices by
  itself and closes, or is told after ``notice`` seconds where the topology says so (a driver sees
  a broken connection of TCP; it sees nothing of a radio). Until then the kernel counts the end as
  ``unnoticed``.
* A suspicion is false: one end takes a connection that works for broken; the other end notices
  later, as after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy_extensions import mypyc_attr

from shoal.simulation.channels import Channel, Fan
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import to_ns
from shoal.simulation.network import Network
from shoal.stack.chance import Chance
from shoal.stack.host import NodeId
from shoal.stack.layer import Reconfiguration
from shoal.stack.node import Node

PATIENCE: Final = 20.0
"""Seconds that a stopped node is given to close its connections; a broker has as many (drain)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Connections:
    """All connections of a network whose overlays build themselves."""

    def __init__(
        self, network: Network, timeout: float, notice: tuple[float, float] | None, chance: Chance
    ) -> None:
        self.network = network
        self.kernel = network.kernel
        self.timeout = to_ns(timeout)
        self.notice = notice
        self.chance = chance
        """Draws when a broken connection is noticed."""
        self.side: list[int] | None = None
        """Per node its part of a network that is cut; None while it is whole."""
        self._asking: dict[NodeId, dict[NodeId, int]] = {}
        """Per node whom it asks: requests that were not answered yet, numbered from 1."""
        self._requests = 0
        self._standing: dict[NodeId, list[Callable[[], None]]] = {}
        """Per node that stands still, the requests that wait for it."""
        self._last_words: dict[NodeId, list[tuple[int, Channel]]] = {}
        """Per node, ended channels to it on which something may arrive still, and until when."""
        self._leaving: dict[NodeId, Node] = {}
        """Nodes that have been stopped, until their connections are closed."""
        self._closing: dict[tuple[NodeId, NodeId], int] = {}
        """When the last word of a closed connection arrives: (at whom, whose)."""
        self._broken: dict[Channel, int] = {}
        """Ends that lead nowhere and have not noticed, and since when."""
        self._links: dict[NodeId, dict[NodeId, int]] = {}
        """Ends of links, as overlays make them: per node the other ends, and the life of each."""
        self._parents: dict[NodeId, tuple[NodeId, int]] = {}
        """On rooted overlays: per node its parent, and which life of it."""
        network.connections = self

    def reaches(self, a: NodeId, b: NodeId) -> bool:
        """Whether messages get from one node to another."""
        return self.network.nodes[b] is not None and self.lets_through(a, b)

    def lets_through(self, a: NodeId, b: NodeId) -> bool:
        """Whether the network carries messages from one place to another."""
        return self.side is None or self.side[a] == self.side[b]

    def audience(self, node: NodeId) -> Fan | None:
        """All that hear a radio; None where nodes hear only those they are connected to."""
        return None

    # Opening

    def open(self, a: NodeId, b: NodeId) -> None:
        """A node asks for a connection; one that is there, or asked for, stays as it is."""
        if b not in self.network.hosts[a].channels and not self._request(a, b):
            self._requests += 1
            self._asking.setdefault(a, {})[b] = self._requests
            act = self._fail if a == b else self._asked
            self._later(self.network.delay_between(a, b), act, a, b, self._requests)

    def _request(self, a: NodeId, b: NodeId) -> int:
        """Number of a node's request for a connection to another; 0 if there is none."""
        asking = self._asking.get(a)
        return 0 if asking is None else asking.get(b, 0)

    def _asked_no_more(self, a: NodeId, b: NodeId) -> None:
        if self._request(a, b):
            del self._asking[a][b]
            if not self._asking[a]:
                del self._asking[a]

    def _asked(self, a: NodeId, b: NodeId, request: int) -> None:
        """A request reaches its target, and there is a connection; who asked hears of it later."""
        if self._request(a, b) != request:
            return  # crashed, or connected because the other node asked as well
        if not self.reaches(a, b):
            self._later(self.timeout, self._fail, a, b, request)
            return
        standing = self._standing.get(b)
        if standing is not None:
            standing.append(partial(self._asked, a, b, request))
            return
        closing = self._closing.get((b, a))
        if closing is not None:  # what was sent before comes first
            self.kernel.call_at(closing, partial(self._asked, a, b, request))
            return
        held = self.network.hosts[b].channels.get(a)
        if held is not None:
            self._end(b, a, held)  # of an earlier connection, whose end the other side has seen
        self._asked_no_more(b, a)
        self.network.add_channel(b, a)
        self.network.add_channel(a, b)
        self._later(self.network.delay_between(a, b), self._answered, a, b, request)
        self._tell(b, a)

    def _answered(self, a: NodeId, b: NodeId, request: int) -> None:
        """The answer is back, unless the network is cut by now."""
        if self._request(a, b) != request:
            return
        if self.side is not None and self.side[a] != self.side[b]:
            self._mend(self.network.drop_channel(a, b))
            self._later(self.timeout, self._fail, a, b, request)
            return
        self._asked_no_more(a, b)
        self._tell(a, b)

    def _fail(self, a: NodeId, b: NodeId, request: int) -> None:
        if self._request(a, b) == request:
            self._asked_no_more(a, b)
            node = self.network.nodes[a]
            assert node is not None  # a crash ends its requests
            node.unreachable(self.network.hosts[b].me)

    def _tell(self, a: NodeId, b: NodeId) -> None:
        node = self.network.nodes[a]
        assert node is not None
        node.opened(self.network.hosts[b].me)

    def _later(
        self,
        delay: int,
        act: Callable[[NodeId, NodeId, int], None],
        a: NodeId,
        b: NodeId,
        request: int,
    ) -> None:
        self.kernel.call_at(self.kernel.now + delay, partial(act, a, b, request))

    # Closing

    def close(self, a: NodeId, b: NodeId) -> None:
        """A node closes its end; one that it has not heard of yet stays."""
        hosts = self.network.hosts
        if b not in hosts[a].channels or self._request(a, b):
            return
        channel = self.network.drop_channel(a, b)
        self._mend(channel)
        self._ended(channel)
        self._let_go(a)
        other = hosts[b].channels.get(a)
        if other is None or not other.up:
            return
        other.take_down()
        hosts[b].drop_fans()
        at = max(self.kernel.now, channel.free_at) + channel.delay
        self._closing[b, a] = at
        self.kernel.call_at(at, partial(self._end, b, a, other))

    def _end(self, b: NodeId, a: NodeId, held: Channel) -> None:
        """An end is told that its connection is gone."""
        self._closing.pop((b, a), None)
        if self.network.hosts[b].channels.get(a) is held:
            self.network.drop_channel(b, a).take_down()
            self._mend(held)
            node = self.network.nodes[b]
            if node is not None:
                node.closed(a)
            self._let_go(b)

    # Leaving

    def leave(self, node: NodeId) -> None:
        """A node is stopped in good order. It is gone when all its connections are closed."""
        running = self.network.nodes[node]
        assert running is not None
        self._leaving[node] = running
        running.stop()
        self._let_go(node)
        at = self.kernel.now + to_ns(PATIENCE)
        self.kernel.call_at(at, partial(self._gone, node, running))

    def _let_go(self, node: NodeId) -> None:
        leaving = self._leaving.get(node)
        if leaving is not None and not self.network.hosts[node].channels:
            self.kernel.call_at(self.kernel.now, partial(self._gone, node, leaving))

    def _ended(self, channel: Channel) -> None:
        """A channel takes nothing more; what is on its way arrives if its target lives."""
        now = self.kernel.now
        until = max(now, channel.free_at) + channel.delay
        others = self._last_words.get(channel.target, [])
        self._last_words[channel.target] = [(until, channel), *(o for o in others if o[0] > now)]

    def _gone(self, node: NodeId, leaving: Node) -> None:
        if self._leaving.get(node) is leaving:
            self.crash(node)

    # Failures

    def stand_still(self, node: NodeId) -> None:
        """A node does nothing for a while; requests for connections to it wait."""
        self._standing.setdefault(node, [])

    def go_on(self, node: NodeId) -> None:
        """A node that stood still goes on, or will never do so."""
        for asked in self._standing.pop(node, []):
            asked()

    def crash(self, node: NodeId) -> None:
        """A node fails without a word. What it has sent still arrives."""
        network = self.network
        self._leaving.pop(node, None)
        for _, channel in self._last_words.pop(node, []):
            channel.take_down()
        self._asking.pop(node, None)
        for neighbour in list(self._links.get(node, ())):
            self.link_end(node, neighbour, False, -1)
        self._parents.pop(node, None)
        network.remove(node)
        for peer in network.neighbours(node):
            channel = network.drop_channel(node, peer)
            self._mend(channel)
            self._ended(channel)
            held = network.hosts[peer].channels.get(node)
            if held is not None:
                self._mend(held)
                held.take_down()
                network.hosts[peer].drop_fans()
                self._break(held)

    def suspect(self, a: NodeId, b: NodeId) -> None:
        """One end takes its connection for broken, and is told so; the other learns it later."""
        held = self.network.hosts[a].channels.get(b)
        if held is None or not held.up or self._request(a, b):
            return
        other = self.network.hosts[b].channels.get(a)
        if other is not None and other.up and not self._request(b, a):
            other.take_down()
            self.network.hosts[b].drop_fans()
            self._break(other)
        self._end(a, b, held)

    def cut(self, side: list[int]) -> None:
        """The network falls apart: messages between different sides have to wait."""
        self.side = side
        for host in self.network.hosts:
            for channel in host.channels.values():
                if channel.up and side[channel.source] != side[channel.target]:
                    channel.hold()
                    self._break(channel)
            host.drop_fans()

    def heal(self) -> None:
        """The network is whole again, and connections that nobody has given up work again."""
        self.side = None
        hosts = self.network.hosts
        whole = []
        for channel in self._broken:
            back = hosts[channel.target].channels.get(channel.source)
            if self.network.nodes[channel.target] is not None and back in self._broken:
                whole.append(channel)
        for channel in whole:
            waited = channel.restore()
            self._mend(channel)
            hosts[channel.source].drop_fans()
            for message in waited:
                kind = self.network.recorder.kind_of(message)
                self.kernel.post(self.kernel.now, channel.alone(), kind.skip, message)

    def _break(self, channel: Channel) -> None:
        """An end leads nowhere from now on, which its node does not know."""
        if channel in self._broken:
            return
        now = self.kernel.now
        self._broken[channel] = now
        self.kernel.unnoticed += 1
        if self.notice is not None:
            low, high = self.notice
            if high > low:
                uniform = self.chance.uniform(channel.source, channel.target, now)
                low += uniform * (high - low)
            # Not before an end has heard that it is open.
            at = now + max(to_ns(low), channel.delay)
            self.kernel.call_at(at, partial(self._notice, channel, now), True)

    def _notice(self, channel: Channel, since: int) -> None:
        if self._broken.get(channel) == since:
            self._end(channel.source, channel.target, channel)

    def _mend(self, channel: Channel) -> None:
        """An end is known to be gone, or leads somewhere again."""
        if self._broken.pop(channel, None) is not None:
            self.kernel.unnoticed -= 1
        if channel.held is not None:
            self.kernel.lost += len(channel.held)
            channel.held = None

    # Links

    def link_end(self, a: NodeId, b: NodeId, up: bool, repair: int) -> None:
        """An overlay makes or gives up its end of a link; the link is there while both ends are."""
        mine = self._links.setdefault(a, {})
        life = self.network.hosts[b].epoch
        if up and mine.get(b, life) != life:
            mine[b] = life  # kept while the other node was away, and made anew
            return
        if up == (b in mine):
            raise ValueError(f"node {a} makes a link to {b} twice, or gives up one it has not")
        if up:
            mine[b] = life
        else:
            del mine[b]
            if not mine:
                del self._links[a]
        if a in self._links.get(b, ()):
            reconfiguration = None if repair < 0 else Reconfiguration(repair)
            self.network.changed(a, b, up, reconfiguration)

    def attached(self, node: NodeId, parent: NodeId) -> bool:
        """Whether a node's parent is one that runs."""
        held = self.network.hosts[node].channels.get(parent)
        return held is not None and held.up

    def parent_changed(self, node: NodeId, parent: NodeId) -> None:
        """An overlay says which neighbour lies towards the root: following those never ends."""
        self._parents.pop(node, None)
        if not self.attached(node, parent):
            return  # none, or one that has crashed since
        hosts, nodes = self.network.hosts, self.network.nodes
        self._parents[node] = (parent, hosts[parent].epoch)
        at = parent
        while at in self._parents and self.network.acyclic:
            at, life = self._parents[at]
            if nodes[at] is None or hosts[at].epoch != life:
                return
            if at == node:
                raise InvariantViolation(
                    f"node {node} becomes a child of {parent} at {self.kernel.now / 1e9:.6f} s, "
                    "which is one of its descendants: a cycle"
                )
