"""Radios on recorded tracks and in a measured mesh; random waypoint in its steady state."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from shared_data import shared
from shoal.simulation import RunResult, parse_config, simulate
from shoal.simulation.mobility import Area, Tracks, random_waypoint
from shoal.simulation.run import Simulation
from shoal.stack import Chance, StackError

FLOOD: dict[str, Any] = {
    "routing": {"name": "air-flooding"},
    "workload": {"publish_rate": 1.0},
    "record": ["publications", "air"],
}


def run(topology: dict[str, Any], nodes: int, **more: Any) -> RunResult:
    return simulate(parse_config({"nodes": nodes, "topology": topology, **FLOOD, **more}))


def total(result: RunResult, column: str) -> int:
    return sum(result.tables["air"][column].to_pylist())


def tracks(folder: Path, *lines: str) -> dict[str, Any]:
    path = folder / "tracks.csv"
    path.write_text("\n".join(("time,id,x,y", *lines)) + "\n")
    return {"name": "air-tracks", "path": str(path), "range": 100.0}


def said(node: int, at: float) -> dict[str, Any]:
    return {"at": at, "node": node, "do": "publish", "patterns": [1]}


def test_nodes_hear_each_other_while_their_tracks_are_near_and_have_no_hole(tmp_path: Path) -> None:
    """b comes into the range of a after 5 s; it is away from 10 to 400 s, and back afterwards."""
    topology = tracks(
        tmp_path,
        "0,a,0,0",
        "250,a,0,0",
        "500,a,0,0",
        "0,b,150,0",
        "10,b,50,0",
        "400,b,50,0",
        "500,b,50,0",
    )
    listen = [{"at": 0.0, "node": 1, "do": "subscribe", "patterns": [1]}]
    script = [*listen, *(said(0, at) for at in (1.0, 4.8, 5.2, 9.0, 50.0, 399.0, 401.0))]
    result = run(topology, 2, duration=500.0, workload={"script": script})
    received = result.tables["publications"]["received"].to_pylist()
    assert received == [0, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("lines", "more", "words"),
    [
        (("0,a,0,0", "5,a,nan,0"), {}, "line 3"),
        (("0,a,0,0", "x,a,1,0"), {}, "line 3"),
        (("0,a,0,0", "9,a,900,0", "0,b,0,0"), {"area": [0, 0, 800, 800]}, "outside the area"),
        (("0,a,0,0", "9,a,1,0"), {}, "has 1 nodes, not 2; set nodes = 1"),
        (("0,a,0,0", "9,a,1,0"), {"range": 0}, "range: expected `float` >= 0.001"),
    ],
)
def test_bad_tracks_are_refused_by_name(
    tmp_path: Path, lines: tuple[str, ...], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(StackError, match=words):
        run({**tracks(tmp_path, *lines), **more}, 2)


def test_time_that_goes_back_is_put_in_order_or_refused(tmp_path: Path) -> None:
    """Positions of several receivers come in any order; a walk of BonnMotion does not."""
    order = ["0,a,0,0", "10,a,0,0", "0,b,150,0", "4,b,50,0", "10,b,50,0"]
    script = [{"at": 0.0, "node": 1, "do": "subscribe", "patterns": [1]}, said(0, 6.0)]
    results = [
        run(tracks(tmp_path, *lines), 2, duration=9.0, workload={"script": script})
        for lines in (order, [order[k] for k in (0, 1, 2, 4, 3)])
    ]
    assert results[0].fingerprint == results[1].fingerprint
    assert results[0].tables["publications"]["received"].to_pylist() == [1]
    path = tmp_path / "walk.bm"
    path.write_text("0 1 1 5 2 2 3 4 4\n")
    with pytest.raises(StackError, match="line 1"):
        run({"name": "air-tracks", "path": str(path), "format": "bonnmotion"}, 1)


def test_a_mesh_loses_frames_as_was_measured(tmp_path: Path) -> None:
    links = [{"source": "a", "target": "b", "source_tq": 0.7, "target_tq": 0.2}]
    path = tmp_path / "mesh.json"
    path.write_text(json.dumps({"nodes": [], "links": links}))
    script = [{"at": 0.0, "node": n, "do": "subscribe", "patterns": [1]} for n in (0, 1)]
    script += [said(k % 2, 0.1 + 0.05 * k) for k in range(2000)]
    workload = {"script": script, "own_events": False}
    mesh = {"name": "air-mesh", "path": str(path)}
    result = run(mesh, 2, duration=101.0, workload=workload)
    rows = result.tables["publications"].to_pylist()
    shares = [
        sum(row["received"] for row in rows if row["publisher"] == node) / 1000 for node in (0, 1)
    ]
    assert shares == pytest.approx([0.7, 0.2], abs=0.06)
    assert total(result, "faded") + total(result, "receptions") == total(result, "frames")
    with pytest.raises(StackError, match="has 2 nodes, not 3"):
        run(mesh, 3)


def test_real_flights_and_a_real_mesh_on_the_air() -> None:
    flights = shared("data/adsb-flights/switzerland.csv.gz")
    mesh = shared("data/freifunk-mesh/freifunk-leipzig.json")
    if flights is None or mesh is None:
        pytest.skip("no shared data beside the project")
    sky = {"name": "air-tracks", "path": str(flights), "range": 100_000.0, "step": 1.0}
    result = run({**sky, "start": 18_000.0, "stay": 60.0}, 25, duration=20.0)
    rows = result.tables["publications"].to_pylist()
    assert sum(row["received"] for row in rows) > 0.8 * sum(row["owed"] for row in rows)
    assert total(result, "collisions") > 0
    ground = run({"name": "air-mesh", "path": str(mesh)}, 210, duration=2.0)
    assert total(ground, "faded") > 0
    assert total(ground, "receptions") > 0


def test_random_waypoint_begins_as_it_goes_on() -> None:
    """Shares of nodes at rest, and their distance from the middle, do not drift."""
    area = Area(1000.0, 1000.0)
    speeds, pause = (1.0, 20.0), 40.0
    chance = Chance(0, "test")
    walks = Tracks(
        [random_waypoint(area, speeds, pause, 900.0, chance, n, True) for n in range(1500)]
    )
    seen = []
    for at in (0.0, 300.0, 600.0):
        now, later = walks.at(at), walks.at(at + 0.5)
        resting = float(((now - later) ** 2).sum(axis=1).__lt__(1e-12).mean())
        middle = float((((now - 500.0) ** 2).sum(axis=1) ** 0.5).mean())
        seen.append((resting, middle))
    mean = 521.4 * math.log(20.0) / 19.0  # seconds on the way: mean distance x mean slowness
    for resting, middle in seen:
        assert resting == pytest.approx(pause / (pause + mean), abs=0.05)
        assert middle == pytest.approx(seen[1][1], rel=0.05)


def test_a_placement_can_be_made_to_be_connected() -> None:
    config = {"nodes": 15, "topology": {"name": "air", "connected": True, "width": 600.0}, **FLOOD}
    simulation = Simulation(parse_config(config))
    from shoal.simulation.mobility import links_within
    from shoal.simulation.topology import connected

    topology: Any = simulation.topology
    assert connected(15, links_within(topology.tracks.at(0.0), 200.0))
