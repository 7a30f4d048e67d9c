"""Floods: the channel passes events on by itself exactly as the nodes' objects do."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.simulation import RunResult, parse_config, simulate
from shoal.stack import StackError

PLACES = [[0.0, 0.0], [150.0, 0.0], [300.0, 0.0], [450.0, 0.0]]


def run(plane: str, nodes: int = 25, seed: int = 0, **more: Any) -> RunResult:
    """A flood over moving radios."""
    config = {
        "nodes": nodes,
        "seed": seed,
        "duration": 3.0,
        "data_plane": plane,
        "topology": {"name": "air", "width": 600.0, "height": 600.0, **more.pop("topology", {})},
        "routing": {"name": "air-flooding"},
        "workload": {"publish_rate": 2.0, **more.pop("workload", {})},
        "record": ["publications", "traffic", "air"],
        **more,
    }
    return simulate(parse_config(config))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"seed": 1, "topology": {"rate": 1e6, "capture": "off", "joining": 1.0}},
        {"seed": 2, "topology": {"propagation": "path loss", "fading": "rayleigh"}},
        {"seed": 3, "topology": {"propagation": "path loss", "capture": "strongest", "rate": 11e6}},
        {"seed": 4, "workload": {"publish_rate": 20.0}, "topology": {"queue": 3}},
        {"seed": 5, "topology": {"lifetime": 0.003, "eifs": False, "model": "still"}},
        {"nodes": 80, "seed": 6, "topology": {"range": 600.0}},
        {"seed": 7, "workload": {"churn_rate": 5.0, "churn_window": [0.0, 3.0]}},
    ],
)
def test_channel_and_objects_flood_alike(more: dict[str, Any]) -> None:
    objects, arrays = run("objects", **dict(more)), run("arrays", **dict(more))
    assert arrays.fingerprint == objects.fingerprint
    for name, table in objects.tables.items():
        columns = [c for c in table.column_names if c != "run_id"]
        assert arrays.tables[name].select(columns).equals(table.select(columns)), name


def test_a_flood_crosses_a_chain_hop_by_hop() -> None:
    result = run(
        "objects",
        nodes=4,
        topology={"places": PLACES},
        workload={
            "script": [
                {"at": 0.0, "node": 3, "do": "subscribe", "filters": ["x > 1"]},
                {"at": 1.0, "node": 0, "do": "publish", "attributes": {"x": 2}},
            ]
        },
        record=["publications", "deliveries", "air"],
    )
    assert result.tables["deliveries"]["hops"].to_pylist() == [3]
    assert sum(result.tables["air"]["frames"].to_pylist()) == 4


def test_what_needs_objects_is_said() -> None:
    with pytest.raises(StackError, match="deliveries are written down by objects"):
        run("arrays", record=["deliveries"])
    with pytest.raises(StackError, match="needs no links, so there can be no overlay"):
        run("auto", overlay={"name": "given"})


def test_runs_replay_from_their_seed() -> None:
    assert run("auto").fingerprint == run("auto").fingerprint != run("auto", seed=9).fingerprint


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"rate": 0}, "rate: expected `float` > 0"),
        ({"rate": 3e6}, "3e\\+06 bit/s is no rate of 802.11b; one of: 1e\\+06"),
        ({"range": float("nan")}, "range: expected `float` >= 0.001"),
        ({"range": float("inf")}, "range"),
        ({"range": -1}, "range: expected `float` >= 0.001"),
        ({"places": [[0, 0], [700, 0]]}, "node 1 is at \\(700, 0\\), outside the area"),
        ({"places": [[0, 0], [0, float("nan")]]}, "node 1 is at \\(0, nan\\), outside"),
        ({"places": [[0, 0]]}, "there are 1 places for 2 nodes"),
        ({"event_bytes": 3000}, "event_bytes: 3000 is more than largest_frame, 2304"),
        ({"window": 63, "largest_window": 31}, "largest_window: 31 is smaller than window"),
        ({"fading": "rayleigh"}, "a disc has none"),
        ({"slowest": 5.0}, "slowest, 5, is more than speed, 1"),
        ({"connected": True, "range": 1.0}, "none of 1000 placements of 2 nodes is connected"),
        ({"speed": float("nan")}, "speed"),
        ({"slot": float("nan")}, "slot"),
        ({"jitter": 1}, "has no parameter 'jitter'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(topology: dict[str, Any], words: str) -> None:
    with pytest.raises(StackError, match=words):
        run("auto", nodes=2, topology=topology)
