"""Topologies of nodes that are linked while their radios reach each other.

``radio`` moves nodes by a random model in a rectangle; ``tracks`` follows positions recorded in a
file; ``contacts`` takes links over time from a file; ``mesh`` is a static graph from a file, with
the quality of each link. Links are looked at every ``step`` seconds, as beacons would.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from shoal.simulation.air.parameters import AirTracksParameters
from shoal.simulation.graph import Change, ScriptedLinks
from shoal.simulation.importers import read_contacts, read_mesh, read_tracks
from shoal.simulation.kernel import to_ns
from shoal.simulation.mobility import Area, Point, Tracks, links_within, random_walks
from shoal.simulation.network import Network
from shoal.simulation.topology import connected
from shoal.stack import Chance, StackError, register

Metres = Annotated[float, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Step = Annotated[float, msgspec.Meta(gt=0)]
PLACEMENTS = 1000
"""Placements drawn before one that must be connected is given up."""


class RadioParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of moving radios."""

    width: Metres = 2000.0
    """Metres from west to east."""
    height: Metres = 2000.0
    """Metres from south to north."""
    reach: Metres = 250.0
    """How far a radio is heard."""
    model: Literal["random direction", "random waypoint"] = "random direction"
    """How nodes move."""
    speed: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    """Metres a second."""
    slowest: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Random waypoint: speeds are drawn from here to ``speed``; all the same if not given."""
    pause: Seconds = 0.0
    """Seconds that a node rests where it arrives."""
    step: Step = 0.1
    """Seconds between two looks at who hears whom."""
    connected: bool = True
    """Draw placements until all nodes are connected at the start."""


class TracksParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Positions over time from a file."""

    path: str
    """A file of recorded positions."""
    format: Literal["bonnmotion", "ns2", "positions"] = "positions"
    """How the file is written."""
    reach: Metres = 250.0
    """Metres within which two nodes hear each other."""
    step: Step = 1.0
    """Seconds between two looks at who hears whom."""
    start: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds of the recording to leave out."""
    stay: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Take only nodes that are there from ``start`` on for at least so many seconds."""
    area: tuple[float, float, float, float] | None = None
    """Least x and y, greatest x and y: a position outside is an error."""


class ContactsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Links over time from a file in the format of the ONE simulator's connectivity reports."""

    path: str
    """A file of recorded contacts."""
    start: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """The recorded second at which the run begins."""


class MeshParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A static graph with the quality of each link, from a file of a community mesh."""

    path: str
    """A file with the links of a mesh and their qualities."""
    lossy: bool = True
    """Whether links lose events according to their quality."""


class Moving(ScriptedLinks):
    """Links that follow from positions."""

    def __init__(
        self, network: Network, tracks: Tracks, reach: float, step: float, start: float
    ) -> None:
        self.tracks = tracks
        self.reach = reach
        self.step = step
        self.begin = start
        super().__init__(network, sorted(self._links(0)))

    def _links(self, look: int) -> set[tuple[int, int]]:
        return links_within(self.tracks.at(self.begin + look * self.step), self.reach)

    def start(self) -> None:
        """Raise the first links and look again after a step."""
        super().start()
        self._now = dict.fromkeys(self.links)
        self._schedule(1)

    def _schedule(self, look: int) -> None:
        # In the background: a run is over when its messages are, not when its nodes stand still.
        at = to_ns(look * self.step)
        self.network.kernel.call_at(at, partial(self._look, look), True)

    def _look(self, look: int) -> None:
        links = self._links(look)
        for a, b in [link for link in self._now if link not in links]:
            del self._now[a, b]
            self.network.link_down(a, b)
        for a, b in sorted(links - self._now.keys()):
            self._now[a, b] = None
            self.network.link_up(a, b)
        self._schedule(look + 1)


class Radio(Moving):
    """Radios that move by a random model; a link is there while two hear each other."""

    def __init__(
        self, parameters: RadioParameters, network: Network, nodes: int, seed: int
    ) -> None:
        area, speed = Area(parameters.width, parameters.height), parameters.speed
        how = (parameters.model, area, (parameters.slowest or speed, speed), parameters.pause)
        for attempt in range(PLACEMENTS):
            chance = Chance(seed, f"radio {attempt}")
            tracks = Tracks(random_walks(*how, network.duration, chance, nodes))
            super().__init__(network, tracks, parameters.reach, parameters.step, 0.0)
            if not parameters.connected or connected(nodes, self.links):
                return
        raise StackError(
            f"topology 'radio': none of {PLACEMENTS} placements of {nodes} nodes is connected; "
            "give more nodes, a longer reach or a smaller area, or set connected = false"
        )


class RecordedTracks(Moving):
    """Nodes that move as recorded; a link is there while two are within reach."""

    def __init__(
        self, parameters: TracksParameters, network: Network, nodes: int, seed: int
    ) -> None:
        tracks = Tracks(recorded("tracks", parameters, nodes))
        super().__init__(network, tracks, parameters.reach, parameters.step, parameters.start)


class RecordedContacts(ScriptedLinks):
    """Links that come and go as recorded."""

    def __init__(
        self, parameters: ContactsParameters, network: Network, nodes: int, seed: int
    ) -> None:
        contacts, count = read_contacts(Path(parameters.path))
        check_count("contacts", parameters.path, count, nodes)
        up: dict[tuple[int, int], None] = {}
        later: list[Change] = []
        for at, a, b, appears in contacts:
            if max(a, b) >= nodes:
                continue
            if at > parameters.start:
                later.append(Change(at - parameters.start, appears, (a, b)))
            elif appears:
                up[a, b] = None
            else:
                up.pop((a, b), None)
        super().__init__(network, list(up), later)


class Mesh(ScriptedLinks):
    """A static graph of a community mesh; its links lose events according to their quality."""

    def __init__(self, parameters: MeshParameters, network: Network, nodes: int, seed: int) -> None:
        links, count = read_mesh(Path(parameters.path))
        check_count("mesh", parameters.path, count, nodes)
        kept = [link for link in links if max(link.a, link.b) < nodes]
        super().__init__(network, [(link.a, link.b) for link in kept])
        for link in kept:
            if parameters.lossy:
                network.set_quality(link.a, link.b, link.forth, link.back)


def recorded(
    topology: str, parameters: TracksParameters | AirTracksParameters, nodes: int
) -> list[list[Point]]:
    """The first tracks of a recording; refused if it has too few, or does not fit its settings."""
    path, start = parameters.path, parameters.start
    tracks = read_tracks(Path(path), parameters.format)
    last = max((track[-1][0] for track in tracks if track), default=start)
    if start > last:
        raise StackError(
            f"topology '{topology}': {path} ends at {last:g} s, before start, {start:g} s; "
            "give an earlier start"
        )
    if parameters.stay:
        tracks = _staying(tracks, start, start + parameters.stay)
    check_count(topology, path, len(tracks), nodes)
    if parameters.area is not None:
        _check_area(topology, path, tracks, parameters.area)
    return tracks[:nodes]


def _staying(tracks: list[list[Point]], start: float, end: float) -> list[list[Point]]:
    """The nodes that are there from start to end, without a gap."""
    every = Tracks(tracks)
    there = every.at(start)[:, 0] + every.at(end)[:, 0]
    return [
        track
        for track, x in zip(tracks, there.tolist(), strict=True)
        if not math.isnan(x)
        and not any(start <= at <= end and math.isnan(place) for at, place, _ in track)
    ]


def _check_area(
    topology: str, path: str, tracks: list[list[Point]], area: tuple[float, float, float, float]
) -> None:
    """Refuse a recording that leaves its area."""
    left, low, right, high = area
    for node, track in enumerate(tracks):
        for at, x, y in track:
            if not math.isnan(x) and not (left <= x <= right and low <= y <= high):
                raise StackError(
                    f"topology '{topology}': {path} has node {node} at ({x:g}, {y:g}) at {at:g} s, "
                    f"outside the area ({left:g}, {low:g}) to ({right:g}, {high:g}); "
                    "give a larger area"
                )


def check_count(topology: str, path: str, found: int, nodes: int) -> None:
    """Refuse a recording of too few nodes."""
    if nodes > found:
        hint = f"set nodes = {found}" if found else "give another file, or a shorter stay"
        raise StackError(f"topology '{topology}': {path} has {found} nodes, not {nodes}; {hint}")


register("topology", "radio", Radio, RadioParameters, provides={"links"})
register("topology", "tracks", RecordedTracks, TracksParameters, provides={"links"})
register("topology", "contacts", RecordedContacts, ContactsParameters, provides={"links"})
register("topology", "mesh", Mesh, MeshParameters, provides={"links"})
