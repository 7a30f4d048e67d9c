"""Radios on a plane for overlays that build themselves: who is in range hears a broadcast.

The ground of ShopParent (Huang and Garcia-Molina, sections 4 and 5.6). Nodes start one after the
other where they are placed; some move elsewhere or fail later. A connection can be opened between
nodes in range, and breaks without a word when they are no longer. One transmission reaches all in
range, so the same message to several neighbours at one instant counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from shoal.content import Attributes
from shoal.simulation.channels import Channel, Fan
from shoal.simulation.connections import Connections
from shoal.simulation.kernel import to_ns
from shoal.simulation.placement import (
    ATTRIBUTE,
    PlacementParameters,
    Places,
    edges_within,
    interval_filter,
    intervals_of,
    places_of,
)
from shoal.simulation.topology import adjacency, distances
from shoal.simulation.tree_inspection import inspect
from shoal.simulation.workload import Workload
from shoal.stack import Chance, StackError, register

if TYPE_CHECKING:
    from shoal.simulation.network import Network
    from shoal.stack.host import NodeId

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
PLACES_TRIED = 1000
"""Places drawn for a node that moves, before the move is given up."""


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Move of a node, at a time, to a given place or one drawn at random."""

    at: Seconds
    node: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The node; if not given, one drawn at random, not the root."""
    to: tuple[float, float] | None = None


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Failure of a node, at a time; if no node is given, of one drawn at random, not the root."""

    at: Seconds
    node: Annotated[int, msgspec.Meta(ge=0)] | None = None
    back_after: Seconds | None = None
    """Seconds after which it starts again; never if not given."""


class RadioRangeParameters(PlacementParameters, frozen=True, forbid_unknown_fields=True):
    """Where nodes are, when they start, move and fail, and which events the root publishes."""

    root: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The node that publishes; it is never drawn to move or fail."""
    joining: Seconds = 0.0
    """Seconds over which the nodes start, evenly spaced, in an order drawn at random."""
    moves: tuple[Move, ...] = ()
    """Nodes that move to another place, at a time."""
    failures: tuple[Failure, ...] = ()
    """Nodes that fail, at a time."""
    inspect: tuple[Seconds, ...] = ()
    """When to note what the tree costs, and what trees built afresh would cost."""
    events: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 0
    """Events that the root publishes, evenly spaced over the window."""
    window: tuple[Seconds, Seconds] = (0.0, 0.0)
    """Seconds of the run between which the root publishes."""
    numbers: tuple[float, ...] = ()
    """The numbers of these events; drawn at random if not given."""
    timeout: Seconds = 1.0
    """Seconds after which a node that cannot be reached is reported as such."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window[0] > self.window[1]:
            raise StackError(
                f"window ends before it starts; give [{self.window[1]:g}, {self.window[0]:g}]"
            )


class InRange(Connections):
    """Connections between nodes that hear each other."""

    def __init__(
        self, network: Network, places: Places, reach: float, timeout: float, seed: int
    ) -> None:
        super().__init__(network, timeout, None, Chance(seed, "radio connections"))
        network.radio = True
        self.places = places.copy()
        self.reach = reach
        self.near = adjacency(len(places), edges_within(places, reach))
        self._audiences: dict[NodeId, Fan] = {}

    def reaches(self, a: NodeId, b: NodeId) -> bool:
        return b in self.near[a] and self.network.nodes[b] is not None

    def audience(self, node: NodeId) -> Fan | None:
        fan = self._audiences.get(node)
        if fan is None:
            channels: list[Channel] = []
            for other in self.near[node]:
                running = self.network.nodes[other]
                if running is not None:
                    channel = Channel(node, other, running)
                    self.network.hosts[other].reached_by.append(channel)
                    channels.append(channel)
            fan = Fan(channels)
            self._audiences[node] = fan
        return fan

    def changed(self, node: NodeId) -> None:
        """A node has started, failed or moved: who hears whom is worked out anew."""
        for one in (node, *self.near[node]):
            fan = self._audiences.pop(one, None)
            if fan is not None:
                fan.whole = False  # what is in flight is checked channel by channel

    def move(self, node: NodeId, to: tuple[float, float]) -> None:
        """A node is elsewhere: some links are out of range, silently, and others in range."""
        self.changed(node)
        self.places[node] = to
        apart = self.places - self.places[node]
        heard = (apart * apart).sum(axis=1) < self.reach * self.reach
        heard[node] = False
        now = dict.fromkeys(np.nonzero(heard)[0].tolist())
        for other in [other for other in self.near[node] if other not in now]:
            del self.near[other][node]
        for other in now:
            self.near[other][node] = None
        self.near[node] = now
        self.changed(node)
        for host in self.network.hosts:
            for channel in list(host.channels.values()):
                if node in (channel.source, channel.target) and channel.up:
                    self._check(channel)

    def _check(self, channel: Channel) -> None:
        """A connection out of range is broken, also if its ends come together again."""
        if channel.target not in self.near[channel.source]:
            channel.take_down()
            self._break(channel)
            self.network.hosts[channel.source].drop_fans()


