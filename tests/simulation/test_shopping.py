"""Nodes that take turns: what trees they make, and what these cost."""

from __future__ import annotations

import pytest

from shoal.overlay.shopparent_costs import (
    Axis,
    Density,
    Errors,
    Work,
    actions,
    cost,
    joined,
    overhead,
)
from shoal.simulation.shopping import Tree
from shoal.simulation.topology import adjacency, distances
from shoal.stack import Chance
from tree_instances import Instance

METRICS = ("RANDOM", "NHOP", "OVHD", "COMBO")
MERGES = pytest.mark.parametrize("hull", [False, True], ids=["union", "hull"])


def check_tree(instance: Instance, tree: Tree) -> None:
    """A spanning tree of the graph; every node's state follows from its children's."""
    assert tree.parent[0] == -1
    for node in range(1, len(tree.own)):
        assert tree.parent[node] in instance.near[node]
        assert node in tree.children[tree.parent[node]]
        assert tree.hops[node] == tree.hops[tree.parent[node]] + 1
    assert sum(len(children) for children in tree.children) == len(tree.own) - 1
    for node, children in enumerate(tree.children):
        proxied = joined(tree.space, (tree.effective[child] for child in children))
        assert tree.proxied[node] == proxied
        assert tree.effective[node] == tree.space.join(tree.own[node], proxied)


def best_response(tree: Tree, node: int, name: str) -> bool:
    """Whether a node has a parent that none beats, evaluated from scratch.

    The metric of a parent is worked out on a whole tree without the node and all below it.
    """
    gone = {node, *tree.below(node)}
    bare = Tree(tree.near, list(tree.own), tree.space, tree.work)
    left = [n for n in range(len(tree.own)) if n not in gone and n != 0]
    for n in sorted(left, key=lambda n: tree.hops[n]):
        bare.move(n, tree.parent[n])
    values = {}
    for k in tree.near[node]:
        if k in gone:
            continue
        before = overhead(tree.space, tree.work, tree.own[k], bare.proxied[k])
        proxied = tree.space.join(bare.proxied[k], tree.effective[node])
        increase = overhead(tree.space, tree.work, tree.own[k], proxied) - before
        hops = bare.hops[k]
        values[k] = {"NHOP": float(hops), "OVHD": increase, "COMBO": increase * hops}[name]
    return values[tree.parent[node]] <= min(values.values()) + 1e-6


@MERGES
@pytest.mark.parametrize("name", METRICS)
def test_they_end_in_a_spanning_tree_in_which_nobody_wants_to_move(name: str, hull: bool) -> None:
    for seed in range(30):
        instance = Instance(3 + seed % 20, seed, hull, share=0.3)
        tree = instance.tree()
        _, converged = tree.shop(name, instance.chance)
        check_tree(instance, tree)
        if converged and name != "RANDOM":
            for node in range(1, len(tree.own)):
                assert best_response(tree, node, name), (seed, node)


@MERGES
def test_a_node_never_takes_one_of_its_descendants(hull: bool) -> None:
    for seed in range(20):
        instance = Instance(12, seed, hull, share=0.3)
        tree = instance.tree()
        tree.shop("RANDOM", instance.chance)
        for turn in range(60):
            node = 1 + turn % 11
            below = tree.below(node)
            assert not below & set(tree.candidates(node))
            tree.turn(node, "COMBO", instance.chance)
            check_tree(instance, tree)


def test_by_hop_count_every_node_is_as_near_to_the_root_as_can_be() -> None:
    for seed in range(30):
        instance = Instance(25, seed, share=0.15)
        tree = instance.tree()
        tree.shop("NHOP", instance.chance)
        assert dict(enumerate(tree.hops)) == distances(adjacency(25, instance.edges), 0)


def test_a_random_parent_is_kept() -> None:
    instance = Instance(15, 4, share=0.4)
    tree = instance.tree()
    tree.shop("RANDOM", instance.chance)
    parents = list(tree.parent)
    tree.shop("RANDOM", instance.chance, order=7)
    assert tree.parent == parents


@MERGES
def test_the_root_costs_the_same_in_every_tree(hull: bool) -> None:
    for seed in range(8):
        instance = Instance(5, seed, hull, share=0.6)
        costs = {
            round(instance.tree(parents).overheads()[0], 9) for parents in instance.spanning_trees()
        }
        assert len(costs) == 1


