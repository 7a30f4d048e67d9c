"""DPS under random faults, held to what must be true once they are over.

A history is a list of lines that overlap freely in time::

    subscribe 3 x > 2 AND x < 5
    unsubscribe 3 x > 2 AND x < 5
    publish 1 x=5 name='ab'
    crash 4
    start 4
    cut 0 2 5
    heal
    wait 0.4

:meth:`DpsChaos.check` ends all faults, lets a quiet time pass, and holds the network to the oracle:
one owner and one tree per attribute, one leader per group whom all members know, edges that are
immediate inclusions, every subscription in its groups; and every probe delivered to those who want
it: exactly (leader), or to a share of them (epidemic).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.content import AttributeFilter, Attributes, Event
from shoal.routing.dps import Dps
from shoal.simulation.config import parse_config
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import NANOSECONDS, to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Chance

VARIANTS = tuple((t, c) for t in ("root", "generic") for c in ("leader", "epidemic"))
QUIET = 150.0
"""Simulated seconds after the last fault within which everything is in order again, with the
default periods: signs of life every 2.5 s, a lost root made anew after 21 s, places looked up
again after some rounds."""
EPIDEMIC_BOUND = 0.9
"""Share of the deliveries owed that gossip makes at least, in networks as small as these."""
PROBES: tuple[dict[str, Any], ...] = (
    *({"x": value} for value in range(6)),
    *({"y": value, "x": 2.5} for value in (-1, 2)),
    *({"name": text} for text in ("ab", "abc", "b", "")),
    {"x": 3, "y": 1, "name": "cab"},
    {"x": "3"},
    {},
)


class DpsChaos:
    """A network in trouble, and the log of how it got there."""

    def __init__(self, variant: tuple[str, str], nodes: int, seed: int = 0) -> None:
        self.variant = variant
        self.nodes = nodes
        self.seed = seed
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": nodes,
                    "seed": seed,
                    "duration": 1000.0,
                    "topology": {"name": "full-mesh", "joining": 0.1, "contacts": 2},
                    "overlay": None,
                    "routing": {
                        "name": "dps",
                        "traversal": variant[0],
                        "communication": variant[1],
                    },
                    "link": {"delay": 0.01},
                    "workload": {
                        "script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]
                    },
                }
            )
        )
        self.simulation.begin()
        self.log: list[str] = []
        self.held: list[dict[str, None]] = [{} for _ in range(nodes)]
        """Per node what it has subscribed to."""
        self._sequences = [0] * nodes
        self.step("wait 0.2")

    # Steps

    def step(self, line: str) -> None:
        """Carry out one line of a log."""
        self.log.append(line)
        what, _, rest = line.partition(" ")
        topology = self.simulation.topology
        if what == "wait":
            kernel = self.simulation.kernel
            kernel.run(kernel.now + to_ns(float(rest)))
        elif what == "crash":
            topology.crash(int(rest))
        elif what == "start":
            topology.begin(int(rest))
        elif what == "cut":
            away = {int(node) for node in rest.split()}
            topology.connections.cut([int(node in away) for node in range(self.nodes)])
        elif what == "heal":
            topology.connections.heal()
        else:
            number, _, text = rest.partition(" ")
            node = int(number)
            if what == "publish":
                self._publish(node, _content(text))
            elif what == "subscribe":
                self.held[node][text] = None
                self.simulation.subscription(node, AttributeFilter(text), True)
            elif what == "unsubscribe":
                self.held[node].pop(text, None)
                self.simulation.subscription(node, AttributeFilter(text), False)
            else:
                raise ValueError(f"unknown step '{line}'")

    def _publish(self, node: int, content: dict[str, Any]) -> None:
        event = Event(node, self._sequences[node], Attributes(content))
        self._sequences[node] += 1
        self.simulation.publication(event)

    # The oracle

    def routings(self) -> dict[int, Dps]:
        """DPS on the nodes that run."""
        found = {}
        for number, node in enumerate(self.simulation.network.nodes):
            if node is not None:
                assert isinstance(node.routing, Dps)
                found[number] = node.routing
        return found

    def check(self) -> None:
        """After the faults and a quiet time: structure and delivery are as they must be."""
        self.step("heal")
        self.step(f"wait {QUIET}")
        check_structure(self.routings())
        self.check_delivery()

    def check_delivery(self) -> None:
        """Every probe reaches those who want it."""
        recorder = self.simulation.recorder
        first = len(recorder.publications)
        for node in self.routings():
            for content in PROBES:
                self._publish(node, content)
            self.step("wait 0.05")
        self.step("wait 2")
        owed = received = 0
        for record in recorder.publications[first:]:
            owed += record.owed.bit_count()
            received += (record.owed & record.received).bit_count()
            wrong = record.received & ~record.owed
            missing = record.owed & ~record.received
            if wrong or (missing and self.variant[1] == "leader"):
                raise InvariantViolation(
                    f"event {record.publisher}/{record.sequence}: missing at {_nodes(missing)}, "
                    f"delivered to {_nodes(wrong)} who do not want it"
                )
        if received < EPIDEMIC_BOUND * owed:
            raise InvariantViolation(f"{received} of {owed} deliveries owed were made")


def check_structure(routings: dict[int, Dps]) -> None:
    """At rest: every node's groups are as they must be."""
    for node, routing in routings.items():
        wrong = routing.wrong(routings)
        if wrong is not None:
            raise InvariantViolation(f"node {node} is wrong: {wrong}")


