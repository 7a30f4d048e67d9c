"""A network in which any node can reach any other: the ground for overlays that build themselves.

Nodes start one after the other, each told of some that are there. They crash without a word, come
back, and the network may fall apart for a while. All choices are drawn from the seed alone.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec

from shoal.simulation.connections import Connections
from shoal.simulation.kernel import to_ns
from shoal.simulation.network import Network
from shoal.stack import Chance, Contact, StackError, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time during which a share of the nodes, drawn at random, cannot reach the others."""

    start: Seconds
    end: Seconds
    share: Share = 0.5


class FullMeshParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When nodes start, fail and come back."""

    joining: Seconds = 1.0
    """Seconds over which the nodes start, evenly spaced."""
    contacts: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """Nodes that a starting node is told of, drawn among those that run."""
    crash_rate: Share = 0.0
    """Share of the nodes that crash in a minute, within the window."""
    window: tuple[Seconds, Seconds] = (0.0, 1e6)
    """Seconds of the run between which nodes crash at that rate."""
    back_after: Seconds | None = None
    """Seconds after which a crashed node starts again; never if not given."""
    crashes: tuple[tuple[Seconds, int], ...] = ()
    """Nodes that crash, at a time."""
    partitions: tuple[Partition, ...] = ()
    """Times during which the network is in two parts."""
    timeout: Seconds = 1.0
    """Seconds after which a node that cannot be reached is reported as such."""
    notice: Seconds | None = None
    """Seconds after which the end of a broken connection is told; never if not given."""

    def __post_init__(self) -> None:
        if self.window[0] > self.window[1]:
            raise StackError(
                f"window ends before it starts; give [{self.window[1]:g}, {self.window[0]:g}]"
            )
        last = 0.0
        for partition in self.partitions:
            if not last <= partition.start < partition.end:
                raise StackError(
                    "partitions must each end after they start, and not overlap; "
                    f"look at the one at {partition.start:g} s"
                )
            last = partition.end


class FullMesh:
    """Any node can open a connection to any other."""

    def __init__(
        self, parameters: FullMeshParameters, network: Network, nodes: int, seed: int
    ) -> None:
        for at, node in parameters.crashes:
            if not 0 <= node < nodes:
                raise StackError(f"there is no node {node} at {at:g} s; nodes are 0 to {nodes - 1}")
        self.parameters = parameters
        self.network = network
        self.count = nodes
        self.connections = Connections(network, parameters.timeout, parameters.notice)
        self.chance = Chance(seed, "full mesh")
        self.running: dict[int, None] = {}
        self._draws = 0

    def _draw(self, limit: int) -> int:
        self._draws += 1
        return self.chance.below(limit, self._draws)

    def start(self) -> None:
        """Schedule the starts, crashes and partitions."""
        kernel, parameters = self.network.kernel, self.parameters
        step = parameters.joining / max(self.count - 1, 1)
        for node in range(self.count):
            kernel.call_at(to_ns(node * step), partial(self.begin, node))
        for at, node in parameters.crashes:
            kernel.call_at(to_ns(at), partial(self.crash, node))
        for number, partition in enumerate(parameters.partitions):
            kernel.call_at(to_ns(partition.start), partial(self._cut, number))
            kernel.call_at(to_ns(partition.end), self.connections.heal)
        if parameters.crash_rate:
            self._schedule_crash(parameters.window[0])

    # Nodes

    def begin(self, node: int) -> None:
        """A node starts, or starts again, and is told of some that run."""
        if node in self.running:
            return
        others = list(self.running)
        wanted = min(self.parameters.contacts, len(others))
        self._draws += 1
        chosen = self.chance.sample(others, wanted, self._draws) if wanted else []
        self.running[node] = None
        self.network.start_node(node, tuple(Contact(other) for other in chosen))

    def crash(self, node: int) -> None:
        """A node fails; it may come back."""
        if node not in self.running:
            return
        del self.running[node]
        self.connections.crash(node)
        if self.parameters.back_after is not None:
            at = self.network.kernel.now + to_ns(self.parameters.back_after)
            self.network.kernel.call_at(at, partial(self.begin, node))

    def _schedule_crash(self, at: float) -> None:
        """The next of the crashes that come at a steady rate."""
        gap = 60.0 / (self.parameters.crash_rate * self.count)
        if at + gap <= self.parameters.window[1]:
            # In the background: a run is over when its work is, not when nodes no longer crash.
            self.network.kernel.call_at(to_ns(at + gap), partial(self._crash_one, at + gap), True)

    def _crash_one(self, at: float) -> None:
        if len(self.running) > 1:
            self.crash(list(self.running)[self._draw(len(self.running))])
        self._schedule_crash(at)

    def _cut(self, number: int) -> None:
        share = self.parameters.partitions[number].share
        order = self.chance.sample(range(self.count), self.count, -1 - number)
        away = set(order[: round(share * self.count)])
        self.connections.cut([int(node in away) for node in range(self.count)])


register("topology", "full-mesh", FullMesh, FullMeshParameters, provides={"reach"})
