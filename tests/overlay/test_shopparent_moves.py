"""ShopParent: a node that changes its parent under load loses no event by it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.simulation import parse_config, simulate

NODES = 20
START, END = 6.0, 20.0


def load(
    seed: int,
    routing: str,
    publishers: int,
    leaves: tuple[tuple[float, int], ...] = (),
    **overlay: Any,
) -> tuple[int, int, int]:
    """Deliveries owed, those made, and moves while events are on their way.

    Nodes find better parents as their samples of events grow. No recovery, slow links.
    """
    script: list[dict[str, Any]] = []
    staying = [node for node in range(NODES) if node not in {node for _, node in leaves}]
    for node in staying:
        kinds = {(node + 5 * k * k) % 12 for k in range(3)}
        filters = [f"kind = {kind}" for kind in sorted(kinds)]
        script.append({"at": 0.0, "node": node, "do": "subscribe", "filters": filters})
    count = 1400
    script += [
        {
            "at": START + (END - START - 1.0) * k / count,
            "node": k % publishers,
            "do": "publish",
            "attributes": {"kind": k % 12},
        }
        for k in range(count)
    ]
    tables = simulate(
        parse_config(
            {
                "nodes": NODES,
                "seed": seed,
                "duration": END,
                "topology": {"name": "full-mesh", "joining": 1.0, "leaves": leaves},
                "link": {"delay": 0.03},
                "overlay": {
                    "name": "shopparent",
                    "children": 3,
                    "period": 0.5,
                    "timeout": 1.8,
                    "hysteresis": 0.0,
                    "probes": 6,
                    "metric": "OVHD",
                    **overlay,
                },
                "routing": {"name": routing},
                "workload": {"script": script},
                "record": ["publications", "notes"],
            }
        )
    ).tables
    events = tables["publications"].to_pylist()
    moves = [
        note
        for note in tables["notes"].to_pylist()
        if note["what"] == "parent" and note["time"] > START and note["node"] in staying
    ]
    if leaves:
        assert all(note["peer"] >= 0 for note in moves)  # nobody is without a parent meanwhile
    return sum(e["owed"] for e in events), sum(e["received"] for e in events), len(moves)


@pytest.mark.parametrize("publishers", [1, NODES])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_event_is_lost_when_nodes_change_their_parents(seed: int, publishers: int) -> None:
    owed, made, moves = load(seed, "hierarchical-forwarding", publishers)
    assert moves > 20
    assert made == owed


def test_events_of_the_root_are_not_lost_where_subscriptions_lay_the_routes() -> None:
    owed, made, moves = load(3, "subscription-forwarding", 1)
    assert moves > 20
    assert made == owed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_event_is_lost_when_nodes_leave_one_after_the_other(seed: int) -> None:
    """Each leaves when the one before has gone: it waits for its children 1.8 s at most."""
    leaves = tuple((7.0 + 2.2 * k, k + 1) for k in range(5))
    owed, made, moves = load(seed, "hierarchical-forwarding", 1, leaves, metric="NHOP")
    assert moves > 5
    assert made == owed


@pytest.mark.parametrize("together", [3, 5])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_event_is_lost_when_nodes_are_stopped_together(seed: int, together: int) -> None:
    """All children of the root, and others: their places are free before they have gone."""
    leaves = tuple((8.0, node + 1) for node in range(together))
    owed, made, moves = load(seed, "hierarchical-forwarding", 1, leaves, metric="NHOP")
    assert moves > 5
    assert made == owed


def test_trees_built_afresh_have_no_place_for_failed_nodes() -> None:
    """0 - 1 - 2, and 3 beside 1: when 3 has failed, one tree is left, whoever builds it."""
    tables = simulate(
        parse_config(
            {
                "nodes": 4,
                "duration": 30.0,
                "topology": {
                    "name": "radio-range",
                    "range": 60.0,
                    "places": [[0, 0], [50, 0], [100, 0], [50, 50]],
                    "interests": {"given": [None, [0, 1], [1, 2], [5, 9]]},
                    "failures": [{"at": 10.0, "node": 3}],
                    "inspect": [29.0],
                },
                "overlay": {"name": "shopparent", "discovery": "radio", "overlap": "axis"},
                "routing": {"name": "hierarchical-forwarding"},
                "record": ["notes"],
            }
        )
    ).tables
    noted = {note["what"]: note["value"] for note in tables["notes"].to_pylist()}
    assert float(noted["whole"]) == 1.0
    assert float(noted["fresh overhead"]) == pytest.approx(float(noted["tree overhead"]))
