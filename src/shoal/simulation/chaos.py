"""Protocols under random trouble, held to the oracle.

A :class:`Chaos` is a small network with one stack and a log of steps, each one line of text::

    subscribe 3 x > 2
    unsubscribe 3 x > 2
    advertise 1 x < 4
    publish 1 x=5
    replace 0-1 by 2-4
    wait 0.004

Steps overlap freely: a wait may be shorter than a repair, so links break while others are being
replaced and while messages are in flight on them. :meth:`Chaos.check` then lets the network come to
rest and holds it to the oracle: tables as computed from the final tree and subscribers, every probe
event delivered to exactly those who want it, none sent where nobody does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shoal.content import AttributeFilter, Attributes, Event
from shoal.simulation.config import RunConfig, parse_config
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import REST_LIMIT, Simulation
from shoal.simulation.topology import adjacency, distances, tree_path
from shoal.stack import Chance, Reconfiguration, StackError, protocols
from shoal.stack.registry import Choice, build

REPAIR_TIME = 0.05
"""Longer than an event takes to cross the network, so that no event crosses a cut twice."""
DOMAIN = 5
"""Attribute values and constants are 0 to DOMAIN - 1: small, so that filters cover and overlap."""
STEPS = ("subscribe", "unsubscribe", "advertise", "unadvertise", "publish", "replace", "wait")


def stacks() -> list[tuple[str, str, bool]]:
    """Every (routing, reconfiguration, covering) that can be built and keeps tables."""
    found = []
    for routing in protocols("routing"):
        if "tables" not in routing.provides:
            continue
        for repair in protocols("reconfiguration"):
            try:
                build(
                    *(Choice("given"), Choice(routing.name), Choice(repair.name)),
                    topology=Choice("abstract-tree"),
                )
            except StackError:
                continue
            found += [(routing.name, repair.name, False), (routing.name, repair.name, True)]
    return found


def _config(
    routing: str, reconfiguration: str, covering: bool, nodes: int, links: Iterable[tuple[int, int]]
) -> RunConfig:
    return parse_config(
        {
            "nodes": nodes,
            "topology": {"name": "abstract-tree", "links": [list(link) for link in links]},
            "routing": {"name": routing, "covering": covering},
            "reconfiguration": {"name": reconfiguration},
            "link": {"delay": 0.001, "bandwidth": 10e6},
            "workload": {"script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]},
        }
    )


class Chaos:
    """A network in trouble, and the log of how it got there."""

    def __init__(
        self,
        routing: str,
        reconfiguration: str,
        covering: bool,
        nodes: int,
        links: Iterable[tuple[int, int]],
    ) -> None:
        links = list(links)
        self.stack = (routing, reconfiguration, covering)
        self.overlaps = reconfiguration != "path"
        """Whether repairs may overlap; Reconfiguration Path does not support it."""
        self.nodes = nodes
        self.links = links
        self.simulation = Simulation(_config(routing, reconfiguration, covering, nodes, links))
        self.simulation.begin()
        self.virtual = adjacency(nodes, links)
        """Live links and those due to appear."""
        self.live: dict[tuple[int, int], None] = dict.fromkeys(_key(a, b) for a, b in links)
        self.subscribed: list[dict[str, None]] = [{} for _ in range(nodes)]
        self.advertised: list[dict[str, None]] = [{} for _ in range(nodes)]
        self.log: list[str] = []
        self._sequences = [0] * nodes
        self._reconfigurations = 0

    # Steps

    def step(self, line: str) -> None:
        """Carry out one line of a log."""
        what, _, rest = line.partition(" ")
        if what not in STEPS:
            raise ValueError(
                f"unknown step '{line}'; a step starts with one of: {', '.join(STEPS)}"
            )
        self.log.append(line)
        if what == "wait":
            self._advance(float(rest))
        elif what == "replace":
            old, _, new = rest.partition(" by ")
            self._replace(_link(old), _link(new))
        else:
            node, _, text = rest.partition(" ")
            getattr(self, f"_{what}")(int(node), text)

    def _subscribe(self, node: int, text: str) -> None:
        self.subscribed[node][text] = None
        self.simulation.subscription(node, AttributeFilter(text), True)

    def _unsubscribe(self, node: int, text: str) -> None:
        self.subscribed[node].pop(text, None)
        self.simulation.subscription(node, AttributeFilter(text), False)

    def _advertise(self, node: int, text: str) -> None:
        self.advertised[node][text] = None
        self.simulation.advertisement(node, AttributeFilter(text), True)

    def _unadvertise(self, node: int, text: str) -> None:
        self.advertised[node].pop(text, None)
        self.simulation.advertisement(node, AttributeFilter(text), False)

    def _publish(self, node: int, text: str) -> None:
        name, _, value = text.partition("=")
        event = Event(node, self._sequences[node], Attributes({name: int(value)}))
        self._sequences[node] += 1
        self.simulation.publication(event)

    def _replace(self, old: tuple[int, int], new: tuple[int, int]) -> None:
        """Break a live link now; raise the other one a repair time later."""
        (a, b), (c, d) = old, new
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

    def _advance(self, seconds: float) -> None:
        kernel = self.simulation.kernel
        kernel.run(kernel.now + to_ns(seconds))

    def choices(self) -> list[tuple[int, int]]:
        """Links that can break now: live, and with another pair that could rejoin the parts."""
        return list(self.live)

    def sides(self, old: tuple[int, int]) -> tuple[list[int], list[int]]:
        """The nodes on either side of a link."""
        a, b = old
        cut = [dict(neighbours) for neighbours in self.virtual]
        del cut[a][b]
        del cut[b][a]
        return sorted(distances(cut, a)), sorted(distances(cut, b))

    # The oracle

    def rest(self) -> None:
        """Let everything that is going on come to its end."""
        kernel = self.simulation.kernel
        if not kernel.run_to_rest(kernel.now + to_ns(REST_LIMIT)):
            raise InvariantViolation(f"not at rest after {REST_LIMIT:g} s")

    def check(self) -> None:
        """At rest: right tables, exact delivery, nothing misrouted."""
        self.rest()
        wrong = self.simulation.wrong_table()
        if wrong is not None:
            raise InvariantViolation(wrong)
        recorder = self.simulation.recorder
        probes = len(recorder.publications)
        recorder.close_bin()
        traffic = len(recorder.traffic)
        for node in range(self.nodes):
            for value in range(DOMAIN):
                if self._may_publish(node, value):
                    self._publish(node, f"x={value}")
        self.rest()
        recorder.close_bin()
        for record in recorder.publications[probes:]:
            if record.received != record.owed:
                raise InvariantViolation(
                    f"event {record.publisher}/{record.sequence} reached "
                    f"{_nodes(record.received)}, wanted by {_nodes(record.owed)}"
                )
        misrouted = sum(row[3] for row in recorder.traffic[traffic:])
        if misrouted and self.stack[0] != "hierarchical-forwarding":  # there all events climb
            raise InvariantViolation(f"{misrouted} events sent where nobody wants them, at rest")

    def _may_publish(self, node: int, value: int) -> bool:
        """Under advertisement forwarding only what was advertised may be published."""
        if self.stack[0] != "advertisement-forwarding":
            return True
        content = Attributes({"x": value})
        return any(AttributeFilter(text).matches(content) for text in self.advertised[node])


def random_steps(chaos: Chaos, chance: Chance, count: int) -> Iterator[str]:
    """Steps that make sense in the state the network is in, drawn one after the other."""
    for k in range(count):
        line = _random_step(chaos, chance, k)
        if line is not None:
            yield line


def _random_step(chaos: Chaos, chance: Chance, k: int) -> str | None:
    node = chance.below(chaos.nodes, k, 0)
    kind = chance.below(10, k, 1)
    if kind < 3:
        return f"subscribe {node} {random_filter(chance, k)}"
    if kind == 3:
        held = list(chaos.subscribed[node])
        return f"unsubscribe {node} {held[chance.below(len(held), k, 4)]}" if held else None
    if kind == 4:
        if chance.below(3, k, 5):
            return f"advertise {node} {random_filter(chance, k)}"
        held = list(chaos.advertised[node])
        return f"unadvertise {node} {held[chance.below(len(held), k, 4)]}" if held else None
    if kind == 5:
        value = chance.below(DOMAIN, k, 6)
        return f"publish {node} x={value}" if chaos._may_publish(node, value) else None
    if kind < 9:
        return _random_replacement(chaos, chance, k)
    return f"wait {(1 + chance.below(80, k, 7)) / 1000}"


def random_filter(chance: Chance, *question: int) -> str:
    """A comparison, or a range, over the small domain."""
    constant = chance.below(DOMAIN, *question, 2)
    operator = (">", "<", "=", ">=")[chance.below(4, *question, 3)]
    text = f"x {operator} {constant}"
    if operator in (">", ">=") and chance.below(2, *question, 8):
        text += f" AND x < {constant + 1 + chance.below(DOMAIN, *question, 9)}"
    return text


def _random_replacement(chaos: Chaos, chance: Chance, k: int) -> str | None:
    links = chaos.choices()
    if not links:
        return None
    a, b = links[chance.below(len(links), k, 10)]
    left, right = chaos.sides((a, b))
    c = left[chance.below(len(left), k, 11)]
    d = right[chance.below(len(right), k, 12)]
    return None if (a, b) == (c, d) else f"replace {a}-{b} by {c}-{d}"


def trial(stack: tuple[str, str, bool], seed: int, steps: int = 40) -> Chaos:
    """One random history, from its seed, not checked yet."""
    chaos = new_chaos(stack, seed)
    chance = Chance(seed, "chaos")
    for line in random_steps(chaos, chance, steps):
        chaos.step(line)
    return chaos


def new_chaos(stack: tuple[str, str, bool], seed: int) -> Chaos:
    """A small random tree with a stack on it."""
    chance = Chance(seed, "chaos tree")
    nodes = 3 + chance.below(8, 0)
    links = [(chance.below(n, n), n) for n in range(1, nodes)]
    return Chaos(*stack, nodes, links)


def replay(
    stack: tuple[str, str, bool], nodes: int, links: list[tuple[int, int]], log: list[str]
) -> Chaos:
    """The network after the steps of a log."""
    chaos = Chaos(*stack, nodes, links)
    for line in log:
        chaos.step(line)
    return chaos


def failure(chaos: Chaos) -> str | None:
    """What the oracle objects to, if anything."""
    try:
        chaos.check()
    except InvariantViolation as violation:
        return str(violation)
    return None


def shrink(chaos: Chaos) -> list[str]:
    """The log of a failing history with steps left out as long as it still fails."""
    log = list(chaos.log)
    size = max(1, len(log) // 2)
    while size:
        at = 0
        while at < len(log):
            shorter = log[:at] + log[at + size :]
            if _still_fails(chaos, shorter):
                log = shorter
            else:
                at += size
        size //= 2
    return log


def _still_fails(chaos: Chaos, log: list[str]) -> bool:
    try:
        return failure(replay(chaos.stack, chaos.nodes, chaos.links, log)) is not None
    except (KeyError, IndexError):
        return False  # a step needs one that was left out


def _key(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _link(text: str) -> tuple[int, int]:
    a, _, b = text.partition("-")
    return int(a), int(b)


def _nodes(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def describe(chaos: Chaos, log: list[str]) -> Mapping[str, Any]:
    """Everything needed to replay a history, as plain data."""
    routing, reconfiguration, covering = chaos.stack
    return {
        "routing": routing,
        "reconfiguration": reconfiguration,
        "covering": covering,
        "nodes": chaos.nodes,
        "links": [list(link) for link in chaos.links],
        "steps": log,
    }
