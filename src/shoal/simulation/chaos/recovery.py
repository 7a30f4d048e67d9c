"""Histories of links that lose events: for every recovery, on every routing and overlay.

Links lose a share of the events at all times. Beside the steps of applications there are::

    break 0-1
    mend 0-1
    crash 2
    return 2

:meth:`RecoveryHistory.check` mends what is broken, lets time pass, and holds the network to the
oracle:

* whatever a reachable buffer holds and an active subscriber lacks is delivered;
* nothing is delivered twice, or to an application that does not want it;
* what a node believes to be missing is missing;
* what a node lacks of a publisher that it has heard of, it knows to be missing, or its application
  was told that an unknown number may be.

A subscriber is owed what was published while it was subscribed, without a break, up to now. One
that crashed begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.content import AttributeFilter, Event
from shoal.recovery.counting import REFRESH
from shoal.recovery.gossip import Gossip
from shoal.simulation.chaos.history import DOMAIN, History, Subject, random_filter
from shoal.simulation.full_mesh import FullMesh
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.kernel import to_ns
from shoal.stack import Chance
from shoal.stack.registry import find

LOSS = 0.2
"""The share of events that links lose."""
SETTLING = 400.0
"""Simulated seconds in which everything must have been found."""
FINDING = 10.0
"""Seconds that nodes of an overlay that builds itself have to find each other."""


class RecoveryHistory(History):
    """A network with a recovery, whose links lose events."""

    def __init__(self, subject: Subject, ground: dict[str, Any]) -> None:
        more = {
            "seed": ground["seed"],
            "link": {"delay": 0.001, "bandwidth": 10e6, "loss": LOSS},
            "recovery": {
                "name": subject.recovery,
                "buffer": ground["buffer"],
                "buffer_age": 3600.0,
                "patience": 3600.0,
            },
        }
        super().__init__(subject, ground, ground["topology"], more)
        self.steps |= {
            "break": self._break,
            "mend": self._mend,
            "crash": self._crash,
            "return": self._return,
        }
        self.kernel = self.simulation.kernel
        self.network = self.simulation.network
        self.simulation.begin()
        self.links: list[tuple[int, int]] = []
        """Links that can be broken; an overlay that builds itself breaks its own."""
        if isinstance(self.simulation.topology, FullMesh):
            self._wait(str(FINDING))
        else:
            self.links = self.simulation.topology.links
        self.broken: dict[tuple[int, int], None] = {}
        self.crashed: dict[int, None] = {}
        self.since: dict[tuple[int, str], int] = {}
        """When each node subscribed to each filter."""
        self.events: list[tuple[int, Event]] = []
        """What was published, and when."""
        self.born = [0] * self.nodes
        """When each node last started."""

    # Steps; applications of crashed nodes do nothing

    def step(self, line: str) -> None:
        what, _, rest = line.partition(" ")
        if what not in ("subscribe", "unsubscribe", "publish") or (
            int(rest.partition(" ")[0]) not in self.crashed
        ):
            super().step(line)

    def _subscribe(self, rest: str) -> None:
        node, _, text = rest.partition(" ")
        if text not in self.subscribed[int(node)]:
            self.since[int(node), text] = self.kernel.now
        super()._subscribe(rest)

    def _publish(self, rest: str) -> None:
        event = self._event(rest)
        if self.simulation.advertises:
            self.simulation.advertisement(event.publisher, AttributeFilter("x >= 0"), True)
        self.events.append((self.kernel.now, event))
        self.simulation.publication(event)

    def _break(self, rest: str) -> None:
        a, b = map(int, rest.split("-"))
        if self.network.linked(a, b):
            self.broken[a, b] = None
            self.network.link_down(a, b)

    def _mend(self, rest: str) -> None:
        a, b = map(int, rest.split("-"))
        if (a, b) in self.broken and a not in self.crashed and b not in self.crashed:
            del self.broken[a, b]
            self.network.link_up(a, b)

    def _crash(self, rest: str) -> None:
        node = int(rest)
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
                link = (node, neighbour)
                self.broken[link if link in self.links else (neighbour, node)] = None
            self.network.crash(node)
        for record in self.simulation.recorder.publications:
            record.received &= ~(1 << node)  # its application begins anew

    def _return(self, rest: str) -> None:
        node = int(rest)
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
                self._mend(f"{a}-{b}")

    def draw(self, chance: Chance, k: int) -> str | None:
        node = chance.below(self.nodes, k, 0)
        kind = chance.below(30, k, 1)
        if kind < 4:
            return f"subscribe {node} {random_filter(chance, k)}"
        if kind == 4:
            held = list(self.subscribed[node])
            return f"unsubscribe {node} {chance.choice(held, k, 4)}" if held else None
        if kind < 21:
            return f"publish {node} x={chance.below(DOMAIN, k, 6)}"
        if kind == 21 and self.links:
            a, b = chance.choice(self.links, k, 7)
            return f"break {a}-{b}"
        if kind == 22 and self.broken:
            a, b = chance.choice(list(self.broken), k, 8)
            return f"mend {a}-{b}"
        if kind == 23 and len(self.crashed) < self.nodes - 2:
            return f"crash {node}"
        if kind in (24, 25) and self.crashed:
            return f"return {chance.choice(list(self.crashed), k, 9)}"
        return f"wait {(1 + chance.below(100, k, 10)) / 100}"

    # The oracle

    def check(self) -> None:
        """Mend everything, wait, and look whether all that can be had was delivered."""
        for node in list(self.crashed):
            self._return(str(node))
        for a, b in list(self.broken):
            self._mend(f"{a}-{b}")
        self._wait(str(1.5 * REFRESH))
        end = self.kernel.now + to_ns(SETTLING)
        while self.kernel.now < end and next(self.lacking(), None) is not None:
            self._wait("5")
        for node, event, holder in self.lacking():
            raise InvariantViolation(
                f"node {node} lacks event {event.publisher}/{event.sequence} "
                f"({event.content.values}), which node {holder} holds"  # type: ignore[union-attr]  # attributes
            )
        self._check_beliefs()

    def lacking(self) -> Iterator[tuple[int, Event, int]]:
        """(node, event, holder): owed, not delivered, and there for the asking."""
        forest = self.simulation.oracle.forest
        alone = not self.subject.overlay  # anybody reaches anybody
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
                for text in self.subscribed[node]:
                    early = self.since[node, text] < at
                    if early and AttributeFilter(text).matches(event.content):
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
                heard = (
                    publisher in recovery.streams.by_publisher and publisher not in recovery.unsure
                )
                if heard and self.born[publisher] < times[key] and key not in known:
                    raise InvariantViolation(
                        f"node {node} lacks event {publisher}/{key[1]} and does not know it"
                    )

    def _recovery(self, node: int) -> Gossip:
        found = self.network.nodes[node]
        assert found is not None
        assert isinstance(found.recovery, Gossip)
        return found.recovery


def recovery_ground(seed: int, subject: Subject) -> dict[str, Any]:
    """A few nodes, on given links (a tree, or a graph where the routing takes one) or their own."""
    chance = Chance(seed, "recovery chaos")
    nodes = 4 + chance.below(5, 0)
    ground = {"nodes": nodes, "seed": seed, "buffer": (4, 40, 400)[chance.below(3, 1)]}
    if not subject.overlay or "links" not in find("overlay", subject.overlay).needs:
        return ground | {"topology": {"name": "full-mesh"}}
    if "tree" not in find("routing", subject.routing).needs and chance.below(2, 2):
        return ground | {"topology": {"name": "static-graph", "degree": 2}}
    links = [(chance.below(n, 3, n), n) for n in range(1, nodes)]
    return ground | {"topology": {"name": "abstract-tree", "links": links}}
