"""Reference trees, and the tree of hosts that they give (Frey, chapter 11)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dhtree_world import ideal
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlay.dhtree_messages import DHTreeParameters, most_levels
from shoal.overlay.reference_tree import Place, ReferenceTree
from shoal.stack import StackError
from shoal.stack.registry import Choice, build

BINARY = ReferenceTree(2, 4)
"""Figure 11.1(a): keys 1 to 15, root 8."""


def places(tree: ReferenceTree) -> list[Place]:
    """All places, breadth first."""
    found = [tree.root]
    for place in found:
        found += tree.children(place)
    return found


def hosts(tree: ReferenceTree, *positions: int) -> tuple[dict[int, int | None], set[str]]:
    """Parents, and links as in the thesis: ``h9-h5``."""
    parents, children = ideal(tree, {position: position for position in positions})
    return parents, {f"h{n}-h{child}" for n, found in children.items() for child in found}


@pytest.mark.parametrize(("fan_out", "levels"), [(2, 1), (2, 4), (2, 8), (3, 5), (4, 4), (5, 3)])
def test_every_key_has_one_place(fan_out: int, levels: int) -> None:
    tree = ReferenceTree(fan_out, levels)
    found = places(tree)
    assert sorted(place.key for place in found) == list(range(1, tree.keys + 1))
    for place in found:
        assert tree.path(place.key)[-1] == place
        below = [
            child for child in places(tree) if place.low <= child.low <= child.high <= place.high
        ]
        assert len(below) == place.high - place.low + 1  # a subtree is a range of keys


@pytest.mark.parametrize(("fan_out", "levels"), [(2, 6), (3, 4), (4, 4)])
def test_all_children_but_one_lie_between_a_key_and_its_parent(fan_out: int, levels: int) -> None:
    """Section 11.2.3."""
    tree = ReferenceTree(fan_out, levels)
    for place in places(tree):
        for parent, node in pairwise(tree.path(place.key)):
            if node.key != place.key:
                continue
            low, high = sorted((node.key, parent.key))
            beyond = [c.key for c in tree.children(node) if not low < c.key < high]
            assert len(beyond) <= 1
            for key in beyond:
                assert (key < node.key) == (node.key < parent.key)


def test_a_binary_reference_tree_is_a_search_tree() -> None:
    assert [place.key for place in places(BINARY)] == [8, 4, 12, 2, 6, 10, 14, *range(1, 16, 2)]


@given(st.integers(1, 15), st.integers(1, 15))
def test_the_topmost_key_is_the_first_in_breadth_first_order(after: int, upto: int) -> None:
    span = (upto - after) % 15 or 15
    owned = {1 + (after + step) % 15 for step in range(span)}
    first = next(place for place in places(BINARY) if place.key in owned)
    assert BINARY.topmost(after, upto) == first


# Section 11.2.4


def test_the_example_before_h4_joins() -> None:
    tops = {5: (15, 4), 9: (5, 8), 11: (9, 10), 13: (11, 12), 15: (13, 14)}
    for host, (after, top) in tops.items():
        assert BINARY.topmost(after, host).key == top
    assert BINARY.segments(15, 5) == [(1, 5)]
    assert hosts(BINARY, 5, 9, 11, 13, 15)[1] == {"h9-h5", "h9-h13", "h13-h11", "h13-h15"}


def test_the_example_after_h4_has_joined() -> None:
    assert BINARY.topmost(15, 4).key == 4
    assert BINARY.topmost(4, 5).key == 5  # the text prints 6, which is h9's
    links = hosts(BINARY, 4, 5, 9, 11, 13, 15)[1]
    assert links == {"h9-h4", "h4-h5", "h9-h13", "h13-h11", "h13-h15"}


def test_the_example_after_h13_has_failed() -> None:
    assert BINARY.topmost(11, 15).key == 12
    assert hosts(BINARY, 4, 5, 9, 11, 15)[1] == {"h9-h4", "h4-h5", "h9-h15", "h15-h11"}


def test_with_a_host_at_every_key_the_tree_is_the_reference_tree() -> None:
    for tree in (ReferenceTree(2, 8), ReferenceTree(4, 4)):
        parents, _ = hosts(tree, *range(1, tree.keys + 1))
        for place in places(tree):
            path = tree.path(place.key)
            assert parents[place.key] == (path[-2].key if len(path) > 1 else None)


def check_tree(tree: ReferenceTree, positions: list[int]) -> int:
    """One root, both searches agree, all are connected; the most children that a host has."""
    parents, children = ideal(tree, {position: position for position in positions})
    assert sum(parent is None for parent in parents.values()) == 1
    for host, found in children.items():
        assert all(parents[child] == host for child in found)
    assert sum(len(found) for found in children.values()) == len(positions) - 1
    for host in positions:  # climbing ends at the root
        steps = 0
        at: int | None = host
        while at is not None:
            at, steps = parents[at], steps + 1
            assert steps <= len(positions)
    return max(len(found) for found in children.values())


def test_every_set_of_hosts_over_15_keys_gives_a_tree_of_two_children_at_most() -> None:
    """All 32,767 of them: neighbours are three at most."""
    tree = ReferenceTree(2, 4)
    for mask in range(1, 1 << 15):
        positions = [key + 1 for key in range(15) if mask >> key & 1]
        assert check_tree(tree, positions) <= 2


@given(st.sets(st.integers(1, 341), min_size=1, max_size=60))
def test_any_hosts_over_a_quaternary_tree_give_a_tree(positions: set[int]) -> None:
    check_tree(ReferenceTree(4, 5), sorted(positions))


def test_the_largest_trees_have_less_than_2_to_the_62_keys() -> None:
    for fan_out in (2, 3, 4, 16):
        levels = most_levels(fan_out)
        assert ReferenceTree(fan_out, levels).keys < 2**62
        assert ReferenceTree(fan_out, levels + 1).keys >= 2**62
        assert DHTreeParameters(fan_out=fan_out).tree().levels == levels


def test_too_large_a_tree_is_refused() -> None:
    with pytest.raises(StackError, match=r"more than 2\^62 keys; at most 31"):
        build(
            *(Choice("dhtree", {"fan_out": 4, "levels": 40}), Choice("flooding")),
            topology=Choice("full-mesh"),
        )
