"""Topologies on the air: radios in a rectangle, on recorded tracks, or in a measured mesh.

Nodes on them have no connections. Overlays for radios say themselves what a link is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.routing import AirFlooding
from shoal.simulation.air.flooding import Flooding, tap
from shoal.simulation.air.host import AirHost, AirLinks
from shoal.simulation.air.parameters import (
    AirMeshParameters,
    AirParameters,
    AirTracksParameters,
    MediumParameters,
)
from shoal.simulation.importers import read_mesh
from shoal.simulation.kernel import NANOSECONDS, to_ns
from shoal.simulation.mobility import Area, Point, Tracks, links_within, random_walks
from shoal.simulation.network import Network
from shoal.simulation.radio import PLACEMENTS, check_count, recorded
from shoal.simulation.topology import connected
from shoal.stack import Chance, StackError, register

if TYPE_CHECKING:
    from shoal.stack.host import Host
    from shoal.stack.message import Message
    from shoal.stack.node import Node
    from shoal.stack.registry import Stack


class OnAir:
    """Nodes with radios on one channel; they start within the first seconds."""

    def __init__(
        self,
        name: str,
        parameters: MediumParameters,
        network: Network,
        nodes: int,
        seed: int,
        tracks: Sequence[Sequence[Point]] | None,
        heard: list[dict[int, float]] | None = None,
    ) -> None:
        # Here, as the compiled channel takes a second to load.
        from shoal.simulation.air.medium import Medium

        try:
            parameters.check()
        except StackError as error:
            raise StackError(f"topology '{name}': {error}") from None
        self.network = network
        self.joining = parameters.joining
        self.chance = Chance(seed, "joining")
        self.tracks = None if tracks is None else Tracks(tracks)
        self.links: list[tuple[int, int]] = []
        legs, bounds = (None, None) if tracks is None else as_legs(tracks)
        self.medium = Medium(network, parameters, nodes, seed, legs, bounds, heard)
        self.connections = AirLinks(network, self.medium, seed)
        for node in range(nodes):
            host = AirHost(network, self.medium, node, seed)
            host.watched = network.hosts[node].watched
            network.hosts[node] = host

    def start(self) -> None:
        """Let the nodes start."""
        for node in range(len(self.network.hosts)):
            at = self.joining * self.chance.uniform(node)
            self.network.kernel.call_at(to_ns(at), partial(self.begin, node))

    def begin(self, node: int) -> None:
        """A node starts, or starts again."""
        self.medium.turn(node, True)
        self.network.start_node(node, ())

    def flood(self, sample: Message, jitter: float) -> None:
        """Let the channel pass on by itself what comes in such messages."""
        flooding = Flooding(self.medium, sample, jitter)
        make = self.network.make_node
        assert make is not None
        self.network.make_node = partial(_tapped, make, flooding)


def _tapped(make: Callable[[Host], Node], flooding: Flooding, host: Host) -> Node:
    node = make(host)
    tap(node, flooding)
    return node


def why_not_flooded(stack: Stack, record: Iterable[str]) -> str | None:
    """Why the channel cannot pass events on by itself; None if it can."""
    if stack.routing.make is not AirFlooding:
        return f"on the air, routing '{stack.routing.name}' has no rule on arrays"
    if stack.recovery is not None:
        return f"recovery '{stack.recovery.name}' works on the objects of events"
    for table in sorted({"deliveries", "messages", "notes", "loads", "reach"} & set(record)):
        return f"{table} are written down by objects"
    return None


def as_legs(tracks: Sequence[Sequence[Point]]) -> tuple[Any, Any]:
    """Tracks as the channel wants them; a point with NaN ends a leg and begins none."""
    rows: list[tuple[float, ...]] = []
    bounds = [0]
    for track in tracks:
        for (start, x, y), (end, u, v) in pairwise(track):
            if math.isnan(x) or math.isnan(u) or end <= start:
                continue
            wide, high = (u - x) / (end - start), (v - y) / (end - start)
            rows.append((start * NANOSECONDS, end * NANOSECONDS, x, y, wide, high))
        bounds.append(len(rows))
    return np.array(rows, np.float64).reshape(-1, 6), np.array(bounds, np.int64)


class Air(OnAir):
    """Radios in a rectangle, still or moving, that share the air."""

    def __init__(self, parameters: AirParameters, network: Network, nodes: int, seed: int) -> None:
        for attempt in range(PLACEMENTS):
            chance = Chance(seed, f"air {attempt}")
            tracks = _draw(parameters, nodes, chance, network.duration)
            if not parameters.connected:
                break
            places = Tracks(tracks).at(0.0)
            if connected(nodes, links_within(places, parameters.range)):
                break
        else:
            raise StackError(
                f"topology 'air': none of {PLACEMENTS} placements of {nodes} nodes is connected; "
                "give more nodes, a longer range or a smaller area, or set connected = false"
            )
        super().__init__("air", parameters, network, nodes, seed, tracks)


def _draw(
    parameters: AirParameters, nodes: int, chance: Chance, seconds: float
) -> list[list[Point]]:
    """Tracks of all nodes, for so many seconds."""
    area = Area(parameters.width, parameters.height)
    speed, pause, model = parameters.speed, parameters.pause, parameters.model
    if parameters.places:
        return _placed(parameters, nodes)
    if model == "still" or speed == 0:
        places = [(chance.uniform(n, 0), chance.uniform(n, 1)) for n in range(nodes)]
        return [_still(x * area.width, y * area.height) for x, y in places]
    slowest = parameters.slowest or speed
    if model == "random waypoint" and slowest > speed:
        raise StackError(f"topology 'air': slowest, {slowest:g}, is more than speed, {speed:g}")
    speeds, steady = (slowest, speed), parameters.steady
    return random_walks(model, area, speeds, pause, seconds, chance, nodes, steady)


def _placed(parameters: AirParameters, nodes: int) -> list[list[Point]]:
    """Nodes that stand where the configuration says."""
    if len(parameters.places) != nodes:
        raise StackError(
            f"topology 'air': there are {len(parameters.places)} places for {nodes} nodes"
        )
    for node, (x, y) in enumerate(parameters.places):
        if not (0 <= x <= parameters.width and 0 <= y <= parameters.height):
            raise StackError(
                f"topology 'air': node {node} is at ({x:g}, {y:g}), outside the area of "
                f"{parameters.width:g} x {parameters.height:g} m; give a larger width and height"
            )
    return [_still(x, y) for x, y in parameters.places]


def _still(x: float, y: float) -> list[Point]:
    return [(0.0, x, y), (1e6, x, y)]


class AirTracks(OnAir):
    """Radios that move as recorded and share the air."""

    def __init__(
        self, parameters: AirTracksParameters, network: Network, nodes: int, seed: int
    ) -> None:
        tracks, start = recorded("air-tracks", parameters, nodes), parameters.start
        later = [[(at - start, x, y) for at, x, y in track] for track in tracks]
        super().__init__("air-tracks", parameters, network, nodes, seed, later)


class AirMesh(OnAir):
    """Radios of a community mesh that share the air; links lose frames as was measured."""

    def __init__(
        self, parameters: AirMeshParameters, network: Network, nodes: int, seed: int
    ) -> None:
        links, count = read_mesh(Path(parameters.path))
        check_count("air-mesh", parameters.path, count, nodes)
        heard: list[dict[int, float]] = [{} for _ in range(nodes)]
        for link in links:
            if max(link.a, link.b) < nodes:
                heard[link.a][link.b] = link.forth
                heard[link.b][link.a] = link.back
        super().__init__("air-mesh", parameters, network, nodes, seed, None, heard)


register("topology", "air", Air, AirParameters, provides={"air"})
register("topology", "air-tracks", AirTracks, AirTracksParameters, provides={"air"})
register("topology", "air-mesh", AirMesh, AirMeshParameters, provides={"air"})
