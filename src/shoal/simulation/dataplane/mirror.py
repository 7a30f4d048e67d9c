"""Keeps the arrays equal to what the objects know: links, tables, wishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal.routing.horizon import HorizonWatcher
from shoal.routing.semiprobabilistic import SemiProbabilistic
from shoal.routing.table import TableWatcher
from shoal.simulation.dataplane.state import (
    CHANNEL,
    HORIZON,
    LEAF,
    SLOTS,
    UP,
    VERSION,
    Channels,
    Nodes,
    State,
    grown,
)
from shoal.stack.host import LOCAL, NodeId
from shoal.stack.layer import Handler, Reconfiguration, Routing
from shoal.stack.message import Message

if TYPE_CHECKING:
    from shoal.content import Event, Filter, Pattern


def pattern_number(filter: Filter) -> int:
    """The number that a pattern subscribes to."""
    return cast("Pattern", filter).number


class Mirror:
    """The control plane's state as arrays. Slots follow the order in which the objects list their sources."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.order: list[list[NodeId]] = [[] for _ in state.nodes.limits]
        """Per node, the source in each slot."""
        self.held: list[dict[NodeId, int]] = [{} for _ in state.nodes.limits]
        """Per node and source, how many patterns it holds."""
        self.channels: dict[tuple[NodeId, NodeId], int] = {}
        """The channel that is up between two nodes."""
        self.made = 0
        """Channels ever made."""
        self.stale = True
        """Whether links changed since it was worked out who lies where."""

    # Slots

    def slot(self, node: NodeId, source: NodeId) -> int:
        """The slot of a source, new if need be."""
        order = self.order[node]
        if source in order:
            return order.index(source)
        k = len(order)
        nodes = self.state.nodes
        if k == nodes.slot.shape[1]:
            self._more_slots(2 * k)
            nodes = self.state.nodes
        order.append(source)
        nodes.slot[node, k] = (source, self.channels.get((node, source), -1), source, 0)
        nodes.mask[node, k] = 0
        nodes.leaf_mask[node, k] = 0
        nodes.limits[node, SLOTS] = k + 1
        return k

    def drop_slot(self, node: NodeId, source: NodeId) -> None:
        """A source is no more; those after it move up."""
        order = self.order[node]
        if source not in order:
            return
        k = order.index(source)
        del order[k]
        last = len(order)
        nodes = self.state.nodes
        for rows in (nodes.slot, nodes.mask, nodes.leaf_mask):
            rows[node, k:last] = rows[node, k + 1 : last + 1]
        nodes.limits[node, SLOTS] = last

    def _more_slots(self, slots: int) -> None:
        nodes = self.state.nodes
        larger: dict[str, Any] = {
            name: grown(getattr(nodes, name), 1, slots)
            for name in ("slot", "mask", "leaf_mask")
        }
        self.state = self.state._replace(
            nodes=nodes._replace(**larger), picks=np.zeros(2 * slots, np.int32)
        )

    def put_pattern(
        self, node: NodeId, source: NodeId, level: int, number: int, there: bool
    ) -> None:
        """A direction gains or loses a pattern at a distance."""
        k = self.order[node].index(source)
        word = self.state.nodes.mask[node, k, level]
        bit = np.uint64(1 << (number & 63))
        if there:
            word[number >> 6] |= bit
        else:
            word[number >> 6] &= ~bit

    def put_wish(self, node: NodeId, number: int, there: bool) -> None:
        """A node's application wants a pattern, or no longer does."""
        state = self.state
        bit, node_bit = np.uint64(1 << (number & 63)), np.uint64(1 << (node & 63))
        if there:
            state.nodes.local[node, number >> 6] |= bit
            state.subscribers[number, node >> 6] |= node_bit
        else:
            state.nodes.local[node, number >> 6] &= ~bit
            state.subscribers[number, node >> 6] &= ~node_bit
        state.now[VERSION] += 1

    # Channels

    def add_channel(self, source: NodeId, target: NodeId, delay: int, quality: float) -> int:
        """A channel comes up; its number."""
        number = self.made
        channels = self.state.channels
        if number == len(channels.ends):
            larger: dict[str, Any] = {
                name: grown(getattr(channels, name), 0, 2 * number) for name in Channels._fields
            }
            channels = Channels(**larger)
            self.state = self.state._replace(channels=channels)
        self.made += 1
        channels.ends[number] = (source, target, 1, 0)
        channels.times[number] = (delay, 0)
        channels.quality[number] = quality
        self.channels[source, target] = number
        self._point(source, target, number)
        self.stale = True
        return number

    def drop_channel(self, source: NodeId, target: NodeId, number: int) -> None:
        """A channel goes down."""
        self.state.channels.ends[number, UP] = 0
        del self.channels[source, target]
        self._point(source, target, -1)
        self.stale = True

    def _point(self, node: NodeId, source: NodeId, channel: int) -> None:
        order = self.order[node]
        if source in order:
            self.state.nodes.slot[node, order.index(source), CHANNEL] = channel


