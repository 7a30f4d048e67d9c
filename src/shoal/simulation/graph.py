"""Random connected graphs of constant degree: still, or with links replaced on schedule.

Costa and Picco (section 4): every so often a link whose ends have at least the nominal degree
vanishes, and a repair time later one appears between two nodes of at most that degree, so that all
degrees stay within one of the nominal. Choices are drawn from the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Annotated, NamedTuple

import msgspec

from shoal.simulation.kernel import to_ns
from shoal.simulation.network import Network
from shoal.simulation.topology import Edge, random_regular_graph
from shoal.stack import Chance, Reconfiguration, StackError, register

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
ATTEMPTS = 1000
"""Draws of a link, or of a pair of nodes, before all of them are looked at."""


class GraphParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``degree``: links per node."""

    degree: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Links of every node."""


class ReconfiguredGraphParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A graph to start from, and how it changes."""

    degree: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Links per node at the start; later one more or one fewer."""
    interval: Annotated[float, msgspec.Meta(gt=0)] = 0.03
    """rho: seconds from one vanishing link to the next."""
    window: tuple[Seconds, Seconds] = (0.0, 1e6)
    """When links vanish."""
    repair_time: Seconds = 0.1
    """Seconds from the loss of a link to the appearance of another."""


class Change(NamedTuple):
    """A link that appears or vanishes."""

    at: float
    appears: bool
    link: Edge
    reconfiguration: Reconfiguration | None = None


class ScriptedLinks:
    """The links of the start, and their changes in order of time."""

    def __init__(self, network: Network, links: list[Edge], changes: Iterable[Change] = ()) -> None:
        self.network = network
        self.links = links
        self.changes = iter(changes)

    def start(self) -> None:
        """Raise the links and schedule the first change."""
        for a, b in self.links:
            self.network.link_up(a, b)
        self._schedule_next()

    def _schedule_next(self) -> None:
        change = next(self.changes, None)
        if change is not None:
            # In the background: a run is over when its messages are, not when its links hold still.
            self.network.kernel.call_at(to_ns(change.at), partial(self._change, change), True)

    def _change(self, change: Change) -> None:
        if self.network.linked(*change.link) != change.appears:
            act = self.network.link_up if change.appears else self.network.link_down
            act(*change.link, change.reconfiguration)
        self._schedule_next()


class StaticGraph(ScriptedLinks):
    """A random connected graph in which every node has the same number of links."""

    def __init__(
        self, parameters: GraphParameters, network: Network, nodes: int, seed: int
    ) -> None:
        super().__init__(network, initial_graph("static-graph", nodes, parameters.degree, seed))


class ReconfiguredGraph(ScriptedLinks):
    """A random graph of nearly constant degree whose links are replaced one after the other."""

    def __init__(
        self, parameters: ReconfiguredGraphParameters, network: Network, nodes: int, seed: int
    ) -> None:
        links = initial_graph("reconfigured-graph", nodes, parameters.degree, seed)
        super().__init__(network, links, plan_changes(parameters, nodes, links, seed))


def initial_graph(topology: str, nodes: int, degree: int, seed: int) -> list[Edge]:
    """A random connected graph; a degree that no graph can have is an error."""
    try:
        return random_regular_graph(nodes, degree, Chance(seed, "graph"))
    except ValueError as error:
        raise StackError(f"topology '{topology}': {error}") from None


def plan_changes(
    parameters: ReconfiguredGraphParameters, nodes: int, links: list[Edge], seed: int
) -> Iterator[Change]:
    """The changes in order of time, the same for every protocol at a given seed."""
    graph = _Graph(nodes, parameters.degree, links, Chance(seed, "reconfigurations"))
    start, end = parameters.window
    repairs: list[tuple[float, int, Edge]] = []
    k = 0
    while True:
        at = start + k * parameters.interval
        while repairs and (at > end or repairs[0][0] <= at):
            due, number, old = heappop(repairs)
            new = graph.join(number, old)
            if new is not None:
                yield Change(due, True, new, Reconfiguration(number))
        if at > end:
            return
        broken = graph.part(k)
        if broken is not None:
            yield Change(at, False, broken, Reconfiguration(k))
            heappush(repairs, (at + parameters.repair_time, k, broken))
        k += 1


class _Graph:
    """The graph while its changes are planned."""

    def __init__(self, nodes: int, degree: int, links: list[Edge], chance: Chance) -> None:
        self.degree = degree
        self.links = list(links)
        self.neighbours: list[set[int]] = [set() for _ in range(nodes)]
        for a, b in links:
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)
        self.chance = chance

    def part(self, number: int) -> Edge | None:
        """Take a random link away whose ends both have at least the nominal degree."""
        for attempt in range(ATTEMPTS):
            i = self.chance.below(len(self.links), number, 0, attempt)
            if self._may_part(self.links[i]):
                break
        else:
            able = [i for i, link in enumerate(self.links) if self._may_part(link)]
            if not able:
                return None
            i = self.chance.choice(able, number, 0, ATTEMPTS)
        a, b = self.links[i]
        self.links[i] = self.links[-1]
        self.links.pop()
        self.neighbours[a].discard(b)
        self.neighbours[b].discard(a)
        return a, b

    def join(self, number: int, old: Edge) -> Edge | None:
        """Link two random nodes of at most the nominal degree, elsewhere than before."""
        nodes = len(self.neighbours)
        for attempt in range(ATTEMPTS):
            a = self.chance.below(nodes, number, 1, attempt)
            b = self.chance.below(nodes, number, 2, attempt)
            if self._may_join(a, b, old):
                break
        else:
            able = [(a, b) for a in range(nodes) for b in range(a) if self._may_join(a, b, old)]
            if not able:
                return None
            a, b = self.chance.choice(able, number, 1, ATTEMPTS)
        self.links.append((a, b))
        self.neighbours[a].add(b)
        self.neighbours[b].add(a)
        return a, b

    def _may_part(self, link: Edge) -> bool:
        return all(len(self.neighbours[end]) >= self.degree for end in link)

    def _may_join(self, a: int, b: int, old: Edge) -> bool:
        return (
            a != b
            and b not in self.neighbours[a]
            and {a, b} != set(old)
            and len(self.neighbours[a]) <= self.degree
            and len(self.neighbours[b]) <= self.degree
        )


register("topology", "static-graph", StaticGraph, GraphParameters, provides={"links"})
register(
    "topology",
    "reconfigured-graph",
    ReconfiguredGraph,
    ReconfiguredGraphParameters,
    provides={"links"},
)
