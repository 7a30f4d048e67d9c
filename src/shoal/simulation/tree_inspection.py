"""What a run notes about a publish/subscribe tree: each node's share, and trees built afresh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.overlay.shopparent import ShopParent
from shoal.overlay.shopparent_costs import Axis, axis_of, cost, overhead
from shoal.overlay.shopparent_interests import OnAxis
from shoal.simulation.shopping import Tree
from shoal.stack import Chance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.simulation.placement import Places
    from shoal.simulation.radio_range import RadioRange
    from shoal.simulation.recorder import Recorder

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
    axis, own = axis_of(ground.intervals, hull, ground.expected)
    hears = ground.connections.near
    near = [[k for k in hears[n] if k in shoppers and n in shoppers] for n in range(len(own))]
    tree = Tree(near, list(own), axis, one.work, root)
    for node in sorted(shoppers, key=lambda n: len(shoppers[n].route)):
        if node != root:
            tree.move(node, shoppers[node].parent)
    fresh = []
    for order in range(FRESH):
        built = Tree(near, list(own), axis, one.work, root)
        built.shop(one.metric, Chance(ground.chance.seed, "fresh"), order)
        fresh.append(built.overhead())
    if number == len(ground.parameters.inspect) - 1:
        note_nodes(ground.network.recorder, tree, axis, ground.connections.places, ground.intervals)
    for what, value in (
        ("tree overhead", tree.overhead()),
        ("fresh overhead", sum(fresh) / FRESH),
        ("fresh least", min(fresh)),
        ("fresh most", max(fresh)),
    ):
        note(root, what, number, repr(value))


def note_nodes(
    recorder: Recorder,
    tree: Tree,
    axis: Axis,
    places: Places,
    intervals: Sequence[tuple[float, float] | None],
) -> None:
    """Per node, with its parent: where it is, what it wants, what it does for others."""
    for node, parent in enumerate(tree.parent):
        if parent < 0 and node != tree.root:
            continue
        own, proxied = tree.own[node], tree.proxied[node]
        interval = intervals[node]
        x, y = places[node].tolist()
        recorder.noted(node, "place", parent, f"{x!r} {y!r}")
        if interval is not None:
            recorder.noted(node, "interval", parent, f"{interval[0]!r} {interval[1]!r}")
        for what, value in (
            ("hops", float(tree.hops[node])),
            ("inherent", axis.phi(own)),
            ("proxied", axis.phi(proxied)),
            ("foreign", axis.phi(proxied & ~own)),
            ("overhead", overhead(axis, tree.work, own, proxied)),
            ("cost", cost(axis, tree.work, own, proxied)),
        ):
            recorder.noted(node, what, parent, repr(value))
        for other in tree.near[node]:
            if node < other:
                recorder.noted(node, "edge", other, "")
