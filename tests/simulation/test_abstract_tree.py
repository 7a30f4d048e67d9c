"""The thesis's abstract topology: a tree at every instant (Frey, section 7.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.simulation import Simulation, parse_config
from shoal.simulation.topology import adjacency, connected, tree_path
from shoal.simulation.tree import Replacement, TreeParameters, initial_links, plan_replacements
from shoal.stack import StackError


def plan(nodes: int, seed: int, **parameters: Any) -> tuple[TreeParameters, list[Replacement]]:
    tree = TreeParameters(**parameters)
    return tree, plan_replacements(tree, nodes, initial_links(tree, nodes, seed), seed)


@settings(max_examples=40, deadline=None)
@given(
    nodes=st.integers(3, 40),
    seed=st.integers(0, 2**32),
    max_degree=st.integers(2, 5),
    rate=st.sampled_from([1.0, 3.0, 30.0, 400.0]),
    repair_time=st.sampled_from([0.0, 0.0025, 0.1, 1.0]),
    shape=st.sampled_from(["balanced", "random"]),
)
def test_a_tree_at_every_instant(
    nodes: int, seed: int, max_degree: int, rate: float, repair_time: float, shape: str
) -> None:
    parameters, changes = plan(
        nodes,
        seed,
        shape=shape,
        max_degree=max_degree,
        rate=rate,
        window=(1.0, 1.25),
        repair_time=repair_time,
    )
    virtual = {frozenset(link) for link in initial_links(parameters, nodes, seed)}
    live = dict.fromkeys(virtual, 0.0)
    for change in changes:
        assert change.old is not None
        assert change.new is not None
        old, new = frozenset(change.old), frozenset(change.new)
        assert old in virtual
        assert live[old] <= change.at, "only a link that has appeared can break"
        assert new != old
        assert new not in virtual - {old}
        virtual.remove(old)
        edges = [tuple(sorted(edge)) for edge in virtual]
        assert not connected(nodes, edges), "the old link held two parts together"  # type: ignore[arg-type]  # pairs
        # The reconfiguration path: within a's part to the new link, and within b's part on.
        cut = adjacency(nodes, edges)  # type: ignore[arg-type]  # pairs
        (a, b), (c, d) = change.old, change.new
        assert change.path == (*tree_path(cut, a, c), *tree_path(cut, d, b))
        virtual.add(new)
        live[new] = change.at + repair_time
        edges = [tuple(sorted(edge)) for edge in virtual]
        assert connected(nodes, edges)  # type: ignore[arg-type]  # pairs
        degree = [sum(n in edge for edge in virtual) for n in range(nodes)]
        assert max(degree) <= max_degree


def test_changes_come_at_regular_intervals_within_the_window() -> None:
    _, changes = plan(100, 1, rate=3.0)
    assert len(changes) == 12
    assert changes[0].at == 3.0
    assert all(b.at - a.at == pytest.approx(1 / 3) for a, b in pairwise(changes))
    assert changes[-1].at < 7.0


def test_links_break_and_appear_anywhere() -> None:
    """Over many seeds every initial link breaks and most pairs get linked."""
    broken: set[frozenset[int]] = set()
    linked: set[frozenset[int]] = set()
    for seed in range(150):
        _, changes = plan(12, seed, rate=3.0)
        broken |= {frozenset(change.old or ()) for change in changes[:1]}
        linked |= {frozenset(change.new or ()) for change in changes}
    assert len(broken) == 11
    assert len(linked) > 55  # of 66


def test_the_network_follows_the_plan() -> None:
    config = {
        "nodes": 30,
        "seed": 5,
        "topology": {"name": "abstract-tree", "rate": 30.0},
        "routing": {"name": "event-forwarding"},
        "workload": {"publish_rate": 0.0},
    }
    simulation = Simulation(parse_config(config))
    simulation.run()
    links = simulation.recorder.links[29:]
    downs = [(time, a, b) for time, a, b, change, _ in links if change == "down"]
    ups = [(time, a, b) for time, a, b, change, _ in links if change == "up"]
    replacements = simulation.topology.plan
    assert downs == [(round(r.at * 1e9), *r.old) for r in replacements]
    assert ups == [(round((r.at + 0.1) * 1e9), *r.new) for r in replacements]
    assert len(downs) == 120
    assert all(record.path_length >= 3 for record in simulation.recorder.repairs)


def tree(**topology: Any) -> Simulation:
    return Simulation(
        parse_config(
            {
                "nodes": 5,
                "topology": {"name": "abstract-tree", **topology},
                "routing": {"name": "event-forwarding"},
                "workload": {"publish_rate": 0},
            }
        )
    )


PATH = [[0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"links": [[0, 9]]}, ["link 0-9", "0 to 4"]),
        ({"links": [[2, 2]]}, ["link 2-2", "two different ones"]),
        ({"links": [*PATH, [4, 0]]}, ["link 4-0 closes a cycle"]),
        ({"window": [7, 3]}, ["window ends before it starts", "give [3, 7]"]),
        ({"rate": float("inf")}, ["rate: expected `float` <= "]),
        ({"rate": 1, "links": [[0, 1]]}, ["connected tree", "join its parts"]),
        ({"rate": 1, "crashes": [[1, 2]]}, ["drawn at a rate", "give one or the other"]),
        ({"links": PATH, "crashes": [[1, 9]]}, ["no node 9 at 1 s", "0 to 4"]),
        ({"links": PATH, "crashes": [[1, 2], [2, 2]]}, ["node 2 has crashed before 2 s"]),
        (
            {"links": PATH, "schedule": [{"at": 1, "old": [0, 2]}]},
            ["link 0-2 cannot break at 1 s: it is not there"],
        ),
        (
            {"links": PATH, "crashes": [[1, 2]], "schedule": [{"at": 2, "old": [3, 2]}]},
            ["node 2 has crashed before 2 s"],
        ),
        (
            {"links": PATH, "schedule": [{"at": 1, "old": [0, 1], "new": [2, 4]}]},
            ["link 2-4 at 1.1 s would close a cycle"],
        ),
        (
            {"links": PATH, "schedule": [{"at": 1, "old": [0, 1], "new": [0, 0]}]},
            ["link 0-0 at 1.1 s would close a cycle"],
        ),
        ({"links": PATH, "schedule": [{"at": 1, "new": [5, 0]}]}, ["no node 5 at 1 s"]),
        ({"root": 5}, ["root 5", "0 to 4"]),
    ],
)
def test_what_cannot_happen_is_refused(topology: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(StackError) as refused:
        tree(**topology)
    for word in words:
        assert word in str(refused.value)


def test_two_nodes_have_nothing_to_replace() -> None:
    with pytest.raises(StackError, match="among 2 nodes; use 3 or more"):
        plan(2, 0, rate=1.0)


def test_a_hand_made_history_is_played_as_written() -> None:
    simulation = tree(
        links=PATH,
        schedule=[
            {"at": 1.0, "old": [1, 2], "new": [0, 4]},
            {"at": 2.0, "old": [0, 1]},
            {"at": 3.0, "new": [1, 3]},
        ],
        crashes=[[4.0, 3]],
    )
    simulation.run()
    history = [
        f"{time / 1e9:g} {a}-{b} {change}"
        for time, a, b, change, _ in simulation.recorder.links[4:]
    ]
    assert history == [
        "1 1-2 down",
        "1.1 0-4 up",
        "2 0-1 down",
        "3 1-3 up",
        "4 3-2 down",
        "4 3-4 down",
        "4 3-1 down",
    ]
    (repair,) = simulation.recorder.repairs
    assert repair.path_length == 5  # 1-0-4-3-2
    assert simulation.network.neighbours(3) == []
