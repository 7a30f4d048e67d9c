"""Compares a tree that nodes have built by messages with trees built afresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.overlay.shopparent import ShopParent
from shoal.overlay.shopparent_costs import Axis
from shoal.overlay.shopparent_interests import OnAxis
from shoal.simulation.shopping import Tree
from shoal.stack import Chance

if TYPE_CHECKING:
    from shoal.simulation.radio_range import RadioRange

FRESH = 10
"""Trees built afresh."""


def inspect(ground: RadioRange, number: int) -> None:
    """Note whether all nodes are in one tree, what it costs, and what fresh ones would cost."""
    nodes = ground.network.nodes
    overlays = {n: node.overlay for n, node in enumerate(nodes) if node is not None}
    root = ground.parameters.root
    shoppers = {n: o for n, o in overlays.items() if isinstance(o, ShopParent)}
    whole = all(o.rank >= 0 and (n == root or o.parent in shoppers) for n, o in shoppers.items())
    note = ground.network.recorder.noted
    note(root, "whole", number, repr(float(whole)))
    if not whole or root not in shoppers:
        return
    one = shoppers[root]
    hull = isinstance(one.interests, OnAxis) and one.interests.hull
    wanted = [() if pair is None else (pair,) for pair in ground.intervals]
    axis = Axis([end for pairs in wanted for pair in pairs for end in pair], hull, ground.expected)
    own = [axis.interest(pairs) for pairs in wanted]
    near = [[k for k in ground.connections.near[n] if k in shoppers] for n in range(len(own))]
    tree = Tree(near, list(own), axis, one.work, root)
    for node in sorted(shoppers, key=lambda n: len(shoppers[n].route)):
        if node != root:
            tree.move(node, shoppers[node].parent)
    fresh = []
    for order in range(FRESH):
        built = Tree(near, list(own), axis, one.work, root)
        built.shop(one.metric, Chance(ground.chance.seed, "fresh"), order)
        fresh.append(built.overhead())
    for what, value in (
        ("tree overhead", tree.overhead()),
        ("fresh overhead", sum(fresh) / FRESH),
        ("fresh least", min(fresh)),
        ("fresh most", max(fresh)),
    ):
        note(root, what, number, repr(value))
