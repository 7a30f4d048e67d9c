"""A node starts and stops its layers, gives each what is meant for it, and delivers once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shoal.simulation  # noqa: F401  # registers everything
from shoal.content import Event, Filter, Pattern, Patterns
from shoal.routing.messages import Forward
from shoal.simulation import parse_config, simulate
from shoal.simulation.run import Simulation
from shoal.stack import (
    LOCAL,
    Contact,
    Host,
    Layer,
    Message,
    Node,
    NodeId,
    Overlay,
    Reconfiguration,
    Recovery,
    Routing,
    StackError,
    build,
    protocols,
    register,
)
from shoal.stack.layer import EARLY, Handler
from shoal.stack.registry import Choice, NoParameters, _registry


class Below(Message, frozen=True):
    """For the overlay."""


class Between(Message, frozen=True):
    """For the routing."""


class Above(Message, frozen=True):
    """For the recovery."""


class Stranger(Message, frozen=True):
    """For nobody."""


class LogHost(Host):
    """A host that writes down what its node asks of it, in the log that its layers write to."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.log: list[str] = []

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        self.log.append(f"host delivers {event.sequence} after {hops}, recovered {recovered}")

    def link_changed(self, neighbour: NodeId, up: bool, repair: int) -> None:
        self.log.append(f"host sees link {neighbour} {'up' if up else 'down'} ({repair})")


class Logs(Layer):
    """Writes down, under its own name, whatever it is told."""

    host: LogHost
    name = ""
    takes: type[Message]

    def log(self, text: str) -> None:
        self.host.log.append(f"{self.name} {text}")

    def handlers(self) -> dict[type[Message], Handler]:
        return {self.takes: self.on_message}

    def on_message(self, sender: NodeId, message: Message) -> None:
        self.log(f"hears {type(message).__name__} from {sender}")

    def start(self) -> None:
        self.log("starts")

    def stop(self) -> None:
        self.log("stops")

    def join(self, contacts: tuple[Contact, ...]) -> None:
        self.log(f"joins {[contact.node for contact in contacts]}")

    def opened(self, peer: Contact) -> None:
        self.log(f"opened {peer.node}")

    def closed(self, peer: NodeId) -> None:
        self.log(f"closed {peer}")

    def unreachable(self, contact: Contact) -> None:
        self.log(f"unreachable {contact.node}")


class LogOverlay(Logs, Overlay):
    name = "overlay"
    takes: type[Message] = Below


class LogRouting(Logs, Routing):
    """Wants every event that it publishes."""

    name = "routing"
    takes: type[Message] = Between

    def publish(self, event: Event) -> None:
        self.log(f"publishes {event.sequence}")
        if self.recovery is not None:
            self.recovery.seen(event)
        self.deliver(event, 0)

    def subscribe(self, filter: Filter) -> None:
        self.log(f"subscribes {filter}")

    def unsubscribe(self, filter: Filter) -> None:
        self.log(f"unsubscribes {filter}")

    def advertise(self, filter: Filter) -> None:
        self.log(f"advertises {filter}")

    def unadvertise(self, filter: Filter) -> None:
        self.log(f"unadvertises {filter}")

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.log(f"link up {neighbour} {reconfiguration and reconfiguration.id}")

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.log(f"link down {neighbour} {reconfiguration and reconfiguration.id}")

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        self.log(f"link {old} replaced by {near}-{far} in {reconfiguration.id}")

    def parent_changed(self, parent: NodeId) -> None:
        self.log(f"parent {parent}")


class LogRecovery(Logs, Recovery):
    name = "recovery"
    takes: type[Message] = Above

    def published(self, event: Event) -> None:
        self.log(f"hears of publishing {event.sequence}")

    def subscribed(self, filter: Filter, age: float = 0.0) -> None:
        self.log(f"hears of subscribing {filter}")

    def unsubscribed(self, filter: Filter) -> None:
        self.log(f"hears of unsubscribing {filter}")

    def seen(self, event: Event, sender: int = LOCAL) -> None:
        self.log(f"sees {event.sequence}")

    def arrived(self, event: Event, hops: int) -> None:
        self.log(f"gets {event.sequence}")
        super().arrived(event, hops)


