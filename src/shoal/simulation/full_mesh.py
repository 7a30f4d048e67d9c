"""A network in which any node can reach any other: the ground for overlays that build themselves.

Nodes start one after the other, each told of some that are there. They crash without a word or
leave in good order, come back, and the network may fall apart for a while. Who is up when is drawn
from a model or read from a recording (:mod:`~shoal.simulation.churn`), how long messages take
between two nodes likewise (:mod:`~shoal.simulation.latency`). All choices come from the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

import msgspec

from shoal.simulation.churn import Change, Churn, changes
from shoal.simulation.connections import Connections
from shoal.simulation.kernel import to_ns
from shoal.simulation.latency import Delays, Latency
from shoal.simulation.network import Network
from shoal.stack import Chance, StackError, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time during which a share of the nodes, drawn at random, cannot reach the others."""

    start: Seconds
    end: Seconds
    share: Share = 0.5


class Catastrophe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A share of the nodes that run, drawn at random, crash at once."""

    at: Seconds
    share: Share = 0.25


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
    leaves: tuple[tuple[Seconds, int], ...] = ()
    """Nodes that leave in good order, at a time."""
    churn: Churn | None = None
    """Who is up when; if not given, every node starts once."""
    catastrophes: tuple[Catastrophe, ...] = ()
    """Times at which a share of the nodes crashes at once."""
    partitions: tuple[Partition, ...] = ()
    """Times during which the network is in two parts."""
    timeout: Seconds = 1.0
    """Seconds after which a node that cannot be reached is reported as such."""
    notice: Seconds | None = None
    """Seconds after which the end of a broken connection is told: failure detection as stated. If
    not given, never: overlays notice by beats."""
    notice_most: Seconds | None = None
    """Upper bound: each end is told after a time drawn between ``notice`` and this."""
    suspicions: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """Connections per second, within the window, that one end takes for broken while they work."""
    latency: Latency | None = None
    """How long a message takes between two nodes; as long as over a link if not given."""

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
        if self.notice_most is not None and (self.notice is None or self.notice_most < self.notice):
            raise StackError("notice_most bounds notice from above; give both, notice the smaller")
        if self.churn is not None and self.crash_rate:
            raise StackError("churn says who crashes and when; leave crash_rate out beside it")


class FullMesh:
    """Any node can open a connection to any other."""

    def __init__(
        self, parameters: FullMeshParameters, network: Network, nodes: int, seed: int
    ) -> None:
        for at, node in (*parameters.crashes, *parameters.leaves):
            if not 0 <= node < nodes:
                raise StackError(f"there is no node {node} at {at:g} s; nodes are 0 to {nodes - 1}")
        self.parameters = parameters
        self.network = network
        self.count = nodes
        self.chance = Chance(seed, "full mesh")
        notice = None
        if parameters.notice is not None:
            most = parameters.notice_most
            notice = (parameters.notice, parameters.notice if most is None else most)
        self.connections = Connections(network, parameters.timeout, notice, Chance(seed, "notice"))
        if parameters.latency is not None:
            network.delays = Delays(parameters.latency, seed)
            network.uneven = True
        self.running: list[int] = []
        self._place: dict[int, int] = {}
        """Per node that runs, its place among those."""
        self._changes: Iterator[Change] | None = None
        if parameters.churn is not None:
            self._changes = changes(parameters.churn, nodes, seed, parameters.joining)
        self._calm = False
        self._draws = 0

    def _draw(self, limit: int) -> int:
        self._draws += 1
        return self.chance.below(limit, self._draws)

    def start(self) -> None:
        """Schedule the starts, crashes and partitions."""
        kernel, parameters = self.network.kernel, self.parameters
        if self._changes is not None:
            self._schedule_change(self._changes)
        else:
            step = parameters.joining / max(self.count - 1, 1)
            for node in range(self.count):
                kernel.call_at(to_ns(node * step), partial(self.begin, node))
        for at, node in parameters.crashes:
            kernel.call_at(to_ns(at), partial(self.crash, node))
        for at, node in parameters.leaves:
            kernel.call_at(to_ns(at), partial(self.leave, node))
        for catastrophe in parameters.catastrophes:
            kernel.call_at(to_ns(catastrophe.at), partial(self.strike, catastrophe.share))
        for number, partition in enumerate(parameters.partitions):
            kernel.call_at(to_ns(partition.start), partial(self._cut, number))
            kernel.call_at(to_ns(partition.end), self.connections.heal)
        if parameters.crash_rate:
            self._repeat(60.0 / (parameters.crash_rate * self.count), self._crash_one)
        if parameters.suspicions:
            self._repeat(1.0 / parameters.suspicions, self._suspect)

    def calm(self) -> None:
        """The run is over: from now on nobody starts, leaves or crashes by a model or at a rate."""
        self._calm = True

    # Nodes

    def begin(self, node: int) -> None:
        """A node starts, or starts again, and is told of some that run."""
        if node in self._place:
            return
        if self.network.nodes[node] is not None:  # it is still leaving
            self.connections.crash(node)
        wanted = min(self.parameters.contacts, len(self.running))
        chosen: dict[int, None] = {}
        while len(chosen) < wanted:
            chosen[self.running[self._draw(len(self.running))]] = None
        self._place[node] = len(self.running)
        self.running.append(node)
        self.network.start_node(node, tuple([self.network.hosts[other].me for other in chosen]))

    def crash(self, node: int) -> None:
        """A node fails; it may come back."""
        if self._gone(node) or self.network.nodes[node] is not None:
            self.connections.crash(node)

    def leave(self, node: int) -> None:
        """A node leaves in good order; it may come back."""
        if self._gone(node):
            self.connections.leave(node)

    def strike(self, share: float) -> None:
        """A share of the nodes that run crash at once."""
        self._draws += 1
        count = round(share * len(self.running))
        for node in self.chance.sample(self.running, count, self._draws):
            self.crash(node)

    def _gone(self, node: int) -> bool:
        """A node no longer runs; False if it did not."""
        place = self._place.pop(node, None)
        if place is None:
            return False
        last = self.running.pop()
        if last != node:
            self.running[place] = last
            self._place[last] = place
        if self.parameters.back_after is not None:
            at = self.network.kernel.now + to_ns(self.parameters.back_after)
            self.network.kernel.call_at(at, partial(self.begin, node))
        return True

    # Trouble that goes on: in the background, as a run is over when its work is.

    def _schedule_change(self, made: Iterator[Change]) -> None:
        """The next start, leave or crash of the churn."""
        change = next(made, None)
        if change is not None:
            at = max(to_ns(change.at), self.network.kernel.now)
            self.network.kernel.call_at(at, partial(self._change, change, made), True)

    def _change(self, change: Change, made: Iterator[Change]) -> None:
        if not self._calm:
            act = {"start": self.begin, "leave": self.leave, "crash": self.crash}[change.what]
            act(change.node)
            self._schedule_change(made)

    def _repeat(self, gap: float, trouble: Callable[[], None], at: float | None = None) -> None:
        """Make trouble again and again within the window, so many seconds apart."""
        start, end = self.parameters.window
        at = (start if at is None else at) + gap
        if at <= end:
            again = partial(self._make, gap, trouble, at)
            self.network.kernel.call_at(to_ns(at), again, True)

    def _make(self, gap: float, trouble: Callable[[], None], at: float) -> None:
        if not self._calm:
            trouble()
            self._repeat(gap, trouble, at)

    def _crash_one(self) -> None:
        if len(self.running) > 1:
            self.crash(self.running[self._draw(len(self.running))])

    def _suspect(self) -> None:
        """One end of a connection takes it for broken."""
        node = self.running[self._draw(len(self.running))] if self.running else -1
        peers = self.network.neighbours(node) if node >= 0 else []
        if peers:
            self.connections.suspect(node, peers[self._draw(len(peers))])

    def _cut(self, number: int) -> None:
        share = self.parameters.partitions[number].share
        order = self.chance.sample(range(self.count), self.count, -1 - number)
        away = set(order[: round(share * self.count)])
        self.connections.cut([int(node in away) for node in range(self.count)])


register("topology", "full-mesh", FullMesh, FullMeshParameters, provides={"reach", "notice"})
