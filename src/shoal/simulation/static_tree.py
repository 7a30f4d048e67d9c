"""The tree that nodes on a plane arrive at by taking turns: the static runs of ShopParent's paper.

Huang and Garcia-Molina, section 5. The tree is worked out when the run begins (see
:mod:`~shoal.simulation.shopping`), once for each of ``orders`` random orders; the links of the run
are those of the first. Notes say what the trees cost, so figures need no events; where events are
published, they follow the links as on any tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from shoal.overlay.shopparent_costs import Errors, Work, axis_of, metric
from shoal.simulation.optimum import Optimum, optimum
from shoal.simulation.placement import edges_within, intervals_of, places_of
from shoal.simulation.radio_range import RadioRangeParameters, placed_workload
from shoal.simulation.shopping import Tree
from shoal.simulation.topology import adjacency, connected
from shoal.simulation.tree_inspection import note_nodes
from shoal.stack import Chance, StackError, register

if TYPE_CHECKING:
    from shoal.simulation.network import Network
    from shoal.simulation.workload import Workload

Units = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class StaticTreeParameters(RadioRangeParameters, frozen=True, forbid_unknown_fields=True):
    """A placement, what the nodes want, and how they choose their parents."""

    metric: Literal["NHOP", "OVHD", "COMBO", "RANDOM", "OPT"] = "COMBO"
    """What a parent is chosen by; OPT is the exact optimum."""
    merge: Literal["union", "hull"] = "union"
    """How interests add up: as a disjunction, or as one interval that covers them."""
    receive: Units = 1.0
    """r: units of work to receive an event."""
    forward: Units = 1.0
    """f: units of work to forward an event."""
    error: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Standard deviation of the relative error of overheads (COMBOerr)."""
    error_terms: Literal["shared", "independent"] = "independent"
    """Whether the overhead with and without the child have one error or two."""
    orders: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    """Random orders in which the nodes take turns."""
    parents: tuple[int, ...] = ()
    """This very tree in place of one that is grown: per node its parent, -1 for the root."""
    compare: bool = False
    """Also find the optimum, and note how much more the trees cost."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 60.0
    """The time that the solver has for the optimum."""
    process: Units = 1.0
    """Work to process an event; part of costs, not of overheads."""
    detail: bool = False
    """Also note places, neighbours and the share of each node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.moves or self.failures:
            raise StackError("nodes of a static tree neither move nor fail; use radio-range")


