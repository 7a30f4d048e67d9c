"""One simulation, from its configuration to its tables."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import shoal.routing  # registers the routings
import shoal.simulation.graph  # registers the static graph
import shoal.simulation.tree  # noqa: F401  # registers the abstract tree
from shoal.routing import AdvertisementForwarding, SubscriptionForwarding
from shoal.simulation.columns import to_tables
from shoal.simulation.config import RunConfig, canonical_json, checked, code_version, run_id
from shoal.simulation.invariants import InvariantViolation, check_table
from shoal.simulation.kernel import NANOSECONDS, Kernel, to_ns
from shoal.simulation.network import Network, SimHost
from shoal.simulation.oracle import Oracle
from shoal.simulation.player import Player
from shoal.simulation.recorder import Recorder
from shoal.simulation.topology import tree_diameter
from shoal.simulation.workload import plan_workload
from shoal.stack import LOCAL

if TYPE_CHECKING:
    from shoal.content import Event, Filter

REST_LIMIT = 60.0
"""Simulated seconds after the end of a run within which it must come to rest."""


@dataclass(frozen=True)
class RunResult:
    """What a run leaves behind."""

    run_id: str
    tables: dict[str, pa.Table]
    fingerprint: str
    nodes: int
    reconfigurations: int
    messages: int
    lost: int
    diameter: int | None
    canonical: bool | None
    """Whether the tables at rest were right; None where the routing keeps none."""
    wall_seconds: float


class Simulation:
    """A network of simulated nodes with a stack on each, ready to run."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config = checked(config)
        self.stack = config.stack()
        self.kernel = Kernel()
        self.recorder = Recorder(self.kernel, config.nodes, to_ns(config.bin), list(config.record))
        link = config.link
        self.network = Network(
            self.kernel, self.recorder, link.delay, link.bandwidth, link.direct_delay
        )
        for _ in range(config.nodes):
            host = self.network.add_host(config.seed)
            host.watched = "notes" in config.record
            self.network.attach(host, self.stack.routing_on(host))
        self.recorder.channels = [host.channels for host in self.network.hosts]
        self.oracle = Oracle(self.recorder.channels)
        self.advertisers = Oracle(self.recorder.channels)
        if "tree" in self.stack.overlay.provides:
            self.recorder.acyclic = True
            self.recorder.oracle = self.oracle
        self.overlay = self.stack.overlay.make(
            self.stack.parameters["overlay"], self.network, config.nodes, config.seed
        )
        self.advertises = self.stack.routing.make is AdvertisementForwarding
        self.workload = plan_workload(
            config.workload, config.nodes, config.duration, config.seed, self.advertises
        )
        for node in self.workload.core:
            self.recorder.core |= 1 << node

    def subscription(self, node: int, filter: Filter, subscribe: bool) -> None:
        """An application subscribes or unsubscribes."""
        routing = self.network.hosts[node].routing
        assert routing is not None
        if subscribe:
            self.oracle.subscribe(node, filter)
            routing.subscribe(filter)
        else:
            self.oracle.unsubscribe(node, filter)
            routing.unsubscribe(filter)

    def advertisement(self, node: int, filter: Filter, advertise: bool) -> None:
        """An application says what it will publish, or no longer will."""
        routing = self.network.hosts[node].routing
        assert routing is not None
        if advertise:
            self.advertisers.subscribe(node, filter)
            routing.advertise(filter)
        else:
            self.advertisers.unsubscribe(node, filter)
            routing.unadvertise(filter)

    def publication(self, event: Event) -> None:
        """An application publishes."""
        routing = self.network.hosts[event.publisher].routing
        assert routing is not None
        self.recorder.publish(event)
        routing.publish(event)

    def run(self) -> None:
        """Play the workload and the changes of the overlay to the end, then wait for rest."""
        self.overlay.start()
        Player(self.kernel, self.workload, self, self.advertises).start()
        end = to_ns(self.config.duration)
        self.kernel.run(end)
        if not self.kernel.run_to_rest(end + to_ns(REST_LIMIT)):
            raise InvariantViolation(
                f"not at rest {REST_LIMIT:g} s after the end: {self.kernel.waiting} messages "
                f"on their way, {self.kernel.armed} timers armed"
            )
        self.recorder.close_bin()

    def wrong_table(self) -> str | None:
        """At rest: what is wrong with the first wrong table, if one is."""
        try:
            for host in self.network.hosts:
                self._check_tables(host)
        except InvariantViolation as violation:
            return str(violation)
        return None

    def _check_tables(self, host: SimHost) -> None:
        """Compare a node's tables with the oracle's, where its routing lets subscriptions go."""
        routing = host.routing
        if not isinstance(routing, SubscriptionForwarding):
            return
        now = self.kernel.now / NANOSECONDS
        expected = {
            (source, filter)
            for source, filter in self.oracle.table_of(host.node)
            if source == LOCAL or self._travels(source, host.node, filter)
        }
        check_table(expected, host.node, routing.table.entries(), now, routing.covering)
        if isinstance(routing, AdvertisementForwarding):
            advertised = self.advertisers.table_of(host.node)
            check_table(advertised, host.node, routing.advertisements.entries(), now)

    def _travels(self, source: int, target: int, filter: Filter) -> bool:
        """Whether a neighbour's routing lets a subscription travel to a node."""
        routing = self.network.hosts[source].routing
        return isinstance(routing, SubscriptionForwarding) and routing.allows(target, filter)


def simulate(config: RunConfig) -> RunResult:
    """Run one simulation. Raises :class:`InvariantViolation` when a promise is broken."""
    started = time.perf_counter()
    simulation = Simulation(config)
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
    if recorder.acyclic:
        diameter = tree_diameter(config.nodes, simulation.overlay.links)
    return RunResult(
        run_id=identity,
        tables=tables,
        fingerprint=fingerprint(simulation),
        nodes=config.nodes,
        reconfigurations=len(recorder.repairs),
        messages=sum(row[2] for row in recorder.traffic),
        lost=simulation.kernel.lost,
        diameter=diameter,
        canonical=canonical,
        wall_seconds=time.perf_counter() - started,
    )


def fingerprint(simulation: Simulation) -> str:
    """A hash of the trajectory: every publication, what it reached, all traffic and link changes.

    Equal for equal runs under any hash seed, on every machine, compiled or not.
    """
    recorder = simulation.recorder
    digest = hashlib.blake2b(digest_size=16)
    for record in recorder.publications:
        digest.update(
            b"%d,%d,%d,%x,%x;"
            % (record.time, record.publisher, record.sequence, record.owed, record.received)
        )
    for row in recorder.traffic:
        digest.update(repr(row).encode())
    for change in recorder.links:
        digest.update(repr(change).encode())
    kernel = simulation.kernel
    digest.update(b"%d,%d,%d" % (kernel.now, kernel.handled, kernel.lost))
    return digest.hexdigest()


def run_row(config: RunConfig, result: RunResult | None, error: str | None) -> dict[str, object]:
    """The row of the ``runs`` table for a run that went well, or did not."""
    return {
        "run_id": run_id(config),
        "seed": config.seed,
        "configuration": canonical_json(config),
        "code": code_version(),
        "status": "error" if error else "done",
        "error": error,
        "fingerprint": result.fingerprint if result else None,
        "nodes": config.nodes,
        "reconfigurations": result.reconfigurations if result else None,
        "messages": result.messages if result else None,
        "lost": result.lost if result else None,
        "diameter": result.diameter if result else None,
        "canonical": result.canonical if result else None,
        "wall_seconds": result.wall_seconds if result else None,
    }