def whole() -> tuple[Node, list[str]]:
    """A node of all three layers, and the log of what they are told."""
    host = LogHost()
    routing = LogRouting(host)
    return Node(host, LogOverlay(host, routing), routing, LogRecovery(host, routing)), host.log


# Life


def test_lower_layers_start_first_and_the_bottom_joins_when_all_have() -> None:
    node, log = whole()
    node.start((Contact(4), Contact(7)))
    assert log == ["overlay starts", "routing starts", "recovery starts", "overlay joins [4, 7]"]


def test_upper_layers_stop_first() -> None:
    node, log = whole()
    node.stop()
    assert log == ["recovery stops", "routing stops", "overlay stops"]


def test_layers_may_be_absent() -> None:
    host = LogHost()
    node = Node(host, None, LogRouting(host), None)
    node.start()
    node.opened(Contact(3))
    node.unreachable(Contact(4))
    node.closed(3)
    node.stop()
    assert host.log == [
        "routing starts",
        "routing joins []",
        "routing opened 3",
        "routing unreachable 4",
        "routing closed 3",
        "routing stops",
    ]


# Messages and connections


@pytest.mark.parametrize(
    ("message", "layer"), [(Below(), "overlay"), (Between(), "routing"), (Above(), "recovery")]
)
def test_a_message_goes_to_the_layer_that_takes_its_type(message: Message, layer: str) -> None:
    node, log = whole()
    node.receive(9, message)
    assert log == [f"{layer} hears {type(message).__name__} from 9"]
    assert set(node.handled_by) == {Below, Between, Above}


def test_a_message_that_no_layer_takes_changes_nothing() -> None:
    node, log = whole()
    with pytest.raises(KeyError):
        node.receive(9, Stranger())
    assert log == []


def test_two_layers_that_take_the_same_message_are_refused() -> None:
    class Greedy(LogRecovery):
        takes = Below

    host = LogHost()
    routing = LogRouting(host)
    overlay = LogOverlay(host, routing)
    with pytest.raises(ValueError, match="Greedy and LogOverlay both handle Below messages"):
        Node(host, overlay, routing, Greedy(host, routing))


def test_connections_are_the_overlays_business_alone() -> None:
    node, log = whole()
    node.opened(Contact(3))
    node.unreachable(Contact(4))
    node.closed(3)
    assert log == ["overlay opened 3", "overlay unreachable 4", "overlay closed 3"]


def test_the_overlay_tells_host_and_routing_of_links() -> None:
    node, log = whole()
    overlay = node.overlay
    assert overlay is not None
    repair = Reconfiguration(6)
    overlay.link_up(3)
    overlay.link_up(5, repair)
    overlay.link_replaced(3, 0, 5, repair)
    overlay.parent_changed(5)
    assert list(overlay.neighbours) == [3, 5]
    overlay.link_down(3, repair)
    overlay.link_down(5)
    overlay.parent_changed(LOCAL)
    assert list(overlay.neighbours) == []
    assert log == [
        "host sees link 3 up (-1)",
        "routing link up 3 None",
        "host sees link 5 up (6)",
        "routing link up 5 6",
        "routing link 3 replaced by 0-5 in 6",
        "routing parent 5",
        "host sees link 3 down (6)",
        "routing link down 3 6",
        "host sees link 5 down (-1)",
        "routing link down 5 None",
        "routing parent -1",
    ]


def test_another_object_may_hear_what_the_routing_is_told() -> None:
    """Messages still go to the routing itself."""
    node, log = whole()

    class Tap(LogRouting):
        name = "tap"

    node.put_before_routing(Tap(node.host))
    assert node.overlay is not None
    node.overlay.link_up(3)
    node.subscribe(Pattern(1))
    node.receive(3, Between())
    assert log == [
        "host sees link 3 up (-1)",
        "tap link up 3 None",
        "recovery hears of subscribing pattern 1",
        "tap subscribes pattern 1",
        "routing hears Between from 3",
    ]


def test_what_comes_over_a_link_before_it_is_up_at_this_end_waits_for_it() -> None:
    node, log = whole()
    overlay = node.overlay
    assert overlay is not None
    overlay.expect_link(3)
    node.receive(3, Between())
    node.receive(4, Between())
    assert log == ["routing hears Between from 4"], "others do not wait"
    overlay.link_up(3)
    overlay.handle_early(3)
    node.receive(3, Between())
    assert log[-2:] == ["routing hears Between from 3"] * 2