@MERGES
def test_cost_less_overhead_is_the_work_a_node_owes_itself(hull: bool) -> None:
    for seed in range(40):
        instance = Instance(3 + seed % 25, seed, hull, share=0.3)
        space, chance = instance.space, instance.chance
        work = Work(*(0.1 + 3 * chance.uniform(-3, k) for k in range(3)))
        tree = Tree(instance.near, list(instance.own), space, work)
        tree.shop(METRICS[seed % 4], chance)
        for own, proxied in zip(tree.own, tree.proxied, strict=True):
            both = cost(space, work, own, proxied) - overhead(space, work, own, proxied)
            assert both == pytest.approx((work.receive + work.process) * space.phi(own))


def counted(instance: Instance, tree: Tree, work: Work) -> list[float]:
    """The overhead of each node, by publishing one event in the middle of each atom."""
    space = instance.space
    assert isinstance(space, Axis)
    found = [0.0] * len(tree.own)
    for atom in range(len(space.bounds) - 1):
        events = space.bounds[atom + 1] - space.bounds[atom]
        for node, own in enumerate(tree.own):
            wants, below = bool(own >> atom & 1), bool(tree.proxied[node] >> atom & 1)
            received, processed, forwarded = actions(wants, below)
            done = work.receive * received + work.process * processed + work.forward * forwarded
            alone = (work.receive + work.process) * wants
            found[node] += events * (done - alone)
    return found


@MERGES
@pytest.mark.parametrize("receive", [1.0, 0.0, 0.3])
def test_the_formula_of_overhead_is_counted_work(hull: bool, receive: float) -> None:
    for seed in range(20):
        instance = Instance(3 + seed, seed, hull, share=0.3)
        work = Work(receive, 1.0)
        tree = Tree(instance.near, list(instance.own), instance.space, work)
        tree.shop("COMBO", instance.chance)
        assert tree.overheads() == pytest.approx(counted(instance, tree, work))
        if not receive:
            assert tree.overheads() == pytest.approx([tree.space.phi(p) for p in tree.proxied])


def test_without_error_the_metric_is_exact() -> None:
    instance = Instance(14, 2, share=0.3)
    plain, noisy = instance.tree(), instance.tree()
    plain.shop("COMBO", instance.chance)
    noisy.shop("COMBO", instance.chance, errors=Errors(Chance(0, "errors"), 0.0, False))
    assert plain.parent == noisy.parent


def test_an_error_is_drawn_once_for_a_child_and_a_parent() -> None:
    errors = Errors(Chance(5, "errors"), 0.1, shared=False)
    assert errors.of(3, 4) == errors.of(3, 4) != errors.of(4, 3)
    drawn = [error for child in range(200) for error in errors.of(child, 0)]
    inside = sum(abs(error) <= 0.1 for error in drawn) / len(drawn)
    assert 0.6 < inside < 0.76
    assert Errors(Chance(5, "errors"), 0.1, shared=True).of(3, 4)[0] == errors.of(3, 4)[0]


@MERGES
def test_interests_add_up_as_sets_of_numbers_do(hull: bool) -> None:
    chance = Chance(0, "sets")
    for case in range(200):
        ends = [chance.below(30, case, k) for k in range(8)]
        pairs = [(float(min(p)), float(max(p))) for p in zip(ends[::2], ends[1::2], strict=True)]
        axis = Axis([float(end) for end in ends], hull, Density())
        masks = [axis.interest((pair,)) for pair in pairs]
        merged = joined(axis, masks)
        covered = set()
        for low, high in pairs:
            covered |= set(range(int(low), int(high)))
        if hull and covered:
            covered = set(range(min(covered), max(covered) + 1))
        assert axis.phi(merged) == len(covered)


def test_an_event_density_that_is_a_bell_adds_up_to_its_total() -> None:
    bell = Density(0.0, 250.0, 125.0, 50.0)
    assert bell.below(float("inf")) - bell.below(float("-inf")) == pytest.approx(250.0)
    assert bell.below(175.0) - bell.below(75.0) == pytest.approx(250 * 0.6827, abs=0.1)
