"""What subscriber-based pull can reach at all: its digests go only where events of the filter go.

A digest for a pattern travels between those who want the pattern. So a lost event can be had if
somebody on these ways holds it: its publisher, or a node that got it. The ceiling is computed from
the tree, the subscriptions and what routing delivered; recovered events may lie only below it.
"""

from __future__ import annotations

from typing import Any

from test_recoveries import config, recovery_of, run

from shoal.content import Pattern, Patterns
from shoal.experiments.recovery import EXPERIMENTS
from shoal.simulation.run import Simulation
from shoal.simulation.topology import adjacency, tree_path


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


Pairs = set[tuple[int, int, int]]
"""(publisher, sequence number, subscriber)."""


def outcome(simulation: Simulation) -> tuple[Pairs, Pairs, Pairs]:
    """What is owed; what of all there is digests can reach; and what was recovered."""
    ways = between(simulation)
    rows = simulation.recorder.deliveries
    routed: dict[tuple[int, int], set[int]] = {}
    recovered: Pairs = set()
    for at in range(0, len(rows), 7):
        publisher, sequence, node, _, _, _, again = rows[at : at + 7]
        if again:
            recovered.add((publisher, sequence, node))
        else:
            routed.setdefault((publisher, sequence), set()).add(node)
    owed: Pairs = set()
    can: Pairs = set()
    for record in simulation.recorder.publications:
        key = (record.publisher, record.sequence)
        kept = recovery_of(simulation, record.publisher).buffer.get(key)
        assert kept is not None
        assert isinstance(kept.event.content, Patterns)
        holders = {record.publisher} | routed.get(key, set())
        there = reachable(set(kept.event.content.numbers), holders, ways)
        owed |= {(*key, node) for node in range(20) if record.owed >> node & 1}
        can |= {(*key, node) for node in there}
    return owed, can, recovered


def delivered(simulation: Simulation) -> Pairs:
    return {
        (record.publisher, record.sequence, node)
        for record in simulation.recorder.publications
        for node in range(20)
        if record.received >> node & 1
    }


def test_subscriber_based_pull_reaches_what_it_can_and_no_more() -> None:
    raw: dict[str, Any] = config(EXPERIMENTS[0].variants["subscriber"]["recovery"])
    simulation = run(raw)
    owed, can, recovered = outcome(simulation)
    assert recovered <= can
    assert not owed <= can
    assert len(owed & can & delivered(simulation)) > 0.95 * len(owed & can)


def test_with_comparing_all_that_digests_can_reach_is_delivered() -> None:
    """And what is beyond their reach is found by comparing only, at times too late."""
    simulation = run(config({"name": "subscriber-pull"}))
    owed, can, _ = outcome(simulation)
    assert owed & can <= delivered(simulation)
