"""The topology of a settled hash table: links are always those that the hosts' keys give."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.overlay.reference_tree import ReferenceTree
from shoal.simulation import parse_config, simulate
from shoal.simulation.reference import ReferenceNetwork, parents_of
from shoal.simulation.run import Simulation
from shoal.stack import LOCAL, StackError


def config(nodes: int, **topology: Any) -> Any:
    return parse_config(
        {
            "nodes": nodes,
            "duration": 20.0,
            "topology": {"name": "reference-tree", "levels": 5, **topology},
            "routing": {"name": "subscription-forwarding"},
            "reconfiguration": {"name": "timed"},
            "workload": {"publish_rate": 0.5, "patterns": 12},
            "record": ["links", "publications"],
        }
    )


def test_the_parents_of_the_thesis_example() -> None:
    hosts = {key: key for key in (4, 5, 9, 11, 15)}
    expected = {9: LOCAL, 4: 9, 5: 4, 15: 9, 11: 15}
    assert parents_of(ReferenceTree(2, 4), hosts) == expected


@pytest.mark.parametrize("fan_out", [2, 4])
def test_tables_follow_while_hosts_come_and_go(fan_out: int) -> None:
    result = simulate(config(25, fan_out=fan_out, hosts=15, swaps=15))
    assert result.canonical
    changes = result.tables["links"].to_pylist()
    assert {row["change"] for row in changes} == {"up", "down"}


def test_a_run_is_the_same_every_time() -> None:
    raw = config(25, hosts=15, swaps=5)
    assert simulate(raw).fingerprint == simulate(raw).fingerprint


def test_the_last_host_stays() -> None:
    simulation = Simulation(
        config(2, changes=[{"at": 1, "node": n, "do": "leave"} for n in (0, 1)])
    )
    simulation.run()
    topology = simulation.topology
    assert isinstance(topology, ReferenceNetwork)
    assert list(topology.present) == [1]
    assert topology.links == []


@pytest.mark.parametrize(
    ("nodes", "topology", "said"),
    [
        (40, {}, "40 hosts cannot sit at 31 keys; raise levels"),
        (3, {"positions": [1, 2]}, "3 different keys from 1 to 31"),
        (2, {"positions": [7, 7]}, "2 different keys"),
        (2, {"positions": [0, 40]}, "from 1 to 31"),
        (3, {"hosts": 4}, "4 hosts cannot be among 3 nodes; lower hosts"),
        (3, {"swaps": 1}, "only if some are away; lower hosts"),
        (3, {"changes": [{"at": 0, "node": 3, "do": "join"}]}, "there is no node 3"),
    ],
)
def test_what_cannot_be_is_refused(nodes: int, topology: dict[str, Any], said: str) -> None:
    with pytest.raises(StackError, match=said):
        Simulation(config(nodes, **topology))
