"""DPS among peers that come and go as those of a real network did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shared_data import shared
from shoal.simulation import parse_config, simulate
from shoal.simulation.churn_files import read_sessions

HOUR = 3600.0
SESSIONS = "data/ethereum-churn/sessions_2020-02-07_2020-03-27_bridged1.csv.gz"

PEERS = 60
DAYS = 72 * HOUR


def some_peers(path: Path) -> list[list[float]]:
    """The sessions, within three days, of the peers that came and went most."""
    sessions = [session for session in read_sessions(path) if session[1] < DAYS and session[2] > 0]
    often = Counter(session[0] for session in sessions).most_common(PEERS)
    numbers = {node: number for number, (node, _) in enumerate(often)}
    return [
        [numbers[node], max(0.0, start), min(end, DAYS)]
        for node, start, end in sessions
        if node in numbers
    ]


LEAST = 0.8
"""Section 5.2: what all approaches deliver at least, even when most nodes have failed."""


@pytest.mark.parametrize("communication", ["leader", "epidemic"])
def test_events_reach_ethereums_peers(communication: str) -> None:
    """Three days of recorded sessions; signs of life every few minutes, an event each half hour."""
    path = shared(SESSIONS)
    if path is None:
        pytest.skip(f"no {SESSIONS} beside the project")
    sessions = some_peers(path)
    config: dict[str, Any] = {
        "nodes": PEERS,
        "seed": 1,
        "duration": DAYS,
        "topology": {
            "name": "full-mesh",
            "joining": 600.0,
            "churn": {"model": "given", "sessions": sessions},
        },
        "routing": {
            "name": "dps",
            "communication": communication,
            "interval": [0.1 * HOUR, 0.25 * HOUR],
            "timeout": 60.0,
            "shuffle": 0.5 * HOUR,
        },
        "link": {"delay": 0.1, "bandwidth": 0.0},
        "record": ["reach", "notes"],
        "bin": HOUR,
        "workload": {
            "subscribe_window": [0.5 * HOUR, HOUR],
            "publish_window": [4 * HOUR, 71 * HOUR],
            "content": {
                "name": "dps2",
                "domain": 10,
                "subscriptions": 2,
                "event_every": 0.5 * HOUR,
            },
        },
    }
    tables = simulate(parse_config(config)).tables
    changes = [n["what"] for n in tables["notes"].to_pylist() if n["what"].startswith("node ")]
    assert changes.count("node up") > 100
    assert changes.count("node down") > 100
    reach = tables["reach"].to_pylist()
    owed = sum(row["owed"] for row in reach)
    assert owed > 500
    assert sum(row["received"] for row in reach) >= LEAST * owed