def test_events_do_not_wait_for_a_link_and_too_much_is_not_kept() -> None:
    """A node that is no neighbour yet must not fill the memory of another."""
    node, _ = whole()
    overlay, routing = node.overlay, node.routing
    assert overlay is not None
    overlay.expect_link(3)
    event = Forward(Event(0, 5, Patterns((1,))), 1)
    assert not routing.is_early(3, event)
    assert routing.is_early(3, Between())
    routing.early[3] = [Between()] * EARLY
    assert overlay.expects_link(3)
    node.receive(3, Between())
    assert not overlay.expects_link(3)
    assert not routing.early


# The application


def test_the_recovery_hears_of_it_before_the_routing_acts() -> None:
    node, log = whole()
    node.subscribe(Pattern(1))
    node.publish(Event(0, 5, Patterns((1,))))
    node.unsubscribe(Pattern(1))
    node.advertise(Pattern(2))
    node.unadvertise(Pattern(2))
    assert log == [
        "recovery hears of subscribing pattern 1",
        "routing subscribes pattern 1",
        "recovery hears of publishing 5",
        "routing publishes 5",
        "recovery sees 5",
        "recovery gets 5",
        "host delivers 5 after 0, recovered False",
        "recovery hears of unsubscribing pattern 1",
        "routing unsubscribes pattern 1",
        "routing advertises pattern 2",
        "routing unadvertises pattern 2",
    ]


def test_without_a_recovery_the_routing_delivers_itself() -> None:
    host = LogHost()
    node = Node(host, None, LogRouting(host), None)
    node.subscribe(Pattern(1))
    node.publish(Event(0, 5, Patterns((1,))))
    assert host.log == [
        "routing subscribes pattern 1",
        "routing publishes 5",
        "host delivers 5 after 0, recovered False",
    ]


# In a simulation


class Copy(Message, frozen=True):
    """An event for a node that may not have it."""

    event: Event

    def events(self) -> tuple[Event, ...]:
        return (self.event,)