class Tap(Routing):
    """Stands before a node's routing, and lets the mirror know what it is told."""

    def __init__(self, mirror: Mirror, routing: Routing) -> None:
        super().__init__(routing.host)
        self.mirror = mirror
        self.routing = routing
        self.node = routing.host.node

    @property
    def table(self) -> Any:
        """The routing's table, if it has one."""
        return getattr(self.routing, "table", None)

    def handlers(self) -> dict[type[Message], Handler]:
        """The routing's own."""
        return self.routing.handlers()

    def publish(self, event: Event) -> None:
        """Events are published by the data plane."""
        raise AssertionError("a publication reached the objects behind a data plane")

    def subscribe(self, filter: Filter) -> None:
        """Pass on."""
        self.mirror.put_wish(self.node, pattern_number(filter), True)
        self.routing.subscribe(filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Pass on."""
        self.mirror.put_wish(self.node, pattern_number(filter), False)
        self.routing.unsubscribe(filter)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Pass on."""
        self.routing.link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Pass on."""
        self.routing.link_down(neighbour, reconfiguration)

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """Pass on."""
        self.routing.link_replaced(old, near, far, reconfiguration)


class NeighbourTap(Tap):
    """For routings whose slots are their neighbours."""

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One more slot."""
        self.mirror.slot(self.node, neighbour)
        super().link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One slot fewer."""
        super().link_down(neighbour, reconfiguration)
        self.mirror.drop_slot(self.node, neighbour)


class TableMirror(TableWatcher):
    """For subscription forwarding: the slots are the sources that hold a pattern, in order of coming."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        self.mirror = mirror
        self.node = node
        self.held = mirror.held[node]

    def added(self, source: NodeId, filter: Filter) -> None:
        """See :class:`TableWatcher`."""
        if source != LOCAL:
            self.held[source] = self.held.get(source, 0) + 1
            self.mirror.slot(self.node, source)
            self.mirror.put_pattern(self.node, source, 0, pattern_number(filter), True)

    def removed(self, source: NodeId, filter: Filter) -> None:
        """See :class:`TableWatcher`."""
        if source != LOCAL:
            self.held[source] -= 1
            if self.held[source]:
                self.mirror.put_pattern(self.node, source, 0, pattern_number(filter), False)
            else:
                self.mirror.drop_slot(self.node, source)


class HorizonMirror(HorizonWatcher):
    """For semi-probabilistic routing: patterns by distance, leaves, and the limits of the choice."""

    def __init__(self, mirror: Mirror, routing: SemiProbabilistic) -> None:
        self.mirror = mirror
        self.routing = routing
        self.node = routing.host.node
        self.order = mirror.order[self.node]
        self.tuned()

    def entry(self, source: NodeId, filter: Filter, before: int, now: int) -> None:
        """See :class:`HorizonWatcher`."""
        if source in self.order:
            number = pattern_number(filter)
            if before > 0:
                self.mirror.put_pattern(self.node, source, before - 1, number, False)
            if now > 0:
                self.mirror.put_pattern(self.node, source, now - 1, number, True)

    def leaf(self, neighbour: NodeId, filters: tuple[Filter, ...] | None) -> None:
        """See :class:`HorizonWatcher`."""
        if neighbour not in self.order:
            return
        nodes: Nodes = self.mirror.state.nodes
        k = self.order.index(neighbour)
        nodes.slot[self.node, k, LEAF] = filters is not None
        row = nodes.leaf_mask[self.node, k]
        row[:] = 0
        for filter in filters or ():
            number = pattern_number(filter)
            row[number >> 6] |= np.uint64(1 << (number & 63))

    def tuned(self) -> None:
        """See :class:`HorizonWatcher`."""
        routing = self.routing
        limits = (routing.horizon, routing.fanout(False), routing.fanout(True))
        self.mirror.state.nodes.limits[self.node, HORIZON:] = limits


class SemiProbabilisticTap(NeighbourTap):
    """For semi-probabilistic routing, where the number of links to use follows the number of links."""

    def __init__(self, mirror: Mirror, routing: SemiProbabilistic) -> None:
        super().__init__(mirror, routing)
        self.watcher = HorizonMirror(mirror, routing)
        routing.table.watcher = self.watcher

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One more slot."""
        super().link_up(neighbour, reconfiguration)
        self.watcher.tuned()

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One slot fewer."""
        super().link_down(neighbour, reconfiguration)
        self.watcher.tuned()


def table_tap(mirror: Mirror, routing: Routing) -> Tap:
    """For subscription forwarding."""
    tap = Tap(mirror, routing)
    tap.table.watcher = TableMirror(mirror, routing.host.node)
    return tap


Tapping = Callable[[Mirror, Any], Tap]
