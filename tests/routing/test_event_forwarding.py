"""Event forwarding and flooding: no routes, every event everywhere (Frey, section 2.4.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import Patterns
from shoal.simulation import Simulation, parse_config
from story import EVENT_FORWARDING, Story


def tree_of(parents: list[int]) -> str:
    """A tree as text, from each node's parent (taken modulo)."""
    name = [chr(ord("A") + i) for i in range(len(parents) + 1)]
    return " ".join(f"{name[p % (i + 1)]}-{name[i + 1]}" for i, p in enumerate(parents))


@settings(max_examples=25, deadline=None)
@given(parents=st.lists(st.integers(0, 99), min_size=1, max_size=14), data=st.data())
def test_t2_4_a_every_event_crosses_every_link_once(
    parents: list[int], data: st.DataObject
) -> None:
    story = Story(tree_of(parents), EVENT_FORWARDING)
    publisher = data.draw(st.sampled_from(story.names))
    sent = story.step(f"{publisher} publishes 1")
    links = {frozenset(message.removeprefix("event ").split("->")) for message in sent}
    assert len(sent) == len(links) == len(story.names) - 1


@settings(max_examples=20, deadline=None)
@given(
    parents=st.lists(st.integers(0, 99), min_size=1, max_size=8),
    acts=st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), max_size=12),
)
def test_t2_4_b_subscriptions_stay_at_home(
    parents: list[int], acts: list[tuple[int, bool, int]]
) -> None:
    story = Story(tree_of(parents), EVENT_FORWARDING)
    for who, subscribes, number in acts:
        name = story.names[who % len(story.names)]
        assert story.step(f"{name} {'' if subscribes else 'un'}subscribes {number}") == []


def test_an_event_reaches_those_who_want_it_and_nobody_else() -> None:
    story = Story("A-B B-C B-D", EVENT_FORWARDING)
    story.tell("A subscribes 1", "C subscribes 1", "D subscribes 2", "D publishes 1,7")
    assert sorted(story.received()) == ["A got D/0 after 2", "C got D/0 after 2"]


def test_a_publisher_that_subscribes_gets_its_own_event_at_once() -> None:
    story = Story("A-B", EVENT_FORWARDING)
    story.tell("A subscribes 1", "A publishes 1")
    assert story.received() == ["A got A/0 after 0"]


def test_a_split_tree_is_flooded_on_one_side_only() -> None:
    story = Story("A-B B-C", EVENT_FORWARDING)
    story.tell("A subscribes 1", "C subscribes 1", "B-C breaks", "A publishes 1")
    assert story.received() == ["A got A/0 after 0"]
    story.tell("A-C appears", "B publishes 1")
    assert story.received()[1:] == ["A got B/0 after 1", "C got B/0 after 2"]


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_flooding_brings_each_event_once_to_everybody_on_a_graph(degree: int) -> None:
    config: dict[str, Any] = {
        "nodes": 40,
        "duration": 2.0,
        "seed": degree,
        "topology": {"name": "static-graph", "degree": degree},
        "routing": {"name": "flooding"},
        "workload": {"publish_rate": 1.0, "subscribers": 1.0, "subscribe_window": [0, 0]},
    }
    simulation = Simulation(parse_config(config))
    simulation.run()
    assert len(simulation.recorder.publications) == 80
    # The publisher sends over all its links, everybody else over all but the one it came by.
    sent = sum(row[2] for row in simulation.recorder.traffic)
    assert sent == 80 * (40 * degree - 39)
    got = [record.received.bit_count() for record in simulation.recorder.publications]
    contents = [Patterns(simulation.workload.content(event)) for event in range(80)]
    due = [simulation.oracle.wanted_by(content).bit_count() for content in contents]
    assert got == due
    assert sum(due) > 80
