"""Histories of DPS: filters of every kind, and events that tell them apart.

Beside what must hold of every stack (:mod:`~shoal.simulation.chaos.mesh`), epidemic communication
must make most of the deliveries owed.
"""

from __future__ import annotations

from shoal.routing.dps import Dps
from shoal.simulation.chaos.mesh import MeshHistory
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.recorder import PublicationRecord
from shoal.stack import Chance

EPIDEMIC_BOUND = 0.9
"""Share of the deliveries owed that gossip makes at least, in networks as small as these."""
PROBES = (
    *(f"x={value}" for value in range(6)),
    *("y=-1 x=2.5", "y=2 x=2.5", "x=3 y=1 name='cab'", "x='3'", ""),
    *(f"name='{text}'" for text in ("ab", "abc", "b", "")),
)
"""What every node publishes in the end."""


class DpsHistory(MeshHistory):
    """Nodes that form trees of groups, by filters over numbers and texts."""

    def routings(self) -> dict[int, Dps]:
        """DPS on the nodes that run."""
        found = {}
        for number, node in self.running().items():
            assert isinstance(node.routing, Dps)
            found[number] = node.routing
        return found

    def draw_filter(self, chance: Chance, k: int) -> str:
        return random_filter(chance, k, 30)

    def publish_probes(self) -> None:
        for node in self.running():
            for content in PROBES:
                self._publish(f"{node} {content}")

    def check_share(self, probes: list[PublicationRecord]) -> None:
        owed = sum(record.owed.bit_count() for record in probes)
        received = sum((record.owed & record.received).bit_count() for record in probes)
        if received < EPIDEMIC_BOUND * owed:
            raise InvariantViolation(f"{received} of {owed} deliveries owed were made")


def random_filter(chance: Chance, *question: int) -> str:
    """A filter over few values, so that labels nest, overlap and coincide."""
    kind = chance.below(16, *question, 0)
    low = chance.below(5, *question, 1)
    high = low + 1 + chance.below(4, *question, 2)
    one = (f"x > {low}", f"x < {low}", f"x = {low}", f"x >= {low} AND x < {high}")[kind % 4]
    if kind < 8:
        return one
    if kind < 10:
        return f"{one} AND y > {high - 3}"
    text = ("a", "ab", "b", "cab")[low % 4]
    if kind == 10:
        return f"name = '{text}'"
    if kind == 11:
        return f"name LIKE '{text}%' AND {one}"
    if kind == 12:
        return f"name LIKE '%{text}%'"
    if kind == 13:
        return f"{one} OR y < {high - 3}"
    if kind == 14:
        return ("TRUE", "FALSE", "EXISTS x", "NOT EXISTS y", "x = y")[low % 5]
    return f"NOT ({one})"