class Generous(Recovery):
    """Sends a copy of all that its node publishes to every node of a network of five."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.has: set[tuple[int, int]] = set()
        self.saw: list[tuple[int, int]] = []

    def handlers(self) -> dict[type[Message], Handler]:
        return {Copy: self.on_copy}

    def published(self, event: Event) -> None:
        def send() -> None:
            for node in range(5):
                if node != self.host.node:
                    self.host.send_direct(Contact(node), Copy(event))

        self.host.after(0.5, send)

    def seen(self, event: Event, sender: int = LOCAL) -> None:
        self.saw.append(event.id)

    def arrived(self, event: Event, hops: int) -> None:
        self._deliver(event, hops, False)

    def on_copy(self, sender: NodeId, message: Copy) -> None:
        if any(filter.matches(message.event.content) for filter in self.routing.filters()):
            self._deliver(message.event, 1, True)

    def _deliver(self, event: Event, hops: int, recovered: bool) -> None:
        if event.id not in self.has:
            self.has.add(event.id)
            self.host.deliver(event, hops, recovered)


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    before = dict(_registry)
    register("recovery", "generous", Generous)
    yield
    _registry.clear()
    _registry.update(before)


def act(at: float, node: int, do: str, pattern: int = 1) -> dict[str, Any]:
    return {"at": at, "node": node, "do": do, "patterns": [pattern]}


def config(routing: str, **more: Any) -> dict[str, Any]:
    """0-1-2-3-4, of which 1-2 breaks between the second event and the third."""
    return {
        "nodes": 5,
        "duration": 8.0,
        "topology": {
            "name": "abstract-tree",
            "links": [[0, 1], [1, 2], [2, 3], [3, 4]],
            "schedule": [{"at": 4.0, "old": [1, 2]}],
        },
        "routing": {"name": routing},
        "recovery": {"name": "generous"},
        "workload": {
            "script": [
                act(0.1, 1, "subscribe"),
                act(0.1, 3, "subscribe"),
                act(0.1, 4, "subscribe", 2),
                act(0.1, 0, "advertise"),
                act(2.0, 0, "publish"),
                act(3.0, 0, "publish", 7),
                act(5.0, 0, "publish"),
            ]
        },
        "record": ["deliveries", "publications", "traffic"],
        **more,
    }


EXACT = ["event-forwarding", "subscription-forwarding", "hierarchical-forwarding", "flooding"]


@pytest.mark.parametrize("routing", EXACT)
def test_what_was_recovered_is_told_apart_in_the_deliveries(routing: str) -> None:
    result = simulate(parse_config(config(routing)))
    rows = [
        (row["sequence"], row["node"], row["recovered"], row["wanted"])
        for row in result.tables["deliveries"].to_pylist()
    ]
    # Once each, although each was sent as a copy as well.
    assert rows == [
        (0, 1, False, True),
        (0, 3, False, True),
        (2, 1, False, True),
        (2, 3, True, True),
    ]
    published = result.tables["publications"].to_pylist()
    assert [(row["owed"], row["received"]) for row in published] == [(2, 2), (0, 0), (2, 2)]
    counts: dict[str, int] = {}
    for row in result.tables["traffic"].to_pylist():
        counts[row["kind"]] = counts.get(row["kind"], 0) + row["count"]
    assert counts["copy"] == 3 * 4


@pytest.mark.parametrize("routing", [p.name for p in protocols("routing") if "air" not in p.needs])
def test_every_routing_shows_its_recovery_each_event_once_per_node(routing: str) -> None:
    """Whatever node an event reaches, wanted there or not; the publisher's included."""
    alone = any(p.name == routing and "reach" in p.needs for p in protocols("routing"))
    found = parse_config(config(routing, **({"topology": {"name": "full-mesh"}} if alone else {})))
    simulation = Simulation(found)
    messages = simulation.recorder.messages
    simulation.recorder.keeps_messages = True
    simulation.run()
    reached: dict[int, set[str]] = {node: set() for node in range(5)}
    for _, kind, _, target, text in messages:
        if kind == "event":
            reached[target].add(text.partition("sequence=")[2].partition(",")[0])
    reached[0] |= {"0", "1", "2"}
    for number, node in enumerate(simulation.network.nodes):
        assert node is not None
        recovery = node.recovery
        assert isinstance(recovery, Generous)
        assert len(set(recovery.saw)) == len(recovery.saw)
        assert {str(sequence) for _, sequence in recovery.saw} == reached[number]
        assert sorted(map(str, node.routing.filters())) == {
            1: ["pattern 1"],
            3: ["pattern 1"],
            4: ["pattern 2"],
        }.get(number, [])
    assert reached[1] >= {"0"}


@pytest.mark.parametrize("routing", EXACT)
def test_a_routing_says_where_it_would_send_what_matches_a_filter(routing: str) -> None:
    simulation = Simulation(parse_config(config(routing)))
    simulation.begin()
    for number in (1, 3):
        simulation.subscription(number, Pattern(1), True)
    simulation.kernel.run(3_000_000_000)
    hops = [sorted(node.routing.next_hops(Pattern(1))) for node in simulation.network.nodes if node]
    everywhere = [[1], [0, 2], [1, 3], [2, 4], [3]]
    assert hops == {
        "subscription-forwarding": [[1], [2], [1, 3], [2], [3]],
        # Up to the root 0 in any case, and down where it is wanted.
        "hierarchical-forwarding": [[1], [0, 2], [1, 3], [2], [3]],
    }.get(routing, everywhere)


def test_arrays_are_refused_where_events_can_be_recovered() -> None:
    with pytest.raises(StackError, match="recovery 'generous' works on the objects of events"):
        Simulation(parse_config(config("event-forwarding", data_plane="arrays")))


def test_layers_start_in_a_simulation_and_their_recovery_is_made_once_per_node() -> None:
    stack = build(
        *(Choice("given"), Choice("flooding"), None, Choice("generous")),
        topology=Choice("static-graph"),
    )
    first, second = stack.on(LogHost()), stack.on(LogHost())
    assert isinstance(first.recovery, Generous)
    assert first.recovery is first.routing.recovery
    assert first.recovery is not second.recovery
    assert first.recovery.routing is first.routing
    assert first.overlay is not None
    assert first.overlay.routing is first.routing
    assert first.bottom is first.overlay
