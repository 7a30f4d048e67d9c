"""The worked examples of Huang and Garcia-Molina (2003), by hand. Node 1 of the paper is node 0."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shoal.overlay.shopparent_costs import (
    Axis,
    Density,
    Work,
    actions,
    metric,
)
from shoal.pipeline.report.tree_picture import tree_picture
from shoal.simulation import parse_config, simulate
from shoal.simulation.placement import interval_filter
from shoal.simulation.shopping import Tree
from shoal.stack import Chance, StackError

TRIANGLE = [[1, 2], [0, 2], [0, 1]]
CYCLE = [[1, 4], [0, 2], [1, 3], [2, 4], [3, 0]]
"""Figure 3: 1-2, 2-3, 3-4, 4-5, 5-1."""


def tree(near: list[list[int]], intervals: list[tuple[float, float] | None]) -> Tree:
    wanted = [() if pair is None else (pair,) for pair in intervals]
    axis = Axis([end for pairs in wanted for pair in pairs for end in pair], False, Density())
    return Tree(near, [axis.interest(pairs) for pairs in wanted], axis, Work())


@pytest.mark.parametrize(
    ("own", "proxied", "done"),
    [
        (True, False, (True, True, False)),  # P-TAB1-R1
        (False, True, (True, False, True)),  # P-TAB1-R2
        (True, True, (True, True, True)),  # P-TAB1-R3
        (False, False, (False, False, False)),  # P-TAB1-R4
    ],
)
def test_table_1(own: bool, proxied: bool, done: tuple[bool, bool, bool]) -> None:
    assert actions(own, proxied) == done


def test_examples_1_and_2() -> None:
    """P-EX1, P-EX2-A, P-EX2-B: one event matches s2, another s3."""
    wants: list[tuple[float, float] | None] = [None, (0.0, 1.0), (1.0, 2.0)]
    star, chain = tree(TRIANGLE, wants), tree(TRIANGLE, wants)
    star.hang([-1, 0, 0])
    chain.hang([-1, 0, 1])
    assert star.overheads() == [4, 0, 0]
    assert chain.overheads() == [4, 2, 0]
    assert star.overhead() < chain.overhead()


EXAMPLE_3: list[tuple[float, float] | None] = [None, (0, 10), None, (0, 10), (0, 5)]


def test_example_3() -> None:
    """P-EX3-*: node 4 joins; nodes 3 and 5 are in range."""
    found = tree(CYCLE, EXAMPLE_3)
    for node, parent in ((1, 0), (2, 1), (4, 0)):
        found.move(node, parent)
    assert found.candidates(3) == [2, 4]
    assert found.metrics(3, "NHOP", [2, 4]) == [2, 1]
    assert found.metrics(3, "OVHD", [2, 4]) == [20, 15]
    assert found.metrics(3, "COMBO", [2, 4]) == [40, 15]
    under_3 = tree(CYCLE, EXAMPLE_3)
    under_3.hang([-1, 0, 1, 2, 0])
    assert under_3.overhead() == 50
    found.turn(3, "COMBO", Chance(0, "ties"))
    assert found.parent[3] == 4
    assert found.overhead() == 35


@pytest.mark.parametrize(
    ("interval", "events"),
    [
        ((3.0, 4.0), {3.2: True, 5.2: False}),  # P-EX-NI-1
        ((2000.0, float("inf")), {1999.9: False, 2000.0: True, 2500.0: True}),  # P-EX-NI-2
        ((0.0, 4.0), {3.0: True, 9.0: False, 6.0: False}),  # P-EX-FIG5: s1
        ((10.0, 12.0), {3.0: False, 9.0: False, 6.0: False}),  # s2
        ((2.0, 8.0), {3.0: True, 9.0: False, 6.0: True}),  # s3
        ((-1e-7, 1e22), {0.0: True, -1.0: False}),
    ],
)
def test_intervals(interval: tuple[float, float], events: dict[float, bool]) -> None:
    filter = interval_filter(interval)
    assert {number: filter.matches({"x": number}) for number in events} == events


def test_an_error_multiplies_each_overhead() -> None:
    """P-EX-ERR."""
    axis = Axis([0.0, 10.0, 20.0], False, Density())
    own, others, added = axis.interest(((0.0, 10.0),)), 0, axis.interest(((0.0, 20.0),))
    exact = metric("OVHD", axis, Work(), 3, own, others, added)
    assert exact == 10 + 2 * 10
    assert metric("OVHD", axis, Work(), 3, own, others, added, (0.1, 0.1)) == pytest.approx(33)
    assert metric("COMBO", axis, Work(), 3, own, others, added, (0.1, 0.1)) == pytest.approx(99)


def notes(parents: list[int]) -> list[dict[str, object]]:
    config = {
        "nodes": 3,
        "duration": 1.0,
        "topology": {
            "name": "static-tree",
            "places": [[0, 0], [-30, -50], [30, -50]],
            "interests": {"given": [None, [0.0, 1.0], [1.0, 2.0]]},
            "parents": parents,
            "detail": True,
        },
        "routing": {"name": "hierarchical-forwarding"},
        "record": ["notes"],
    }
    return list(simulate(parse_config(config)).tables["notes"].to_pylist())


def test_figure_2_is_drawn() -> None:
    star, chain = tree_picture(notes([-1, 0, 0])), tree_picture(notes([-1, 0, 1]))
    assert "total overhead 4" in star
    assert "total overhead 6" in chain
    assert "node 2: receives 1, processes 1, forwards 0, overhead 0" in star
    assert "node 2: receives 2, processes 1, forwards 1, overhead 2" in chain
    assert chain.count("<line") == 3 + 2  # neighbours, and the links of the tree


def drawn(figure: int, **topology: object) -> str:
    """A figure of the paper, from its example file."""
    path = Path(__file__).parents[2] / "examples" / f"shopparent-figure{figure}.toml"
    raw = tomllib.loads(path.read_text())
    raw["topology"] |= {"detail": True, **topology}
    tables = simulate(parse_config({**raw, "record": ["notes"]})).tables
    return tree_picture(list(tables["notes"].to_pylist()))


def test_the_examples_draw_figures_2_and_3() -> None:
    assert "3 nodes, total overhead 6" in drawn(2)
    assert "3 nodes, total overhead 4" in drawn(2, parents=[-1, 0, 0])
    picked = drawn(3)
    assert "5 nodes, total overhead 35" in picked
    assert "node 5: receives 10, processes 5, forwards 10, overhead 15" in picked
    other = drawn(3, parents=[-1, 0, 1, 2, 0])
    assert "5 nodes, total overhead 50" in other
    assert "node 3: receives 10, processes 0, forwards 10, overhead 20" in other


def test_a_run_without_a_tree_is_not_drawn() -> None:
    with pytest.raises(StackError, match="no tree to draw"):
        tree_picture([])


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({"receive": float("nan")}, "receive"),
        ({"error": 3.0}, "error: expected `float` <= 1.0"),
        ({"moves": [{"at": 1.0}]}, "neither move nor fail"),
        ({"root": 99}, "there is no node 99"),
        ({"connected_at": 0.0, "range": 1.0}, "no tree spans them"),
        ({"numbers": [1.0], "events": 2, "window": [0, 1]}, "1 numbers for 2 events"),
    ],
)
def test_a_bad_static_tree_is_refused_by_name(topology: dict[str, object], words: str) -> None:
    config = {
        "nodes": 30,
        "topology": {"name": "static-tree", **topology},
        "routing": {"name": "hierarchical-forwarding"},
    }
    with pytest.raises(StackError, match=words.replace("`", ".")):
        simulate(parse_config(config))


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([-1, -1, 1], "node 1 has the parent -1, but node 0 is the root"),
        ([1, -1, 1], "node 0 has the parent 1, but node 0 is the root"),
        ([-1, 0], "there are 2 parents for 3 nodes"),
        ([-1, 0, 0], "the parent 0 of node 2 is none of its neighbours"),
        ([-1, 0, 7], "the parent 7 of node 2 is none of its neighbours"),
        ([-1, 2, 1], "the parents of node 1 lead in a circle"),
    ],
)
def test_parents_that_are_no_tree_are_refused_by_name(parents: list[int], words: str) -> None:
    topology = {"name": "static-tree", "range": 60.0, "places": [(0, 0), (50, 0), (100, 0)]}
    config = {
        "nodes": 3,
        "topology": {**topology, "parents": parents},
        "routing": {"name": "hierarchical-forwarding"},
    }
    with pytest.raises(StackError, match=words):
        simulate(parse_config(config))
