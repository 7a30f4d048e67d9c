"""Each checker must be seen to fail: on protocols and topologies that are broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.content import Event, Filter, Pattern
from shoal.routing import EventForwarding, Forward
from shoal.routing.reconfiguration import Strawman
from shoal.simulation import InvariantViolation, Simulation, parse_config, simulate
from shoal.simulation.invariants import check_acyclic, check_table
from shoal.simulation.network import Network
from shoal.simulation.oracle import Forest
from shoal.stack import (
    LOCAL,
    Contact,
    Heartbeat,
    Host,
    Message,
    NodeId,
    Reconfiguration,
    Routing,
    register,
)
from shoal.stack.layer import Handler
from shoal.stack.registry import NoParameters, _registry


@pytest.fixture(autouse=True)
def registry_as_before() -> Iterator[None]:
    before = dict(_registry)
    yield
    _registry.clear()
    _registry.update(before)


def joined(nodes: int, *links: tuple[int, int]) -> list[dict[int, None]]:
    forest = Forest(nodes)
    for a, b in links:
        forest.link(a, b, True)
    return forest.links


@pytest.mark.parametrize(("a", "b"), [(0, 3), (3, 0), (1, 2), (0, 1), (6, 5), (4, 4)])
def test_a_link_between_connected_nodes_closes_a_cycle(a: int, b: int) -> None:
    #  0-1-2-3   4   5-6-7
    net = joined(8, (0, 1), (1, 2), (2, 3), (5, 6), (6, 7))
    with pytest.raises(InvariantViolation, match=f"link {a}-{b} at 1.500000 s closes a cycle"):
        check_acyclic(net, a, b, 1.5)


@pytest.mark.parametrize(("a", "b"), [(0, 4), (4, 0), (3, 5), (7, 1), (4, 6)])
def test_a_link_between_two_parts_does_not(a: int, b: int) -> None:
    check_acyclic(joined(8, (0, 1), (1, 2), (2, 3), (5, 6), (6, 7)), a, b, 1.5)


def test_a_new_leaf_is_checked_in_no_time() -> None:
    """The cost is that of the smaller part: building a large tree is not quadratic."""
    looked_at: list[int] = []

    class Watched(list[dict[int, None]]):
        def __getitem__(self, node: Any) -> Any:
            looked_at.append(node)
            return super().__getitem__(node)

    net = joined(1001, *((a, a + 1) for a in range(999)))
    check_acyclic(Watched(net), 500, 1000, 0.0)
    assert len(looked_at) <= 4


class LoopingTree:
    """A topology that says it is a tree and is not."""

    def __init__(self, parameters: Any, network: Network, nodes: int, seed: int) -> None:
        self.network = network
        self.links = [(0, 1), (1, 2)]

    def start(self) -> None:
        for a, b in (*self.links, (2, 0)):
            self.network.link_up(a, b)


def test_a_topology_that_closes_a_cycle_is_stopped() -> None:
    register("topology", "looping-tree", LoopingTree, provides={"links", "tree"})
    config = parse_config(
        {
            "nodes": 3,
            "topology": {"name": "looping-tree"},
            "routing": {"name": "event-forwarding"},
        }
    )
    with pytest.raises(InvariantViolation, match=r"link 2-0 at 0\.0+ s closes a cycle"):
        simulate(config)


class Stutterer(EventForwarding):
    """Delivers everything twice."""

    def publish(self, event: Event) -> None:
        super().publish(event)
        super().publish(event)


def test_a_routing_that_delivers_twice_is_stopped() -> None:
    register("routing", "stutterer", Stutterer, needs={"tree"})
    config = parse_config(
        {
            "nodes": 3,
            "routing": {"name": "stutterer"},
            "workload": {
                "script": [
                    {"at": 0.1, "node": 2, "do": "subscribe", "patterns": [1]},
                    {"at": 0.2, "node": 0, "do": "publish", "patterns": [1]},
                ]
            },
        }
    )
    with pytest.raises(InvariantViolation, match=r"event 0/0 delivered twice to node 2 at 0.201"):
        simulate(config)


class Forgetful(Strawman):
    """Announces nothing over a new link."""

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.routing.add_neighbour(neighbour)


class Clinging(Strawman):
    """Keeps what a lost link brought."""

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.routing.drop_neighbour(neighbour)


@pytest.mark.parametrize(("protocol", "words"), [(Forgetful, "missing"), (Clinging, "not due")])
def test_a_protocol_that_leaves_wrong_tables_is_stopped(protocol: type, words: str) -> None:
    register("reconfiguration", "broken", protocol, needs={"tables"}, provides={"reconfiguration"})
    raw: dict[str, Any] = {
        "nodes": 4,
        "topology": {
            "name": "abstract-tree",
            "links": [[0, 1], [1, 2], [2, 3]],
            "schedule": [{"at": 1.0, "old": [1, 2], "new": [0, 3]}],
        },
        "reconfiguration": {"name": "broken"},
        "workload": {"script": [{"at": 0.5, "node": 0, "do": "subscribe", "patterns": [7]}]},
    }
    with pytest.raises(InvariantViolation, match=r"at rest .* the table of node") as stopped:
        simulate(parse_config(raw))
    assert words in str(stopped.value)
    assert "pattern 7" in str(stopped.value)
    # Asked not to stop, the run says so in its result.
    assert simulate(parse_config({**raw, "invariants": False})).canonical is False


class Restless(Routing):
    """Never comes to rest."""

    def __init__(self, host: Host, parameters: NoParameters) -> None:
        super().__init__(host)

    def handlers(self) -> dict[type[Any], Handler]:
        return {Forward: lambda sender, message: None}

    def subscribe(self, filter: Filter) -> None:
        pass

    def publish(self, event: Event) -> None:
        self.host.after(1.0, lambda: self.publish(event))

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        pass


def test_a_run_that_never_rests_is_stopped() -> None:
    register("routing", "restless", Restless, needs={"links"})
    config = parse_config(
        {
            "nodes": 2,
            "duration": 1.0,
            "routing": {"name": "restless"},
            "workload": {"script": [{"at": 0, "node": 0, "do": "publish", "patterns": [1]}]},
        }
    )
    with pytest.raises(InvariantViolation, match="not at rest 300 s after the end: 0 messages"):
        simulate(config)


class Hail(Message, frozen=True, tag="hail"):
    """Nobody handles it."""


class SilentBeat(Heartbeat, frozen=True, tag="silent beat"):
    """A heartbeat that no layer names."""


@pytest.mark.parametrize("sent", [Hail, SilentBeat])
@pytest.mark.parametrize("way", ["link", "out of band"])
def test_a_protocol_that_sends_what_no_layer_handles_is_stopped(
    sent: type[Message], way: str
) -> None:
    class Sender(Restless):
        """Sends messages of a type that it has no handler for."""

        def publish(self, event: Event) -> None:
            if way == "link":
                self.host.send(1 - self.host.node, sent())
            else:
                self.host.send_direct(Contact(1 - self.host.node), sent())

    register("routing", f"sends {sent.__name__} over {way}", Sender, needs={"links"})
    config = parse_config(
        {
            "nodes": 2,
            "duration": 1.0,
            "routing": {"name": f"sends {sent.__name__} over {way}"},
            "workload": {"script": [{"at": 0, "node": 0, "do": "publish", "patterns": [1]}]},
        }
    )
    with pytest.raises(InvariantViolation, match=f"{sent.__name__} messages, which no layer"):
        simulate(config)


def test_a_wrong_table_is_described_in_one_short_line() -> None:
    expected: set[tuple[int, Filter]] = {(2, Pattern(n)) for n in range(9)}
    table: set[tuple[int, Filter]] = {(LOCAL, Pattern(3))}
    with pytest.raises(InvariantViolation) as violation:
        check_table(expected, 4, table, 2.0)
    text = str(violation.value)
    assert text.startswith("at rest (2.000000 s) the table of node 4 is wrong: missing 2: pattern")
    assert "and 4 more" in text
    assert text.endswith("not due LOCAL: pattern 3")
    check_table(expected, 4, set(expected), 2.0)


def test_every_ordinary_run_is_checked() -> None:
    simulation = Simulation(parse_config({"nodes": 9, "reconfiguration": {"name": "strawman"}}))
    assert simulation.network.acyclic
    simulation.run()
    assert simulation.wrong_table() is None
    node: Any = simulation.network.nodes[3]
    node.routing.table.add(LOCAL, Pattern(950))
    wrong = simulation.wrong_table()
    assert wrong is not None
    assert "node 3" in wrong
