"""Histories of nodes that start and fail: for overlays that build themselves.

Any node can reach any other, unless the network is cut. Beside the steps of applications there
are::

    start 3          it knows node 0 and nothing else; node 0 one that runs, if any does
    crash 3          without a word
    leave 3          in good order
    pause 3 for 2.5  it does nothing for so many seconds, and may be taken for dead
    late 3-5 0.4     from now on what 3 sends to 5 over their connection takes so much longer
    cut 2 5          these nodes and the others cannot reach each other
    heal             they can again

When the trouble ends, the network is healed, all nodes go on, and node 0 runs. As many seconds
later as the overlay's ``heals_within`` says, links must connect all nodes that run, every link must
have two ends, and no node may report a :meth:`~shoal.stack.layer.Layer.broken_promise`. Trees are
acyclic at every instant. An overlay that does not join parts of a network again says so:
``heals_within = inf``.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from shoal.simulation.chaos.history import History, Subject
from shoal.simulation.chaos.pausing import PausableNode
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import NANOSECONDS, to_ns
from shoal.stack import Chance, Contact, Host, Layer, Node

FIRST = 0
"""The node that every other one is told of when it starts."""
SCALE = 60.0
"""Healing time that steps go by where an overlay promises none."""
NOTICE = 0.05
"""Seconds after which an end of a broken connection is told, if at all."""


class MeshHistory(History):
    """Nodes that look for neighbours by themselves."""

    def __init__(self, subject: Subject, ground: dict[str, Any]) -> None:
        notice = NOTICE if ground["notices"] else None
        super().__init__(subject, ground, {"name": "full-mesh", "notice": notice})
        self.take_over()

    def take_over(self) -> None:
        """Nodes are started, stopped and hindered by the steps of the history."""
        self.steps |= {
            "start": self._start,
            "crash": self._crash,
            "leave": self._leave,
            "pause": self._pause,
            "late": self._late,
            "cut": self._cut,
            "heal": self._heal,
        }
        self.network = self.simulation.network
        self.network.make_node = self._make
        self.connections = self.simulation.topology.connections
        self.leaving: dict[int, Node] = {}
        """Nodes that were told to leave, perhaps gone by now."""
        self.heals_within = self._make(self.network.hosts[0]).bottom.heals_within
        self.parted = self.heals_within == inf
        self.scale = SCALE if self.parted else self.heals_within
        """Seconds in which much happens."""

    def _make(self, host: Host) -> Node:
        return PausableNode(self.simulation.stack, host)

    def running(self) -> dict[int, Node]:
        """The nodes that run, paused or not."""
        return {n: node for n, node in enumerate(self.network.nodes) if node is not None}

    # Steps

    def _start(self, rest: str) -> None:
        node = int(rest)
        if self.network.nodes[node] is None:
            others = [FIRST] if node != FIRST else list(self.running())
            self.network.start_node(node, tuple(Contact(other) for other in others[:1]))

    def _crash(self, rest: str) -> None:
        node = self.network.nodes[int(rest)]
        if isinstance(node, PausableNode):
            self.connections.crash(int(rest))
            self.connections.go_on(int(rest))

    def _leave(self, rest: str) -> None:
        node = self.network.nodes[int(rest)]
        if isinstance(node, PausableNode):
            self._go_on(node)
            self.leaving[int(rest)] = node
            self.connections.leave(int(rest))

    def _pause(self, rest: str) -> None:
        name, _, seconds = rest.partition(" for ")
        node, kernel = self.network.nodes[int(name)], self.simulation.kernel
        if isinstance(node, PausableNode):
            node.gate.paused = True
            self.connections.stand_still(int(name))
            at = kernel.now + to_ns(float(seconds))
            kernel.call_at(at, partial(self._go_on, node), True)

    def _go_on(self, node: PausableNode) -> None:
        node.gate.dead = self.network.nodes[node.host.node] is not node
        node.gate.resume()
        if not node.gate.dead:
            self.connections.go_on(node.host.node)

    def _late(self, rest: str) -> None:
        way, _, seconds = rest.partition(" ")
        a, _, b = way.partition("-")
        channel = self.network.hosts[int(a)].channels.get(int(b))
        if channel is not None:
            # What follows waits for what is on its way: a connection keeps the order.
            now, later = self.simulation.kernel.now, self.network.delay + to_ns(float(seconds))
            channel.free_at = max(channel.free_at, now + channel.delay - later)
            channel.delay = later
            self.network.uneven = True

    def _cut(self, rest: str) -> None:
        away = {int(node) for node in rest.split()}
        if self.connections.side is None:
            self.connections.cut([int(node in away) for node in range(self.nodes)])

    def _heal(self, rest: str = "") -> None:
        if self.connections.side is not None:
            self.connections.heal()

    # The end of the trouble, and what must hold then

    def end(self) -> None:
        self._heal()
        for name, leaving in self.leaving.items():
            if self.network.nodes[name] is leaving:
                self._crash(str(name))
        for node in self.running().values():
            assert isinstance(node, PausableNode)
            self._go_on(node)
        self.mend()
        self._wait(str(self.scale))
        self.rest()
        wrong = None if self.parted else self.violation()
        if wrong is not None:
            now = self.simulation.kernel.now / NANOSECONDS
            raise InvariantViolation(
                f"{self.heals_within:g} s after the last failure ({now:.6f} s) {wrong}"
            )

    def mend(self) -> None:
        """Node 0 runs, and no connection is slow any more."""
        self._start(str(FIRST))
        for host in self.network.hosts:
            for peer in host.channels:
                self._late(f"{host.node}-{peer} 0")

    def violation(self) -> str | None:
        """The promise that the nodes which run break; None if they keep all."""
        running = self.running()
        bottoms: dict[int, Layer] = {n: node.bottom for n, node in running.items()}
        overlays = {n: node.overlay for n, node in running.items() if node.overlay is not None}
        if overlays:
            forest = self.simulation.oracle.forest
            for node in overlays:
                if forest.component_of(node) != forest.component_of(FIRST):
                    return f"no links lead from node {node} to node {FIRST}"
            for node, overlay in overlays.items():
                for other in overlay.neighbours:
                    if other not in overlays or node not in overlays[other].neighbours:
                        return f"node {node} has a link to {other}, which has none to {node}"
        for node, bottom in bottoms.items():
            wrong = bottom.broken_promise(bottoms)
            if wrong is not None:
                return f"node {node} is wrong: {wrong}"
        return None

    # Random steps

    def draw(self, chance: Chance, k: int) -> str | None:
        if k < self.nodes:
            return f"start {k}" if k == FIRST or chance.below(4, k, 20) else None
        node = chance.below(self.nodes, k, 21)
        runs = self.network.nodes[node] is not None
        kind = chance.below(14, k, 22)
        if kind < 3:
            return self.draw_application(chance, k)
        if kind < 7:
            return f"wait {self._seconds(chance, k)}"
        if kind < 10:
            if not runs:
                return f"start {node}"
            return f"{'leave' if chance.below(4, k, 23) == 0 else 'crash'} {node}"
        if kind == 10:
            return f"pause {node} for {self._seconds(chance, k)}" if runs else None
        if kind == 11:
            peers = self.network.neighbours(node)
            if not peers:
                return None
            return f"late {node}-{chance.choice(peers, k, 24)} {self._seconds(chance, k)}"
        if self.connections.side is not None:
            return "heal"
        away = [str(n) for n in range(self.nodes) if chance.below(2, k, 25, n)]
        return f"cut {' '.join(away)}"

    def _seconds(self, chance: Chance, k: int) -> float:
        """From a thousandth of a healing time to a fifth of it, small ones as often as large."""
        share: float = 0.005 ** chance.uniform(k, 26)
        return round(0.2 * share * self.scale, 4)


def mesh_ground(seed: int, notices: bool) -> dict[str, Any]:
    """A few nodes. Ends of broken connections are told if need be, and every other time if not."""
    chance = Chance(seed, "chaos mesh")
    return {"nodes": 2 + chance.below(9, 0), "notices": notices or bool(chance.below(2, 1))}
