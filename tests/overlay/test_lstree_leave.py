"""LSTree: a node that leaves under load hands over its children, and no event is lost by it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.simulation import parse_config, simulate

NODES = 24
START, EVERY, LEAVES = 6.0, 1.5, 10
END = START + EVERY * (LEAVES + 2)


def load(seed: int, **stack: Any) -> tuple[int, int, list[dict[str, Any]]]:
    """Deliveries owed and made, and the notes, while nodes leave one after the other.

    Those that leave neither publish nor want anything, as a broker whose clients have moved.
    """
    going = range(LEAVES)
    staying = range(LEAVES, NODES)
    script: list[dict[str, Any]] = []
    for node in staying:
        filters = [f"kind = {(node + 5 * k * k) % 12}" for k in range(3)]
        script.append({"at": 0.0, "node": node, "do": "subscribe", "filters": filters})
    count = 3000
    script += [
        {
            "at": START - 1.0 + (END - START) * k / count,
            "node": staying[k % len(staying)],
            "do": "publish",
            "attributes": {"kind": k % 12},
        }
        for k in range(count)
    ]
    config = {
        "nodes": NODES,
        "seed": seed,
        "duration": END,
        "topology": {
            "name": "full-mesh",
            "joining": 1.0,
            "leaves": [[START + EVERY * at, node] for at, node in enumerate(going)],
        },
        "link": {"delay": 0.03},
        "overlay": {"name": "lstree"},
        "routing": {"name": "subscription-forwarding"},
        "reconfiguration": {"name": "timed"},
        "workload": {"script": script},
        "record": ["publications", "notes", "links"],
        **stack,
    }
    tables = simulate(parse_config(config)).tables
    published = tables["publications"].to_pylist()
    owed = sum(row["owed"] for row in published)
    made = sum(row["received"] for row in published)
    return owed, made, tables["notes"].to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_nodes_that_leave_one_by_one_lose_no_event(seed: int) -> None:
    owed, made, notes = load(seed)
    assert owed > 5000
    assert made == owed
    what = [note["value"].split()[0] for note in notes if note["what"] == "attached"]
    assert what.count("leave") >= LEAVES // 2, "children were handed over"
    assert "lost" not in what, "and nobody was an orphan"
