"""A random connected graph of constant degree that does not change."""

from __future__ import annotations

from typing import Annotated

import msgspec

from shoal.simulation.network import Network
from shoal.simulation.topology import random_regular_graph
from shoal.stack import Chance, StackError, register


class GraphParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``degree``: links per node."""

    degree: Annotated[int, msgspec.Meta(ge=1)] = 5


class StaticGraph:
    """A random connected graph in which every node has the same number of links."""

    def __init__(
        self, parameters: GraphParameters, network: Network, nodes: int, seed: int
    ) -> None:
        self.network = network
        try:
            self.links = random_regular_graph(nodes, parameters.degree, Chance(seed, "graph"))
        except ValueError as error:
            raise StackError(f"overlay 'static-graph': {error}") from None

    def start(self) -> None:
        """Raise the links."""
        for a, b in self.links:
            self.network.link_up(a, b)


register("overlay", "static-graph", StaticGraph, GraphParameters, provides={"links"})
