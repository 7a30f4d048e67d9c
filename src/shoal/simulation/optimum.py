"""OPT: the publish/subscribe tree of least overhead, as a mixed-integer program (HiGHS).

Huang and Garcia-Molina (section 3) search all spanning trees. Here a solver does, and says how far
from the least it may have stopped. Two facts make the program small: the root forwards what all
others want, whatever the tree; and so some best tree hangs all the root's neighbours on the root.

* A binary for each arc into another node: whether its tail is the parent. One parent each.
* For each such node t a unit of flow from the root's neighbours to t, over chosen arcs only: the
  nodes that it leaves are those that forward for t.
* For each node and atom of content, whether the node forwards it: for every t that wants it.

With merge by hull a node also forwards the atoms between two that it forwards: cover variables grow
from the left and from the right, and where they overlap the atom is forwarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.overlay.shopparent_costs import Space, Work, joined, overhead
from shoal.simulation.shopping import Tree


@dataclass(frozen=True)
class Optimum:
    """The best tree that was found."""

    parents: list[int]
    """Per node its parent; -1 for the root."""
    overhead: float
    bound: float
    """No tree has less overhead than this."""

    @property
    def gap(self) -> float:
        """How much better another tree may be, as a share of this one's overhead; 0 if proven."""
        if self.overhead <= 0:
            return 0.0
        return max(0.0, 1.0 - self.bound / self.overhead)


def optimum(
    near: Sequence[Sequence[int]],
    own: Sequence[int],
    space: Space,
    work: Work,
    root: int = 0,
    seconds: float = 60.0,
    known: Sequence[Tree] = (),
) -> Optimum:
    """The tree of least overhead, or the best found within a time, with a proven bound.

    ``known`` are trees found otherwise, of which one may be better than the solver's in that time.
    """
    nodes = len(own)
    first = set(near[root])
    others = [t for t in range(nodes) if t != root and t not in first]
    parents = [root if n in first else -1 for n in range(nodes)]
    everything = joined(space, (own[n] for n in range(nodes) if n != root))
    fixed = overhead(space, work, own[root], everything)
    if not others:
        return Optimum(parents, fixed, fixed)
    program = _Program(near, own, space, work, root, others)
    found, bound = program.solve(seconds)
    trees = list(known)
    if found:
        for node, parent in found.items():
            parents[node] = parent
        solved = Tree(near, list(own), space, work, root)
        solved.hang(parents)
        trees.insert(0, solved)
    if not trees:
        raise TimeoutError(
            f"no tree was found in {seconds:g} s; give the solver more time (seconds)"
        )
    best = min(trees, key=Tree.overhead)
    least = best.overhead()
    return Optimum(list(best.parent), least, min(least, fixed + bound))


