"""Histories of radios that stand still: for overlays on the air.

As in :mod:`~shoal.simulation.chaos.mesh` nodes start, crash, leave and stand still, and ::

    fade 3 for 2.5   the radio of node 3 is off for so many seconds; the node runs on

Radios are placed so that all of them together are connected. When the trouble ends all nodes run,
and their links must make one tree. Frames collide meanwhile, but unicasts are repeated until they
arrive, so that at rest every event must reach all who want it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from shoal.simulation.chaos.history import History, Subject
from shoal.simulation.chaos.mesh import MeshHistory
from shoal.simulation.kernel import to_ns
from shoal.stack import Chance

AIR = {
    "name": "air",
    "model": "still",
    "connected": True,
    "width": 500.0,
    "height": 500.0,
    "event_transport": "unicast",
    "attempts": 100,
    "lifetime": 60.0,
}
"""Radios some of which need others to reach the rest."""


class AirHistory(MeshHistory):
    """Radios that look for neighbours by themselves."""

    def __init__(self, subject: Subject, ground: dict[str, Any]) -> None:
        History.__init__(self, subject, ground, {**AIR, "range": ground["range"]})
        self.take_over()
        self.steps["fade"] = self._fade
        for step in ("late", "cut", "heal"):
            del self.steps[step]

    def _start(self, rest: str) -> None:
        if self.network.nodes[int(rest)] is None:
            self.simulation.topology.begin(int(rest))

    def _fade(self, rest: str) -> None:
        name, _, seconds = rest.partition(" for ")
        node, kernel = int(name), self.simulation.kernel
        running = self.network.nodes[node]
        if running is not None:
            self.simulation.topology.medium.turn(node, False)
            at = kernel.now + to_ns(float(seconds))
            kernel.call_at(at, partial(self._clear, node, running), True)

    def _clear(self, node: int, running: object) -> None:
        if self.network.nodes[node] is running:
            self.simulation.topology.medium.turn(node, True)

    def mend(self) -> None:
        """All nodes run, and all radios are on."""
        for node in range(self.nodes):
            self._start(str(node))
            self.simulation.topology.medium.turn(node, True)

    def draw(self, chance: Chance, k: int) -> str | None:
        line = super().draw(chance, k)
        what = "" if line is None else line.split()[0]
        if what in ("late", "cut", "heal") or (what == "" and k >= self.nodes):
            node = chance.below(self.nodes, k, 27)
            return f"fade {node} for {self._seconds(chance, k)}"
        return line


def air_ground(seed: int) -> dict[str, Any]:
    """A few radios, of which each reaches many or few others."""
    chance = Chance(seed, "chaos air")
    return {"nodes": 2 + chance.below(9, 0), "range": (200.0, 300.0)[chance.below(2, 1)]}
