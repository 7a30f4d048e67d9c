"""Recoveries under random trouble, held to the oracle.

A :class:`RecoveryChaos` is a small network with a recovery above a routing, and a log of steps,
each one line of text::

    subscribe 3 x > 2
    unsubscribe 3 x > 2
    publish 1 x=5
    break 0-1
    mend 0-1
    crash 2
    return 2
    wait 0.4

Links lose a share of the events at all times. :meth:`RecoveryChaos.check` mends what is broken,
lets time pass, and holds the network to the oracle:

* whatever a reachable buffer holds and an active subscriber lacks is delivered;
* nothing is delivered twice, or to an application that does not want it;
* what a node believes to be missing is missing;
* what a node lacks of a publisher that it has heard of, it knows to be missing, or its application
  was told that an unknown number may be.

A subscriber is owed what was published while it was subscribed, without a break, up to now. One
that crashed begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.content import AttributeFilter, Attributes, Event
from shoal.recovery.gossip import REFRESH, Gossip
from shoal.simulation.config import RunConfig, parse_config
from shoal.simulation.full_mesh import FullMesh
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Chance, StackError, protocols
from shoal.stack.registry import Choice, build

DOMAIN = 5
"""Attribute values are 0 to DOMAIN - 1."""
STEPS = ("subscribe", "unsubscribe", "publish", "break", "mend", "crash", "return", "wait")
SETTLING = 400.0
"""Simulated seconds in which everything must have been found."""
SCRIPTED = {"given tree": "abstract-tree", "given graph": "static-graph"}
"""Grounds whose links a script makes; the others are overlays that build themselves."""
ALONE = "no overlay"
"""The ground of a routing that keeps its own connections."""


def stacks() -> list[tuple[str, str, str]]:
    """Every (recovery, routing, ground) that can be built."""
    found = []
    # Trees that build themselves have histories of their own; a given tree stands for them here.
    able = [p.name for p in protocols("overlay") if "reach" in p.needs and "tree" not in p.provides]
    for ground in (*SCRIPTED, *able, ALONE):
        for routing in protocols("routing"):
            for recovery in protocols("recovery"):
                layers = _layers(recovery.name, routing.name, ground)
                chosen = {kind: Choice(name) for kind, name in layers.items() if name}
                try:
                    build(
                        chosen.get("overlay"),
                        chosen["routing"],
                        chosen.get("reconfiguration"),
                        chosen["recovery"],
                        topology=chosen["topology"],
                    )
                except StackError:
                    continue
                found.append((recovery.name, routing.name, ground))
    return found


def _layers(recovery: str, routing: str, ground: str) -> dict[str, str | None]:
    needs = next(p.needs for p in protocols("routing") if p.name == routing)
    return {
        "topology": SCRIPTED.get(ground, "full-mesh"),
        "overlay": "given" if ground in SCRIPTED else None if ground == ALONE else ground,
        "routing": routing,
        "reconfiguration": "strawman" if "reconfiguration" in needs else None,
        "recovery": recovery,
    }


def _config(stack: tuple[str, str, str], nodes: int, seed: int, buffer: int) -> RunConfig:
    sections: dict[str, Any] = {
        kind: None if name is None else {"name": name} for kind, name in _layers(*stack).items()
    }
    sections["recovery"] |= {"buffer": buffer, "buffer_age": 3600.0, "patience": 3600.0}
    if stack[2] == "given graph":
        sections["topology"]["degree"] = 2
    if stack[2] == "given tree":
        chance = Chance(seed, "recovery tree")
        sections["topology"]["links"] = [[chance.below(n, n), n] for n in range(1, nodes)]
    return parse_config(
        {
            **sections,
            "nodes": nodes,
            "seed": seed,
            "link": {"delay": 0.001, "bandwidth": 10e6, "loss": 0.2},
            "workload": {"script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]},
        }
    )


class RecoveryChaos:
    """A network in trouble, and the log of how it got there."""

    def __init__(self, stack: tuple[str, str, str], nodes: int, seed: int, buffer: int) -> None:
        self.stack = stack
        self.subject = " + ".join(stack)
        self.nodes = nodes
        self.seed = seed
        self.buffer = buffer
        self.simulation = Simulation(_config(stack, nodes, seed, buffer))
        self.simulation.begin()
        self.kernel = self.simulation.kernel
        self.network = self.simulation.network
        if stack[2] not in SCRIPTED:
            self._advance(10.0)  # until the nodes have found each other
        self.links: list[tuple[int, int]] = []
        """Links that can be broken; an overlay breaks its own."""
        if stack[2] in SCRIPTED:
            self.links = self.simulation.topology.links
        self.broken: dict[tuple[int, int], None] = {}
        self.crashed: dict[int, None] = {}
        self.subscribed: list[dict[str, int]] = [{} for _ in range(nodes)]
        """Per node its filters, and since when."""
        self.events: list[tuple[int, Event]] = []
        """What was published, and when."""
        self.born = [0] * nodes
        """When each node last started."""
        self.log: list[str] = []
        self._sequences = [0] * nodes

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
        elif what in ("break", "mend"):
            a, _, b = rest.partition("-")
            getattr(self, f"_{what}")(int(a), int(b))
        elif what in ("crash", "return"):
            getattr(self, f"_{what}")(int(rest))
        else:
            node, _, text = rest.partition(" ")
            if int(node) not in self.crashed:
                getattr(self, f"_{what}")(int(node), text)

    def _subscribe(self, node: int, text: str) -> None:
        self.subscribed[node].setdefault(text, self.kernel.now)
        self.simulation.subscription(node, AttributeFilter(text), True)

    def _unsubscribe(self, node: int, text: str) -> None:
        self.subscribed[node].pop(text, None)
        self.simulation.subscription(node, AttributeFilter(text), False)

    def _publish(self, node: int, text: str) -> None:
        name, _, value = text.partition("=")
        event = Event(node, self._sequences[node], Attributes({name: int(value)}))
        self._sequences[node] += 1
        if self.stack[1] == "advertisement-forwarding":
            self.simulation.advertisement(node, AttributeFilter("x >= 0"), True)
        self.events.append((self.kernel.now, event))
        self.simulation.publication(event)

    def _break(self, a: int, b: int) -> None:
        if self.network.linked(a, b):
            self.broken[a, b] = None
            self.network.link_down(a, b)

    def _mend(self, a: int, b: int) -> None:
        if (a, b) in self.broken and a not in self.crashed and b not in self.crashed:
            del self.broken[a, b]
            self.network.link_up(a, b)

    def _crash(self, node: int) -> None:
        if node in self.crashed:
            return
        self.crashed[node] = None
        self.subscribed[node] = {}
        self.simulation.wishes.pop(node, None)
        topology = self.simulation.topology
        if isinstance(topology, FullMesh):
            topology.crash(node)
        else:
            for neighbour in self.network.neighbours(node):
                self.broken[_key(self.links, node, neighbour)] = None
            self.network.crash(node)
        for record in self.simulation.recorder.publications:
            record.received &= ~(1 << node)  # its application begins anew

    def _return(self, node: int) -> None:
        if node not in self.crashed:
            return
        del self.crashed[node]
        self.born[node] = self.kernel.now
        topology = self.simulation.topology
        if isinstance(topology, FullMesh):
            topology.begin(node)
            return
        self.network.start_node(node, ())
        for a, b in list(self.broken):
            if node in (a, b):
                self._mend(a, b)

    def _advance(self, seconds: float) -> None:
        self.kernel.run(self.kernel.now + to_ns(seconds))

    # The oracle

    def check(self) -> None:
        """Mend everything, wait, and look whether all that can be had was delivered."""
        for node in list(self.crashed):
            self._return(node)
        for a, b in list(self.broken):
            self._mend(a, b)
        self._advance(1.5 * REFRESH)
        end = self.kernel.now + to_ns(SETTLING)
        while self.kernel.now < end and next(self.lacking(), None) is not None:
            self._advance(5.0)
        for node, event, holder in self.lacking():
            raise InvariantViolation(
                f"node {node} lacks event {event.publisher}/{event.sequence} "
                f"({event.content.values}), which node {holder} holds"  # type: ignore[union-attr]  # attributes
            )
        self._check_beliefs()

    def lacking(self) -> Iterator[tuple[int, Event, int]]:
        """(node, event, holder): owed, not delivered, and there for the asking."""
        forest = self.simulation.oracle.forest
        alone = self.stack[2] == ALONE  # anybody reaches anybody
        for node, event in self._undelivered():
            linked = forest.component_of(node)
            for holder in range(self.nodes):
                recovery = self._recovery(holder)
                near = alone or linked >> holder & 1
                if holder != node and near and event.id in recovery.buffer:
                    yield node, event, holder
                    break

    def _undelivered(self) -> Iterator[tuple[int, Event]]:
        published = self.simulation.recorder.published
        for at, event in self.events:
            received = published[event.publisher][event.sequence].received
            for node in range(self.nodes):
                if received >> node & 1:
                    continue
                for text, since in self.subscribed[node].items():
                    if since < at and AttributeFilter(text).matches(event.content):
                        yield node, event
                        break

    def _check_beliefs(self) -> None:
        """What is believed to be missing is missing, and what is missing is known to be."""
        missing: dict[int, dict[tuple[int, int], Event]] = {}
        for node, event in self._undelivered():
            missing.setdefault(node, {})[event.id] = event
        published = self.simulation.recorder.published
        times = {event.id: at for at, event in self.events}
        for node in range(self.nodes):
            known: set[tuple[int, int]] = set()
            for lost in self._recovery(node).losses.all():
                there = [
                    event.id
                    for _, event in self.events
                    if event.publisher == lost.publisher
                    and lost.after < event.sequence < lost.before
                    and lost.wanted.filter.matches(event.content)
                    and not published[event.publisher][event.sequence].received >> node & 1
                ]
                if lost.count > len(there):
                    raise InvariantViolation(
                        f"node {node} believes that {lost.count} events of {lost.publisher} from "
                        f"{lost.after} to {lost.before} that match {lost.wanted.filter} are "
                        f"missing; {len(there)} are"
                    )
                known.update(there)
            for key in missing.get(node, {}):
                publisher = key[0]
                recovery = self._recovery(node)
                heard = publisher in recovery.losses.streams and publisher not in recovery.unsure
                if heard and self.born[publisher] < times[key] and key not in known:
                    raise InvariantViolation(
                        f"node {node} lacks event {publisher}/{key[1]} and does not know it"
                    )

    def _recovery(self, node: int) -> Gossip:
        found = self.network.nodes[node]
        assert found is not None
        assert isinstance(found.recovery, Gossip)
        return found.recovery


def random_steps(chaos: RecoveryChaos, chance: Chance, count: int) -> Iterator[str]:
    """Steps that make sense in the state the network is in, drawn one after the other."""
    for k in range(count):
        node = chance.below(chaos.nodes, k, 0)
        kind = chance.below(30, k, 1)
        if kind < 4:
            yield f"subscribe {node} {_filter(chance, k)}"
        elif kind == 4:
            held = list(chaos.subscribed[node])
            if held:
                yield f"unsubscribe {node} {held[chance.below(len(held), k, 4)]}"
        elif kind < 21:
            yield f"publish {node} x={chance.below(DOMAIN, k, 6)}"
        elif kind == 21 and chaos.links:
            a, b = chaos.links[chance.below(len(chaos.links), k, 7)]
            yield f"break {a}-{b}"
        elif kind == 22 and chaos.broken:
            a, b = list(chaos.broken)[chance.below(len(chaos.broken), k, 8)]
            yield f"mend {a}-{b}"
        elif kind == 23 and len(chaos.crashed) < chaos.nodes - 2:
            yield f"crash {node}"
        elif kind in (24, 25) and chaos.crashed:
            yield f"return {list(chaos.crashed)[chance.below(len(chaos.crashed), k, 9)]}"
        else:
            yield f"wait {(1 + chance.below(100, k, 10)) / 100}"


def _filter(chance: Chance, k: int) -> str:
    operator = (">", "<", "=")[chance.below(3, k, 3)]
    return f"x {operator} {chance.below(DOMAIN, k, 2)}"


def trial(
    stack: tuple[str, str, str], seed: int, steps: int = 120
) -> tuple[RecoveryChaos, str | None]:
    """One random history, from its seed, and what the oracle objects to, if anything."""
    chance = Chance(seed, "recovery chaos")
    nodes = 4 + chance.below(5, 0)
    chaos = RecoveryChaos(stack, nodes, seed, (4, 40, 400)[chance.below(3, 1)])
    try:
        for line in random_steps(chaos, chance, steps):
            chaos.step(line)
    except InvariantViolation as violation:
        return chaos, str(violation)
    return chaos, failure(chaos)


def replay(data: Mapping[str, Any]) -> RecoveryChaos:
    """The network after the steps of a described history."""
    stack = (str(data["recovery"]), str(data["routing"]), str(data["ground"]))
    chaos = RecoveryChaos(stack, int(data["nodes"]), int(data["seed"]), int(data["buffer"]))
    for line in data["steps"]:
        chaos.step(str(line))
    return chaos


def failure(chaos: RecoveryChaos) -> str | None:
    """What the oracle objects to, if anything."""
    try:
        chaos.check()
    except InvariantViolation as violation:
        return str(violation)
    return None


def describe(chaos: RecoveryChaos, log: list[str]) -> Mapping[str, Any]:
    """Everything needed to replay a history, as plain data."""
    recovery, routing, ground = chaos.stack
    return {
        "recovery": recovery,
        "routing": routing,
        "ground": ground,
        "nodes": chaos.nodes,
        "seed": chaos.seed,
        "buffer": chaos.buffer,
        "steps": log,
    }


def shrink(chaos: RecoveryChaos) -> list[str]:
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


def _still_fails(chaos: RecoveryChaos, log: list[str]) -> bool:
    try:
        return failure(replay(describe(chaos, log))) is not None
    except InvariantViolation:
        return True
    except (KeyError, IndexError):
        return False  # a step needs one that was left out


def _key(links: list[tuple[int, int]], a: int, b: int) -> tuple[int, int]:
    return (a, b) if (a, b) in links else (b, a)
