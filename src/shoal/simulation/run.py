"""One simulation, from its configuration to its tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import shoal.overlay  # registers the overlays
import shoal.recovery  # registers the recoveries
import shoal.routing  # registers the routings
import shoal.simulation.graph  # registers the random graphs
import shoal.simulation.radio  # registers moving radios and recorded links
import shoal.simulation.reference  # noqa: F401  # registers the tree of a settled hash table
from shoal.content import Event, Patterns
from shoal.routing import AdvertisementForwarding, Forward, SubscriptionForwarding
from shoal.simulation.air.topologies import OnAir, why_not_flooded  # registers them, too
from shoal.simulation.columns import to_tables
from shoal.simulation.config import RunConfig, check_links, checked, run_id
from shoal.simulation.full_mesh import FullMesh  # registers it, too
from shoal.simulation.garbage import large_pages, uncollected
from shoal.simulation.invariants import InvariantViolation, check_table
from shoal.simulation.kernel import NANOSECONDS, Kernel, to_ns
from shoal.simulation.network import Network
from shoal.simulation.oracle import Forest, Oracle
from shoal.simulation.player import Player
from shoal.simulation.radio_range import RadioRange
from shoal.simulation.recorder import Recorder
from shoal.simulation.result import RunResult, fingerprint
from shoal.simulation.static_tree import StaticTree
from shoal.simulation.topology import tree_diameter
from shoal.simulation.tree import AbstractTree
from shoal.simulation.workload import plan_workload
from shoal.stack import LOCAL, Node, StackError

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.simulation.dataplane.plane import DataPlane

WORTH_ARRAYS = 50_000
"""Events times nodes from which on compiled arrays pay."""
EVENTS_PER_REPAIR = 250
"""Events per replaced link from which on they pay where tables follow the tree: every message that
repairs a table is handled by an object, and stops the arrays for a moment."""

REST_LIMIT = 300.0
"""Simulated seconds after the end of a run within which it must come to rest. A hundred radios on
one channel, congested by subscriptions, have taken more than 60."""


class Simulation:
    """A network of simulated nodes with a stack on each, ready to run."""

    @uncollected()
    def __init__(self, config: RunConfig) -> None:
        self.config = config = checked(config)
        large_pages(config.nodes)
        self.stack = config.stack()
        self.kernel = Kernel()
        self.recorder = Recorder(self.kernel, config.nodes, to_ns(config.bin), list(config.record))
        link = config.link
        self.network = Network(
            self.kernel, self.recorder, link.delay, link.bandwidth, link.direct_delay, link.loss
        )
        self.network.duration = max(self.network.duration, config.duration + REST_LIMIT)
        for _ in range(config.nodes):
            self.network.add_host(config.seed).watched = "notes" in config.record
        self.network.make_node = self.stack.on
        forest = Forest(config.nodes)
        self.oracle = Oracle(forest)
        self.recorder.oracle = self.oracle
        self.recorder.handled = self.stack.handled_by
        self.advertisers = Oracle(forest)
        self.network.forest = forest
        self.network.acyclic = self.stack.provides("tree")
        self.recorder.counts_misrouted = self.network.acyclic
        self.recorder.owes_publisher = config.workload.own_events
        self.advertises = self.stack.routing.make is AdvertisementForwarding
        self.workload = plan_workload(
            config.workload, config.nodes, config.duration, config.seed, self.advertises
        )
        assert self.stack.topology is not None
        self.topology = self.stack.topology.make(
            self.stack.parameters["topology"], self.network, config.nodes, config.seed
        )
        if isinstance(self.topology, RadioRange | StaticTree) and not config.workload.script:
            self.workload = self.topology.workload()
        self.wishes: dict[int, dict[Filter, None]] = {}
        """Per node what its application wants."""
        self.promises: dict[int, dict[Filter, None]] = {}
        """Per node what its application says it will publish."""
        self.network.crashed = self.crashed
        self.recorder.up = self.network.nodes
        if self.network.connections is None:
            for node in range(config.nodes):
                self.network.put_node(node)
        else:
            self.network.started = self.started
        self.plane = self._data_plane()
        for node in self.workload.core:
            self.recorder.core |= 1 << node

    def _data_plane(self) -> DataPlane | None:
        """Arrays in place of objects for the events, if asked for or worth it, and possible."""
        config = self.config
        if config.data_plane == "objects":
            return None
        if isinstance(self.topology, OnAir):
            self._flood_on_air(self.topology)
            return None
        events = len(self.workload.times)
        repairs = len(self.topology.plan) if isinstance(self.topology, AbstractTree) else 0
        if "tables" not in self.stack.routing.provides:
            repairs = 0
        if config.data_plane == "auto" and (
            events * config.nodes < WORTH_ARRAYS or events < EVENTS_PER_REPAIR * repairs
        ):
            return None
        # Here, as the compiled kernel takes a second to load and small runs do without.
        from shoal.simulation.dataplane.plane import DataPlane, why_not

        reason = why_not(self.stack, config.record, self.network, self.workload)
        if reason is None:
            return DataPlane(self.network, self.recorder, self.workload, config.seed)
        if config.data_plane == "arrays":
            raise StackError(f"data_plane = 'arrays' cannot be: {reason}; use 'auto'")
        return None

    def _flood_on_air(self, topology: OnAir) -> None:
        """Let the channel pass floods on by itself, where nobody wants to see how."""
        reason = why_not_flooded(self.stack, self.config.record)
        if reason is None:
            sample = Forward(Event(0, 0, Patterns(())), 1)
            topology.flood(sample, self.stack.parameters["routing"].jitter)
        elif self.config.data_plane == "arrays":
            raise StackError(f"data_plane = 'arrays' cannot be: {reason}; use 'auto'")

    # Applications

    def subscription(self, node: int, filter: Filter, subscribe: bool) -> None:
        """An application subscribes or unsubscribes; if its node is away, once that is back."""
        running = self._change(self.wishes, self.oracle, node, filter, subscribe)
        if running is not None:
            (running.subscribe if subscribe else running.unsubscribe)(filter)

    def started(self, node: int) -> None:
        """A node is there, or there again: its application wants what it wanted."""
        for filter in list(self.promises.get(node, ())):
            self.advertisement(node, filter, True)
        for filter in list(self.wishes.get(node, ())):
            self.subscription(node, filter, True)

    def crashed(self, node: int) -> None:
        """A node is no more; nothing is owed to it from now on."""
        self.recorder.crashed(node)
        self.oracle.forget(node)
        self.advertisers.forget(node)

    def advertisement(self, node: int, filter: Filter, advertise: bool) -> None:
        """An application says what it will publish, or no longer will; see subscription."""
        running = self._change(self.promises, self.advertisers, node, filter, advertise)
        if running is not None:
            (running.advertise if advertise else running.unadvertise)(filter)

    def _change(
        self,
        filters: dict[int, dict[Filter, None]],
        oracle: Oracle,
        node: int,
        filter: Filter,
        added: bool,
    ) -> Node | None:
        """Add or remove an application's filter, here and with an oracle; its node, if it runs."""
        own = filters.setdefault(node, {})
        if added:
            own[filter] = None
        else:
            own.pop(filter, None)
        running = self.network.nodes[node]
        if running is not None:
            (oracle.subscribe if added else oracle.unsubscribe)(node, filter)
        return running

    def publication(self, event: Event) -> None:
        """An application publishes, unless its node is away."""
        running = self.network.nodes[event.publisher]
        if running is not None:
            self.recorder.publish(event)
            self.network.hosts[event.publisher].published = event.sequence
            running.publish(event)

    def begin(self) -> None:
        """Start the nodes that a script links, and the topology."""
        if self.network.connections is None:
            for node in self.network.nodes:
                assert node is not None
                node.start()
        self.topology.start()

    def run(self) -> None:
        """Play the workload and the topology's changes to the end, then wait for rest."""
        with uncollected():
            self._run()

    def _run(self) -> None:
        self.begin()
        player = Player(self.kernel, self.workload, self, self.advertises)
        end = to_ns(self.config.duration)
        if self.plane is None:
            player.start()
            self.kernel.run(end)
            self._calm()
            rests = self.kernel.run_to_rest(end + to_ns(REST_LIMIT))
        else:
            player.start_subscriptions()
            self.plane.start()
            self.plane.run(end)
            self._calm()
            rests = self.plane.run_to_rest(end + to_ns(REST_LIMIT))
            self.plane.finish()
        if not rests:
            raise InvariantViolation(
                f"not at rest {REST_LIMIT:g} s after the end: {self.kernel.waiting} messages "
                f"on their way, {self.kernel.armed} timers armed, {self.kernel.unnoticed} ends of "
                "broken connections unnoticed"
            )
        self.recorder.close_bin()
        if isinstance(self.topology, OnAir) and self.topology.medium.flooding is not None:
            self.topology.medium.flooding.close()
        if "notes" in self.config.record:
            for node in self.network.nodes:
                if node is not None:
                    node.routing.inventory()

    def _calm(self) -> None:
        """The run is over: nodes no longer come, go or move."""
        if isinstance(self.topology, FullMesh):
            self.topology.calm()
        elif isinstance(self.topology, OnAir):
            self.topology.medium.calm()

    def wrong_table(self) -> str | None:
        """At rest: what is wrong with the first wrong table, if one is."""
        try:
            for node in self.network.nodes:
                if node is not None:
                    self._check_tables(node)
        except InvariantViolation as violation:
            return str(violation)
        return None

    def _check_tables(self, node: Node) -> None:
        """Compare a node's tables with the oracle's, where its routing lets subscriptions go."""
        routing, host = node.routing, node.host
        if not isinstance(routing, SubscriptionForwarding):
            return
        now = self.kernel.now / NANOSECONDS
        expected = self.oracle.table_of(host.node)
        if type(routing).allows is not SubscriptionForwarding.allows:
            expected = {
                (source, filter)
                for source, filter in expected
                if source == LOCAL or self._travels(source, host.node, filter)
            }
        check_table(expected, host.node, routing.table.entries(), now, routing.covering)
        if isinstance(routing, AdvertisementForwarding):
            advertised = self.advertisers.table_of(host.node)
            check_table(advertised, host.node, routing.advertisements.entries(), now)

    def _travels(self, source: int, target: int, filter: Filter) -> bool:
        """Whether a neighbour's routing lets a subscription travel to a node."""
        node = self.network.nodes[source]
        routing = None if node is None else node.routing
        return isinstance(routing, SubscriptionForwarding) and routing.allows(target, filter)


