"""The graphs that simulations start from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.simulation.exchanges import compiled, exchange
from shoal.simulation.topology import (
    Edge,
    adjacency,
    balanced_tree,
    connected,
    distances,
    random_regular_graph,
    random_tree,
    tree_diameter,
    tree_path,
)
from shoal.stack import Chance


def degrees(edges: list[Edge]) -> Counter[int]:
    return Counter(node for edge in edges for node in edge)


def assert_tree(nodes: int, edges: list[Edge], max_degree: int) -> None:
    assert len(edges) == nodes - 1
    assert connected(nodes, edges)
    assert all(degree <= max_degree for degree in degrees(edges).values())


def test_a_balanced_tree_is_filled_level_by_level() -> None:
    #        0
    #    / /   \ \
    #   1  2   3  4      then three children each
    edges = balanced_tree(10, 4)
    assert edges == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7), (2, 8), (2, 9)]


@given(nodes=st.integers(1, 200), max_degree=st.integers(2, 8))
def test_balanced_trees(nodes: int, max_degree: int) -> None:
    edges = balanced_tree(nodes, max_degree)
    assert_tree(nodes, edges, max_degree)
    depth = distances(adjacency(nodes, edges), 0)
    leaves = [depth[n] for n, degree in degrees(edges).items() if degree == 1 and n]
    assert max(leaves, default=0) - min(leaves, default=0) <= 1


@given(nodes=st.integers(1, 120), max_degree=st.integers(2, 6), seed=st.integers(0, 2**32))
def test_random_trees(nodes: int, max_degree: int, seed: int) -> None:
    edges = random_tree(nodes, max_degree, Chance(seed, "tree"))
    assert_tree(nodes, edges, max_degree)
    assert edges == random_tree(nodes, max_degree, Chance(seed, "tree"))


def test_random_trees_differ_in_depth() -> None:
    trees = [random_tree(100, 4, Chance(seed, "tree")) for seed in range(20)]
    diameters = {tree_diameter(100, tree) for tree in trees}
    assert len(diameters) > 4
    assert min(diameters) > tree_diameter(100, balanced_tree(100, 4)) == 8


@settings(max_examples=40, deadline=None)
@given(nodes=st.integers(2, 60), degree=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_regular_graphs(nodes: int, degree: int, seed: int) -> None:
    if degree >= nodes or nodes * degree % 2 or (degree < 2 and nodes > 2):
        with pytest.raises(ValueError, match=r"needs more than|odd degree|cannot be connected"):
            random_regular_graph(nodes, degree, Chance(seed, "graph"))
        return
    edges = random_regular_graph(nodes, degree, Chance(seed, "graph"))
    assert set(degrees(edges).values()) == {degree}
    assert len({frozenset(edge) for edge in edges}) == len(edges) == nodes * degree // 2
    assert all(a != b for a, b in edges)
    assert connected(nodes, edges)


def test_regular_graphs_are_random() -> None:
    graphs = {
        tuple(sorted(tuple(sorted(e)) for e in random_regular_graph(20, 3, Chance(s, "graph"))))
        for s in range(10)
    }
    assert len(graphs) == 10


def test_exchanges_are_the_same_compiled() -> None:
    chance = Chance(4, "exchanges")
    edges = random_regular_graph(50, 4, chance)
    near = [node for known in adjacency(50, edges) for node in known]
    pairs = [chance.below(len(edges), n) for n in range(2_000)]
    swapped = [chance.below(2, n, 0) for n in range(1_000)]
    links: Any = [a for a, _ in edges], [b for _, b in edges], near, 4, pairs, swapped
    arrays: Any = [np.array(values, np.int64) if values != 4 else 4 for values in links]
    in_python: Any = exchange
    in_python(*links)
    compiled()(*arrays)
    assert [values.tolist() for values in arrays[:3]] == list(links[:3])
    assert list(zip(*links[:2], strict=True)) != edges


def test_a_large_ring_does_not_take_for_ever() -> None:
    assert len(random_regular_graph(5000, 2, Chance(1, "graph"))) == 5000


@given(nodes=st.integers(1, 30), seed=st.integers(0, 2**32), data=st.data())
def test_paths_and_diameter_of_trees(nodes: int, seed: int, data: st.DataObject) -> None:
    edges = random_tree(nodes, 4, Chance(seed, "tree"))
    neighbours = adjacency(nodes, edges)
    far = [distances(neighbours, node) for node in range(nodes)]
    assert tree_diameter(nodes, edges) == max(max(d.values()) for d in far)
    a = data.draw(st.integers(0, nodes - 1))
    b = data.draw(st.integers(0, nodes - 1))
    path = tree_path(neighbours, a, b)
    assert (path[0], path[-1]) == (a, b)
    assert len(path) == len(set(path)) == far[a][b] + 1
    assert all(y in neighbours[x] for x, y in pairwise(path))


def test_the_diameter_of_a_forest_is_that_of_its_longest_tree() -> None:
    assert tree_diameter(6, [(0, 1), (2, 3), (3, 4), (4, 5)]) == 3
    assert tree_diameter(3, []) == 0