class StaticTree:
    """The publish/subscribe tree of nodes that took turns to shop for parents."""

    def __init__(
        self, parameters: StaticTreeParameters, network: Network, nodes: int, seed: int
    ) -> None:
        self.parameters = parameters
        self.network = network
        self.seed = seed
        if parameters.root >= nodes:
            raise StackError(f"there is no node {parameters.root}; nodes are 0 to {nodes - 1}")
        self.places = places_of(parameters, nodes, seed)
        self.edges = edges_within(self.places, parameters.range)
        if not connected(nodes, self.edges):
            raise StackError(
                f"the places are not connected at a range of {parameters.range:g}, so no tree "
                "spans them; give a longer range"
            )
        self.near = [list(near) for near in adjacency(nodes, self.edges)]
        self.intervals = intervals_of(parameters.interests, self.places, seed)
        hull, expected = parameters.merge == "hull", parameters.interests.expected()
        self.axis, self.own = axis_of(self.intervals, hull, expected)
        self.work = Work(parameters.receive, parameters.forward, parameters.process)
        network.radio = True
        self.tree = self._grow()
        self.links = [(p, n) for n, p in enumerate(self.tree.parent) if p >= 0]

    def _empty(self) -> Tree:
        return Tree(self.near, list(self.own), self.axis, self.work, self.parameters.root)

    def _grow(self) -> Tree:
        """Grow a tree for each order, note what it costs, and give the first."""
        parameters, note = self.parameters, self._note
        note("neighbours", 0, 2 * len(self.edges) / len(self.near))
        self._note_interests()
        if parameters.parents or parameters.metric == "OPT":
            if parameters.parents:
                self._check_parents()
            tree = self._empty()
            tree.hang(parameters.parents or self._optimum([]).parents)
            note("tree overhead", 0, tree.overhead())
            return tree
        trees: list[Tree] = []
        for order in range(parameters.orders):
            tree = self._empty()
            errors = None
            if parameters.error:
                shared = parameters.error_terms == "shared"
                errors = Errors(Chance(self.seed, "errors"), parameters.error, shared, order)
            chance = Chance(self.seed, "turns")
            rounds, converged = tree.shop(parameters.metric, chance, order, errors)
            note("tree overhead", order, tree.overhead())
            note("rounds", order, rounds)
            note("converged", order, converged)
            trees.append(tree)
        if parameters.compare:
            best = self._optimum(trees)
            if best.overhead > 0 and best.bound > 0:
                for order, tree in enumerate(trees):
                    note("times optimum", order, tree.overhead() / best.overhead)
                    note("times bound", order, tree.overhead() / best.bound)
        return trees[0]

    def _check_parents(self) -> None:
        """Refuse given parents that are no tree of neighbours."""
        parents, root = self.parameters.parents, self.parameters.root
        if len(parents) != len(self.near):
            raise StackError(f"there are {len(parents)} parents for {len(self.near)} nodes")
        for node, parent in enumerate(parents):
            if (parent == -1) != (node == root):
                raise StackError(
                    f"node {node} has the parent {parent}, but node {root} is the root: "
                    "it alone has the parent -1"
                )
            if node != root and parent not in self.near[node]:
                raise StackError(f"the parent {parent} of node {node} is none of its neighbours")
        for node in range(len(parents)):
            seen: set[int] = set()
            while node != root and node not in seen:
                seen.add(node)
                node = parents[node]
            if node != root:
                raise StackError(f"the parents of node {node} lead in a circle, not to the root")

    def _optimum(self, known: list[Tree]) -> Optimum:
        """The best tree, noted with what is proven about it."""
        parameters = self.parameters
        args = (self.near, self.own, self.axis, self.work, parameters.root)
        best = optimum(*args, seconds=parameters.seconds, known=known)
        self._note("optimum", 0, best.overhead)  # proven if the gap is 0
        self._note("gap", 0, best.gap)
        return best

    def _note_interests(self) -> None:
        """How many pairs of nodes want the same, and how intervals lie beside places."""
        there = [(n, pair) for n, pair in enumerate(self.intervals) if pair is not None]
        meet = pairs = 0
        for k, (_, (low, high)) in enumerate(there):
            for _, (other_low, other_high) in there[:k]:
                pairs += 1
                meet += low <= other_high and other_low <= high
        self._note("overlap", 0, meet / pairs if pairs else 0.0)
        offsets = [(low + high) / 2 - self.places[n, 0] for n, (low, high) in there]
        self._note("offset", 0, sum(offsets) / max(1, len(there)))
        self._note("squared offset", 0, sum(o * o for o in offsets) / max(1, len(there)))
        self._note("lengths", 0, sum((n + 1) * (high - low) for n, (low, high) in there))

    def _note(self, what: str, order: int, value: float) -> None:
        self.network.recorder.noted(self.parameters.root, what, order, repr(float(value)))

    def workload(self) -> Workload:
        """What nodes want, and what the root publishes; nothing if it publishes nothing."""
        intervals = self.intervals if self.parameters.events else [None] * len(self.intervals)
        return placed_workload(self.parameters, intervals, self.seed)

    def start(self) -> None:
        """Raise the links, parents first."""
        tree = self.tree
        if self.parameters.detail:
            note_nodes(self.network.recorder, tree, self.axis, self.places, self.intervals)
            if self.parameters.error:
                self._note_errors()
        for parent, node in sorted(self.links, key=lambda link: tree.hops[link[1]]):
            self.network.link_up(parent, node)
            overlay = self.network.overlay(node)
            if overlay is not None:
                overlay.parent_changed(parent)

    def _note_errors(self) -> None:
        """Per child and parent the error drawn, and the overhead of that child without and with."""
        parameters, note = self.parameters, self.network.recorder.noted
        shared = parameters.error_terms == "shared"
        errors = Errors(Chance(self.seed, "errors"), parameters.error, shared)
        for child, near in enumerate(self.near):
            for parent in near:
                error = errors.of(child, parent)
                args = (self.axis, self.work, 1, self.own[parent], 0, self.own[child])
                true = metric("OVHD", *args)
                used = metric("OVHD", *args, error)
                note(child, "error", parent, repr(error[0]))
                note(child, "terms", parent, f"{true!r} {used!r} {error[0]!r}")


register(
    "topology",
    "static-tree",
    StaticTree,
    StaticTreeParameters,
    provides={"links", "tree", "root"},
    summary="The publish/subscribe tree of nodes on a plane that took turns to shop for parents.",
)
