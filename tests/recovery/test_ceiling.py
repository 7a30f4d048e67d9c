"""What subscriber-based pull can reach at all: its digests go only where events of the filter go.

A digest for a pattern travels between those who want the pattern. So a lost event can be had if
somebody on these ways holds it: its publisher, or a node that got it. The ceiling is computed from
the tree, the subscriptions and what routing delivered; recovered events may lie only below it.
"""

from __future__ import annotations

from typing import Any

from test_recoveries import config, recovery_of, run

from shoal.content import Pattern, Patterns
from shoal.simulation.run import Simulation
from shoal.simulation.topology import adjacency, tree_path

AS_PUBLISHED = {"adaptive": False, "compare": 0, "share": 1.0, "rate": 10**9, "reply_rate": 10**9}


def between(simulation: Simulation) -> dict[int, set[int]]:
    """Per pattern, the nodes on the ways between those who want it."""
    links = adjacency(len(simulation.network.nodes), simulation.topology.links)
    wanting: dict[int, list[int]] = {}
    for name, node in enumerate(simulation.network.nodes):
        assert node is not None
        for filter in node.routing.filters():
            assert isinstance(filter, Pattern)
            wanting.setdefault(filter.number, []).append(name)
    return {
        pattern: {node for other in nodes for node in tree_path(links, nodes[0], other)}
        for pattern, nodes in wanting.items()
    }


def reachable(patterns: set[int], holders: set[int], ways: dict[int, set[int]]) -> set[int]:
    """All who can get an event that matches some patterns, whoever asks first."""
    found = set(holders)
    while True:
        more = set().union(*(ways[p] for p in patterns if p in ways and ways[p] & found))
        if more <= found:
            return found
        found |= more


def test_subscriber_based_pull_reaches_what_it_can_and_no_more() -> None:
    raw: dict[str, Any] = config({"name": "subscriber-pull", **AS_PUBLISHED})
    simulation = run(raw)
    ways = between(simulation)
    rows = simulation.recorder.deliveries
    routed: dict[tuple[int, int], set[int]] = {}
    recovered: dict[tuple[int, int], set[int]] = {}
    for at in range(0, len(rows), 7):
        publisher, sequence, node, _, _, _, again = rows[at : at + 7]
        kind = recovered if again else routed
        kind.setdefault((publisher, sequence), set()).add(node)
    owed = can = did = 0
    for record in simulation.recorder.publications:
        key = (record.publisher, record.sequence)
        kept = recovery_of(simulation, record.publisher).buffer.get(key)
        assert kept is not None
        assert isinstance(kept.event.content, Patterns)
        holders = {record.publisher} | routed.get(key, set())
        there = reachable(set(kept.event.content.numbers), holders, ways)
        assert recovered.get(key, set()) <= there
        wanted = {node for node in range(20) if record.owed >> node & 1}
        owed += len(wanted)
        can += len(wanted & there)
        did += len(wanted & (routed.get(key, set()) | recovered.get(key, set())))
    assert did <= can < owed
    assert did > 0.95 * can
