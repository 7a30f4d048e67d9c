"""Records a simulation: counts and rows for the tables in :mod:`shoal.record`.

Traffic is counted per kind of message and time bin. Nothing is kept per message, unless the table
``messages`` is asked for. :mod:`~shoal.simulation.columns` makes the tables of this.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shoal.simulation.channels import KEPT, NONE, ROUTINE, Fan
from shoal.simulation.invariants import delivered_twice, not_handled
from shoal.simulation.kernel import NANOSECONDS, Kernel
from shoal.simulation.oracle import Oracle
from shoal.stack.host import NodeId
from shoal.stack.layer import Reconfiguration
from shoal.stack.message import Heartbeat, Message

if TYPE_CHECKING:
    from shoal.content import Event

EXCUSED: Final = 50 * NANOSECONDS
"""Nanoseconds after an event's publication in which a crash excuses its node from having it."""


class Kind:
    """A type of message, and its traffic in the current time bin."""

    def __init__(self, message: Message, nodes: int) -> None:
        kind = type(message)
        self.type: object = kind
        self.kind = kind.kind()
        self.is_event = self.kind == "event"
        self.is_request = self.kind == "request"
        self.routine = kind.routine()
        self.involves = message.involves()
        # Types that do not override weight and size cost the same each time.
        self.sized = kind.size is Message.size
        self.weighed = kind.weight is Message.weight
        self.fixed = self.sized and self.weighed
        self.kept = issubclass(kind, Heartbeat)
        self.skip = KEPT if self.kept else ROUTINE if self.routine else NONE
        self.carries_events = kind.events is not Message.events
        self.weight = message.weight()
        self.size = message.size()
        self.measured: object = message
        """The message that has this size; others may have another, unless all are ``sized``."""
        self.count = 0
        self.misrouted = 0
        self.cost = 0.0
        self.bytes = 0
        self.nodes = 0
        """Nodes that were sent one in this bin, each counted once."""
        self.bin: object = None
        """An object that stands for the current time bin; a new one for each bin with traffic."""
        self.last: list[object] = [None] * nodes
        """Per node, the bin in which it was last sent one that is not in ``packed``."""
        self.packed: list[bytes] = []
        """Nodes that were sent a heartbeat in this bin, to be counted at its end."""
        self.plain = False
        """Whether nothing of a message is recorded but that it was sent."""


class PublicationRecord:
    """One event: which nodes want it, which got it. Sets of nodes are bitsets."""

    def __init__(self, time: int, event: Event, wanted: int, version: int) -> None:
        self.time = time
        self.publisher = event.publisher
        self.sequence = event.sequence
        self.owed = wanted
        """Nodes that wanted it when it was published."""
        self.wanted = wanted
        """Nodes that want it as of the oracle's ``version``."""
        self.version = version
        self.reachable = 0
        """Nodes of ``owed`` that links led to then."""
        self.received = 0
        self.contacted = bytearray()
        """1 per node that was sent a copy, else 0; empty if none was, or it is not recorded."""
        self.copies = 0
        self.excused = 0
        """Nodes of ``owed`` that crashed soon after, without having got it."""


class RepairRecord:
    """One link replaced by another."""

    def __init__(self, reconfiguration: Reconfiguration, broken_at: int) -> None:
        self.id = reconfiguration.id
        self.path_length = len(reconfiguration.path)
        self.broken_at = broken_at
        self.replaced_at = -1
        self.involved = 0
        self.last_message_at = broken_at


