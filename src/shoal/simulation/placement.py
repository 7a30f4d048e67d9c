"""Radios in clusters on a plane, and what each wants to hear (Huang and Garcia-Molina, section 4).

Places: cluster centres lie around the origin, and the nodes of a cluster around its centre; angles
are uniform, distances normal. Two nodes are neighbours if they are nearer than the radio range R.
Only placements that are connected are used.

Interests (Number Intervals): a node wants the numbers of one interval. Its length is normal. Its
centre is a random number (NI-R), the node's x-coordinate (NI-X), or that with a random offset
(NI-Xmod). All models share the lengths, so that they can be compared.
"""

from __future__ import annotations

from functools import lru_cache
from math import isnan, pi
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.content import AttributeFilter
from shoal.overlay.shopparent_costs import Density
from shoal.simulation.draws import uniform_array
from shoal.simulation.mobility import links_within
from shoal.simulation.topology import connected
from shoal.stack import StackError

Places: TypeAlias = npt.NDArray[np.float64]
Metres = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Spread = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
ATTEMPTS = 3_000
"""Placements drawn before one that must be connected is given up."""
ATTRIBUTE = "x"
"""The attribute of events that carries their number."""


class Interests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What nodes want: the Number Intervals model."""

    model: Literal["NI-R", "NI-X", "NI-Xmod"] = "NI-R"
    length: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 25.0
    """l: the mean length of an interval."""
    length_spread: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.25
    """Standard deviation of the length, as a share of the mean; lengths are cut at 0."""
    width: Metres = 250.0
    """NI-R: centres are uniform on [0, width]."""
    offset: Spread = 0.0
    """NI-Xmod: standard deviation of the offset from the x-coordinate."""
    density: Literal["uniform", "normal"] = "uniform"
    """How events lie on the axis: evenly, or around the middle of [0, width]."""
    given: tuple[tuple[float, float] | None, ...] = ()
    """Explicit intervals in place of drawn ones, one for each node (None: wants nothing)."""

    def __post_init__(self) -> None:
        for node, interval in enumerate(self.given):
            if interval is None:
                continue
            low, high = interval
            if isnan(low) or isnan(high):
                raise StackError(f"the interval of node {node} has an end that is no number")
            if low > high:
                raise StackError(
                    f"the interval of node {node} ends before it starts; give [{high:g}, {low:g}]"
                )

    def expected(self) -> Density:
        """The events that are expected."""
        if self.density == "uniform":
            return Density()
        return Density(0.0, self.width, self.width / 2, self.width / 5)


class PlacementParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where nodes are, how far they are heard, what they want. Defaults: the paper's Table 2."""

    clusters: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 3
    """N_c; the nodes of the run are divided among them evenly."""
    centre_distance: Metres = 100.0
    """D_c: mean distance of cluster centres from the origin."""
    centre_spread: Spread = 20.0
    """Standard deviation of the centres of clusters, in metres."""
    node_distance: Metres = 80.0
    """D_n: mean distance of nodes from their cluster's centre."""
    node_spread: Spread = 20.0
    """Standard deviation of the nodes around their centre, in metres."""
    range: Metres = 80.0
    """R: nodes nearer than this hear each other."""
    connected_at: Spread = 60.0
    """The range at which a placement must be connected, if shorter than R; 0: any will do."""
    draw: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Use this very placement of those that are drawn, the same for all seeds."""
    places: tuple[tuple[float, float], ...] = ()
    """Explicit places in place of drawn ones."""
    interests: Interests = Interests()
    """What the nodes want: intervals of a line of numbers."""

    def __post_init__(self) -> None:
        for node, (x, y) in enumerate(self.places):
            if isnan(x) or isnan(y):
                raise StackError(f"the place of node {node} is no point; give two numbers")


def places_of(parameters: PlacementParameters, nodes: int, seed: int) -> Places:
    """Where the nodes are; an error if they are not connected and should be."""
    must = parameters.connected_at
    if parameters.places:
        if len(parameters.places) != nodes:
            raise StackError(f"there are {len(parameters.places)} places for {nodes} nodes")
        places = np.array(parameters.places, np.float64)
        if must and not connected(nodes, edges_within(places, parameters.range)):
            raise StackError(
                f"the places are not connected at a range of {parameters.range:g}; "
                "give a longer range, or connected_at = 0 to run the parts by themselves"
            )
        return places
    if nodes % parameters.clusters:
        raise StackError(
            f"{nodes} nodes cannot be divided among {parameters.clusters} clusters evenly; "
            f"set nodes to a multiple of {parameters.clusters}"
        )
    shape = (
        *(parameters.clusters, parameters.centre_distance, parameters.centre_spread),
        *(parameters.node_distance, parameters.node_spread),
    )
    if parameters.draw is not None:
        return _drawn(shape, nodes, 0, parameters.draw)
    return _connected(shape, nodes, seed, min(must, parameters.range))


@lru_cache(maxsize=256)
def _connected(
    shape: tuple[int, float, float, float, float], nodes: int, seed: int, reach: float
) -> Places:
    """The first placement that is connected at a range; with 0, the first."""
    for attempt in range(ATTEMPTS):
        places = _drawn(shape, nodes, seed, attempt)
        if not reach or connected(nodes, edges_within(places, reach)):
            return places
    raise StackError(
        f"none of {ATTEMPTS} placements of {nodes} nodes is connected at a range of {reach:g}; "
        "give more nodes, a longer range, or connected_at = 0"
    )


def _drawn(
    shape: tuple[int, float, float, float, float], nodes: int, seed: int, attempt: int
) -> Places:
    """One placement."""
    clusters, centre_distance, centre_spread, node_distance, node_spread = shape
    centres = _around(seed, "clusters", attempt, clusters, centre_distance, centre_spread)
    around = _around(seed, "places", attempt, nodes, node_distance, node_spread)
    return np.repeat(centres, nodes // clusters, axis=0) + around


def _around(
    seed: int, purpose: str, attempt: int, count: int, distance: float, spread: float
) -> Places:
    angle = 2 * pi * _uniform(seed, f"{purpose} angle", attempt, count)
    radius = distance + spread * _normal(seed, f"{purpose} distance", attempt, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _uniform(seed: int, purpose: str, attempt: int, count: int) -> npt.NDArray[np.float64]:
    rows = np.arange(count, dtype=np.uint64)
    return uniform_array(seed, purpose, np.full(1, attempt, np.uint64), rows)


def _normal(seed: int, purpose: str, attempt: int, count: int) -> npt.NDArray[np.float64]:
    """Standard normal numbers (Box-Muller)."""
    radius = np.sqrt(-2 * np.log1p(-_uniform(seed, purpose, attempt, count)))
    turn = np.cos(2 * pi * _uniform(seed, f"{purpose} turn", attempt, count))
    return np.asarray(radius * turn, np.float64)


def edges_within(places: Places, reach: float) -> list[tuple[int, int]]:
    """The pairs of nodes that hear each other: nearer than the range."""
    if len(places) > 500:
        return sorted(links_within(places, reach, nearer=True))
    apart = places[:, None, :] - places[None, :, :]
    near = np.triu((apart * apart).sum(axis=2) < reach * reach, 1)
    return [(int(a), int(b)) for a, b in zip(*np.nonzero(near), strict=True)]


def intervals_of(
    interests: Interests, places: Places, seed: int
) -> list[tuple[float, float] | None]:
    """What each node wants."""
    nodes = len(places)
    if interests.given:
        if len(interests.given) != nodes:
            raise StackError(f"there are {len(interests.given)} intervals for {nodes} nodes")
        return list(interests.given)
    scale = 1 + interests.length_spread * _normal(seed, "lengths", 0, nodes)
    lengths = np.maximum(0.0, interests.length * scale)
    if interests.model == "NI-R":
        centres = interests.width * _uniform(seed, "centres", 0, nodes)
    else:
        centres = places[:, 0].copy()
        if interests.model == "NI-Xmod":
            centres += interests.offset * _normal(seed, "offsets", 0, nodes)
    half = lengths / 2
    return list(zip((centres - half).tolist(), (centres + half).tolist(), strict=True))


def interval_filter(interval: tuple[float, float]) -> AttributeFilter:
    """The filter of an interval: both ends included."""
    low, high = interval
    words = []
    if low > -np.inf:
        words.append(f"{ATTRIBUTE} >= {_decimal(low)}")
    if high < np.inf:
        words.append(f"{ATTRIBUTE} <= {_decimal(high)}")
    return AttributeFilter(" AND ".join(words) if words else f"EXISTS {ATTRIBUTE}")


def _decimal(number: float) -> str:
    """A number as the filter language writes it: with a point, also before an exponent."""
    text = repr(float(number))
    return text if "." in text else text.replace("e", ".0e")
