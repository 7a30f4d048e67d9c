"""How nodes move in a plane: random models, and tracks recorded elsewhere.

A track is a list of (time, x, y) in order of time; between two points a node moves in a straight
line at constant speed. Before its first point and after its last a node is absent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.stack import Chance, StackError

Point: TypeAlias = tuple[float, float, float]
"""Time in seconds, x and y in metres."""
Track: TypeAlias = Sequence[Point]
Positions: TypeAlias = npt.NDArray[np.float64]
LEGS = 20_000
"""Legs of the longest random track."""


@dataclass(frozen=True)
class Area:
    """A rectangle with a corner at the origin, in metres."""

    width: float
    height: float


def random_direction(
    area: Area, speed: float, pause: float, duration: float, chance: Chance, node: int
) -> list[Point]:
    """Walk straight on to the edge of the area, pause, and choose a new direction."""
    x = chance.uniform(node, 0) * area.width
    y = chance.uniform(node, 1) * area.height
    track = [(0.0, x, y)]
    time, leg = 0.0, 0
    while time < duration and speed > 0:
        angle = 2 * math.pi * chance.uniform(node, 2, leg)
        leg = _next_leg(leg)
        length = _to_edge(area, x, y, angle)
        if length <= 0.0:  # it would leave from the edge it stands on
            continue
        x = min(area.width, max(0.0, x + length * math.cos(angle)))
        y = min(area.height, max(0.0, y + length * math.sin(angle)))
        time += length / speed
        track.append((time, x, y))
        if pause:
            time += pause
            track.append((time, x, y))
    if time < duration:
        track.append((duration, x, y))
    return track


def _next_leg(leg: int) -> int:
    if leg >= LEGS:
        raise StackError(
            f"a node turns more than {LEGS:,} times; give a lower speed, a larger area, a longer "
            "pause or a shorter duration"
        )
    return leg + 1


def _to_edge(area: Area, x: float, y: float, angle: float) -> float:
    """How far it is to the edge in a direction."""
    ways = []
    for at, size, component in (
        (x, area.width, math.cos(angle)),
        (y, area.height, math.sin(angle)),
    ):
        if component > 1e-12:
            ways.append((size - at) / component)
        elif component < -1e-12:
            ways.append(-at / component)
    return min(ways)


def random_waypoint(
    area: Area,
    speeds: tuple[float, float],
    pause: float,
    duration: float,
    chance: Chance,
    node: int,
    steady: bool = False,
) -> list[Point]:
    """Walk to a random point at a random speed, pause, and choose another.

    A ``steady`` walk begins somewhere in its midst, as if it had begun long ago.
    """
    low, high = speeds
    if steady and high > 0:
        track = _under_way(area, speeds, pause, chance, node)
    else:
        track = [(0.0, chance.uniform(node, 0) * area.width, chance.uniform(node, 1) * area.height)]
    time, x, y = track[-1]
    leg = 0
    while time < duration and high > 0:
        to_x = chance.uniform(node, 2, leg) * area.width
        to_y = chance.uniform(node, 3, leg) * area.height
        speed = low + chance.uniform(node, 4, leg) * (high - low)
        leg = _next_leg(leg)
        time += math.hypot(to_x - x, to_y - y) / speed
        x, y = to_x, to_y
        track.append((time, x, y))
        if pause:
            time += pause
            track.append((time, x, y))
    if time < duration:
        track.append((duration, x, y))
    return track


def random_walks(
    model: str,
    area: Area,
    speeds: tuple[float, float],
    pause: float,
    duration: float,
    chance: Chance,
    nodes: int,
    steady: bool = False,
) -> list[list[Point]]:
    """Tracks of all nodes, by the model of this name."""
    if model == "random direction":
        return [random_direction(area, speeds[1], pause, duration, chance, n) for n in range(nodes)]
    return [random_waypoint(area, speeds, pause, duration, chance, n, steady) for n in range(nodes)]


def _under_way(
    area: Area, speeds: tuple[float, float], pause: float, chance: Chance, node: int
) -> list[Point]:
    """The rest of a pause or of a leg of random waypoint, looked at when it is in a steady state.

    Long legs and slow ones take more time, so they are met more often (Navidi and Camp, 2004).
    """
    low, high = speeds
    slowness = 1 / low if low == high else math.log(high / low) / (high - low)
    walking = _mean_distance(area) * slowness
    x, y = (chance.uniform(node, 5, k) * size for k, size in enumerate((area.width, area.height)))
    if chance.uniform(node, 6) * (pause + walking) < pause:
        rest = chance.uniform(node, 7) * pause
        return [(0.0, x, y), (rest, x, y)]
    longest = math.hypot(area.width, area.height)
    attempt = 0
    while True:
        ends = [chance.uniform(node, 8, attempt, k) for k in range(5)]
        from_x, from_y = ends[0] * area.width, ends[1] * area.height
        x, y = ends[2] * area.width, ends[3] * area.height
        if ends[4] * longest < math.hypot(x - from_x, y - from_y):
            break
        attempt += 1
    speed = low * (high / low) ** chance.uniform(node, 9)
    share = chance.uniform(node, 10)
    time = (1 - share) * math.hypot(x - from_x, y - from_y) / speed
    track = [(0.0, from_x + share * (x - from_x), from_y + share * (y - from_y)), (time, x, y)]
    return [*track, (time + pause, x, y)] if pause else track


def _mean_distance(area: Area) -> float:
    """Between two random points of a rectangle."""
    a, b = area.width, area.height
    d = math.hypot(a, b)
    logs = b * b / a * math.log((a + d) / b) + a * a / b * math.log((b + d) / a)
    return (a**3 / b**2 + b**3 / a**2 + d * (3 - a * a / b**2 - b * b / a**2) + 2.5 * logs) / 15


class Tracks:
    """Where all nodes are at any time."""

    def __init__(self, tracks: Sequence[Track]) -> None:
        self._times = [np.array([p[0] for p in track], np.float64) for track in tracks]
        self._places = [
            np.array([p[1:] for p in track], np.float64).reshape(-1, 2) for track in tracks
        ]

    def __len__(self) -> int:
        return len(self._times)

    def points(self, node: int) -> list[Point]:
        """The track of a node."""
        places = self._places[node].tolist()
        return [(at, x, y) for at, (x, y) in zip(self._times[node].tolist(), places, strict=True)]

    def corners(self) -> tuple[float, float, float, float]:
        """Least x and y, greatest x and y of all tracks."""
        places = np.concatenate([np.zeros((0, 2)), *self._places])
        places = places[~np.isnan(places[:, 0])]
        if not len(places):
            return 0.0, 0.0, 1.0, 1.0
        (left, low), (right, high) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
        return left, low, right, high

    def at(self, time: float) -> Positions:
        """Positions of all nodes; NaN where a node is absent."""
        positions = np.full((len(self), 2), np.nan)
        for node, (times, places) in enumerate(zip(self._times, self._places, strict=True)):
            if not len(times) or not times[0] <= time <= times[-1]:
                continue
            after = int(np.searchsorted(times, time, side="right"))
            if after == len(times) or times[after - 1] == time:
                positions[node] = places[after - 1]
                continue
            share = (time - times[after - 1]) / (times[after] - times[after - 1])
            positions[node] = places[after - 1] + share * (places[after] - places[after - 1])
        return positions


def links_within(positions: Positions, reach: float, nearer: bool = False) -> set[tuple[int, int]]:
    """Pairs of nodes no farther apart than their radios reach; or ``nearer`` than that."""
    close_enough = np.less if nearer else np.less_equal
    order = np.argsort(positions[:, 0], kind="stable")
    present = order[~np.isnan(positions[order, 0])]
    x = positions[present, 0]
    pairs: set[tuple[int, int]] = set()
    for i, node in enumerate(present.tolist()):
        end = int(np.searchsorted(x, x[i] + reach, side="right"))
        near = present[i + 1 : end]
        apart = positions[near] - positions[node]
        close = near[close_enough((apart * apart).sum(axis=1), reach * reach)]
        pairs.update((min(node, other), max(node, other)) for other in close.tolist())
    return pairs
