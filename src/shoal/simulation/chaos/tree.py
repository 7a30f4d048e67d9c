"""Histories of a tree whose links are replaced: for routings and reconfiguration protocols.

Beside the steps of applications there is one::

    replace 0-1 by 2-4

which breaks a link at once and makes the other a repair time later. Waits may be shorter than that,
so links break while others are being replaced and while messages are in flight on them.
"""

from __future__ import annotations

from typing import Any

from shoal.simulation.chaos.history import History, ImpossibleStep, Subject
from shoal.simulation.kernel import to_ns
from shoal.simulation.topology import adjacency, distances, tree_path
from shoal.stack import Chance, Reconfiguration

REPAIR_TIME = 0.05
"""Longer than an event takes to cross the network, so that no event crosses a cut twice."""


class TreeHistory(History):
    """A tree that is given, and changed."""

    def __init__(self, subject: Subject, ground: dict[str, Any]) -> None:
        links = [(int(a), int(b)) for a, b in ground["links"]]
        super().__init__(subject, ground, {"name": "abstract-tree", "links": links})
        self.steps["replace"] = self._replace
        self.overlaps = subject.reconfiguration != "path"
        """Whether repairs may overlap; Reconfiguration Path does not support it."""
        self.virtual = adjacency(self.nodes, links)
        """Live links and those due to appear."""
        self.live: dict[tuple[int, int], None] = dict.fromkeys(_key(a, b) for a, b in links)
        """Links that can break now."""
        self._reconfigurations = 0
        self.simulation.begin()

    def _replace(self, rest: str) -> None:
        """Break a live link now; make the other one a repair time later."""
        broken, _, made = rest.partition(" by ")
        old, new = _link(broken), _link(made)
        (a, b), (c, d) = old, new
        if (
            _key(a, b) not in self.live
            or c not in self.sides(old)[0]
            or d not in self.sides(old)[1]
        ):
            raise ImpossibleStep(f"{a}-{b} cannot be replaced by {c}-{d}")
        del self.live[_key(a, b)]
        del self.virtual[a][b]
        del self.virtual[b][a]
        path = (*tree_path(self.virtual, a, c), *tree_path(self.virtual, d, b))
        self.virtual[c][d] = None
        self.virtual[d][c] = None
        reconfiguration = Reconfiguration(self._reconfigurations, path)
        self._reconfigurations += 1
        topology, kernel = self.simulation.topology, self.simulation.kernel
        topology.break_link(a, b, reconfiguration)

        def join() -> None:
            self.live[_key(c, d)] = None
            topology.replace_link(old, new, reconfiguration)

        kernel.call_at(kernel.now + to_ns(REPAIR_TIME), join)
        if not self.overlaps:
            self.rest()

    def sides(self, old: tuple[int, int]) -> tuple[list[int], list[int]]:
        """The nodes on either side of a link."""
        a, b = old
        cut = [dict(neighbours) for neighbours in self.virtual]
        del cut[a][b]
        del cut[b][a]
        return sorted(distances(cut, a)), sorted(distances(cut, b))

    def draw(self, chance: Chance, k: int) -> str | None:
        kind = chance.below(10, k, 13)
        if kind < 6:
            return self.draw_application(chance, k)
        if kind == 9:
            return f"wait {(1 + chance.below(80, k, 7)) / 1000}"
        if not self.live:
            return None
        a, b = chance.choice(list(self.live), k, 10)
        left, right = self.sides((a, b))
        c, d = chance.choice(left, k, 11), chance.choice(right, k, 12)
        return None if (a, b) == (c, d) else f"replace {a}-{b} by {c}-{d}"


def tree_ground(seed: int) -> dict[str, Any]:
    """A small random tree."""
    chance = Chance(seed, "chaos tree")
    nodes = 3 + chance.below(8, 0)
    return {"nodes": nodes, "links": [(chance.below(n, n), n) for n in range(1, nodes)]}


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _link(text: str) -> tuple[int, int]:
    a, _, b = text.partition("-")
    return int(a), int(b)
