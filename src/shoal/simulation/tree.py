"""The thesis's abstract topology (Frey, section 7.1): a tree whose links are replaced on schedule.

At regular intervals a random link breaks; ``repair_time`` later a random link that rejoins the two
parts appears in its place. All choices are drawn from the seed alone, before the run, so every
protocol meets the same sequence. Choices are made on the *virtual* tree (live links and those
already due to appear), which keeps it a tree also when repairs overlap.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, NamedTuple

import msgspec

from shoal.simulation.kernel import to_ns
from shoal.simulation.network import Network
from shoal.simulation.topology import (
    Edge,
    adjacency,
    balanced_tree,
    connected,
    distances,
    follow,
    random_tree,
    tree_path,
    ways_to,
)
from shoal.stack import LOCAL, Chance, Reconfiguration, StackError, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Replace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change on a hand-made schedule: ``old`` breaks, ``new`` appears a repair time later.

    Without ``new`` the tree splits; without ``old`` two trees merge.
    """

    at: Seconds
    old: tuple[int, int] | None = None
    new: tuple[int, int] | None = None


class TreeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The initial tree and how it changes."""

    shape: Literal["balanced", "random"] = "balanced"
    """The first tree: filled level by level, or grown at random."""
    max_degree: Annotated[int, msgspec.Meta(ge=2)] = 4
    """Links that a node has at most."""
    links: tuple[tuple[int, int], ...] = ()
    """An explicit tree (or forest) instead of a shape."""
    rate: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """Links replaced per second within the window."""
    window: tuple[Seconds, Seconds] = (3.0, 7.0)
    """Seconds of the run between which links are replaced."""
    repair_time: Seconds = 0.1
    """Seconds from the loss of a link to the appearance of its replacement."""
    schedule: tuple[Replace, ...] = ()
    """Explicit changes, instead of those drawn at ``rate``."""
    root: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Where hierarchical routing has its root."""
    crashes: tuple[tuple[Seconds, int], ...] = ()
    """Nodes that fail, at a time: all their links vanish at once and are not replaced."""

    def __post_init__(self) -> None:
        start, end = self.window
        if start > end:
            raise StackError(f"window ends before it starts; give [{end:g}, {start:g}]")
        if self.rate and (self.schedule or self.crashes):
            raise StackError(
                "changes drawn at a rate would not know of those in schedule and crashes; "
                "give one or the other"
            )


class Replacement(NamedTuple):
    """A planned change of the tree."""

    at: float
    old: Edge | None
    new: Edge | None
    path: tuple[int, ...]


def initial_links(parameters: TreeParameters, nodes: int, seed: int) -> list[Edge]:
    """The tree to start from."""
    if parameters.links:
        _check_forest(parameters.links, nodes)
        return list(parameters.links)
    if parameters.shape == "balanced":
        return balanced_tree(nodes, parameters.max_degree)
    return random_tree(nodes, parameters.max_degree, Chance(seed, "tree"))


def _check_forest(links: tuple[Edge, ...], nodes: int) -> None:
    """Refuse links that name unknown nodes or close a cycle."""
    for i, (a, b) in enumerate(links):
        if not (0 <= a < nodes and 0 <= b < nodes) or a == b:
            raise StackError(f"link {a}-{b}: nodes are 0 to {nodes - 1}, and two different ones")
        if b in distances(adjacency(nodes, links[:i]), a):
            raise StackError(f"link {a}-{b} closes a cycle; a tree has none")


