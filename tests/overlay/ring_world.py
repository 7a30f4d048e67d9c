"""Networks of nodes that hold a ring and nothing else."""

from __future__ import annotations

from typing import Any

from shoal.overlay.chord import Ring, RingHolder
from shoal.overlay.chord_messages import RingParameters
from shoal.simulation import parse_config
from shoal.simulation.kernel import to_ns
from shoal.simulation.run import Simulation
from shoal.stack import Contact, Host, NodeId, Overlay, Routing, register
from shoal.stack.layer import Handler
from shoal.stack.message import Message

KEYS = 2**20


class Holder(RingHolder):
    def __init__(self, host: Host) -> None:
        self.host = host
        self.changes = 0

    def keys_changed(self) -> None:
        self.changes += 1

    def connect(self, contact: Contact) -> None:
        self.host.open(contact)


class RingOnly(Overlay):
    """A ring, without links."""

    def __init__(self, host: Host, parameters: RingParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.holder = Holder(host)
        self.ring = Ring(host, parameters, KEYS, self.holder)

    def handlers(self) -> dict[type[Message], Handler]:
        return self.ring.handlers()

    def start(self) -> None:
        self.ring.start()

    def stop(self) -> None:
        self.ring.leave()

    def join(self, contacts: tuple[Contact, ...]) -> None:
        self.ring.join(contacts)

    def opened(self, peer: Contact) -> None:
        self.ring.opened(peer)

    def closed(self, peer: NodeId) -> None:
        self.ring.closed(peer)

    def unreachable(self, contact: Contact) -> None:
        self.ring.unreachable(contact)


register("overlay", "ring-only", RingOnly, RingParameters, needs={"reach"}, provides={"links"})


class RingWorld:
    """A network of rings, looked at from outside."""

    def __init__(self, nodes: int, seed: int = 0, **topology: Any) -> None:
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": nodes,
                    "seed": seed,
                    "duration": 1000.0,
                    "topology": {"name": "full-mesh", **topology},
                    "overlay": {"name": "ring-only"},
                    "routing": {"name": "flooding"},
                    "link": {"delay": 0.01},
                }
            )
        )
        self.topology = self.simulation.topology
        self.topology.start()

    def run(self, until: float) -> None:
        self.simulation.kernel.run(to_ns(until))

    def running(self) -> list[int]:
        return [n for n, node in enumerate(self.simulation.network.nodes) if node is not None]

    def ring(self, node: int) -> Ring:
        found = self.simulation.network.nodes[node]
        assert found is not None
        assert isinstance(found.overlay, RingOnly)
        return found.overlay.ring

    def order(self) -> list[int]:
        """The running nodes in the order of their positions."""
        return sorted(self.running(), key=lambda node: self.ring(node).position)

    def owner(self, key: int) -> int:
        """Whose key it must be."""
        order = self.order()
        for node in order:
            if self.ring(node).position >= key:
                return node
        return order[0]

    def wrong(self) -> str | None:
        """What is wrong about the ring, if anything is: order, lists, ownership."""
        order = self.order()
        positions = [self.ring(node).position for node in order]
        if len(set(positions)) < len(positions):
            return f"two nodes at one position: {positions}"
        for place, node in enumerate(order):
            ring = self.ring(node)
            others = order[place + 1 :] + order[:place]
            ahead, back = others[: ring.length], others[::-1][: ring.length]
            if [peer.contact.node for peer in ring.successors] != ahead:
                return f"{node} has successors {ring.successors}, not {ahead}"
            if [peer.contact.node for peer in ring.predecessors] != back:
                return f"{node} has predecessors {ring.predecessors}, not {back}"
            after = self.ring(others[-1]).position if others else ring.position
            if ring.after() != after:
                return f"{node} owns the keys after {ring.after()}, not {after}"
        return None

    def look_up(self, node: int, key: int) -> int | None:
        """Who a node finds owns a key; None if nobody."""
        found: list[int | None] = []

        def answer(owner: Any, after: int) -> None:
            found.append(None if owner is None else owner.contact.node)

        self.ring(node).lookups.look_up(key, answer)
        kernel = self.simulation.kernel
        end = kernel.now + to_ns(60.0)
        while not found and kernel.now < end:
            kernel.run(kernel.now + to_ns(0.05))
        assert len(found) == 1, "a lookup must end, once"
        return found[0]
