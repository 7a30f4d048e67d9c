"""``shoal bench radio``: floods over 802.11b, as Shoal's medium and ns-3 simulate them.

Both get the same tracks (random waypoint, 1 km x 1 km, a range of 200 m) and the same publications
(200 bytes, 2 Mbit/s, passed on within 10 ms); back-offs and jitter are drawn by each on its own.
What is compared is the share of nodes that an event reaches, in points of a hundred, and frame
receptions per second of processor time. The access timing of Shoal's medium was fitted to ns-3 in
some settings of the grid (seed 0); the settings in ``CHECK``, with other tracks, were never fitted,
nor were those in ``FREE_SPACE``, where power falls with the square of the distance.
ns-3 is built from ``radio_ns3.cc`` where it is installed.
Shoal alone is also measured with a flood of 100 nodes, and with 1,000 radios that send a beacon
each second.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from shoal.simulation import parse_config
from shoal.simulation.run import Simulation
from shoal.stack import Chance

NODES = (10, 50, 100)
LOADS = (1, 20, 100, 300)
SPEEDS = (0.2, 1.0, 2.0)
QUICK = ((10, 20, 1.0), (50, 100, 1.0), (100, 20, 2.0))
CHECK = (
    (10, 50, 0.6, 1),
    (20, 100, 0.6, 1),
    (30, 50, 1.4, 1),
    (30, 200, 0.6, 1),
    (50, 200, 1.8, 1),
    (75, 50, 0.6, 1),
    (75, 200, 1.4, 1),
    (100, 50, 1.8, 1),
)
FREE_SPACE = (
    (30, 50, 1.0, 2, True),
    (50, 20, 1.0, 2, True),
    (50, 50, 1.0, 2, True),
    (50, 100, 1.0, 2, True),
    (100, 50, 1.0, 2, True),
)
EVENTS = 400
"""Events of a setting, as far as the next lets them."""
SHORTEST, LONGEST = 3.0, 100.0
"""Simulated seconds of publishing."""
REST = 2.0
"""Seconds after the last publication in which it is passed on."""
SHORT = 0.2
"""Seconds of processor time below which the median of five runs is taken."""
LIBRARIES = ("wifi", "propagation", "mobility", "network", "core")


class Setting(NamedTuple):
    """What is simulated."""

    nodes: int
    load: int
    """Events a second, of all nodes together."""
    speed: float
    seed: int = 0
    free_space: bool = False
    """Path loss in free space; otherwise a disc."""

    @property
    def duration(self) -> float:
        """Seconds in which events are published."""
        return min(LONGEST, max(SHORTEST, EVENTS / self.load))

    @property
    def key(self) -> str:
        """The setting in the name of a number."""
        radio = "_free_space" if self.free_space else ""
        return f"n{self.nodes}_load{self.load}_speed{self.speed:g}_seed{self.seed}{radio}"


class Outcome(NamedTuple):
    """What came of it."""

    delivery: float
    receptions: int
    seconds: float


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    yield from _alone(quick)
    with tempfile.TemporaryDirectory() as folder:
        program = _build(Path(folder))
        if program is None:
            return
        grid = [Setting(n, load, v) for n in NODES for load in LOADS for v in SPEEDS]
        chosen = [Setting(*at) for at in QUICK] if quick else grid
        yield from _beside(program, chosen, "grid")
        if not quick:
            yield from _beside(program, [Setting(*at) for at in CHECK], "check")
            yield from _beside(program, [Setting(*at) for at in FREE_SPACE], "free_space")


def _beside(program: Path, settings: list[Setting], name: str) -> Iterator[dict[str, float]]:
    """Each setting in both simulators; then the largest difference, and how fast they are."""
    worst, smallest, sums = 0.0, float("inf"), [0.0] * 4
    for setting in settings:
        simulation, publications = _prepare(setting)
        theirs = _ns3(program, simulation, setting, publications)
        ours = _shoal(simulation, setting, len(publications))
        if ours.seconds < SHORT:  # too short for one look at the clock
            again = [_shoal(*_counted(setting)).seconds for _ in range(4)]
            ours = ours._replace(seconds=median([ours.seconds, *again]))
        points = 100 * (ours.delivery - theirs.delivery)
        worst = max(worst, abs(points))
        rates = [o.receptions / max(o.seconds, 1e-9) for o in (ours, theirs)]
        smallest = min(smallest, rates[0] / rates[1])
        parts = (ours.receptions, ours.seconds, theirs.receptions, theirs.seconds)
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
        yield {
            f"{setting.key}_shoal_delivery_percent": 100 * ours.delivery,
            f"{setting.key}_ns3_delivery_percent": 100 * theirs.delivery,
            f"{setting.key}_difference_points": points,
            f"{setting.key}_shoal_receptions_per_cpu_second": rates[0],
            f"{setting.key}_ns3_receptions_per_cpu_second": rates[1],
        }
    yield {
        f"{name}_largest_difference_points": worst,
        f"{name}_ratio_of_receptions_per_cpu_second": sums[0] / sums[1] / (sums[2] / sums[3]),
        f"{name}_smallest_ratio_of_receptions_per_cpu_second": smallest,
    }


def _alone(quick: bool) -> Iterator[dict[str, float]]:
    """How fast the medium is."""
    setting = Setting(100, 20, 1.0)
    _shoal(*_counted(setting))  # the first run loads, or compiles, the channel
    rates = []
    for _ in range(1 if quick else 5):
        outcome = _shoal(*_counted(setting))
        rates.append(outcome.receptions / outcome.seconds)
    yield {"flood_of_100_nodes_receptions_per_cpu_second": median(rates)}
    seconds = 40.0 if quick else 400.0
    config = {
        "nodes": 1000,
        "duration": seconds,
        "topology": {"name": "air", "width": 3162.0, "height": 3162.0},
        "overlay": {"name": "beacons"},
        "routing": {"name": "broadcast", "horizon": 0},
        "workload": {"publish_rate": 0.0},
        "record": ["air"],
    }
    beacons = Simulation(parse_config(config))
    before = time.process_time()
    beacons.run()
    spent = time.process_time() - before
    frames = int(beacons.recorder.air()[:, 0].sum()) if beacons.recorder.air else 0
    yield {
        "radios_1000_simulated_seconds": seconds,
        "radios_1000_frames": float(frames),
        "radios_1000_cpu_seconds_for_400_s": spent * 400.0 / seconds,
    }


def _counted(setting: Setting) -> tuple[Simulation, Setting, int]:
    simulation, publications = _prepare(setting)
    return simulation, setting, len(publications)


def _prepare(setting: Setting) -> tuple[Simulation, list[tuple[float, int]]]:
    """A simulation in which all want all, and its publications."""
    chance = Chance(setting.seed, "radio benchmark")
    publications = [
        ((k + chance.uniform(k, 0)) / setting.load, chance.below(setting.nodes, k, 1))
        for k in range(int(setting.load * setting.duration))
    ]
    script: list[dict[str, Any]] = [
        {"at": 0.0, "node": node, "do": "subscribe", "patterns": [1]}
        for node in range(setting.nodes)
    ]
    script += [{"at": at, "node": n, "do": "publish", "patterns": [1]} for at, n in publications]
    config = {
        "nodes": setting.nodes,
        "seed": setting.seed,
        "duration": setting.duration,
        "topology": {
            "name": "air",
            "speed": setting.speed,
            "propagation": "path loss" if setting.free_space else "disc",
        },
        "routing": {"name": "air-flooding"},
        "workload": {"script": script, "own_events": False},
        "record": ["publications", "air"],
    }
    return Simulation(parse_config(config)), publications


def _shoal(simulation: Simulation, setting: Setting, events: int) -> Outcome:
    before = time.process_time()
    simulation.run()
    spent = time.process_time() - before
    reached = sum((p.owed & p.received).bit_count() for p in simulation.recorder.publications)
    assert simulation.recorder.air is not None
    receptions = int(simulation.recorder.air()[:, 2].sum())
    return Outcome(reached / (events * (setting.nodes - 1)), receptions, spent)


def _build(folder: Path) -> Path | None:
    """The ns-3 program; None, and a line that says why, where it cannot be built."""
    compiler = shutil.which("g++")
    if compiler is None or not Path("/usr/include/ns3/wifi-module.h").is_file():
        print("ns-3 is not installed (Debian: apt-get install g++ libns3-dev): measured without it")
        return None
    program = folder / "radio_ns3"
    source = Path(__file__).with_name("radio_ns3.cc")
    command = [compiler, "-O2", "-std=c++17", str(source), "-o", str(program)]
    command += [f"-lns3-{name}" for name in LIBRARIES]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        print(f"ns-3 does not build, measured without it: {built.stderr.strip()[:300]}")
        return None
    return program


def _ns3(
    program: Path, simulation: Simulation, setting: Setting, publications: list[tuple[float, int]]
) -> Outcome:
    """The same tracks and publications in ns-3."""
    until = setting.duration + REST
    lines = [f"{setting.nodes} {until} 200 2e6 200 0.01 {setting.seed} {setting.free_space:d}"]
    tracks: Any = simulation.topology
    for node in range(setting.nodes):
        points: list[tuple[float, float, float]] = []
        for point in tracks.tracks.points(node):
            if not points or (points[-1][0] < point[0] and points[-1][0] <= until):
                points.append(point)
        lines.append(str(len(points)))
        lines += [f"{at:.9f} {x:.6f} {y:.6f}" for at, x, y in points]
    lines.append(str(len(publications)))
    lines += [f"{at:.9f} {node}" for at, node in publications]
    text = "\n".join(lines) + "\n"
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    deliveries, receptions, _, seconds = done.stdout.split()
    share = int(deliveries) / (len(publications) * (setting.nodes - 1))
    return Outcome(share, int(receptions), float(seconds))
