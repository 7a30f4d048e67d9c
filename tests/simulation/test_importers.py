"""Recorded movement, contacts and meshes: read right, and refused with the line that is wrong."""

from __future__ import annotations

import gzip
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shared_data import shared
from shoal.simulation.config import parse_config
from shoal.simulation.importers import (
    read_bonnmotion,
    read_contacts,
    read_mesh,
    read_ns2,
    read_positions,
)
from shoal.simulation.mobility import Area, Tracks, links_within, random_direction, random_waypoint
from shoal.simulation.run import Simulation, simulate
from shoal.stack import Chance, StackError


def write(folder: Path, text: str, name: str = "file") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_bonnmotion(tmp_path: Path) -> None:
    tracks = Tracks(read_bonnmotion(write(tmp_path, "0 0 0 10 100 0\n0 5 5\n")))
    assert tracks.at(5.0).tolist() == [[50.0, 0.0], [5.0, 5.0]]
    assert tracks.at(99.0).tolist() == [[100.0, 0.0], [5.0, 5.0]]


def test_ns2_a_new_destination_replaces_one_not_reached(tmp_path: Path) -> None:
    text = """
    $node_(0) set X_ 0.0
    $node_(0) set Y_ 0.0
    $node_(0) set Z_ 0.0
    $god_ set-dist 0 1 2
    $ns_ at 1.0 "$node_(0) setdest 100.0 0.0 10.0"
    $ns_ at 6.0 "$node_(0) setdest 50.0 40.0 10.0"
    """
    tracks = Tracks(read_ns2(write(tmp_path, text)))
    assert tracks.at(0.5).tolist() == [[0.0, 0.0]]
    assert tracks.at(6.0).tolist() == [[50.0, 0.0]]
    assert tracks.at(8.0).tolist() == [[50.0, 20.0]]
    assert tracks.at(60.0).tolist() == [[50.0, 40.0]]


