"""Beyond the paper: adaptive routing against fixed settings, in networks of different kinds.

Costa and Picco leave open a mechanism that finds horizon and threshold by itself. Each scenario
runs a grid of fixed settings, and adaptive routing, which is not told which scenario it is in. Its
constants were chosen on the ``KNOWN`` networks; the ``UNSEEN`` ones, of other sizes, degrees,
densities and speeds, had no part in that. The recorded ones need data: name the files in the
environment variables ``SHOAL_POSITIONS`` (timestamped positions, as of aircraft) and ``SHOAL_MESH``
(a community mesh, or two: the first known, the second not); without them they are not run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.experiments.costa_scenarios import MOVING, STATIC, publishing
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.measure.graphs import EVERYTHING
from shoal.pipeline.paper import Figure, Panel, Paper
from shoal.pipeline.plan.experiment import Experiment, merge

SPAN = 40.0
"""Seconds of publishing: learning, a few seconds of it, counts."""
POSITIONS, MESH = "SHOAL_POSITIONS", "SHOAL_MESH"
QUICK = ("still", "fast", "radios", "aircraft", "mesh", "hasty", "aircraft-later", "mesh-elsewhere")
"""A few of each kind for the quick tier; the others are left to the full one."""

_LEAN: Mapping[str, Any] = {"routing": {"leaf_rule": True}, "record": ["publications", "traffic"]}
_FIXED = {
    f"φ={phi} τ={tau:g}": {"routing": {"horizon": phi, "threshold": tau}}
    for phi in (1, 2, 3)
    for tau in (0.25, 0.5, 0.75, 1.0)
}
VARIANTS: Mapping[str, Any] = {**_FIXED, "adaptive": {"routing": {"name": "adaptive"}}}

BROADCAST: Mapping[str, Any] = {
    f"broadcast τ={tau:g}": {
        "routing": {"name": "broadcast", "horizon": 1, "threshold": tau},
        "workload": {"publish_rate": 1.0},
    }
    for tau in (0.25, 0.5, 1.0)
}
"""One transmission reaches all neighbours and counts as one message. It runs on objects, so a fifth
of the events must do; what (un)subscriptions cost per event counts five times against it."""


def _scenario(
    name: str, title: str, base: Mapping[str, Any], span: float = SPAN, radio: bool = False
) -> Experiment:
    """A network with all variants; by radio, those that broadcast as well."""
    return Experiment(
        name,
        title,
        merge(merge(base, _LEAN), publishing(span)),
        {**VARIANTS, **BROADCAST} if radio else VARIANTS,
        quick_values=None if name in QUICK else (),
        seeds=5,
        quick_seeds=1,
    )


def _graph(nodes: int, degree: int, interval: float | None = None, **workload: Any) -> Any:
    """Another graph, which stays as it is or has a link replaced every so often."""
    topology: dict[str, Any] = {"degree": degree}
    if interval is not None:
        topology["interval"] = interval
    base = STATIC if interval is None else MOVING
    return merge(base, {"nodes": nodes, "topology": topology, "workload": workload})


def _radio(nodes: int, side: float, reach: float, **movement: Any) -> Any:
    """Radios in a square."""
    field = {"name": "radio", "width": side, "height": side, "reach": reach, **movement}
    return merge(STATIC, {"nodes": nodes, "topology": field})


def _aircraft(name: str, title: str, nodes: int, reach: float, start: float) -> list[Experiment]:
    """What is in the air for three minutes from a second of the recording on, if there is one."""
    found = []
    for path in recorded_files(POSITIONS)[:1]:
        tracks = {"name": "tracks", "path": path, "reach": reach, "start": start, "stay": 180.0}
        base = merge(STATIC, {"nodes": nodes, "topology": tracks})
        found.append(_scenario(name, title, base, 3 * SPAN, radio=True))
    return found


def _mesh(path: str) -> Any:
    return merge(STATIC, {"nodes": 210, "topology": {"name": "mesh", "path": path}})


def recorded_files(variable: str) -> list[str]:
    """The files that an environment variable names."""
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]


_MESHES = recorded_files(MESH)

KNOWN = (
    _scenario("still", "Static network", STATIC),
    _scenario("thin", "Degree 3", _graph(200, 3)),
    _scenario("thick", "Degree 9, half as many events", _graph(240, 9, publish_rate=2.5)),
    _scenario("rare", "Few receivers", _graph(160, 5, patterns_per_event=3)),
    _scenario("common", "Many receivers", _graph(120, 6, patterns_per_event=120)),
    _scenario("fast", "A reconfiguration every 0.03 s", MOVING),
    _scenario("seldom", "Degree 7, a reconfiguration a second", _graph(150, 7, 1.0)),
    _scenario("frantic", "Degree 4, a reconfiguration every 0.01 s", _graph(250, 4, 0.01)),
    _scenario("radios", "Moving radios", _radio(200, 2000.0, 250.0), radio=True),
    _scenario(
        "walkers",
        "Radios on foot, from waypoint to waypoint",
        _radio(120, 1500.0, 230.0, model="random waypoint", slowest=0.5, speed=1.5, pause=5.0),
        radio=True,
    ),
    *_aircraft("aircraft", "Recorded aircraft", 24, 50e3, 3600.0),
    *(_scenario("mesh", "A community mesh with lossy links", _mesh(path)) for path in _MESHES[:1]),
)
UNSEEN = (
    _scenario("four", "Degree 4", _graph(200, 4)),
    _scenario("twelve", "Degree 12, fewer events", _graph(150, 12, publish_rate=3.0)),
    _scenario("some", "Degree 6, 3% receivers", _graph(140, 6, patterns_per_event=8)),
    _scenario("moderate", "Degree 6, a reconfiguration every 0.1 s", _graph(200, 6, 0.1)),
    _scenario("hasty", "Degree 8, a reconfiguration every 0.02 s", _graph(160, 8, 0.02)),
    _scenario(
        "cars",
        "Radios at 5 to 15 m/s, from waypoint to waypoint",
        _radio(150, 2000.0, 300.0, model="random waypoint", slowest=5.0, speed=15.0),
        radio=True,
    ),
    _scenario(
        "vehicles",
        "Radios at 15 m/s in random directions",
        _radio(150, 2000.0, 350.0, speed=15.0),
        radio=True,
    ),
    *_aircraft("aircraft-later", "Aircraft an hour later, radios reaching 30 km", 28, 30e3, 7200.0),
    *(
        _scenario("mesh-elsewhere", "The mesh of another town", _mesh(path))
        for path in _MESHES[1:2]
    ),
)
EXPERIMENTS = (*KNOWN, *UNSEEN)
DELIVERY = "deliveries made of those possible"
_HISTORY = (
    "Adaptive routing was developed on this network, among others.",
    "Adaptive routing was not tuned on this network.",
)


def _figure(number: int, experiment: Experiment) -> Figure:
    return Figure(
        str(number),
        experiment.title,
        (
            Panel(experiment.name, "delivery_of_reachable", DELIVERY),
            Panel(
                experiment.name,
                "messages_per_event",
                "messages per event",
                parameters={"kinds": list(EVERYTHING)},
            ),
        ),
        f"{_HISTORY[experiment in UNSEEN]} The best fixed setting is the cheapest that delivers "
        "within 1% of the most that any does; adaptive should deliver 99% of that for at most 1.1 "
        "times the messages.",
        (f"A-{experiment.name}",),
    )


PAPER = Paper(
    name="adaptive",
    title="Adaptive routing against fixed settings",
    citation="Beyond Costa and Picco (2005), section 6: their stated goal.",
    speaker="The aim",
    experiments=EXPERIMENTS,
    claims=tuple(
        claim
        for claim in load_claims(Path(__file__).with_name("adaptive.claims.yaml"))
        if claim.experiments() <= {e.name for e in EXPERIMENTS}
    ),
    figures=tuple(_figure(i, e) for i, e in enumerate(EXPERIMENTS, 1)),
    variants={
        "adaptive": "finds its parameters by itself",
        "broadcast": "by radio, one message reaches all neighbours",
        "φ=1": "subscriptions travel one hop",
        "φ=2": "two hops",
        "φ=3": "three hops",
    },
)
