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

from shoal.stack import Chance

Point: TypeAlias = tuple[float, float, float]
"""Time in seconds, x and y in metres."""
Track: TypeAlias = Sequence[Point]
Positions: TypeAlias = npt.NDArray[np.float64]


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
        leg += 1
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
) -> list[Point]:
    """Walk to a random point at a random speed, pause, and choose another."""
    x = chance.uniform(node, 0) * area.width
    y = chance.uniform(node, 1) * area.height
    track = [(0.0, x, y)]
    time, leg = 0.0, 0
    low, high = speeds
    while time < duration and high > 0:
        to_x = chance.uniform(node, 2, leg) * area.width
        to_y = chance.uniform(node, 3, leg) * area.height
        speed = low + chance.uniform(node, 4, leg) * (high - low)
        leg += 1
        time += math.hypot(to_x - x, to_y - y) / speed
        x, y = to_x, to_y
        track.append((time, x, y))
        if pause:
            time += pause
            track.append((time, x, y))
    if time < duration:
        track.append((duration, x, y))
    return track


class Tracks:
    """Where all nodes are at any time."""

    def __init__(self, tracks: Sequence[Track]) -> None:
        self._times = [np.array([p[0] for p in track], np.float64) for track in tracks]
        self._places = [
            np.array([p[1:] for p in track], np.float64).reshape(-1, 2) for track in tracks
        ]

    def __len__(self) -> int:
        return len(self._times)

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


def links_within(positions: Positions, reach: float) -> set[tuple[int, int]]:
    """Pairs of nodes no farther apart than their radios reach."""
    order = np.argsort(positions[:, 0], kind="stable")
    present = order[~np.isnan(positions[order, 0])]
    x = positions[present, 0]
    pairs: set[tuple[int, int]] = set()
    for i, node in enumerate(present.tolist()):
        end = int(np.searchsorted(x, x[i] + reach, side="right"))
        near = present[i + 1 : end]
        apart = positions[near] - positions[node]
        close = near[(apart * apart).sum(axis=1) <= reach * reach]
        pairs.update((min(node, other), max(node, other)) for other in close.tolist())
    return pairs