class _Program:
    """The rows and columns of the mixed-integer program."""

    def __init__(
        self,
        near: Sequence[Sequence[int]],
        own: Sequence[int],
        space: Space,
        work: Work,
        root: int,
        others: list[int],
    ) -> None:
        self.near, self.own, self.others = near, own, others
        self.forwarders = [n for n in range(len(own)) if n != root]
        self.costs: list[float] = []
        self.binary: list[int] = []
        self._values: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.arcs: dict[tuple[int, int], int] = {}
        for t in others:
            for k in near[t]:
                self.arcs[k, t] = self._column(0.0, True)
            self._row([(self.arcs[k, t], 1.0) for k in near[t]], 1.0, 1.0)
        leaving = {t: self._flow(t) for t in others}
        self._forwarding(space, work, leaving)

    def _column(self, cost: float, binary: bool = False) -> int:
        self.costs.append(cost)
        self.binary.append(int(binary))
        return len(self.costs) - 1

    def _row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        for column, value in terms:
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)
        self.low.append(low)
        self.high.append(high)

    def _flow(self, t: int) -> dict[int, int]:
        """A unit of flow to t; per node the column that says whether it leaves that node."""
        flow = {}
        for (k, n), arc in self.arcs.items():
            if k != t:
                flow[k, n] = self._column(0.0)
                self._row([(flow[k, n], 1.0), (arc, -1.0)], -np.inf, 0.0)
        near, inner = self.near, set(self.others)
        leaving: dict[int, int] = {}
        for n in self.forwarders:
            out = [(flow[k, m], 1.0) for k, m in flow if k == n]
            arriving = [(flow[k, n], 1.0) for k in near[n] if (k, n) in flow] if n in inner else []
            if n == t:
                self._row(arriving, 1.0, 1.0)
                continue
            if not out:
                if arriving:
                    self._row(arriving, 0.0, 0.0)
                continue
            leaving[n] = self._column(0.0)
            self._row([*out, (leaving[n], -1.0)], 0.0, 0.0)
            if n in inner:
                self._row([*arriving, (leaving[n], -1.0)], 0.0, 0.0)
            else:
                self._row([(leaving[n], 1.0)], 0.0, 1.0)
        return leaving

    def _forwarding(self, space: Space, work: Work, leaving: dict[int, dict[int, int]]) -> None:
        """Which atoms a node forwards, and what that costs."""
        own = self.own
        leaving = {t: columns for t, columns in leaving.items() if own[t]}
        wanted = joined(space, (own[t] for t in leaving))
        atoms = [a for a in range(wanted.bit_length()) if wanted >> a & 1]
        for n in self.forwarders:
            cost = {
                a: space.phi(1 << a) * (work.forward + (0.0 if own[n] >> a & 1 else work.receive))
                for a in atoms
            }
            serving = {t: columns[n] for t, columns in leaving.items() if n in columns}
            if not serving:
                continue
            if space.hull:
                self._cover(atoms, cost, serving)
            else:
                for group in _alike(atoms, serving, own):
                    column = self._column(sum(cost[a] for a in group))
                    for t, leaves in serving.items():
                        if own[t] >> group[0] & 1:
                            self._row([(column, 1.0), (leaves, -1.0)], 0.0, np.inf)

    def _cover(self, atoms: list[int], cost: dict[int, float], serving: dict[int, int]) -> None:
        """With merge by hull: a node forwards all from the first atom to the last."""
        lefts, rights = self._growing(atoms), self._growing(atoms[::-1])
        forwards = {a: self._column(cost[a]) for a in atoms}
        for a in atoms:
            self._row([(forwards[a], 1.0), (lefts[a], -1.0), (rights[a], -1.0)], -1.0, np.inf)
        for t, leaves in serving.items():
            mine = [a for a in atoms if self.own[t] >> a & 1]
            self._row([(lefts[mine[0]], 1.0), (leaves, -1.0)], 0.0, np.inf)
            self._row([(rights[mine[-1]], 1.0), (leaves, -1.0)], 0.0, np.inf)
            for a in mine:
                self._row([(forwards[a], 1.0), (leaves, -1.0)], 0.0, np.inf)

    def _growing(self, atoms: list[int]) -> dict[int, int]:
        """Per atom a column that is no less than that of the one before."""
        columns = {a: self._column(0.0) for a in atoms}
        for before, a in pairwise(atoms):
            self._row([(columns[a], 1.0), (columns[before], -1.0)], 0.0, np.inf)
        return columns

    def solve(self, seconds: float) -> tuple[dict[int, int], float]:
        """Per node its parent, and a bound on the overhead of all nodes but the root.

        No parents if no tree was found in time.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        shape = (len(self.low), len(self.costs))
        rows = csr_array((self._values, (self._rows, self._columns)), shape=shape)
        found = milp(
            np.array(self.costs),
            integrality=np.array(self.binary),
            bounds=Bounds(0.0, 1.0),
            constraints=LinearConstraint(rows, np.array(self.low), np.array(self.high)),
            options={"time_limit": seconds, "mip_rel_gap": 1e-9},
        )
        parents = {}
        if found.x is not None:
            parents = {t: k for (k, t), column in self.arcs.items() if found.x[column] > 0.5}
        bound = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
        return parents, float(bound or 0.0)


def _alike(atoms: list[int], serving: dict[int, int], own: Sequence[int]) -> list[list[int]]:
    """The atoms in groups that the same nodes want; those that nobody wants are left out."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for a in atoms:
        who = tuple(t for t in serving if own[t] >> a & 1)
        if who:
            groups.setdefault(who, []).append(a)
    return list(groups.values())