def plan_replacements(
    parameters: TreeParameters, nodes: int, links: list[Edge], seed: int
) -> list[Replacement]:
    """The whole sequence of changes, the same for every protocol at a given seed."""
    start, end = parameters.window
    count = round((end - start) * parameters.rate)
    if not count:
        return []
    if not connected(nodes, links):
        raise StackError("links can only be replaced at a rate on a connected tree; join its parts")
    if nodes < 3:
        raise StackError(f"no link can replace another among {nodes} nodes; use 3 or more")
    chance = Chance(seed, "replacements")
    virtual = adjacency(nodes, links)
    live_from = {tuple(sorted(edge)): 0.0 for edge in links}
    plan: list[Replacement] = []
    for k in range(count):
        at = start + k / parameters.rate
        live = [edge for edge, since in live_from.items() if since <= at]
        if not live:
            continue
        for attempt in range(100):
            a, b = live[chance.below(len(live), k, attempt, 0)]
            if chance.below(2, k, attempt, 1):
                a, b = b, a
            path = _rejoin(virtual, (a, b), parameters.max_degree, chance, k, attempt)
            if path is not None:
                break
        else:
            raise StackError(
                f"no link can replace another on this tree with at most {parameters.max_degree} "
                "neighbours per node; raise max_degree"
            )
        near, far = path
        c, d = near[-1], far[0]
        virtual[c][d] = None
        virtual[d][c] = None
        del live_from[tuple(sorted((a, b)))]
        live_from[tuple(sorted((c, d)))] = at + parameters.repair_time
        plan.append(Replacement(at, (a, b), (c, d), (*near, *far)))
    return plan


def _rejoin(
    virtual: list[dict[int, None]], old: Edge, max_degree: int, chance: Chance, k: int, attempt: int
) -> tuple[list[int], list[int]] | None:
    """Cut ``old`` and draw a pair with room across the cut; None (uncut) if there is none.

    Returned are the two parts of the path from one end of the old link to the other: up to the new
    link, and on from it.
    """
    a, b = old
    del virtual[a][b]
    del virtual[b][a]
    to_a, to_b = ways_to(virtual, a), ways_to(virtual, b)
    near = sorted([n for n in to_a if len(virtual[n]) < max_degree])
    far = sorted([n for n in to_b if len(virtual[n]) < max_degree])
    if near == [a] and far == [b]:
        virtual[a][b] = None
        virtual[b][a] = None
        return None
    draw = 0
    while True:
        c = near[chance.below(len(near), k, attempt, 2, draw)]
        d = far[chance.below(len(far), k, attempt, 3, draw)]
        if (c, d) != (a, b):
            return follow(to_a, c)[::-1], follow(to_b, d)
        draw += 1


def check_schedule(parameters: TreeParameters, nodes: int, links: list[Edge]) -> None:
    """Play explicit changes through; refuse one that cannot happen."""
    acts: list[tuple[float, Edge | None, Edge | None, int | None]] = []
    for change in parameters.schedule:
        wait = parameters.repair_time if change.old is not None else 0.0
        acts.append((change.at, change.old, None, None))
        acts.append((change.at + wait, None, change.new, None))
    acts += [(at, None, None, node) for at, node in parameters.crashes]
    neighbours = adjacency(nodes, links)
    crashed: set[int] = set()
    for at, old, new, node in sorted(acts, key=lambda act: to_ns(act[0])):
        for n in (*(old or ()), *(new or ()), *(() if node is None else (node,))):
            if not 0 <= n < nodes:
                raise StackError(f"there is no node {n} at {at:g} s; nodes are 0 to {nodes - 1}")
            if n in crashed:
                raise StackError(f"node {n} has crashed before {at:g} s; leave it alone")
        if node is not None:
            crashed.add(node)
            for n in neighbours[node]:
                del neighbours[n][node]
            neighbours[node].clear()
        if old is not None:
            a, b = old
            if b not in neighbours[a]:
                raise StackError(f"link {a}-{b} cannot break at {at:g} s: it is not there")
            del neighbours[a][b], neighbours[b][a]
        if new is not None:
            a, b = new
            if b in distances(neighbours, a):
                raise StackError(f"link {a}-{b} at {at:g} s would close a cycle; a tree has none")
            neighbours[a][b] = neighbours[b][a] = None


