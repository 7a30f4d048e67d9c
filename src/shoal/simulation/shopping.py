"""Nodes take turns to shop for a parent, until none finds a better one: the paper's static model.

Huang and Garcia-Molina, section 5: in one random order per run, again and again, each node acts on
what its neighbours would tell it at that moment. No messages are sent, so a run takes milliseconds.
Metrics and overheads are those of the protocol (:mod:`shoal.overlay.shopparent_costs`).

A node that is not in the tree yet joins the best neighbour that is; ties are broken at random. A
node in the tree changes to a strictly better parent. Parents are compared as if the node and all
below it were absent (*detached*): otherwise an ancestor would seem to serve them for nothing. A
node never takes one of its descendants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from shoal.overlay.shopparent_costs import (
    LEAST,
    NHOP,
    RANDOM,
    Errors,
    Space,
    Work,
    metric,
    overhead,
)
from shoal.stack.chance import Chance

NONE: Final = -1
ROUNDS: Final = 300
"""Rounds after which a tree that still changes is taken as it is. Best responses can cycle; then it
is taken when a tree comes for the second time."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Tree:
    """A publish/subscribe tree that grows by turns."""

    def __init__(
        self, near: Sequence[Sequence[int]], own: list[int], space: Space, work: Work, root: int = 0
    ) -> None:
        nodes = len(own)
        self.near = near
        """Per node its neighbours."""
        self.own = own
        """Per node its inherent subscription s_i."""
        self.space = space
        self.work = work
        self.root = root
        self.parent = [NONE] * nodes
        self.hops = [NONE] * nodes
        """H_i: hops to the root; NONE for nodes outside the tree."""
        self.hops[root] = 0
        self.children: list[dict[int, None]] = [{} for _ in range(nodes)]
        self.proxied = [0] * nodes
        """Per node what its children want, s'_i."""
        self.effective = list(own)
        """Per node S_i = s_i or s'_i."""

    # Turns

    def shop(
        self, name: str, chance: Chance, order: int = 0, errors: Errors | None = None
    ) -> tuple[int, bool]:
        """Take turns until nobody moves; the number of rounds, and whether it came to that."""
        turns = chance.sample(range(len(self.own)), len(self.own), order)
        before: set[tuple[int, ...]] = set()
        for rounds in range(1, ROUNDS + 1):
            moved = False
            for node in turns:
                if node != self.root and self.turn(node, name, chance, order, errors):
                    moved = True
            if not moved:
                return rounds, True
            now = tuple(self.parent)
            if now in before:
                return rounds, False
            before.add(now)
        return ROUNDS, False

    def turn(
        self, node: int, name: str, chance: Chance, order: int = 0, errors: Errors | None = None
    ) -> bool:
        """A node joins, or changes its parent; False if it stays as it is."""
        current = self.parent[node]
        if name == RANDOM and current != NONE:
            return False
        candidates = self.candidates(node)
        if not candidates:
            return False
        if name == RANDOM:
            chosen = candidates[chance.below(len(candidates), order, node)]
        else:
            values = self.metrics(node, name, candidates, errors)
            if current == NONE:  # a newcomer takes one of the best, at random
                least = min(values) + LEAST
                best = [c for c, value in zip(candidates, values, strict=True) if value <= least]
                chosen = best[chance.below(len(best), order, node)]
            else:
                chosen = current
                least = values[candidates.index(current)] - LEAST
                for candidate, value in zip(candidates, values, strict=True):
                    if value < least:
                        chosen, least = candidate, value
        if chosen == current:
            return False
        self.move(node, chosen)
        return True

    def candidates(self, node: int) -> list[int]:
        """The neighbours in the tree that are not below this node."""
        hops = self.hops
        near = [k for k in self.near[node] if hops[k] >= 0]
        if not self.children[node]:
            return near
        below = self.below(node)
        return [k for k in near if k not in below]

    def below(self, node: int) -> set[int]:
        """All descendants of a node."""
        found = list(self.children[node])
        for child in found:
            found.extend(self.children[child])
        return set(found)

    def metrics(
        self, node: int, name: str, candidates: list[int], errors: Errors | None = None
    ) -> list[float]:
        """The metrics of candidates, as if the node and all below it were absent."""
        hops = self.hops
        if name == NHOP:
            return [float(hops[k]) for k in candidates]
        detached = self._detached(node)
        space, work, own, proxied = self.space, self.work, self.own, self.proxied
        added = self.effective[node]
        values: list[float] = []
        for k in candidates:
            others = detached.get(k, -1)
            if others < 0:
                others = proxied[k]
            error = (0.0, 0.0) if errors is None else errors.of(node, k)
            values.append(metric(name, space, work, hops[k], own[k], others, added, error))
        return values

    def _detached(self, node: int) -> dict[int, int]:
        """Per ancestor of a node, what its children would want without the node."""
        found: dict[int, int] = {}
        child, without = node, 0
        at = self.parent[node]
        space = self.space
        while at != NONE:
            wanted = 0
            for other in self.children[at]:
                wanted = space.join(wanted, without if other == child else self.effective[other])
            if wanted == self.proxied[at]:
                break  # others want as much, so ancestors see no difference
            found[at] = wanted
            child, without = at, space.join(self.own[at], wanted)
            at = self.parent[at]
        return found

    # Changes

    def move(self, node: int, parent: int) -> None:
        """A node changes its parent, or joins."""
        old = self.parent[node]
        if old != NONE:
            del self.children[old][node]
            self._update(old)
        self.parent[node] = parent
        self.children[parent][node] = None
        self._update(parent)
        deeper = self.hops[parent] + 1
        if self.hops[node] != deeper:
            self.hops[node] = deeper
            below = [node]
            for one in below:
                for child in self.children[one]:
                    self.hops[child] = self.hops[one] + 1
                    below.append(child)

    def _update(self, at: int) -> None:
        """What is wanted at a node and above it, after its children changed."""
        space = self.space
        while at != NONE:
            wanted = 0
            for child in self.children[at]:
                wanted = space.join(wanted, self.effective[child])
            if wanted == self.proxied[at]:
                return
            self.proxied[at] = wanted
            self.effective[at] = space.join(self.own[at], wanted)
            at = self.parent[at]

    def hang(self, parents: Sequence[int]) -> None:
        """Make this very tree: per node its parent."""
        waiting = [node for node in range(len(parents)) if node != self.root]
        while waiting:
            ready = [node for node in waiting if self.hops[parents[node]] >= 0]
            if not ready:
                raise ValueError("these parents are no tree")
            for node in ready:
                self.move(node, parents[node])
            waiting = [node for node in waiting if self.parent[node] == NONE]

    # What it costs

    def overheads(self) -> list[float]:
        """O_i of every node."""
        return [
            overhead(self.space, self.work, own, proxied)
            for own, proxied in zip(self.own, self.proxied, strict=True)
        ]

    def overhead(self) -> float:
        """O: the overhead of the tree, its root included."""
        return sum(self.overheads())