@uncollected()  # here, too: the collector would look at everything between set-up and run
def simulate(config: RunConfig, watch: Callable[[Simulation], None] | None = None) -> RunResult:
    """Run one simulation. Raises :class:`InvariantViolation` when a promise is broken.

    ``watch`` is shown the simulation before it runs; it may look, and must change nothing.
    """
    started = time.perf_counter()
    simulation = Simulation(config)
    check_links(simulation.stack)
    if watch is not None:
        watch(simulation)
    simulation.run()
    canonical = None
    if "tables" in simulation.stack.routing.provides:
        wrong = simulation.wrong_table()
        if wrong is not None and config.invariants:
            raise InvariantViolation(wrong)
        canonical = wrong is None
    identity = run_id(config)
    tables = to_tables(simulation.recorder, identity, config.record)
    recorder = simulation.recorder
    diameter = None
    if simulation.network.acyclic and simulation.network.connections is None:
        diameter = tree_diameter(config.nodes, simulation.topology.links)
    return RunResult(
        run_id=identity,
        tables=tables,
        fingerprint=fingerprint(simulation),
        nodes=config.nodes,
        reconfigurations=len(recorder.repairs),
        messages=sum(row[2] for row in recorder.traffic),
        lost=simulation.kernel.lost,
        diameter=diameter,
        acyclic=simulation.network.acyclic,
        canonical=canonical,
        wall_seconds=time.perf_counter() - started,
    )