class AbstractTree:
    """A tree whose links are replaced on schedule (no overlay protocol runs)."""

    def __init__(self, parameters: TreeParameters, network: Network, nodes: int, seed: int) -> None:
        self.parameters = parameters
        self.network = network
        self.links = initial_links(parameters, nodes, seed)
        check_schedule(parameters, nodes, self.links)
        explicit = [self._explicit(change, nodes) for change in parameters.schedule]
        self.plan = plan_replacements(parameters, nodes, self.links, seed) + explicit
        if parameters.root >= nodes:
            raise StackError(f"root {parameters.root}: nodes are 0 to {nodes - 1}")
        self._parent = [LOCAL] * nodes

    def _explicit(self, change: Replace, nodes: int) -> Replacement:
        """A hand-made change; its path is known if it is a replacement on the initial tree."""
        links = [edge for edge in self.links if set(edge) != set(change.old or ())]
        if change.old is None or change.new is None or len(links) == len(self.links):
            return Replacement(change.at, change.old, change.new, ())
        a, b = change.old
        neighbours = adjacency(nodes, links)
        c, d = change.new if change.new[0] in distances(neighbours, a) else change.new[::-1]
        path = (*tree_path(neighbours, a, c), *tree_path(neighbours, d, b))
        return Replacement(change.at, change.old, (c, d), path)

    def start(self) -> None:
        """Raise the initial links and schedule the changes."""
        for a, b in self.links:
            self._up(a, b, None)
        for number, change in enumerate(self.plan):
            self._schedule(number, change)
        kernel = self.network.kernel
        for at, node in self.parameters.crashes:
            kernel.call_at(to_ns(at), partial(self._crash, node))

    def _schedule(self, number: int, change: Replacement) -> None:
        kernel = self.network.kernel
        at, old, new, path = change
        if old is not None and new is not None:
            reconfiguration = Reconfiguration(number, path)
            kernel.call_at(to_ns(at), partial(self.break_link, *old, reconfiguration))
            join = partial(self.replace_link, old, new, reconfiguration)
            kernel.call_at(to_ns(at + self.parameters.repair_time), join)
        elif old is not None:
            kernel.call_at(to_ns(at), partial(self.break_link, *old, None))
        elif new is not None:
            kernel.call_at(to_ns(at), partial(self._up, *new, None))

    def _crash(self, node: int) -> None:
        neighbours = self.network.neighbours(node)
        self.network.crash(node)
        self._parent[node] = LOCAL
        for neighbour in neighbours:
            if self._parent[neighbour] == node:
                self._set_parent(neighbour, LOCAL)

    def replace_link(self, old: Edge, new: Edge, reconfiguration: Reconfiguration) -> None:
        """Raise the link that stands in for a broken one; ``new[0]`` is on ``old[0]``'s side."""
        self._up(*new, reconfiguration)
        self.network.link_replaced(*old, *new, reconfiguration)

    def _up(self, a: int, b: int, reconfiguration: Reconfiguration | None) -> None:
        """Raise a link; of the two parts it joins, the one without the root turns towards it."""
        if self._top(b) == self.parameters.root:
            self._hang(a, b)
        else:
            self._hang(b, a)
        self.network.link_up(a, b, reconfiguration)

    def break_link(self, a: int, b: int, reconfiguration: Reconfiguration | None) -> None:
        """Break a link; its lower end has no parent then."""
        self.network.link_down(a, b, reconfiguration)
        child = a if self._parent[a] == b else b
        self._set_parent(child, LOCAL)

    def _top(self, node: int) -> int:
        """The node of this part that has no parent."""
        while self._parent[node] != LOCAL:
            node = self._parent[node]
        return node

    def _hang(self, node: int, parent: int) -> None:
        """Make ``node`` a child of ``parent``, and turn the nodes above it round."""
        while node != LOCAL:
            above = self._parent[node]
            self._set_parent(node, parent)
            node, parent = above, node

    def _set_parent(self, node: int, parent: int) -> None:
        self._parent[node] = parent
        overlay = self.network.overlay(node)
        if overlay is not None:
            overlay.parent_changed(parent)


register(
    "topology",
    "abstract-tree",
    AbstractTree,
    TreeParameters,
    provides={"links", "tree", "root", "association", "both ends", "path"},
)
