"""Runs the objects' control plane and the arrays' data plane in step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.content import Event, Patterns
from shoal.simulation.channels import Channel
from shoal.simulation.dataplane import changes, engine, reach
from shoal.simulation.dataplane import flooding as _flooding  # noqa: F401  # registers its rules
from shoal.simulation.dataplane import semiprobabilistic as _chance  # noqa: F401  # likewise
from shoal.simulation.dataplane import state as s
from shoal.simulation.dataplane import tables as _tables  # noqa: F401  # likewise
from shoal.simulation.dataplane.forwarding import RULES
from shoal.simulation.dataplane.initial import make_setup, make_state
from shoal.simulation.dataplane.mirror import Mirror, SourceMirror, TableMirror
from shoal.simulation.garbage import uncollected
from shoal.simulation.invariants import delivered_twice
from shoal.simulation.kernel import NANOSECONDS, Kernel
from shoal.simulation.network import Network, Plane
from shoal.simulation.recorder import Recorder
from shoal.stack import LOCAL, Message

if TYPE_CHECKING:
    from shoal.simulation.workload import Workload
    from shoal.stack.registry import Stack


def why_not(
    stack: Stack, record: tuple[str, ...], network: Network, workload: Workload
) -> str | None:
    """Why a stack's events cannot be forwarded on arrays; None if they can."""
    if network.connections is not None:
        return "nodes build their overlay themselves, on objects"
    node = network.nodes[0]
    if node is None or type(node.routing) not in RULES:
        return f"routing '{stack.routing.name}' has no rule on arrays"
    if stack.recovery is not None:
        return f"recovery '{stack.recovery.name}' works on the objects of events"
    if "notes" in record:
        return "notes are taken by objects"
    if len(workload.by_number()) < len(workload.subscriptions) or workload.attributes:
        return "it knows patterns only, and the script has filters or attributes"
    return None