class Recorder:
    """Everything that a run leaves behind. Without an oracle, no deliveries are owed."""

    def __init__(self, kernel: Kernel, nodes: int, bin_ns: int, tables: list[str]) -> None:
        self.kernel = kernel
        self.nodes = nodes
        self.oracle: Oracle | None = None
        self.counts_misrouted = False
        """Whether misrouted events are counted: in a forest, where one link leads to each node."""
        self.owes_publisher = True
        """Whether a publisher that wants its own event is owed it."""
        self.handled: dict[Any, int] | None = None
        """Types of messages that some layer handles; None if any may be sent."""
        self.core = 0
        """The nodes of the stable core, as a bitset."""
        self.unlinked = 0
        """Messages given to a host for a neighbour that it is not linked to."""
        self.keeps_deliveries = "deliveries" in tables
        self.keeps_messages = "messages" in tables
        self.keeps_notes = "notes" in tables
        self.keeps_loads = "loads" in tables
        self.keeps_reach = "reach" in tables
        self.observes = self.keeps_loads or self.keeps_reach
        self.keeps_routes = "routes" in tables
        self.up: list[Any] = []
        """The node, or None while it is down, per node; empty if nodes are always up."""
        self.loads: array[int] = array("q")
        """Five numbers each: time bin, node, sent, received, requests."""
        self._sent = [0] * nodes
        self._received = [0] * nodes
        self._requests = [0] * nodes
        self.published: list[dict[int, PublicationRecord]] = [{} for _ in range(nodes)]
        self.publications: list[PublicationRecord] = []
        self.deliveries: array[int] = array("q")
        """Seven numbers each: publisher, sequence, node, time, hops, whether wanted, recovered."""
        self.air: Callable[[], Any] | None = None
        """Returns the counts of a radio medium, per time bin; None if there is none."""
        self.gaps = 0
        """Events that applications were told are missing for good."""
        self.gaps_told: dict[tuple[NodeId, NodeId], list[int]] = {}
        """Size of each such gap, per node and publisher; 0 is an unknown number."""
        self.traffic: list[tuple[str, int, int, int, float, int, int]] = []
        self.routes: dict[tuple[int, str], tuple[int, int, int]] = {}
        """Per time bin and reason: copies that went no further, hops, deterministic hops."""
        self.links: list[tuple[int, int, int, str, int]] = []
        self.repairs: list[RepairRecord] = []
        self.messages: list[tuple[int, str, int, int, str]] = []
        self.columns: dict[str, list[Any]] = {}
        """Tables that a data plane hands over as columns."""
        self.notes: list[tuple[int, int, str, int, str]] = []
        self._event: object = None
        self._publication: PublicationRecord | None = None
        self._repair: RepairRecord | None = None
        self._repairs_by_id: dict[int, RepairRecord] = {}
        self._restarts: dict[NodeId, int] = {}
        """Time of the last start, per node that started more than once."""
        self._kinds: dict[type[Any], Kind] = {}
        self._count: Kind | None = None
        self.bin_ns = bin_ns
        self._bin = 0
        self._bin_end = bin_ns

    # Messages

    def sent(self, fan: Fan, skip: int, copies: int, message: Message) -> Kind:
        """A message is sent over the channels of a fan, but not over the one at ``skip``."""
        count = self._count
        if count is None or type(message) is not count.type:
            count = self.kind_of(message)
        if self.kernel.now >= self._bin_end:
            self.close_bin()
        count.count += copies
        if fan.counted_bin is not count.bin or (fan.uncounted >= 0 and fan.uncounted != skip):
            self._involve(count, fan, skip)
        if count.plain:
            return count
        if self.observes:
            for place, target in enumerate(fan.targets):
                if place != skip:
                    self._observe(count, fan.source, target, message)
        if not count.fixed:
            count.cost += copies * (count.weight if count.weighed else message.weight())
            count.bytes += copies * message.size()
        if count.is_event:
            if self.counts_misrouted and self.oracle is not None:
                count.misrouted += self._in_vain(self.oracle, fan, skip, copies, message)
        elif count.involves:
            repair = self._repair
            if repair is not None:
                for place, target in enumerate(fan.targets):
                    if place != skip:
                        repair.involved |= 1 << target
                repair.last_message_at = self.kernel.now
        if self.keeps_messages:
            text = str(message)
            self.messages += [
                (self.kernel.now, count.kind, fan.source, target, text)
                for place, target in enumerate(fan.targets)
                if place != skip
            ]
        return count

    def sent_direct(self, source: NodeId, target: NodeId, message: Message) -> Kind:
        """A message is sent out of band."""
        count = self._count
        if count is None or type(message) is not count.type:
            count = self.kind_of(message)
        if self.kernel.now >= self._bin_end:
            self.close_bin()
        count.count += 1
        if self.observes:
            self._observe(count, source, target, message)
        if count.last[target] is not count.bin:
            count.last[target] = count.bin
            count.nodes += 1
        if not count.fixed:
            count.cost += count.weight if count.weighed else message.weight()
            if message is not count.measured:  # often the same again, to another node
                count.measured = message
                count.size = message.size()
            count.bytes += count.size
        if count.involves and self._repair is not None:
            self._repair.involved |= 1 << target
            self._repair.last_message_at = self.kernel.now
        if self.keeps_messages:
            row = (self.kernel.now, count.kind, source, target, str(message))
            self.messages.append(row)
        return count

    def _observe(self, count: Kind, source: NodeId, target: NodeId, message: Message) -> None:
        """Count for the tables ``loads`` and ``reach``."""
        if self.keeps_loads and not count.routine:
            self._sent[source] += 1
            self._received[target] += 1
            if count.is_request:
                self._requests[source] += 1
        if self.keeps_reach and count.is_event:
            record = self._record_of(message)
            record.copies += 1
            if not record.contacted:
                record.contacted = bytearray(self.nodes)
            record.contacted[target] = 1

    def _record_of(self, message: Message) -> PublicationRecord:
        """The publication of a message's event; cached, as the next mostly has the same."""
        event = message.events()[0]
        record = self._publication
        if record is None or event is not self._event:
            record = self.published[event.publisher][event.sequence]
            self._event = event
            self._publication = record
        return record

    def _close_loads(self) -> None:
        """Record what each node that is up has sent and received in this bin, if any has."""
        if not any(self._sent):
            return
        for node in range(self.nodes):
            if not self.up or self.up[node] is not None:
                self.loads.extend(
                    (
                        *(self._bin, node, self._sent[node]),
                        *(self._received[node], self._requests[node]),
                    )
                )
            self._sent[node] = 0
            self._received[node] = 0
            self._requests[node] = 0

    def events_sent(self, sample: Message, count: int, misrouted: int, nodes: int) -> None:
        """A data plane sent events in this time bin, to so many nodes that had none in it."""
        kind = self.kind_of(sample)
        if self.kernel.now >= self._bin_end:
            self.close_bin()
        kind.count += count
        kind.misrouted += misrouted
        kind.nodes += nodes

    def kind_of(self, message: Message) -> Kind:
        """The kind of a message; cached, as the next is mostly of the same."""
        count = self._kinds.get(type(message))
        if count is None:
            if self.handled is not None and type(message) not in self.handled:
                raise not_handled(type(message).__name__)
            count = Kind(message, self.nodes)
            self._kinds[type(message)] = count
            only_counted = count.is_event and not self.counts_misrouted
            written = self.keeps_messages or self.observes
            count.plain = only_counted and count.fixed and not written
            count.bin = object()
        self._count = count
        return count

    def _involve(self, count: Kind, fan: Fan, skip: int) -> None:
        """Count each node once per kind and bin."""
        last, current = count.last, count.bin
        if count.kept and skip < 0:
            count.packed.append(fan.packed or fan.pack())
            fan.uncounted = NONE
            fan.counted_bin = current
            return
        for place, target in enumerate(fan.targets):
            if place != skip and last[target] is not current:
                last[target] = current
                count.nodes += 1
        fan.uncounted = skip if fan.counted_bin is not current else NONE
        fan.counted_bin = current

    def _count_packed(self, count: Kind) -> None:
        """Count the nodes that were sent a heartbeat."""
        reached = np.zeros(self.nodes, np.bool_)
        reached[np.frombuffer(b"".join(count.packed), np.int32)] = True
        if count.nodes:
            reached |= [last is count.bin for last in count.last]
        count.nodes = int(np.count_nonzero(reached))
        count.packed = []

    def _in_vain(self, oracle: Oracle, fan: Fan, skip: int, copies: int, message: Message) -> int:
        """Number of copies sent now over links beyond which nobody wants the event.

        One copy for several neighbours, as on the air, counts only if that is so for all of them.
        """
        publication = self._record_of(message)
        if publication.version != oracle.version:
            publication.version = oracle.version
            publication.wanted = self._wanted(oracle, message.events()[0])
        misrouted = receivers = 0
        for place, target in enumerate(fan.targets):
            if place != skip:
                receivers += 1
                if not publication.wanted & oracle.forest.beyond(fan.source, target):
                    misrouted += 1
        return misrouted * copies // max(receivers, 1)

    def close_bin(self) -> None:
        """Record the traffic of the current bin, and begin the bin of the present time."""
        for count in self._kinds.values():
            if count.count:
                if count.fixed:
                    count.cost = count.count * count.weight
                    count.bytes = count.count * count.size
                if count.packed:
                    self._count_packed(count)
                self.traffic.append(
                    (
                        count.kind,
                        self._bin,
                        count.count,
                        count.misrouted,
                        count.cost,
                        count.bytes,
                        count.nodes,
                    )
                )
                count.count = 0
                count.misrouted = 0
                count.cost = 0.0
                count.bytes = 0
                count.nodes = 0
                count.bin = object()
        if self.keeps_loads:
            self._close_loads()
        self._bin = self.kernel.now // self.bin_ns
        self._bin_end = (self._bin + 1) * self.bin_ns

    # Events

    def publish(self, event: Event) -> None:
        """An application publishes."""
        oracle = self.oracle
        if oracle is None:
            record = PublicationRecord(self.kernel.now, event, 0, 0)
        else:
            record = PublicationRecord(
                self.kernel.now, event, self._wanted(oracle, event), oracle.version
            )
            record.reachable = record.owed & oracle.forest.component_of(event.publisher)
        self.published[event.publisher][event.sequence] = record
        self.publications.append(record)

    def _wanted(self, oracle: Oracle, event: Event) -> int:
        """Nodes that want an event now, and so are owed it."""
        wanted = oracle.wanted_by(event.content)
        return wanted if self.owes_publisher else wanted & ~(1 << event.publisher)

    def stopped(self, why: str, copies: int, hops: int, deterministic: int) -> None:
        """Copies of an event go no further, for a reason (table ``routes``)."""
        if not self.keeps_routes:
            return
        key = (self.kernel.now // self.bin_ns, why)
        before = self.routes.get(key, (0, 0, 0))
        self.routes[key] = (before[0] + copies, before[1] + hops, before[2] + deterministic)

    def delivered(self, node: NodeId, event: Event, hops: int, recovered: bool = False) -> None:
        """A node hands an event to its application; never twice the same in one life."""
        record = self.published[event.publisher][event.sequence]
        bit = 1 << node
        if record.received & bit:
            if record.time < self._restarts.get(node, 0):
                return
            now = self.kernel.now / NANOSECONDS
            raise delivered_twice(event.publisher, event.sequence, node, now)
        record.received |= bit
        if self.keeps_deliveries:
            wanted = 1 if record.owed & bit else 0
            self.deliveries.extend(
                (
                    *(event.publisher, event.sequence, node, self.kernel.now, hops),
                    *(wanted, 1 if recovered else 0),
                )
            )

    def gap(self, node: NodeId, publisher: NodeId, count: int) -> None:
        """A node tells its application that events of a publisher are missing for good."""
        self.gaps += count
        self.gaps_told.setdefault((node, publisher), []).append(count)

    # Links

    def link(
        self, a: NodeId, b: NodeId, change: str, reconfiguration: Reconfiguration | None
    ) -> None:
        """A link changes; called before the ends are told."""
        now = self.kernel.now
        self.links.append(
            (now, a, b, change, -1 if reconfiguration is None else reconfiguration.id)
        )
        if reconfiguration is None:
            return
        repair = self._repairs_by_id.get(reconfiguration.id)
        if repair is None:
            repair = RepairRecord(reconfiguration, now)
            self._repairs_by_id[reconfiguration.id] = repair
            self.repairs.append(repair)
            self._repair = repair
        if change == "up":
            repair.replaced_at = now
        repair.involved |= (1 << a) | (1 << b)

    def crashed(self, node: NodeId) -> None:
        """A node has crashed: it is excused from recent events that it has not got (``reach``)."""
        if self.keeps_reach:
            bit = 1 << node
            since = self.kernel.now - EXCUSED
            for record in reversed(self.publications):
                if record.time < since:
                    break
                if record.owed & bit and not record.received & bit:
                    record.excused |= bit

    def restarted(self, node: NodeId) -> None:
        """A node that had crashed starts again, knowing nothing of what it was handed before."""
        self._restarts[node] = self.kernel.now

    def noted(self, node: NodeId, what: str, peer: NodeId, value: str) -> None:
        """A protocol notes something about itself."""
        if self.keeps_notes:
            self.notes.append((self.kernel.now, node, what, peer, value))
