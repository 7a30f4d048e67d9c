"""Networks of DHTree nodes, looked at from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.overlay.dhtree import DHTree
from shoal.overlay.reference_tree import (
    Owner,
    Owners,
    ReferenceTree,
    children_of,
    parent_of,
)
from shoal.simulation import parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import LOCAL, Host, Layer, Node


def ideal(
    tree: ReferenceTree, positions: dict[int, int]
) -> tuple[dict[int, int | None], dict[int, list[int]]]:
    """Parent and children of every host, with everybody's keys known: hosts by node."""
    order = sorted(positions, key=lambda node: positions[node])
    owners = [
        Owner(node, positions[order[place - 1]], positions[node])
        for place, node in enumerate(order)
    ]
    parents: dict[int, int | None] = {}
    children: dict[int, list[int]] = {}
    for me in owners:
        known = Owners(tree, me)
        for owner in owners:
            if owner is not me:
                known.learn(owner)
        parent = parent_of(known)
        parents[me.host] = None if parent is None else parent.host
        children[me.host] = sorted(child.host for child in children_of(known))
    return parents, children


class DHTreeWorld:
    """A network of DHTrees; ``positions`` puts nodes where a test wants them."""

    def __init__(
        self,
        nodes: int,
        seed: int = 0,
        positions: Sequence[int] | None = None,
        overlay: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
        **topology: Any,
    ) -> None:
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": nodes,
                    "seed": seed,
                    "duration": 1000.0,
                    "topology": {"name": "full-mesh", **topology},
                    "overlay": {"name": "dhtree", **(overlay or {})},
                    "routing": {"name": "subscription-forwarding"},
                    "reconfiguration": {"name": "timed"},
                    "link": {"delay": 0.01},
                    **(more or {}),
                }
            )
        )
        self.topology = self.simulation.topology
        if positions is not None:
            network = self.simulation.network
            make = network.make_node
            assert make is not None

            def at_its_position(host: Host) -> Node:
                node = make(host)
                assert isinstance(node.overlay, DHTree)
                node.overlay.ring.position = positions[host.node]
                return node

            network.make_node = at_its_position
        self.topology.start()

    def run(self, until: float) -> None:
        self.simulation.kernel.run(to_ns(until))

    def rest(self, seconds: float = 120.0) -> None:
        kernel = self.simulation.kernel
        assert kernel.run_to_rest(kernel.now + to_ns(seconds)), "not at rest"

    def running(self) -> list[int]:
        return [n for n, node in enumerate(self.simulation.network.nodes) if node is not None]

    def overlay(self, node: int) -> DHTree:
        found = self.simulation.network.nodes[node]
        assert found is not None
        assert isinstance(found.overlay, DHTree)
        return found.overlay

    def wrong(self) -> str | None:
        """How the tree differs from the one that the nodes' positions give, if it does."""
        running: dict[int, Layer] = {n: self.overlay(n) for n in self.running()}
        for node in running:
            overlay = self.overlay(node)
            wrong = overlay.broken_promise(running)
            if wrong is not None:
                return f"{node}: {wrong}"
            both = {*overlay.children, overlay.parent} - {LOCAL}
            if both != set(overlay.neighbours):
                return f"{node} has neighbours {list(overlay.neighbours)}, not {sorted(both)}"
        return self.simulation.wrong_table()

    def links(self) -> set[tuple[int, int]]:
        """(parent, child) of every link."""
        return {(n, child) for n in self.running() for child in self.overlay(n).children}
