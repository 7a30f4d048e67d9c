"""Measures of trees that build themselves, on stories of a few lines.

::

    0 -+- 1 -+- 3        1 goes: 3 asks its sibling 4, 4 its grandparent 0
       |     +- 4
       +- 2
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.pipeline.measure import overlays
from shoal.pipeline.measure.run_view import Run
from shoal.simulation import parse_config, simulate

STORY = """
0.0 up 0
0.1 root 0
1.0 up 1
1.1 attached 1 0 join G 0.1
2.0 up 2
2.1 attached 2 0 join G 0.1
3.0 up 3
3.1 attached 3 1 join G 0.1
4.0 up 4
4.1 attached 4 1 join G 0.1
9.0 down 1
9.2 lost 3 1
9.2 lost 4 1
9.5 attached 4 0 lost R 0.3
9.7 attached 3 4 lost D 0.5
"""
WORDS = {"up": "node up", "down": "node down", "lost": "parent lost"}


def told(story: str, links: list[tuple[int, int]]) -> Run:
    notes: list[dict[str, Any]] = []
    for line in story.strip().splitlines():
        time, what, node, *rest = line.split()
        peer = int(rest[0]) if rest else -1
        value = " ".join([*rest[1:], "0", str(peer)]) if what == "attached" else "join"
        notes.append(
            {
                "time": float(time),
                "what": WORDS.get(what, what),
                "node": int(node),
                "peer": peer,
                "value": value,
            }
        )
    rows = [{"time": 0.0, "change": "up", "a": a, "b": b, "repair": None} for a, b in links]
    traffic = [{"time": float(t), "kind": "ping", "count": 4} for t in range(12)]
    return Run({"bin": 1.0}, {"notes": notes, "links": rows, "traffic": traffic})


@pytest.fixture
def run() -> Run:
    return told(STORY, [(0, 2), (0, 4), (3, 4)])


def test_the_tree_at_the_end(run: Run) -> None:
    assert overlays.nodes_up(run) == 4
    assert overlays.forest_size(run) == 1
    assert overlays.split(run) == 0.0
    assert overlays.top_degree(run) == 2
    assert overlays.overlay_diameter(run) == 3
    assert overlays.share_of_degree(run, 2) == 0.5
    assert overlays.share_of_degree(run, 1, more=True) == 0.5


def test_what_became_of_the_orphans(run: Run) -> None:
    assert overlays.strategy_share(run, "R") == 0.5
    assert overlays.strategy_lead(run, "R") == 0.0
    assert overlays.strategy_lead(run, "G") == -0.5
    assert overlays.repair_delay(run, 1.0) == 0.5
    assert overlays.mean_repair_delay(run) == pytest.approx(0.4)
    assert overlays.links_beyond_orphans(run) == 0
    assert overlays.links_per_join(run) == 1
    # From 3 and 4 to 0 there are two links, for two orphans.
    assert overlays.specific_area(run) == 1.0
    assert overlays.share_of_small_areas(run) == 1.0


def test_a_link_counts_for_the_node_that_joins_not_for_the_one_that_came_since() -> None:
    slow = STORY.replace("2.1 attached 2 0 join", "3.05 attached 2 0 join")
    assert overlays.links_per_join(told(slow, [])) == 1
    twice = slow + "9.9 attached 2 0 join G 0.1\n"
    assert overlays.links_per_join(told(twice, [])) == 2


def test_an_orphan_far_from_its_grandparent_has_a_large_area() -> None:
    far = STORY.replace("9.7 attached 3 4 lost D 0.5", "9.7 attached 3 2 lost G 0.5")
    run = told(far.replace("9.5 attached 4 0", "9.5 attached 4 2"), [(0, 2), (2, 4), (2, 3)])
    assert overlays.specific_area(run) == 1.5


def test_an_orphan_may_become_an_ancestor_of_its_grandparent() -> None:
    turned = STORY.replace("9.5 attached 4 0 lost R 0.3", "9.3 attached 0 4 lost R 0.3")
    turned = (
        turned.replace("9.7 attached 3 4", "9.7 attached 3 2") + "9.8 attached 4 3 lost G 0.6\n"
    )
    assert overlays.specific_area(told(turned, [])) is not None


def test_a_cycle_and_a_second_tree_are_seen() -> None:
    cycle = STORY + "9.9 attached 4 3 lost R 0.1\n"
    assert overlays.parent_cycles(told(cycle, [])) == 1
    assert overlays.forest_size(told(STORY, [(0, 2), (3, 4)])) == 2


def test_a_link_made_and_broken_in_one_instant_is_as_it_was_before() -> None:
    changes = [(0.0, "up", 0, 1), (2.0, "up", 1, 2), (2.0, "down", 1, 2)]
    changes += [(3.0, "down", 0, 1), (3.0, "up", 0, 1), (4.0, "up", 1, 2)]
    rows = [{"time": t, "change": c, "a": a, "b": b, "repair": None} for t, c, a, b in changes]
    assert Run({}, {"links": rows[:5]}).final_links == [(0, 1)]
    assert Run({}, {"links": rows}).final_links == [(0, 1), (1, 2)]


def test_traffic_is_counted_per_node_that_is_up(run: Run) -> None:
    over_time = dict(overlays.traffic_per_node_over_time(run))
    assert over_time[0.0] == 4.0
    assert over_time[5.0] == pytest.approx(4 / 5)
    assert over_time[11.0] == 1.0


def test_a_simulated_tree_is_read_as_it_was() -> None:
    raw = {
        "nodes": 40,
        "duration": 60.0,
        "topology": {"name": "full-mesh", "joining": 10.0, "notice": 0.2, "crashes": [[30.0, 3]]},
        "overlay": {"name": "lstree", "heartbeat": 0.0},
        "routing": {"name": "flooding"},
        "workload": {"publish_rate": 0.0, "subscribers": 0.0},
        "record": ["links", "notes", "traffic"],
    }
    result = simulate(parse_config(raw))
    tables = {name: table.to_pylist() for name, table in result.tables.items()}
    run = Run({**raw, "bin": 0.1}, tables)
    assert overlays.nodes_up(run) == 39
    assert overlays.forest_size(run) == 1
    assert overlays.parent_cycles(run) == 0
    assert overlays.links_beyond_orphans(run) == 0
