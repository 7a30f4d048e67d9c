"""Writes down what happens in a simulation, as columns of the tables in :mod:`shoal.record`.

The traffic of a kind is counted in time bins while it flows; nothing is kept per message unless the
``messages`` table is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from shoal.simulation.invariants import InvariantViolation, check_acyclic
from shoal.simulation.kernel import NANOSECONDS, Channel, Fan, Kernel
from shoal.simulation.oracle import Oracle
from shoal.stack.host import LOCAL, NodeId
from shoal.stack.layer import Reconfiguration
from shoal.stack.message import Message

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.routing.messages import Forward


class KindCount:
    """The traffic of one message type in the current time bin."""

    def __init__(self, message: Message, nodes: int) -> None:
        kind = type(message)
        self.type: object = kind
        self.kind = kind.kind()
        self.is_event = self.kind == "event"
        self.involves = message.involves()
        # Types that do not override weight and size cost the same each time.
        self.fixed = kind.weight is Message.weight and kind.size is Message.size
        self.weight = message.weight()
        self.size = message.size()
        self.count = 0
        self.misrouted = 0
        self.cost = 0.0
        self.bytes = 0
        self.nodes = 0
        self.last_bin = [-1] * nodes


class PublicationRecord:
    """One event: who wants it, who got it. Sets of nodes are bitsets."""

    def __init__(self, time: int, event: Event, wanted: int, version: int) -> None:
        self.time = time
        self.publisher = event.publisher
        self.sequence = event.sequence
        self.owed = wanted
        """Who wanted it when it was published."""
        self.wanted = wanted
        """Who wants it now, as of oracle version ``version``."""
        self.version = version
        self.received = 0


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
    """Everything a run leaves behind. Without an oracle it cannot say who should get what."""

    def __init__(self, kernel: Kernel, nodes: int, bin_ns: int, tables: list[str]) -> None:
        self.kernel = kernel
        self.nodes = nodes
        self.oracle: Oracle | None = None
        self.channels: list[dict[NodeId, Channel]] = []
        self.acyclic = False
        """Whether links must form a forest at every instant."""
        self.core = 0
        """The nodes of the stable core, as a bitset."""
        self.unlinked = 0
        """Messages given to a host for a neighbour that it is not linked to."""
        self.keeps_deliveries = "deliveries" in tables
        self.keeps_messages = "messages" in tables
        self.keeps_notes = "notes" in tables
        self.published: list[list[PublicationRecord]] = [[] for _ in range(nodes)]
        self.publications: list[PublicationRecord] = []
        self.deliveries: list[tuple[int, int, int, int, int, bool]] = []
        self.traffic: list[tuple[str, int, int, int, float, int, int]] = []
        self.links: list[tuple[int, int, int, str, int]] = []
        self.repairs: list[RepairRecord] = []
        self.messages: list[tuple[int, str, int, int, str]] = []
        self.notes: list[tuple[int, int, str, int, str]] = []
        self._event: object = None
        self._publication: PublicationRecord | None = None
        self._repair: RepairRecord | None = None
        self._repairs_by_id: dict[int, RepairRecord] = {}
        self._kinds: dict[type[Any], KindCount] = {}
        self._count: KindCount | None = None
        self.bin_ns = bin_ns
        self._bin = 0
        self._bin_end = bin_ns

    # Messages

    def sent(self, fan: Fan, but: NodeId, message: Message) -> int:
        """A message enters the channels of a fan; the answer is its size in bytes."""
        count = self._count
        if count is None or type(message) is not count.type:
            count = self._count_of(message)
        if self.kernel.now >= self._bin_end:
            self.close_bin()
        copies = len(fan.targets) - (but in fan.targets)
        count.count += copies
        size = count.size
        if not count.fixed:
            size = message.size()
            count.cost += copies * message.weight()
            count.bytes += copies * size
        if fan.counted_in != self._bin or fan.counted_as is not count:
            self._involve(count, fan, but)
        if count.is_event:
            if self.oracle is not None:
                count.misrouted += self._in_vain(self.oracle, fan, but, message)
        elif count.involves:
            repair = self._repair
            if repair is not None:
                for target in fan.targets:
                    if target != but:
                        repair.involved |= 1 << target
                repair.last_message_at = self.kernel.now
        if self.keeps_messages:
            text = str(message)
            self.messages += [
                (self.kernel.now, count.kind, fan.source, target, text)
                for target in fan.targets
                if target != but
            ]
        return size

    def _count_of(self, message: Message) -> KindCount:
        """The counter of a message's type, kept at hand: the next message is mostly of it too."""
        count = self._kinds.get(type(message))
        if count is None:
            count = KindCount(message, self.nodes)
            self._kinds[type(message)] = count
        self._count = count
        return count

    def _involve(self, count: KindCount, fan: Fan, but: NodeId) -> None:
        """Count each node once per kind and bin."""
        present = self._bin
        last_bin = count.last_bin
        for target in fan.targets:
            if last_bin[target] != present and target != but:
                last_bin[target] = present
                count.nodes += 1
        if but == LOCAL:
            fan.counted_in = present
            fan.counted_as = count

    def _in_vain(self, oracle: Oracle, fan: Fan, but: NodeId, message: Message) -> int:
        """Misrouted: over how many of the channels, at this instant, nobody wants the event."""
        event = cast("Forward", message).event
        if event is not self._event:  # an event mostly goes to several neighbours at once
            self._event = event
            self._publication = self.published[event.publisher][event.sequence]
        publication = self._publication
        assert publication is not None
        if publication.version != oracle.version:
            publication.version = oracle.version
            publication.wanted = oracle.wanted_by(event.content)
        oracle.refresh()
        wanted = publication.wanted
        misrouted = 0
        for channel in fan.channels:
            if channel.target != but and not wanted & channel.beyond:
                misrouted += 1
        return misrouted

    def close_bin(self) -> None:
        """Write down the traffic of the current bin and go to the one that holds the present."""
        for count in self._kinds.values():
            if count.count:
                if count.fixed:
                    count.cost = count.count * count.weight
                    count.bytes = count.count * count.size
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
        self._bin = self.kernel.now // self.bin_ns
        self._bin_end = (self._bin + 1) * self.bin_ns

    # Events

    def publish(self, event: Event) -> None:
        """An application publishes."""
        oracle = self.oracle
        wanted = 0 if oracle is None else oracle.wanted_by(event.content)
        version = 0 if oracle is None else oracle.version
        record = PublicationRecord(self.kernel.now, event, wanted, version)
        self.published[event.publisher].append(record)
        self.publications.append(record)

    def delivered(self, node: NodeId, event: Event, hops: int) -> None:
        """A routing hands an event to an application; never twice the same."""
        record = self.published[event.publisher][event.sequence]
        bit = 1 << node
        if record.received & bit:
            raise InvariantViolation(
                f"event {event.publisher}/{event.sequence} delivered twice to node {node} "
                f"at {self.kernel.now / NANOSECONDS:.6f} s"
            )
        record.received |= bit
        if self.keeps_deliveries:
            self.deliveries.append(
                (
                    event.publisher,
                    event.sequence,
                    node,
                    self.kernel.now,
                    hops,
                    bool(record.owed & bit),
                )
            )

    # Links

    def link(
        self, a: NodeId, b: NodeId, change: str, reconfiguration: Reconfiguration | None
    ) -> None:
        """A link changes; called before the ends are told."""
        now = self.kernel.now
        if change == "up" and self.acyclic:
            check_acyclic(self.channels, a, b, now / NANOSECONDS)
        if self.oracle is not None:
            self.oracle.links_changed()
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

    def noted(self, node: NodeId, what: str, peer: NodeId, value: str) -> None:
        """A protocol notes something about itself."""
        if self.keeps_notes:
            self.notes.append((self.kernel.now, node, what, peer, value))
