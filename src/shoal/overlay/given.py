"""Given links: the overlay of a simulated topology, which passes on what its script does.

It runs no protocol. A paper's abstract model (a tree whose links are replaced on schedule, a random
graph, radios in range) is reproduced exactly, since both ends hear of a change at once.
"""

from __future__ import annotations

from shoal.stack.host import Host, NodeId
from shoal.stack.layer import Overlay, Reconfiguration, Routing
from shoal.stack.registry import NoParameters, register


class Given(Overlay):
    """Links as the simulation's topology makes and breaks them."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Pass on; the simulation has written it down."""
        self.neighbours[neighbour] = None
        self.routing.link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None = None) -> None:
        """Pass on; the simulation has written it down."""
        del self.neighbours[neighbour]
        self.routing.link_down(neighbour, reconfiguration)


register("overlay", "given", Given, needs={"links"})
