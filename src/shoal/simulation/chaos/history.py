"""What all histories share: the steps of applications, and the oracle at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shoal.content import AttributeFilter, Attributes, Event
from shoal.simulation.config import parse_config
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import to_ns
from shoal.simulation.recorder import PublicationRecord
from shoal.simulation.run import REST_LIMIT, Simulation
from shoal.stack import Chance

DOMAIN = 5
"""Attribute values and constants are 0 to DOMAIN - 1: small, so that filters cover and overlap."""


class ImpossibleStep(ValueError):  # noqa: N818  # it is one
    """A step that cannot be carried out as things are: one that it needs was left out."""


class Subject(NamedTuple):
    """The stack of every node of a history, by its protocols' names ("" where there is none)."""

    overlay: str
    routing: str
    reconfiguration: str = ""
    covering: bool = False
    variant: str = ""
    """Parameters of the routing, as ``name=value name=value``."""
    recovery: str = ""

    def __str__(self) -> str:
        names = " + ".join(name for name in (*self[:3], self.recovery) if name)
        names = f"{names} ({self.variant})" if self.variant else names
        return f"{names} with covering" if self.covering else names


class History:
    """A network in trouble, and the log of how it got there."""

    def __init__(
        self,
        subject: Subject,
        ground: dict[str, Any],
        topology: dict[str, Any],
        more: dict[str, Any] | None = None,
    ) -> None:
        self.subject = subject
        self.ground = ground
        """What the history begins with, beside its stack: plain data, to be printed and read."""
        self.nodes: int = ground["nodes"]
        routing: dict[str, Any] = {"name": subject.routing}
        if subject.covering:
            routing["covering"] = True
        for setting in subject.variant.split():
            name, _, value = setting.partition("=")
            routing[name] = value
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": self.nodes,
                    "topology": topology,
                    "overlay": {"name": subject.overlay} if subject.overlay else None,
                    "routing": routing,
                    "reconfiguration": (
                        {"name": subject.reconfiguration} if subject.reconfiguration else None
                    ),
                    "link": {"delay": 0.001, "bandwidth": 10e6},
                    "data_plane": "objects",
                    "workload": {
                        "script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]
                    },
                    **(more or {}),
                }
            )
        )
        self.subscribed: list[dict[str, None]] = [{} for _ in range(self.nodes)]
        self.advertised: list[dict[str, None]] = [{} for _ in range(self.nodes)]
        self.log: list[str] = []
        self.steps: dict[str, Callable[[str], None]] = {
            "subscribe": self._subscribe,
            "unsubscribe": lambda rest: self._wish(rest, False),
            "advertise": lambda rest: self._promise(rest, True),
            "unadvertise": lambda rest: self._promise(rest, False),
            "publish": self._publish,
            "wait": self._wait,
        }
        """What a step does, by its first word; it is given the rest of the line."""
        self.parted = False
        """Whether the network may be in parts for good."""
        self._sequences = [0] * self.nodes

    # Steps

    def step(self, line: str) -> None:
        """Carry out one line of a log."""
        what, _, rest = line.partition(" ")
        if what not in self.steps:
            raise ImpossibleStep(
                f"unknown step '{line}'; it begins with one of: {', '.join(self.steps)}"
            )
        self.log.append(line)
        self.steps[what](rest)

    def _subscribe(self, rest: str) -> None:
        self._wish(rest, True)

    def _wish(self, rest: str, begins: bool) -> None:
        node, text = _node(rest)
        _put(self.subscribed[node], text, begins)
        self.simulation.subscription(node, AttributeFilter(text), begins)

    def _promise(self, rest: str, begins: bool) -> None:
        node, text = _node(rest)
        _put(self.advertised[node], text, begins)
        self.simulation.advertisement(node, AttributeFilter(text), begins)

    def _publish(self, rest: str) -> None:
        self.simulation.publication(self._event(rest))

    def _event(self, rest: str) -> Event:
        node, text = _node(rest)
        self._sequences[node] += 1
        return Event(node, self._sequences[node] - 1, Attributes(attributes(text)))

    def _wait(self, rest: str) -> None:
        kernel = self.simulation.kernel
        kernel.run(kernel.now + to_ns(float(rest)))

    def may_publish(self, node: int, value: int) -> bool:
        """Whether a node runs and, where routes need it, has advertised such events."""
        if self.simulation.network.nodes[node] is None:
            return False
        if not self.simulation.advertises:
            return True
        content = Attributes({"x": value})
        return any(AttributeFilter(text).matches(content) for text in self.advertised[node])

    # Random steps

    def draw(self, chance: Chance, k: int) -> str | None:
        """A ``k``-th step that makes sense now, drawn at random; None if nothing came to mind."""
        raise NotImplementedError

    def draw_filter(self, chance: Chance, k: int) -> str:
        """What a node subscribes to."""
        return random_filter(chance, k)

    def draw_application(self, chance: Chance, k: int) -> str | None:
        """A step of an application."""
        node = chance.below(self.nodes, k, 0)
        kind = chance.below(6, k, 1)
        if kind < 3:
            return f"subscribe {node} {self.draw_filter(chance, k)}"
        if kind == 3:
            held = list(self.subscribed[node])
            return f"unsubscribe {node} {chance.choice(held, k, 4)}" if held else None
        if kind == 4:
            if chance.below(3, k, 5):
                return f"advertise {node} {random_filter(chance, k)}"
            held = list(self.advertised[node])
            return f"unadvertise {node} {chance.choice(held, k, 4)}" if held else None
        value = chance.below(DOMAIN, k, 6)
        return f"publish {node} x={value}" if self.may_publish(node, value) else None

    # The oracle

    def end(self) -> None:
        """The trouble ends, and what the protocols promise to mend is mended."""

    def rest(self) -> None:
        """Let everything that is going on come to its end."""
        kernel = self.simulation.kernel
        if not kernel.run_to_rest(kernel.now + to_ns(REST_LIMIT)):
            raise InvariantViolation(f"not at rest after {REST_LIMIT:g} s")

    def check(self) -> None:
        """At rest: right tables, events where they are wanted, and none sent anywhere else."""
        self.end()
        self.rest()
        wrong = self.simulation.wrong_table()
        if wrong is not None:
            raise InvariantViolation(wrong)
        recorder = self.simulation.recorder
        probes = len(recorder.publications)
        recorder.close_bin()
        traffic = len(recorder.traffic)
        self.publish_probes()
        self.rest()
        recorder.close_bin()
        certain = all(
            node.routing.certain() for node in self.simulation.network.nodes if node is not None
        )
        for record in recorder.publications[probes:]:
            expected = record.reachable if self.parted else record.owed
            if not certain:
                expected &= record.received
            if record.received != expected:
                raise InvariantViolation(
                    f"event {record.publisher}/{record.sequence} reached "
                    f"{_nodes(record.received)}, wanted by {_nodes(record.owed)}"
                )
        self.check_share(recorder.publications[probes:])
        routing = self.simulation.stack.routing
        if "tables" in routing.provides and "root" not in routing.needs:  # there all events climb
            misrouted = sum(row[3] for row in recorder.traffic[traffic:])
            if misrouted:
                raise InvariantViolation(
                    f"{misrouted} events sent where nobody wants them, at rest"
                )

    def publish_probes(self) -> None:
        """Every node publishes one event of each kind."""
        for node in range(self.nodes):
            for value in range(DOMAIN):
                if self.may_publish(node, value):
                    self._publish(f"{node} x={value}")

    def check_share(self, probes: list[PublicationRecord]) -> None:
        """Enough of the deliveries owed were made, where a routing may miss some."""


def failure(history: History, steps: Iterable[str] = ()) -> str | None:
    """What the oracle objects to after some more steps, if anything; or how a protocol broke."""
    try:
        for line in steps:
            history.step(line)
        history.check()
    except InvariantViolation as violation:
        return str(violation)
    except ImpossibleStep:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def random_filter(chance: Chance, *question: int) -> str:
    """A comparison, or a range, over the small domain."""
    constant = chance.below(DOMAIN, *question, 2)
    operator = (">", "<", "=", ">=")[chance.below(4, *question, 3)]
    text = f"x {operator} {constant}"
    if operator in (">", ">=") and chance.below(2, *question, 8):
        text += f" AND x < {constant + 1 + chance.below(DOMAIN, *question, 9)}"
    return text


def attributes(text: str) -> dict[str, Any]:
    """Attributes as written in a log: ``x=5 name='ab'``."""
    found: dict[str, Any] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        found[name] = value.strip("'") if value.startswith("'") else float(value)
    return found


def _node(rest: str) -> tuple[int, str]:
    node, _, text = rest.partition(" ")
    return int(node), text


def _put(texts: dict[str, None], text: str, there: bool) -> None:
    texts.pop(text, None)
    if there:
        texts[text] = None


def _nodes(mask: int) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]