class DataPlane(Plane):
    """All events of a run, on arrays; everything else stays with the kernel and its objects."""

    def __init__(self, network: Network, recorder: Recorder, workload: Workload, seed: int) -> None:
        self.network = network
        self.kernel: Kernel = network.kernel
        self.recorder = recorder
        self.workload = workload
        assert network.nodes[0] is not None
        routing = network.nodes[0].routing
        self.forwarding = RULES[type(routing)]
        self._advance_events = engine.advance_for(self.forwarding)
        self.sample: Message = self.forwarding.message(Event(0, 0, Patterns(())), 1, 0, None)
        self.setup = make_setup(self.forwarding, routing, network, recorder, self.sample, seed)
        nodes, floods = len(network.hosts), self.forwarding.floods
        state = make_state(self.setup, floods, routing, nodes, workload)
        routings = [node.routing for node in network.nodes if node is not None]
        links_are_slots = self.forwarding.links_are_slots
        self.mirror = Mirror(state, links_are_slots, self.forwarding.tune, routings)
        watch = TableMirror if links_are_slots else SourceMirror
        for number, watched in enumerate[Any](routings):
            watched.table.watcher = watch(self.mirror, number)
            if self.forwarding.observe is not None:
                self.forwarding.observe(self.mirror, watched)
        self.due = int(workload.times[0]) if len(workload.times) else engine.NEVER
        """When the earliest event in flight arrives or is published."""
        self.kernel.orders = {}
        network.plane = self

    # Calls from the network

    def connected(self, channel: Channel) -> None:
        if channel.quality < 1.0 or channel.delay != self.network.delay:
            self.setup = self.setup._replace(plain=False)
        self.mirror.add_channel(channel.source, channel.target, channel.delay, channel.quality)

    def disconnected(self, channel: Channel) -> None:
        self.mirror.drop_channel(channel.source, channel.target)

    def crashed(self, node: int) -> None:
        self.mirror.change(changes.CRASH, node, LOCAL)

    def transmit(self, channel: Channel, duration: int) -> int:
        times = self.mirror.state.channels.times
        number = self.mirror.channels[channel.source, channel.target]
        at = max(int(times[number, s.FREE_AT]), self.kernel.now) + duration
        times[number, s.FREE_AT] = at
        return at

    # Running

    def start(self) -> None:
        """The first publication takes its place in the queue."""
        if self.due < engine.NEVER:
            self.mirror.state.now[s.NEXT_ORDER] = self.kernel.posted
            self.kernel.posted += 1

    def run(self, until: int) -> None:
        """Let everything happen up to and including an instant."""
        kernel = self.kernel
        with uncollected():
            at = kernel.next_instant()
            while 0 <= at <= until:
                self._control(at)
                at = kernel.next_instant()
            self._advance(until, engine.NEVER)
            if until > kernel.now:
                kernel.now = until

    def run_to_rest(self, until: int) -> bool:
        """Run until no timer is armed and no message on its way; False if that has not come."""
        kernel = self.kernel
        while not (kernel.at_rest() and self.due == engine.NEVER):
            at = kernel.next_instant()
            if at < 0:
                at = engine.NEVER
            if min(at, self.due) > until:
                return False
            if self.due < at:
                self._advance(min(at, until), 0)
            else:
                self._control(at)
        return True

    def _control(self, at: int) -> None:
        """Everything before an instant, then the control events of that instant in their turn."""
        kernel = self.kernel
        if self.due < at:
            self._advance(at, 0)
        orders = kernel.orders
        assert orders is not None
        if self.due > at:  # nothing to interleave with
            del orders[at]
            kernel.instant(at)
            return
        for (_, fan, skip, what), order in zip(kernel.due(at), orders.pop(at), strict=True):
            if self.due <= at:
                self._advance(at, order)
            kernel.now = at
            kernel.handle(fan, skip, what)

    def _advance(self, until: int, order: int) -> None:
        """Forward events up to, not including, the control event posted as number ``order``."""
        if self.due > until:
            return
        self.mirror.carry_out()
        if self.mirror.stale:
            self._work_out()
        kernel, bin_ns = self.kernel, self.recorder.bin_ns
        self.mirror.state.now[s.ORDER] = kernel.posted
        while True:
            state = self.mirror.state
            number = self.due // bin_ns
            end = (number + 1) * bin_ns
            status = self._advance_events(self.setup, state, until, order, number, end)
            self.due = int(state.now[s.DUE])
            self._flush(state)
            if status == s.DONE:
                break
            if status == s.TWICE:
                event, node = int(state.now[s.WRONG_EVENT]), int(state.now[s.WRONG_NODE])
                publisher, sequence = state.events.publisher[event], state.events.sequence[event]
                now = int(state.now[s.NOW]) / NANOSECONDS
                raise delivered_twice(publisher, sequence, node, now)
            if status == s.FULL_QUEUE:
                self._more_room(state)
            elif status == s.FULL_LOG:
                self._more_log(state)
        kernel.posted = int(state.now[s.ORDER])

    def _flush(self, state: s.State) -> None:
        """Pass what was counted on to the kernel and the recorder."""
        counts = state.now.tolist()
        kernel, recorder = self.kernel, self.recorder
        kernel.now = max(kernel.now, counts[s.NOW])
        kernel.handled += counts[s.HANDLED]
        kernel.lost += counts[s.LOST]
        recorder.unlinked += counts[s.UNLINKED]
        if counts[s.SENT]:
            recorder.events_sent(
                self.sample, counts[s.SENT], counts[s.MISROUTED], counts[s.REACHED]
            )
        if self.forwarding.says_stopped:
            for why, at in (("duplicate", s.DUPLICATES), ("end", s.ENDS)):
                if counts[at]:
                    recorder.stopped(why, *counts[at : at + 3])
        if counts[s.MESSAGES]:
            self._write_messages(state, counts[s.MESSAGES])
        state.now[s.COUNTS_FROM :] = 0

    def _write_messages(self, state: s.State, count: int) -> None:
        kind = type(self.sample).kind()
        channels, before = state.channels, state.events.before
        times = state.logs.message_time[:count].tolist()
        for time, row in zip(times, state.logs.message[:count].tolist(), strict=True):
            channel, number, hops, deterministic = row
            event, earlier = self._event(number), int(before[number])
            carried = self._event(earlier) if earlier >= 0 else None
            text = str(self.forwarding.message(event, hops, deterministic, carried))
            source, target = channels.ends[channel, [s.FROM, s.TO]].tolist()
            self.recorder.messages.append((time, kind, source, target, text))

    def _event(self, number: int) -> Event:
        """An event as objects know it."""
        events = self.mirror.state.events
        content = Patterns(self.workload.content(number))
        return Event(int(events.publisher[number]), int(events.sequence[number]), content)

    def _more_room(self, state: s.State) -> None:
        """Double the room for messages on their way and for events in flight."""
        old = state.flights
        room = 2 * len(old.ring)
        flights = s.make_flights(room)
        head, tail = int(state.now[s.HEAD]), int(state.now[s.TAIL])
        places = np.arange(head, tail)
        flights.ring[places % room] = old.ring[places % (room // 2)]
        flights.ring_what[places % room] = old.ring_what[places % (room // 2)]
        flights.heap[: room // 2] = old.heap
        flights.heap_what[: room // 2] = old.heap_what
        rows = len(state.seen)
        free = int(state.now[s.FREE_PLACES])
        stack = np.zeros(2 * rows, np.int32)
        stack[:free] = state.places[:free]
        stack[free : free + rows] = np.arange(rows, 2 * rows)
        state.now[s.FREE_PLACES] = free + rows
        self.mirror.state = state._replace(
            flights=flights,
            seen=s.grown(state.seen, 0, 2 * rows),
            promised=s.grown(state.promised, 0, 2 * rows),
            places=stack,
        )

    def _more_log(self, state: s.State) -> None:
        logs = s.Logs(*(s.grown(log, 0, 2 * len(log)) for log in state.logs))
        self.mirror.state = state._replace(logs=logs)

    def _work_out(self) -> None:
        """After links changed: components, and in a tree what lies beyond each channel."""
        mirror, state = self.mirror, self.mirror.state
        mirror.stale = False
        live = np.fromiter(mirror.channels.values(), np.int32, len(mirror.channels))
        channels, component = state.channels, state.nodes.component
        ends = channels.ends
        state.now[s.COMPONENTS] = reach.work_out_components(live, ends, component)
        if self.setup.tree:
            reach.work_out_beyond(live, ends, channels.beyond, len(component))

    # Afterwards

    def digest(self, update: Callable[[bytes], None]) -> None:
        """Feed what was published and what it reached to a hash, for a run's fingerprint."""
        events = self.mirror.state.events
        published = events.reachable != s.UNPUBLISHED
        for column in (events.time, events.publisher, events.sequence):
            update(column[published].astype(np.int64).tobytes())
        sets = np.stack([events.owed[published], events.received[published]], axis=1)
        update(sets.astype("<u8").tobytes())

    def finish(self) -> None:
        """Give the recorder its publications and deliveries as columns."""
        state = self.mirror.state
        events = state.events
        words = self.recorder.core.to_bytes(8 * events.owed.shape[1], "little")
        core = np.frombuffer(words, "<u8")
        published = events.reachable != s.UNPUBLISHED
        owed = events.owed[published]
        got = owed & events.received[published]
        reachable = events.reachable[published]
        count = np.bitwise_count
        self.recorder.columns["publications"] = [
            events.publisher[published],
            events.sequence[published],
            events.time[published] / NANOSECONDS,
            count(owed).sum(axis=1, dtype=np.int32),
            count(got).sum(axis=1, dtype=np.int32),
            count(owed & core).sum(axis=1, dtype=np.int32),
            count(got & core).sum(axis=1, dtype=np.int32),
            count(owed & ~core).sum(axis=1, dtype=np.int32),
            count(got & ~core).sum(axis=1, dtype=np.int32),
            np.where(reachable == s.ALL_OF_THEM, count(owed).sum(axis=1), reachable),
        ]
        if self.recorder.keeps_deliveries:
            rows = int(state.now[s.DELIVERIES])
            event, node, hops = state.logs.delivery[:rows].T
            bits = events.owed[event, node >> 6] >> (node & 63).astype(np.uint64)
            self.recorder.columns["deliveries"] = [
                events.publisher[event],
                events.sequence[event],
                node,
                state.logs.delivery_time[:rows] / NANOSECONDS,
                hops,
                (bits & np.uint64(1)).astype(bool),
                np.zeros(rows, bool),
            ]
