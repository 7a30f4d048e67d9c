"""OPT is the least over all spanning trees, for both ways of merging interests."""

from __future__ import annotations

import contextlib

import pytest

from shoal.simulation.optimum import optimum
from tree_instances import Instance


@pytest.mark.parametrize("hull", [False, True], ids=["union", "hull"])
@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_exhaustive_search_finds(seed: int, hull: bool) -> None:
    instance = Instance(4 + seed % 4, seed, hull, share=0.55)
    least = min(instance.tree(parents).overhead() for parents in instance.spanning_trees())
    found = optimum(instance.near, instance.own, instance.space, instance.work)
    assert found.overhead == pytest.approx(least, rel=1e-6)
    assert found.gap <= 1e-6
    assert instance.tree(found.parents).overhead() == found.overhead


@pytest.mark.parametrize("hull", [False, True], ids=["union", "hull"])
def test_no_tree_of_the_greedy_algorithms_beats_it(hull: bool) -> None:
    for seed in range(6):
        instance = Instance(10, seed, hull, share=0.3)
        found = optimum(instance.near, instance.own, instance.space, instance.work)
        for name in ("RANDOM", "NHOP", "OVHD", "COMBO"):
            tree = instance.tree()
            tree.shop(name, instance.chance)
            assert tree.overhead() >= found.overhead * (1 - 1e-6)


def test_a_solver_that_runs_out_of_time_says_how_far_it_may_be() -> None:
    instance = Instance(16, 3, hull=True, share=0.2)
    best = optimum(instance.near, instance.own, instance.space, instance.work)
    with contextlib.suppress(TimeoutError):  # found nothing at all
        found = optimum(instance.near, instance.own, instance.space, instance.work, seconds=0.02)
        assert found.bound <= best.overhead * (1 + 1e-6)
        assert best.overhead <= found.overhead * (1 + 1e-6)
        assert found.overhead * (1 - found.gap) == pytest.approx(found.bound)


def test_when_everybody_hears_the_root_the_star_is_best() -> None:
    instance = Instance(6, 1, share=1.0)
    found = optimum(instance.near, instance.own, instance.space, instance.work)
    assert found.parents == [-1, 0, 0, 0, 0, 0]
    assert found.gap == 0


def test_a_tree_found_otherwise_is_given_where_the_solver_has_no_better_one() -> None:
    instance = Instance(16, 3, hull=True, share=0.2)
    tree = instance.tree()
    tree.shop("COMBO", instance.chance)
    args = (instance.near, instance.own, instance.space, instance.work)
    found = optimum(*args, seconds=0.001, known=[tree])
    assert found.bound <= found.overhead <= tree.overhead()
    assert instance.tree(found.parents).overhead() == found.overhead