def _content(text: str) -> dict[str, Any]:
    """Attributes as written in a log: ``x=5 name='ab'``."""
    found: dict[str, Any] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        found[name] = value.strip("'") if value.startswith("'") else float(value)
    return found


def _nodes(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


# Random histories


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


def random_steps(chaos: DpsChaos, chance: Chance, count: int) -> Iterator[str]:
    """Steps that make sense in the state the network is in, drawn one after the other."""
    cut = False
    for k in range(count):
        node = chance.below(chaos.nodes, k, 0)
        kind = chance.below(24, k, 1)
        running = chaos.simulation.topology.running
        if kind < 9:
            yield f"subscribe {node} {random_filter(chance, k, 2)}"
        elif kind < 11:
            held = list(chaos.held[node])
            if held:
                yield f"unsubscribe {node} {held[chance.below(len(held), k, 3)]}"
        elif kind < 14:
            yield f"publish {node} x={chance.below(6, k, 4)} y={chance.below(3, k, 5)}"
        elif kind < 17:
            if node in running and len(running) > 2:
                yield f"crash {node}"
        elif kind < 19:
            if node not in running:
                yield f"start {node}"
        elif kind == 19:
            yield "heal" if cut else f"cut {node} {chance.below(chaos.nodes, k, 6)}"
            cut = not cut
        else:
            yield f"wait {(0.02, 0.3, 2.0, 8.0)[kind % 4] * (0.5 + chance.uniform(k, 7)):.3f}"


def trial(variant: tuple[str, str], seed: int, steps: int = 40) -> DpsChaos:
    """One random history, from its seed, not checked yet."""
    chance = Chance(seed, "dps chaos")
    chaos = DpsChaos(variant, 3 + chance.below(10, -1), seed)
    for line in random_steps(chaos, chance, steps):
        chaos.step(line)
    return chaos


def replay(variant: tuple[str, str], nodes: int, seed: int, log: list[str]) -> DpsChaos:
    """The network after the steps of a log."""
    chaos = DpsChaos(variant, nodes, seed)
    for line in log:
        chaos.step(line)
    return chaos


def failure(chaos: DpsChaos) -> str | None:
    """What the oracle objects to, if anything."""
    try:
        chaos.check()
    except InvariantViolation as violation:
        now = chaos.simulation.kernel.now / NANOSECONDS
        return f"{violation} (at {now:.3f} s)"
    return None


def shrink(chaos: DpsChaos) -> list[str]:
    """The log of a failing history with steps left out as long as it still fails."""
    log = list(chaos.log[1:])
    size = max(1, len(log) // 2)
    while size:
        at = 0
        while at < len(log):
            shorter = log[:at] + log[at + size :]
            if failure(replay(chaos.variant, chaos.nodes, chaos.seed, shorter)) is not None:
                log = shorter
            else:
                at += size
        size //= 2
    return log