def test_positions_are_projected_and_nodes_absent_when_not_heard(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.gz"
    rows = [
        "timestamp,icao24,latitude,longitude",
        "2018-08-01 05:00:00+00:00,a,47.0,8.0",
        "2018-08-01 05:01:00+00:00,a,47.1,8.0",
        "2018-08-01 05:00:00+00:00,b,47.0,8.1",
        "2018-08-01 05:30:00+00:00,b,47.0,8.1",
    ]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(rows))
    tracks = Tracks(read_positions(path))
    start, later = tracks.at(0.0), tracks.at(60.0)
    assert math.dist(start[0], later[0]) == pytest.approx(11_119, rel=0.001)
    assert math.dist(start[0], start[1]) == pytest.approx(7_582, rel=0.005)
    assert math.isnan(tracks.at(61.0)[0, 0])  # after its last position
    assert math.isnan(tracks.at(900.0)[1, 0])  # nothing heard for half an hour
    assert tracks.at(1800.0)[1].tolist() == start[1].tolist()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut-short.gz", gzip.compress(b"0 0 0 10 100 0\n")[:-9]),
        ("not-zipped.gz", b"0 0 0 10 100 0\n"),
        ("garbled.gz", gzip.compress(b"0 0 0\n")[:10] + b"\xff" * 20),
        ("not-text", b"\xff\xfe\x00"),
    ],
    ids=["cut short", "not zipped", "garbled", "not text"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(StackError, match=rf"{name}: .*; give a file that can be read"):
        read_bonnmotion(tmp_path / name)


def test_contacts(tmp_path: Path) -> None:
    contacts, nodes = read_contacts(write(tmp_path, "1.5 CONN p3 p1 up\n9 CONN p1 p3 down\n"))
    assert nodes == 2
    assert [tuple(c) for c in contacts] == [(1.5, 0, 1, True), (9.0, 0, 1, False)]


def test_mesh(tmp_path: Path) -> None:
    link = {"source": "x", "target": "y", "source_tq": 0.5, "target_tq": 1.0, "type": "wifi"}
    links, nodes = read_mesh(write(tmp_path, json.dumps({"nodes": [], "links": [link]})))
    assert (nodes, [tuple(x) for x in links]) == (2, [(0, 1, 0.5, 1.0)])


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        (read_bonnmotion, "0 0 0\n0 1\n", "line 2: expected triples"),
        (read_bonnmotion, "0 0 0 5 1 1 3 2 2\n", "line 1: expected triples .* in order of time"),
        (read_ns2, "$node_(0) set X_ 0\n$node_(0) jumps\n", "line 2: expected '\\$node_"),
        (read_ns2, "$node_(0) set X_ 0\n", "node 0 has no start"),
        (read_positions, "time,id\n1,a\n", "line 1: expected columns"),
        (read_positions, "time,id,x,y\n1,a,1,1\n2,a,north,1\n", "line 3: expected a time"),
        (read_positions, "time,id,latitude,longitude\n1,a,95,1\n", "line 2: expected a position"),
        (read_contacts, "1 CONN a b up\n2 CONN a b sideways\n", "line 2: expected 'time CONN"),
        (read_contacts, "2 CONN a b up\n1 CONN a b down\n", "line 2: .* in order of time"),
        (read_mesh, '{"links": [{"source": "x"}]}', "link 0: expected source, target"),
        (read_mesh, "{", "line 1: expected JSON"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, reader: Any, text: str, words: str) -> None:
    with pytest.raises(StackError, match=words):
        reader(write(tmp_path, text))


def test_a_missing_file_and_too_few_nodes_are_told(tmp_path: Path) -> None:
    path = str(write(tmp_path, "0 0 0\n0 5 5\n"))

    def config(file: str, **more: Any) -> Any:
        topology = {"name": "tracks", "path": file, "format": "bonnmotion", **more}
        return parse_config({"nodes": 3, "topology": topology, "routing": {"name": "flooding"}})

    with pytest.raises(StackError, match="No such file"):
        Simulation(config(path + "x"))
    with pytest.raises(StackError, match="has 2 nodes, not 3"):
        Simulation(config(path))
    outside = str(write(tmp_path, "0 0 0\n0 5 5\n0 9 9\n", "outside"))
    with pytest.raises(StackError, match=r"node 2 at \(9, 9\) at 0 s, outside the area"):
        Simulation(config(outside, area=(0, 0, 8, 8)))


# Random movement


def test_random_direction_goes_from_edge_to_edge_at_constant_speed() -> None:
    area = Area(100.0, 50.0)
    track = random_direction(area, 2.0, 0.0, 1000.0, Chance(1, "test"), 0)
    assert track[-1][0] >= 1000.0
    for a, b in pairwise(track):
        assert math.dist(a[1:], b[1:]) == pytest.approx(2.0 * (b[0] - a[0]), abs=1e-6)
        assert 0 <= b[1] <= 100
        assert 0 <= b[2] <= 50
        assert min(b[1], 100 - b[1], b[2], 50 - b[2]) == pytest.approx(0, abs=1e-6)


def test_random_waypoint_stays_inside_and_keeps_its_speeds() -> None:
    track = random_waypoint(Area(100.0, 50.0), (1.0, 3.0), 5.0, 1000.0, Chance(1, "test"), 0)
    for a, b in pairwise(track):
        way, time = math.dist(a[1:], b[1:]), b[0] - a[0]
        assert way == 0.0 or 1.0 <= way / time <= 3.0
        assert 0 <= b[1] <= 100
        assert 0 <= b[2] <= 50


def test_links_are_the_pairs_within_reach() -> None:
    tracks = [random_waypoint(Area(10, 10), (1, 1), 0, 9, Chance(3, "t"), n) for n in range(60)]
    positions = Tracks(tracks).at(4.0)
    expected = {
        (a, b)
        for a in range(60)
        for b in range(a + 1, 60)
        if math.dist(positions[a], positions[b]) <= 2.0
    }
    assert links_within(positions, 2.0) == expected


# Whole runs

WORKLOAD = {"publish_rate": 3.0, "subscribers": 1.0, "own_events": False}


def test_radios_that_cannot_be_connected_are_refused() -> None:
    topology = {"name": "radio", "reach": 10.0}
    config = {"nodes": 20, "topology": topology, "routing": {"name": "flooding"}}
    with pytest.raises(StackError, match="none of 1000 placements of 20 nodes is connected"):
        Simulation(parse_config(config))


def both(config: dict[str, Any]) -> Any:
    """Objects and arrays agree here, too."""
    record = ["publications", "traffic", "links", "routes"]
    runs = [
        simulate(parse_config({**config, "record": record, "data_plane": plane}))
        for plane in ("objects", "arrays")
    ]
    assert runs[0].fingerprint == runs[1].fingerprint
    assert runs[0].lost == runs[1].lost
    return runs[0]


def test_moving_radios_change_links_and_objects_agree_with_arrays() -> None:
    topology = {"name": "radio", "width": 600.0, "height": 600.0, "speed": 40.0}
    routing = {"name": "semi-probabilistic", "horizon": 2, "threshold": 0.5, "leaf_rule": True}
    run = both(
        {
            "nodes": 40,
            "duration": 4.0,
            "topology": topology,
            "routing": routing,
            "workload": WORKLOAD,
        }
    )
    changes = run.tables["links"].column("change").to_pylist()
    assert "down" in changes


def test_lossy_links_lose_events_and_nothing_else(tmp_path: Path) -> None:
    links = [
        {"source": str(a), "target": str((a + step) % 30), "source_tq": 0.6, "target_tq": 0.9}
        for a in range(30)
        for step in (1, 2)
    ]
    path = write(tmp_path, json.dumps({"nodes": [], "links": links}))
    for routing in ({"name": "flooding"}, {"name": "semi-probabilistic", "horizon": 2}):
        config: dict[str, Any] = {
            "nodes": 30,
            "duration": 3.0,
            "topology": {"name": "mesh", "path": str(path)},
            "routing": routing,
            "workload": WORKLOAD,
        }
        run = both(config)
        assert run.lost > 0
        config["topology"] = {"name": "mesh", "path": str(path), "lossy": False}
        assert both(config).lost == 0


def test_real_flights_and_a_real_mesh() -> None:
    flights = shared("data/adsb-flights/switzerland.csv.gz")
    mesh = shared("data/freifunk-mesh/freifunk-leipzig.json")
    if flights is None or mesh is None:
        pytest.skip("no shared data beside the project")
    topology: dict[str, Any] = {
        "name": "tracks",
        "path": str(flights),
        "reach": 100_000.0,
        "step": 10.0,
        "start": 18_000.0,
        "stay": 60.0,
    }
    flooding = {"routing": {"name": "flooding"}, "workload": WORKLOAD}
    with pytest.raises(StackError, match="set nodes = ") as error:
        simulate(parse_config({"nodes": 900, "topology": topology, **flooding}))
    nodes = int(str(error.value).rpartition("= ")[2])
    assert 10 <= nodes <= 48  # at most so many are in the air at once
    air = simulate(
        parse_config({"nodes": nodes, "duration": 60.0, "topology": topology, **flooding})
    )
    rows = air.tables["publications"].to_pylist()
    assert sum(row["received"] for row in rows) >= 0.99 * sum(row["reachable"] for row in rows)
    topology = {"name": "mesh", "path": str(mesh)}
    ground = simulate(
        parse_config({"nodes": 210, "duration": 2.0, "topology": topology, **flooding})
    )
    assert ground.lost > 0
