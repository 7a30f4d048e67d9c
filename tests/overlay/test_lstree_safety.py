"""LSTree never has a cycle, whatever happens in whatever order; and left in peace it is one tree.

Frey, section 10.2.1: "For every parent (Cp, Dp) and child node (Cc, Dc), (Cc, Dc) -> (Cp, Dp)."
"""

from __future__ import annotations

import pytest
from adversary import Adversary
from hypothesis import given
from hypothesis import strategies as st

from shoal.overlay.lstree_relation import BLANK, can_connect, precedes
from shoal.stack import LOCAL

INSTANCES = ("RMG", "RDGM", "DRGM", "RUmDGM", "DUmRGM", "RGDM", "RDUmGM", "RDGUmM")
SEEDS = 250
"""Histories per block; there are eight blocks, one for each instance."""


@pytest.mark.parametrize("instance", INSTANCES)
def test_no_history_makes_a_cycle(instance: str) -> None:
    for seed in range(SEEDS):
        nodes = 3 + seed % 6
        world = Adversary(
            *(seed + 10_000 * INSTANCES.index(instance), nodes),
            {
                "instance": instance,
                "max_degree": 3 if seed % 2 else 5,
                "depth": "integer" if seed % 7 == 3 else "real",
            },
        )
        for _ in range(150):
            world.step()


@pytest.mark.parametrize("instance", INSTANCES[:5])
def test_nodes_that_leave_while_others_leave_fail_or_join_make_no_cycle(instance: str) -> None:
    """A link has one meaning: nobody is parent, child or one to be handed over at once."""
    handed_over = 0
    for seed in range(60):
        world = Adversary(
            *(seed + 1_000 * INSTANCES.index(instance), 3 + seed % 7),
            {"instance": instance, "max_degree": 3 if seed % 2 else 5},
            kind=True,
        )
        for _ in range(400):
            world.step()
        handed_over += sum("Settled" in line for line in world.log)
    assert handed_over > 20


@pytest.mark.parametrize("instance", [*INSTANCES, "AG"])
def test_left_in_peace_it_is_one_tree(instance: str) -> None:
    for seed in range(12):
        nodes = 3 + seed % 8
        limits = {"max_degree": 0} if instance == "AG" else {"max_degree": 4}
        world = Adversary(seed, nodes, {"instance": instance, **limits})
        for _ in range(200):
            world.step()
        world.settle(1500.0)
        assert len(world.roots()) == 1, world.story(f"roots {world.roots()}")
        overlays = {node: life.overlay for node, life in world.lives.items()}
        assert len({overlay.colour for overlay in overlays.values()}) == 1
        for node, overlay in overlays.items():
            assert overlay.search is None
            below = {n for n, other in overlays.items() if other.parent == node}
            above = set() if overlay.parent == LOCAL else {overlay.parent}
            assert {n for n, child in overlay.children.items() if child.attached} == below
            assert overlay.children.keys() == below
            assert overlay.neighbours.keys() == above | below
            regional = [contact.node for contact in overlay.ancestors]
            chain: list[int] = []
            at = overlay.parent
            while at != LOCAL and len(chain) < 3:
                chain.append(at)
                at = overlays[at].parent
            assert regional == chain
            if overlay.parent != LOCAL:
                beside = overlays[overlay.parent].children.keys()
                assert {contact.node for contact in overlay.siblings} == beside


colours = st.one_of(
    st.just(BLANK), st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 1))
)
values = st.tuples(colours, st.floats(0, 3))


@given(values, values, values)
def test_the_relation_is_a_strict_order(a: object, b: object, c: object) -> None:
    """T10.2-a: irreflexive, asymmetric, transitive; total on distinct colours."""

    def before(first: object, second: object) -> bool:
        return can_connect(*first, *second)  # type: ignore[misc]

    assert not before(a, a)
    assert not (before(a, b) and before(b, a))
    if before(a, b) and before(b, c):
        assert before(a, c)
    if a[0] != b[0]:  # type: ignore[index]
        assert precedes(a[0], b[0]) != precedes(b[0], a[0])  # type: ignore[index]
