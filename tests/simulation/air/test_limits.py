"""What a configuration may ask of radios, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from shoal.simulation import parse_config
from shoal.simulation.run import Simulation
from shoal.stack import StackError

ROUTING = {"air": "air-flooding", "air-tracks": "air-flooding"}


def simulated(topology: str, parameters: dict[str, Any], **config: Any) -> Simulation:
    config |= {
        "nodes": 3,
        "topology": {"name": topology, **parameters},
        "routing": {"name": ROUTING.get(topology, "semi-probabilistic")},
    }
    simulation = Simulation(parse_config(config))
    simulation.run()
    return simulation


@pytest.mark.parametrize("topology", ["air", "radio"])
def test_radios_move_for_as_long_as_a_run_takes(topology: str) -> None:
    near = {"width": 100.0, "height": 100.0, "pause": 100.0, "step": 10.0}
    script = [{"at": 0.0, "node": n, "do": "subscribe", "patterns": [1]} for n in range(3)]
    script.append({"at": 4000.0, "node": 0, "do": "publish", "patterns": [1]})
    simulation = simulated(topology, near, duration=4001.0, workload={"script": script})
    (event,) = simulation.recorder.publications
    assert event.owed & ~event.received == 0


def test_nothing_is_unwise_about_the_default_radios() -> None:
    config = parse_config({"topology": {"name": "air"}, "overlay": {"name": "witree"}})
    assert config.warnings() == []


@pytest.mark.parametrize("field", ["width", "height", "range", "slot", "preamble", "sifs"])
def test_lengths_and_times_too_short_to_compute_with_are_refused(field: str) -> None:
    with pytest.raises(StackError, match=field):
        simulated("air", {field: 5e-324}, duration=1.0)


@pytest.mark.parametrize("model", ["random waypoint", "random direction"])
@pytest.mark.parametrize("topology", ["air", "radio"])
def test_a_node_that_turns_all_the_time_is_refused(topology: str, model: str) -> None:
    restless = {"model": model, "speed": 1e5, "pause": 0.0, "width": 100.0, "height": 100.0}
    with pytest.raises(StackError, match="turns more than 20,000 times"):
        simulated(topology, restless, duration=1.0)


@pytest.mark.parametrize("topology", ["air-tracks", "tracks"])
@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("cut.csv.gz", gzip.compress(b"time,node,x,y\n0,1,2,3\n", mtime=0)[:-9], "ended before"),
        ("plain.csv.gz", b"time,node,x,y\n", "Not a gzipped file"),
        ("long.csv", b"time,node,x,y\n0,1,2," + b"3" * 140_000, "field larger"),
        ("binary.csv", b"\xff\x00\xfe", "can't decode"),
    ],
)
def test_a_recording_that_cannot_be_read_is_named(
    topology: str, name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(StackError, match=f"{name}.*: .*{why}"):
        simulated(topology, {"path": str(path)})


@pytest.mark.parametrize("topology", ["air-tracks", "tracks"])
def test_a_run_that_begins_after_the_recording_is_refused(topology: str, tmp_path: Path) -> None:
    path = tmp_path / "walk.csv"
    path.write_text("time,node,x,y\n" + "".join(f"{t},{n},0,0\n" for n in "abc" for t in (0, 9)))
    simulated(topology, {"path": str(path)}, duration=1.0)
    with pytest.raises(StackError, match=r"walk.csv ends at 9 s, before start, 10 s"):
        simulated(topology, {"path": str(path), "start": 10.0})