class RadioRange:
    """Radios in range of each other can open connections."""

    def __init__(
        self, parameters: RadioRangeParameters, network: Network, nodes: int, seed: int
    ) -> None:
        moving = [move.node for move in parameters.moves]
        failing = [failure.node for failure in parameters.failures]
        for node in (parameters.root, *moving, *failing):
            if node is not None and node >= nodes:
                raise StackError(f"there is no node {node}; nodes are 0 to {nodes - 1}")
        self.parameters = parameters
        self.network = network
        self.count = nodes
        places = places_of(parameters, nodes, seed)
        self.intervals = intervals_of(parameters.interests, places, seed)
        reach, timeout = parameters.range, parameters.timeout
        self.connections = InRange(network, places, reach, timeout, seed)
        self.expected = parameters.interests.expected()
        self.chance = Chance(seed, "radio range")
        self.running: dict[int, None] = {}

    def workload(self) -> Workload:
        """What nodes want, and what the root publishes."""
        return placed_workload(self.parameters, self.intervals, self.chance.seed)

    def start(self) -> None:
        """Schedule the starts, moves and failures."""
        kernel, parameters = self.network.kernel, self.parameters
        step = parameters.joining / max(self.count - 1, 1)
        for turn, node in enumerate(self.chance.sample(range(self.count), self.count, 0)):
            kernel.call_at(to_ns(turn * step), partial(self.begin, node))
        for number, move in enumerate(parameters.moves):
            kernel.call_at(to_ns(move.at), partial(self._move, number, move))
        for number, failure in enumerate(parameters.failures):
            kernel.call_at(to_ns(failure.at), partial(self._fail, number, failure))
        for number, at in enumerate(parameters.inspect):
            kernel.call_at(to_ns(at), partial(inspect, self, number))

    def begin(self, node: int) -> None:
        """A node starts, or starts again."""
        if node not in self.running:
            self.running[node] = None
            self.connections.changed(node)
            self.network.start_node(node, ())

    def _move(self, number: int, move: Move) -> None:
        """A node moves to a place that leaves the network connected."""
        for attempt in range(PLACES_TRIED):
            node = move.node
            if node is None:
                node = self._someone(1, number, attempt)
            to = move.to or self._somewhere(number, attempt)
            if move.to is not None or self._connected(node, to):
                self.network.recorder.noted(node, "moved", self._hops(node), repr(to))
                self.connections.move(node, to)
                return
        raise StackError(f"no place was found for the move at {move.at:g} s; give one (to)")

    def _fail(self, number: int, failure: Failure) -> None:
        """A node fails whose absence leaves the network connected."""
        for attempt in range(PLACES_TRIED):
            node = failure.node
            if node is None:
                node = self._someone(2, number, attempt)
            if failure.node is not None or self._connected(node, None):
                break
        if node in self.running:
            self.network.recorder.noted(node, "failed", self._hops(node), "")
            del self.running[node]
            self.connections.changed(node)
            self.connections.crash(node)
            if failure.back_after is not None:
                at = self.network.kernel.now + to_ns(failure.back_after)
                self.network.kernel.call_at(at, partial(self.begin, node))

    def _hops(self, node: int) -> int:
        """How far from the root a node is in the tree of its overlay; -1 if it has no route."""
        found = self.network.overlay(node)
        route = getattr(found, "route", ())
        return len(route) if getattr(found, "rank", -1) >= 0 else -1

    def _someone(self, purpose: int, number: int, attempt: int) -> int:
        """A node that runs and is not the root."""
        able = [node for node in self.running if node != self.parameters.root]
        return able[self.chance.below(len(able), purpose, number, attempt)]

    def _somewhere(self, number: int, attempt: int) -> tuple[float, float]:
        """A point in the rectangle that the nodes span."""
        low, high = self.connections.places.min(axis=0), self.connections.places.max(axis=0)
        share = [self.chance.uniform(3, number, attempt, k) for k in (0, 1)]
        x, y = (low + np.array(share) * (high - low)).tolist()
        return x, y

    def _connected(self, node: int, to: tuple[float, float] | None) -> bool:
        """Whether all that run would be connected with a node elsewhere, or gone."""
        places = self.connections.places.copy()
        places[node] = (np.inf, np.inf) if to is None else to
        there = [n for n in self.running if n != node or to is not None]
        kept = places[there]
        edges = edges_within(kept, self.connections.reach)
        return len(distances(adjacency(len(there), edges), 0)) == len(there)


def event_numbers(
    parameters: RadioRangeParameters, intervals: Sequence[tuple[float, float] | None], seed: int
) -> list[float]:
    """The events of the root: as given, or random numbers where somebody may want them."""
    count = parameters.events
    if parameters.numbers:
        if len(parameters.numbers) != count:
            raise StackError(f"there are {len(parameters.numbers)} numbers for {count} events")
        return list(parameters.numbers)
    ends = [end for interval in intervals if interval is not None for end in interval]
    if not ends:
        return [0.0] * count
    chance = Chance(seed, "events")
    low, high = max(min(ends), -1e6), min(max(ends), 1e6)
    return [low + chance.uniform(k) * (high - low) for k in range(count)]


def placed_workload(
    parameters: RadioRangeParameters, intervals: Sequence[tuple[float, float] | None], seed: int
) -> Workload:
    """What nodes want, and what the root publishes."""
    workload = Workload(set(range(len(intervals))))
    workload.subscriptions = [
        (0, node, interval_filter(interval), True)
        for node, interval in enumerate(intervals)
        if interval is not None and interval[0] < interval[1]
    ]
    count = parameters.events
    start, end = parameters.window
    at = [start + (k + 0.5) * (end - start) / count for k in range(count)]
    workload.times = np.array([to_ns(time) for time in at], np.int64)
    workload.publishers = np.full(count, parameters.root, np.int64)
    workload.ends = np.zeros(count, np.int64)
    numbers = event_numbers(parameters, intervals, seed)
    workload.attributes = {k: Attributes({ATTRIBUTE: x}) for k, x in enumerate(numbers)}
    return workload


register("topology", "radio-range", RadioRange, RadioRangeParameters, provides={"reach"})
