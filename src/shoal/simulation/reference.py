"""The tree that DHTree's rule gives, with a hash table that is always settled (Frey, section 11.3).

Hosts sit at keys of a reference tree. Whenever one comes or goes, all links become at once those
that the keys of the hosts give: the thesis's abstract model, in which the overlay's protocol is
called only once the hash table has stabilised. The protocol itself is the overlay ``dhtree``.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import msgspec

from shoal.overlay.reference_tree import ReferenceTree
from shoal.simulation.kernel import to_ns
from shoal.simulation.network import Network
from shoal.simulation.topology import Edge
from shoal.stack import LOCAL, Chance, StackError, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class HostChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host that comes or goes."""

    at: Seconds
    node: Annotated[int, msgspec.Meta(ge=0)]
    do: Literal["join", "leave"]


class ReferenceParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reference tree, who is there at first, and who comes and goes."""

    fan_out: Annotated[int, msgspec.Meta(ge=2, le=16)] = 2
    """Children of an inner key."""
    levels: Annotated[int, msgspec.Meta(ge=1, le=30)] = 8
    """Levels of the reference tree."""
    hosts: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Nodes that are there at first; all if not given."""
    positions: tuple[int, ...] = ()
    """The key of every node; drawn at random if not given."""
    changes: tuple[HostChange, ...] = ()
    """Hosts that come and go, one by one."""
    swaps: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """How often a host joins and, half an interval later, another one leaves."""
    interval: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0
    """Seconds from one such swap to the next."""


def positions_of(parameters: ReferenceParameters, nodes: int, seed: int) -> list[int]:
    """The key of every node, all different."""
    keys = ReferenceTree(parameters.fan_out, parameters.levels).keys
    if parameters.positions:
        found = list(parameters.positions)
        if len(found) != nodes or len(set(found)) < nodes or not all(1 <= k <= keys for k in found):
            raise StackError(f"positions must be {nodes} different keys from 1 to {keys}")
        return found
    if nodes > keys:
        raise StackError(f"{nodes} hosts cannot sit at {keys} keys; raise levels")
    return Chance(seed, "positions").sample(range(1, keys + 1), nodes)


def parents_of(tree: ReferenceTree, positions: dict[int, int]) -> dict[int, int]:
    """The parent of every host (LOCAL at the root), given the hosts' positions."""
    order = sorted(positions, key=lambda node: positions[node])
    tops: dict[int, int] = {}
    for place, node in enumerate(order):
        tops[tree.topmost(positions[order[place - 1]], positions[node]).key] = node
    parents: dict[int, int] = {}
    for key, node in tops.items():
        above = [place.key for place in tree.path(key)[:-1] if place.key in tops]
        parents[node] = tops[above[-1]] if above else LOCAL
    return parents


class ReferenceNetwork:
    """Hosts whose links are always those that their keys give."""

    def __init__(
        self, parameters: ReferenceParameters, network: Network, nodes: int, seed: int
    ) -> None:
        self.parameters = parameters
        self.network = network
        self.tree = ReferenceTree(parameters.fan_out, parameters.levels)
        self.positions = positions_of(parameters, nodes, seed)
        present = nodes if parameters.hosts is None else parameters.hosts
        if present > nodes:
            raise StackError(f"{present} hosts cannot be among {nodes} nodes; lower hosts")
        self.present: dict[int, None] = dict.fromkeys(range(present))
        self.chance = Chance(seed, "swaps")
        self._parents: dict[int, int] = {}
        for change in parameters.changes:
            if change.node >= nodes:
                raise StackError(f"there is no node {change.node}; nodes are 0 to {nodes - 1}")
        if parameters.swaps and present >= nodes:
            raise StackError("hosts can be swapped only if some are away; lower hosts")

    @property
    def links(self) -> list[Edge]:
        """The links there are."""
        return [(up, node) for node, up in self._parents.items() if up != LOCAL]

    def start(self) -> None:
        """Link those that are there, and schedule the changes."""
        self._relink()
        kernel, parameters = self.network.kernel, self.parameters
        for change in parameters.changes:
            act = partial(self._change, change.node, change.do == "join")
            kernel.call_at(to_ns(change.at), act)
        for number in range(parameters.swaps):
            at = (number + 1) * parameters.interval
            kernel.call_at(to_ns(at), partial(self._swap, number, True))
            kernel.call_at(to_ns(at + parameters.interval / 2), partial(self._swap, number, False))

    def _swap(self, number: int, joins: bool) -> None:
        """One comes, or one goes, at random."""
        away = [node for node in range(len(self.positions)) if node not in self.present]
        among = away if joins else list(self.present)
        self._change(self.chance.choice(among, number, int(joins)), joins)

    def _change(self, node: int, joins: bool) -> None:
        if joins == (node in self.present) or (not joins and len(self.present) == 1):
            return
        if joins:
            self.present[node] = None
        else:
            del self.present[node]
        self._relink()

    def _relink(self) -> None:
        """Drop the links that are no more, then make the new ones."""
        before = self._parents
        after = parents_of(self.tree, {node: self.positions[node] for node in self.present})
        old = {tuple(sorted(pair)) for pair in before.items() if pair[1] != LOCAL}
        new = {tuple(sorted(pair)) for pair in after.items() if pair[1] != LOCAL}
        self._parents = after
        for a, b in sorted(old - new):
            self.network.link_down(a, b)
        for a, b in sorted(new - old):
            self.network.link_up(a, b)
        for node in self.present:
            overlay = self.network.overlay(node)
            if overlay is not None and before.get(node, LOCAL) != after[node]:
                overlay.parent_changed(after[node])


register(
    "topology",
    "reference-tree",
    ReferenceNetwork,
    ReferenceParameters,
    provides={"links", "tree", "root"},
)
