"""Subscription forwarding with Strawman on small trees (Frey, sections 2.4.1, 5.1 and 5.2).

A test carries the id of the claim it checks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.simulation import Simulation, parse_config
from shoal.simulation.topology import adjacency, distances, tree_path
from shoal.stack import LOCAL, Chance
from story import STRAWMAN, Story

LITERAL: dict[str, Any] = {
    "routing": {"name": "subscription-forwarding", "announced": False},
    **STRAWMAN,
}
parents = st.lists(st.integers(0, 99), min_size=1, max_size=12)


def tree_of(parents: list[int]) -> str:
    name = [chr(ord("A") + i) for i in range(len(parents) + 1)]
    return " ".join(f"{name[p % (i + 1)]}-{name[i + 1]}" for i, p in enumerate(parents))


def spanned(story: Story, nodes: set[int]) -> set[int]:
    """The nodes of the smallest subtree that spans some nodes: a pattern tree."""
    links = adjacency(len(story.names), story.simulation.topology.links)
    some = min(nodes)
    return {step for node in nodes for step in tree_path(links, some, node)}


def distance_to(story: Story, node: int, nodes: set[int]) -> int:
    links = adjacency(len(story.names), story.simulation.topology.links)
    reached = distances(links, node)
    return min(reached[n] for n in nodes)


def test_routes_grow_towards_the_pattern_tree_and_shrink_again() -> None:
    #   A - B - C - D
    #       |
    #       E
    story = Story("A-B B-C C-D B-E")
    assert story.step("A subscribes 1") == ["sub A->B", "sub B->C", "sub B->E", "sub C->D"]
    assert story.step("D subscribes 1") == ["sub D->C", "sub C->B", "sub B->A"]
    assert story.step("B subscribes 1") == []
    assert story.table("B") == {"A 1", "C 1", "LOCAL 1"}
    assert story.table("E") == {"B 1"}
    assert story.step("D unsubscribes 1") == ["unsub D->C", "unsub C->B"]
    assert story.step("E publishes 1") == ["event E->B", "event B->A"]
    assert story.received() == ["B got E/0 after 1", "A got E/0 after 2"]
    story.check()


@settings(max_examples=25, deadline=None)
@given(
    parents=parents,
    acts=st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(0, 2)), max_size=25),
)
def test_t2_4_c_nothing_is_told_twice_in_the_same_direction(
    parents: list[int], acts: list[tuple[int, bool, int]]
) -> None:
    """On a static tree also the literal pseudo-code keeps this promise: the traces are equal."""
    stories = [Story(tree_of(parents)), Story(tree_of(parents), LITERAL)]
    for who, subscribes, number in acts:
        name = stories[0].names[who % len(stories[0].names)]
        line = f"{name} {'' if subscribes else 'un'}subscribes {number}"
        assert stories[0].step(line) == stories[1].step(line)
    told: set[tuple[int, int, str]] = set()
    for _, kind, source, target, text in stories[0].simulation.recorder.messages:
        key = (source, target, text.removeprefix("Subscribe").removeprefix("Unsubscribe"))
        if kind == "sub":
            assert key not in told
            told.add(key)
        else:
            told.remove(key)
    stories[0].check()


@settings(max_examples=25, deadline=None)
@given(parents=parents, data=st.data())
def test_t5_2_b_to_e_how_far_subscriptions_travel(parents: list[int], data: st.DataObject) -> None:
    story = Story(tree_of(parents))
    everybody = len(story.names)
    order = data.draw(st.permutations(range(everybody)))
    count = data.draw(st.integers(1, everybody))
    subscribers: set[int] = set()
    for node in order[:count]:
        sent = story.step(f"{story.names[node]} subscribes 1")
        if not subscribers:
            assert len(sent) == everybody - 1  # T5.2-b: the first one floods the tree
        else:  # T5.2-c: up to the pattern tree; T5.2-d: nothing inside it
            assert len(sent) == distance_to(story, node, spanned(story, subscribers))
        subscribers.add(node)
    for node in data.draw(st.permutations(sorted(subscribers))):
        sent = story.step(f"{story.names[node]} unsubscribes 1")
        subscribers.discard(node)
        if subscribers:  # T5.2-e: the mirrored rule
            assert len(sent) == distance_to(story, node, spanned(story, subscribers))
        else:
            assert len(sent) == everybody - 1
        assert all(message.startswith("unsub") for message in sent)
    assert all(not story.table(name) for name in story.names)


@settings(max_examples=25, deadline=None)
@given(parents=parents, data=st.data())
def test_t5_2_f_g_routes_and_the_events_that_follow_them(
    parents: list[int], data: st.DataObject
) -> None:
    story = Story(tree_of(parents))
    nodes = st.integers(0, len(story.names) - 1)
    subscribers = data.draw(st.sets(nodes, min_size=1))
    story.tell(*(f"{story.names[node]} subscribes 1" for node in subscribers))
    inside = spanned(story, subscribers)
    due: set[str] = set()
    for a, b in story.simulation.topology.links:
        if a in inside and b in inside:  # T5.2-f: both ways inside the pattern tree
            due |= {f"{story.names[a]}->{story.names[b]}", f"{story.names[b]}->{story.names[a]}"}
        else:  # and inwards outside it
            ends = (a, b)
            near = min(ends, key=lambda n: distance_to(story, n, inside))
            far = a + b - near
            due.add(f"{story.names[far]}->{story.names[near]}")
    assert story.entries(1) == due

    publisher = data.draw(nodes)
    sent = story.step(f"{story.names[publisher]} publishes 1")
    crossed = Counter(frozenset(m.removeprefix("event ").split("->")) for m in sent)
    # T5.2-g: the links between the publisher and the pattern tree, and those of the tree
    assert len(crossed) == len(spanned(story, {publisher, *subscribers})) - 1
    assert set(crossed.values()) <= {1}  # T4-c: each link once
    assert {line[0] for line in story.received()} == {story.names[n] for n in subscribers}


def test_t4_c_on_a_stable_tree_an_event_crosses_a_link_at_most_once() -> None:
    simulation = Simulation(
        parse_config(
            {
                "nodes": 100,
                "duration": 2.0,
                "workload": {"subscribe_window": [0, 0.5]},
                "record": ["messages"],
                **STRAWMAN,
            }
        )
    )
    simulation.run()
    crossed = Counter(
        (text.split("content=")[0], *sorted((source, target)))
        for _, kind, source, target, text in simulation.recorder.messages
        if kind == "event"
    )
    assert len(crossed) > 1000
    assert set(crossed.values()) == {1}


def test_t5_1_a_strawman_sends_nothing_but_sub_and_unsub() -> None:
    simulation = Simulation(
        parse_config(
            {
                "nodes": 100,
                "topology": {"name": "abstract-tree", "rate": 3.0},
                "workload": {"publish_rate": 0.0},
                **STRAWMAN,
            }
        )
    )
    simulation.run()
    assert len(simulation.recorder.repairs) == 12
    assert {row[0] for row in simulation.recorder.traffic} == {"sub", "unsub"}


def test_t5_2_h_the_denser_the_subscribers_the_shorter_a_subscription_travels() -> None:
    seeds, steps = 30, 50
    travelled = [0] * steps
    for seed in range(seeds):
        simulation = Simulation(
            parse_config(
                {
                    "nodes": 100,
                    "workload": {
                        "script": [
                            {"at": 0.1 * k, "node": node, "do": "subscribe", "patterns": [1]}
                            for k, node in enumerate(Chance(seed, "h").sample(range(100), steps))
                        ]
                    },
                    "record": ["traffic"],
                    **STRAWMAN,
                }
            )
        )
        simulation.run()
        for _, number, count, *_ in simulation.recorder.traffic:
            travelled[number] += count
    mean = [count / seeds for count in travelled]
    assert mean[0] == 99
    ranks = [sorted(mean, reverse=True).index(m) for m in mean]
    n = len(ranks)
    spearman = 1 - 6 * sum((r - k) ** 2 for k, r in enumerate(ranks)) / (n * (n * n - 1))
    assert spearman > 0.9  # ranks fall as k grows: a correlation of the means below -0.9


def test_t5_2_j_strawman_in_figure_5_4() -> None:
    story = Story("S-A A-C A-B B-D")
    story.step("S subscribes 1")
    assert story.step("A-B becomes C-D") == ["unsub B->D", "sub C->D", "sub D->B"]
    story.check()


def test_t5_2_l_the_entries_that_change_in_figure_5_5() -> None:
    story = Story("A-E E-F F-C A-B B-G G-D")
    story.tell("E subscribes 1", "D subscribes 1")
    before = story.entries(1)
    story.step("A-B becomes C-D")
    after = story.entries(1)
    assert after - before == {"E->F", "F->C", "C->D", "D->C"}
    assert before - after == {"A->B", "B->A", "E->A", "G->B", "D->G"}
    assert {"A->E", "B->G", "G->D"} <= before & after
    story.check()


@settings(max_examples=40, deadline=None)
@given(parents=st.lists(st.integers(0, 99), min_size=2, max_size=12), data=st.data())
def test_t5_2_m_n_only_the_reconfiguration_path_changes(
    parents: list[int], data: st.DataObject
) -> None:
    story = Story(tree_of(parents))
    for number in range(3):
        for node in data.draw(st.sets(st.integers(0, len(story.names) - 1))):
            story.step(f"{story.names[node]} subscribes {number}")
    a, b = data.draw(st.sampled_from(story.simulation.topology.links))
    left = adjacency(len(story.names), [e for e in story.simulation.topology.links if e != (a, b)])
    c = data.draw(st.sampled_from(sorted(distances(left, a))))
    d = data.draw(st.sampled_from(sorted(distances(left, b))))
    head, tail = tree_path(left, a, c), tree_path(left, d, b)
    before = [story.table(name) for name in story.names]
    name = story.names
    story.step(f"{name[a]}-{name[b]} becomes {name[c]}-{name[d]}")
    after = [story.table(name) for name in story.names]
    changed = {n for n in range(len(name)) if before[n] != after[n]}
    if (a, b) != (c, d):
        assert changed <= {*head, *tail}
    lost = {entry.split()[1] for entry in before[a] if entry.startswith(name[b])}
    for n in tail:  # what stood at a for the far side is stood in for on the head path only
        gained = {e.split()[1] for e in after[n] - before[n] if not e.startswith(name[c])}
        assert not gained & (lost - {e.split()[1] for e in before[b] if e.startswith(name[a])})
    story.check()


def test_t3_3_b_a_crash_is_seen_as_lost_links_by_the_neighbours_alone() -> None:
    #  A   D
    #   \ /
    #    X - E - F
    story = Story("A-X D-X E-X E-F")
    calls: list[str] = []
    for name in story.names:
        node: Any = story.simulation.network.nodes[story.node(name)]
        reconfiguration = node.routing.reconfiguration
        told = reconfiguration.link_down

        def record(gone: int, repair: object, name: str = name, told: Any = told) -> None:
            calls.append(f"{name} lost {story.names[gone]}")
            told(gone, repair)

        reconfiguration.link_down = record
    story.tell("X subscribes 1", "A subscribes 2")
    story.step("X crashes")
    assert sorted(calls) == ["A lost X", "D lost X", "E lost X"]
    assert story.table("A") == {"LOCAL 2"}
    assert story.table("F") == set()
    story.check()
    # The dead do nothing.
    assert story.tell("X subscribes 3", "X publishes 2") == []
    assert story.received() == []


def test_a_link_that_comes_back_carries_nothing_of_its_past() -> None:
    story = Story("A-B B-C")
    story.tell("A subscribes 1", "C subscribes 2", "A-B breaks", "A unsubscribes 1")
    assert story.step("A-B appears") == ["sub B->A"]
    assert story.table("B") == {"C 2"}
    story.check()


@pytest.mark.parametrize("stack", [STRAWMAN, LITERAL], ids=["announced", "literal"])
@pytest.mark.parametrize("repair_time", [0.0, 0.0005, 0.02, 0.1])
def test_tables_are_canonical_after_overlapping_replacements(
    stack: dict[str, Any], repair_time: float
) -> None:
    """T4-a for Strawman: links break while others are being replaced and messages are under way."""
    for seed in range(4):
        simulation = Simulation(
            parse_config(
                {
                    "nodes": 40,
                    "seed": seed,
                    "duration": 3.0,
                    "topology": {
                        "name": "abstract-tree",
                        "shape": "random",
                        "rate": 200.0,
                        "window": [0.5, 1.5],
                        "repair_time": repair_time,
                    },
                    "workload": {
                        "publish_rate": 0.0,
                        "patterns": 20,
                        "subscribers": 0.5,
                        "core": 0.5,
                        "churn_rate": 5.0,
                        "churn_window": [1.0, 2.0],
                    },
                    **stack,
                }
            )
        )
        simulation.run()
        assert simulation.wrong_table() is None
        assert simulation.recorder.unlinked == 0
        assert len(simulation.recorder.repairs) == 200
        tables = [node.routing.table.entries() for node in simulation.network.nodes]  # type: ignore[union-attr]  # has one
        assert any(source != LOCAL for table in tables for source, _ in table)
