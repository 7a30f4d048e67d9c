"""Floods that the channel passes on by itself, recorded as those of nodes' objects would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.simulation.air import state as s
from shoal.simulation.air.settings import FIRST_ROOM
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Routing

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.routing import AirFlooding
    from shoal.simulation.air.medium import Medium
    from shoal.stack.message import Message
    from shoal.stack.node import Node


class Flooding:
    """Events that the channel passes on as :class:`~shoal.routing.AirFlooding` would."""

    def __init__(self, medium: Medium, sample: Message, jitter: float) -> None:
        self.medium = medium
        self.recorder = medium.recorder
        self.sample = sample
        self.events: list[Event] = []
        """Events published; the index is their number in the channel's arrays."""
        self.written: Any = medium.air.seen.copy()
        """Copy of ``seen`` as of the last report to the recorder; a publisher delivers to itself
        and is not reported."""
        self._begun = 0
        """Events whose publishers are in ``written``."""
        air = medium.air
        air.whole[s.FLOOD_AIRTIME] = medium.parameters.airtime(medium.parameters.event_bytes)
        air.real[s.JITTER] = jitter
        medium.flooding = self

    def publish(self, event: Event) -> None:
        """Put an event's first frame into its publisher's queue."""
        number = len(self.events)
        if number >= len(self.medium.air.events):
            self._more_events()
        self.events.append(event)
        self.medium.flood(number, event.publisher, event.sequence)

    def _more_events(self) -> None:
        """Twice as many rows for events."""
        air = self.medium.air
        room = max(FIRST_ROOM, len(self.events))
        more = np.zeros((room, air.seen.shape[1]), np.uint64)
        events = np.concatenate([air.events, np.zeros((room, 2), np.uint64)])
        self.medium.grow(events=events, seen=np.concatenate([air.seen, more]))
        self.written = np.concatenate([self.written, more])

    def write(self, node: NodeId = LOCAL, table: Any = None) -> None:
        """Record the deliveries since the last call.

        The wishes of ``node`` are about to change; the oracle knows the new ones, and ``table``
        still has the old ones.
        """
        count = len(self.events)
        seen = self.medium.air.seen[:count]
        publishers = self.medium.air.events[self._begun : count, 0]
        bits = np.uint64(1) << (publishers & np.uint64(63))
        self.written[np.arange(self._begun, count), publishers >> np.uint64(6)] |= bits
        self._begun = count
        oracle = self.recorder.oracle
        assert oracle is not None
        news = seen & ~self.written[:count]
        for number in np.nonzero(news.any(axis=1))[0].tolist():
            event = self.events[number]
            wanted = oracle.wanted_by(event.content)
            if node != LOCAL:
                bit = 1 << node
                wanted = wanted | bit if table.match(event.content) else wanted & ~bit
            record = self.recorder.published[event.publisher][event.sequence]
            record.received |= int.from_bytes(news[number].tobytes(), "little") & wanted
        self.written[:count] = seen

    def close(self) -> None:
        """At the end of a run, count the channel's floods as the traffic of nodes."""
        counts, sample = self.medium.air.counts, self.sample
        self.medium.kernel.handled = int(counts[:, s.RECEPTIONS].sum())
        kind, weight, size = type(sample).kind(), sample.weight(), sample.size()
        self.recorder.traffic[:] = [
            (kind, number, sent, 0, sent * weight, sent * size, 0)
            for number, sent in enumerate(counts[:, s.SUBMITTED].tolist())
            if sent
        ]


class Tap(Routing):
    """Stands before a node's routing, so that deliveries are recorded before its wishes change."""

    def __init__(self, host: Host, routing: AirFlooding, flooding: Flooding) -> None:
        super().__init__(host)
        self.routing = routing
        self.flooding = flooding

    def publish(self, event: Event) -> None:
        """Deliver at home, and let the channel do the rest."""
        self.routing.on_first_arrival(LOCAL, event, 0)
        self.flooding.publish(event)

    def subscribe(self, filter: Filter) -> None:
        """Write down what was received, and pass on."""
        self.flooding.write(self.host.node, self.routing.table)
        self.routing.subscribe(filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Write down what was received, and pass on."""
        self.flooding.write(self.host.node, self.routing.table)
        self.routing.unsubscribe(filter)

    def filters(self) -> list[Filter]:
        return self.routing.filters()


def tap(node: Node, flooding: Flooding) -> None:
    """Let a node's application speak to its routing by way of a tap."""
    routing: Any = node.routing
    node.put_before_routing(Tap(node.host, routing, flooding))
