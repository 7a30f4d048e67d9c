"""The variant for radio: who transmits an event again, and what a transmission costs."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.simulation.config import parse_config
from shoal.simulation.run import Simulation, simulate
from shoal.stack import StackError

LINE = "0 CONN 0 1 up\n0 CONN 1 2 up\n0 CONN 2 3 up\n"
"""0 - 1 - 2 - 3"""


def run(
    tmp_path: Any, script: list[dict[str, Any]], links: str = LINE, **routing: Any
) -> Simulation:
    path = tmp_path / "contacts.txt"
    path.write_text(links, encoding="utf-8")
    raw = {
        "nodes": 4,
        "duration": 4.0,
        "topology": {"name": "contacts", "path": str(path)},
        "routing": {"name": "broadcast", **routing},
        "link": {"bandwidth": 0},
        "workload": {"script": script},
        "record": ["publications", "traffic"],
    }
    simulation = Simulation(parse_config(raw))
    simulation.run()
    return simulation


def act(at: float, node: int, do: str) -> dict[str, Any]:
    return {"at": at, "node": node, "do": do, "patterns": [1]}


def counts(simulation: Simulation) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in simulation.recorder.traffic:
        found[row[0]] = found.get(row[0], 0) + row[2]
    return found


def received(simulation: Simulation) -> list[int]:
    return [record.received for record in simulation.recorder.publications]


def test_flooding_takes_one_message_per_node(tmp_path: Any) -> None:
    found = run(tmp_path, [act(1.0, 0, "publish")], horizon=0, threshold=1.0)
    assert counts(found) == {"event": 4}


def test_known_subscribers_are_served_whatever_the_threshold(tmp_path: Any) -> None:
    script = [act(0.5, 3, "subscribe"), act(1.0, 0, "publish")]
    found = run(tmp_path, script, horizon=3, threshold=1e-9)
    assert received(found) == [1 << 3]
    # The subscriber has nobody beyond it, so three transmit.
    assert counts(found)["event"] == 3


def test_beyond_the_horizon_chance_decides(tmp_path: Any) -> None:
    script = [act(0.5, 3, "subscribe"), act(1.0, 0, "publish")]
    found = run(tmp_path, script, horizon=1, threshold=1e-9)
    assert received(found) == [0]
    assert counts(found)["event"] == 1


def test_echoes_of_a_subscription_die_out_when_it_ends(tmp_path: Any) -> None:
    script = [act(0.5, 3, "subscribe"), act(1.0, 3, "unsubscribe"), act(2.0, 0, "publish")]
    found = run(tmp_path, script, horizon=3, threshold=1e-9)
    for node in found.network.nodes:
        assert node is not None
        assert node.routing.table.entries() == {}  # type: ignore[attr-defined]  # a broadcast's
    assert counts(found)["event"] == 1


def test_a_vanished_link_takes_its_subscriptions_along(tmp_path: Any) -> None:
    script = [act(0.5, 3, "subscribe"), act(2.0, 0, "publish")]
    found = run(tmp_path, script, LINE + "1 CONN 2 3 down\n", horizon=3, threshold=1e-9)
    assert counts(found)["event"] == 1
    assert received(found) == [0]


def test_a_new_neighbour_hears_what_there_is(tmp_path: Any) -> None:
    links = "0 CONN 0 1 up\n0 CONN 2 3 up\n1 CONN 1 2 up\n"
    script = [act(0.5, 3, "subscribe"), act(2.0, 0, "publish")]
    found = run(tmp_path, script, links, horizon=3, threshold=1e-9)
    assert received(found) == [1 << 3]


def test_it_has_no_rule_on_arrays() -> None:
    raw = {
        "topology": {"name": "static-graph", "degree": 3},
        "routing": {"name": "broadcast"},
        "data_plane": "arrays",
    }
    with pytest.raises(StackError, match="no rule on arrays"):
        simulate(parse_config(raw))


@pytest.mark.parametrize(("key", "value"), [("threshold", 1.1), ("horizon", -1)])
def test_parameters_out_of_range(key: str, value: float) -> None:
    raw = {"topology": {"name": "static-graph"}, "routing": {"name": "broadcast", key: value}}
    with pytest.raises(StackError, match=key):
        parse_config(raw)
