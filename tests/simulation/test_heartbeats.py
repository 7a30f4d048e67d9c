"""Heartbeats are kept by the host. Whatever happens, it knows what a layer would that handles them.

Each heartbeat is followed, over the same connections, by a message that a layer handles. What the
layer has written down must be what the host says.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from shoal.simulation import Simulation, parse_config
from shoal.simulation.kernel import to_ns
from shoal.stack import Contact, Heartbeat, Host, NodeId, Overlay, Routine, Routing, register
from shoal.stack.host import LOCAL, NEVER
from shoal.stack.layer import Handler, kept_by_host
from shoal.stack.message import Message
from shoal.stack.registry import NoParameters, _registry

NODES = 5


class Sign(Heartbeat, frozen=True):
    number: int


class Mark(Routine, frozen=True):
    number: int


class Witness(Overlay):
    """Writes down when each connection was made, and what came over it last."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.last: dict[NodeId, tuple[float | None, int | None]] = {}

    def handlers(self) -> dict[type[Message], Handler]:
        return {Sign: kept_by_host, Mark: self.on_mark}

    def opened(self, peer: Contact) -> None:
        self.last[peer.node] = (None, None)

    def closed(self, peer: NodeId) -> None:
        self.last.pop(peer, None)

    def on_mark(self, sender: NodeId, message: Mark) -> None:
        self.last[sender] = (self.host.now(), message.number)

    def check(self, late: bool) -> None:
        """Where sending takes time, a mark arrives later than the sign before it."""
        for peer, (heard, number) in self.last.items():
            beat = self.host.last_beat(peer)
            latest = -1 if beat is None else beat.number
            mark = -1 if number is None else number
            assert latest == mark or (late and latest > mark)
            if heard is not None and not late:
                assert self.host.heard(peer) == heard
            assert NEVER < self.host.heard(peer) <= self.host.now()


@pytest.fixture(autouse=True)
def witness() -> Iterator[None]:
    before = dict(_registry)
    register("overlay", "witness", Witness, needs={"reach"}, provides={"links"})
    yield
    _registry.clear()
    _registry.update(before)


@pytest.mark.parametrize("link", [{}, {"bandwidth": 1e6}, {"loss": 0.3}], ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_the_host_knows_what_a_layer_would(seed: int, link: dict[str, Any]) -> None:
    simulation = Simulation(
        parse_config(
            {
                "nodes": NODES,
                "seed": seed,
                "topology": {"name": "full-mesh", "joining": 0.0, "timeout": 0.02},
                "overlay": {"name": "witness"},
                "routing": {"name": "flooding"},
                "link": {"delay": 0.001, "bandwidth": 0, **link},
                "workload": {"publish_rate": 0.0, "subscribers": 0.0},
            }
        )
    )
    kernel, network, topology = simulation.kernel, simulation.network, simulation.topology
    simulation.begin()
    kernel.run(0)
    chance = Random(f"{seed} {link}")
    beats = 0
    for number in range(400):
        node = chance.randrange(NODES)
        act = chance.random()
        host, running = network.hosts[node], network.nodes[node]
        if running is None:
            if act < 0.2:
                network.start_node(node, ())
        elif act < 0.25:
            host.open(Contact(chance.randrange(NODES)))
        elif act < 0.3 and host.channels:
            peer = chance.choice(list(host.channels))
            host.close(peer)
            if peer not in host.channels:
                overlay = running.overlay
                assert isinstance(overlay, Witness)
                overlay.closed(peer)
        elif act < 0.32:
            topology.connections.crash(node)
        elif act < 0.34:
            topology.connections.cut([chance.randrange(2) for _ in range(NODES)])
        elif act < 0.4:
            topology.connections.heal()
        elif host.channels:
            to = tuple(chance.sample(list(host.channels), chance.randint(1, len(host.channels))))
            if chance.random() < 0.5:
                to = tuple(host.channels)
            but = chance.choice([LOCAL, LOCAL, *to])
            for message in (Sign(number), Mark(number)):
                host.send_all(to, message, but)
            beats += len(to)
        kernel.run(kernel.now + to_ns(chance.choice([0, 0.0005, 0.001, 0.01])))
        for one in network.nodes:
            if one is not None:
                assert isinstance(one.overlay, Witness)
                one.overlay.check("bandwidth" in link)
    assert beats > 100
