"""Keeps the arrays equal to what the objects know: links, tables, wishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal.routing.adaptive import Adaptive, Observed
from shoal.routing.hierarchical_forwarding import HierarchicalForwarding
from shoal.routing.horizon import HorizonWatcher
from shoal.routing.semiprobabilistic import SemiProbabilistic
from shoal.routing.subscription_forwarding import SubscriptionForwarding
from shoal.routing.table import TableWatcher
from shoal.simulation.dataplane import changes
from shoal.simulation.dataplane.changes import carry_out
from shoal.simulation.dataplane.state import UP, Channels, State, grown
from shoal.stack.host import LOCAL, NodeId
from shoal.stack.layer import Reconfiguration, Routing

if TYPE_CHECKING:
    from shoal.content import Event, Filter, Pattern


def pattern_number(filter: Filter) -> int:
    """The number that a pattern subscribes to."""
    return cast("Pattern", filter).number


class Mirror:
    """The control plane's state as arrays. Slots follow the order of the objects' lists.

    What changes is noted at once and carried out, compiled, before events move on.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.degree = [0] * len(state.nodes.limits)
        """Slots in use per node, once all changes are carried out."""
        self.channels: dict[tuple[NodeId, NodeId], int] = {}
        """The channel that is up between two nodes."""
        self.made = 0
        """Channels ever made."""
        self.stale = True
        """Whether links changed since it was worked out who lies where."""
        self._changes: list[int] = []

    def change(self, what: int, node: NodeId, source: int, a: int = 0, b: int = 0) -> None:
        """Note a change (see :mod:`~shoal.simulation.dataplane.changes`)."""
        self._changes.extend((what, node, source, a, b))

    def carry_out(self) -> None:
        """Bring the arrays up to date."""
        if self._changes:
            carry_out(np.array(self._changes, np.int32).reshape(-1, 5), self.state)
            self._changes = []

    # Slots

    def add_slot(self, node: NodeId, source: NodeId) -> None:
        """A node has one more source."""
        self.degree[node] += 1
        if self.degree[node] > self.state.nodes.link.shape[1]:
            self._more_slots(2 * self.degree[node])
        self.change(changes.ADD_SLOT, node, source, self.channels.get((node, source), -1))

    def drop_slot(self, node: NodeId, source: NodeId) -> None:
        """A source is no more; those after it move up."""
        self.degree[node] -= 1
        self.change(changes.DROP_SLOT, node, source)

    def _more_slots(self, slots: int) -> None:
        nodes = self.state.nodes
        larger: dict[str, Any] = {
            name: grown(getattr(nodes, name), 1, slots)
            for name in ("link", "leaf", "mask", "leaf_mask")
        }
        self.state = self.state._replace(
            nodes=nodes._replace(**larger), picks=np.zeros(2 * slots, np.int32)
        )

    def crash(self, node: NodeId) -> None:
        """A node publishes nothing any more, and nothing is owed to it."""
        self.change(changes.CRASH, node, LOCAL)

    # Channels

    def add_channel(self, source: NodeId, target: NodeId, delay: int, quality: float) -> None:
        """A channel comes up."""
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
        self.change(changes.POINT, source, target, number)
        self.stale = True

    def drop_channel(self, source: NodeId, target: NodeId) -> None:
        """A channel goes down."""
        self.state.channels.ends[self.channels.pop((source, target)), UP] = 0
        self.change(changes.POINT, source, target, -1)
        self.stale = True


class Tap(Routing):
    """Stands before a node's routing, and lets the mirror know what it is told."""

    def __init__(self, mirror: Mirror, routing: Routing) -> None:
        super().__init__(routing.host)
        self.mirror = mirror
        self.routing = routing
        self.node = routing.host.node

    def publish(self, event: Event) -> None:
        """Events are published by the data plane."""
        raise AssertionError("a publication reached the objects behind a data plane")

    def subscribe(self, filter: Filter) -> None:
        """Pass on."""
        self.mirror.change(changes.WISH, self.node, pattern_number(filter), 1)
        self.routing.subscribe(filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Pass on."""
        self.mirror.change(changes.WISH, self.node, pattern_number(filter), 0)
        self.routing.unsubscribe(filter)

    def advertise(self, filter: Filter) -> None:
        """Pass on."""
        self.routing.advertise(filter)

    def unadvertise(self, filter: Filter) -> None:
        """Pass on."""
        self.routing.unadvertise(filter)

    def parent_changed(self, parent: NodeId) -> None:
        """Pass on."""
        self.routing.parent_changed(parent)

    def link_renewed(self, neighbour: NodeId) -> None:
        """Pass on."""
        self.routing.link_renewed(neighbour)

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
        self.mirror.add_slot(self.node, neighbour)
        super().link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """One slot fewer."""
        super().link_down(neighbour, reconfiguration)
        self.mirror.drop_slot(self.node, neighbour)


class TableMirror(TableWatcher):
    """For subscription forwarding: slots are the sources that hold a pattern, as they came."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        self.mirror = mirror
        self.node = node
        self.held: dict[NodeId, int] = {}
        """How many patterns each source holds."""

    def added(self, source: NodeId, filter: Filter) -> None:
        """See :class:`TableWatcher`."""
        if source != LOCAL:
            held = self.held.get(source, 0)
            self.held[source] = held + 1
            if not held:
                self.mirror.add_slot(self.node, source)
            self.mirror.change(changes.PUT, self.node, source, 0, pattern_number(filter))

    def removed(self, source: NodeId, filter: Filter) -> None:
        """See :class:`TableWatcher`."""
        if source != LOCAL:
            self.held[source] -= 1
            if self.held[source]:
                self.mirror.change(changes.CLEAR, self.node, source, 0, pattern_number(filter))
            else:
                self.mirror.drop_slot(self.node, source)


class HierarchyMirror(TableMirror):
    """For hierarchical forwarding: a node's parent as well, while it is a neighbour."""

    def __init__(self, mirror: Mirror, routing: HierarchicalForwarding) -> None:
        super().__init__(mirror, routing.host.node)
        self.routing = routing

    def neighbours_changed(self) -> None:
        """See :class:`TableWatcher`."""
        parent = self.routing.parent
        if parent not in self.routing.neighbours:
            parent = -1
        channel = self.mirror.channels.get((self.node, parent), -1)
        self.mirror.change(changes.HANG, self.node, parent, channel)


class HorizonMirror(HorizonWatcher):
    """For semi-probabilistic routing: patterns by distance, leaves, limits of the choice."""

    def __init__(self, mirror: Mirror, routing: SemiProbabilistic) -> None:
        self.mirror = mirror
        self.routing = routing
        self.node = routing.host.node
        self.tuned()

    def entry(self, source: NodeId, filter: Filter, before: int, now: int) -> None:
        """See :class:`HorizonWatcher`."""
        number = pattern_number(filter)
        if before > 0:
            self.mirror.change(changes.CLEAR, self.node, source, before - 1, number)
        if now > 0:
            self.mirror.change(changes.PUT, self.node, source, now - 1, number)

    def leaf(self, neighbour: NodeId, filters: tuple[Filter, ...] | None) -> None:
        """See :class:`HorizonWatcher`."""
        self.mirror.change(changes.IS_LEAF, self.node, neighbour, filters is not None)
        for filter in filters or ():
            self.mirror.change(changes.LEAF_WISH, self.node, neighbour, pattern_number(filter))

    def tuned(self) -> None:
        """See :class:`HorizonWatcher`."""
        routing = self.routing
        self.mirror.change(
            changes.LIMITS, self.node, routing.follows, routing.fanout(False), routing.fanout(True)
        )


class SemiProbabilisticTap(NeighbourTap):
    """For semi-probabilistic routing, where links to use are a share of the links there are."""

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


class WatchedOnArrays(Observed):
    """What an adaptive node observes, as the arrays count it."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        super().__init__()
        self.mirror = mirror
        self.node = node

    def look(self) -> None:
        """See :class:`Observed`."""
        counts: list[int] = self.mirror.state.nodes.watched[self.node].tolist()
        self.sent, self.wanted, self.missed = counts


class AdaptiveTap(SemiProbabilisticTap):
    """For adaptive routing, which learns what the arrays observe."""

    def __init__(self, mirror: Mirror, routing: Adaptive) -> None:
        super().__init__(mirror, routing)
        routing.observed = WatchedOnArrays(mirror, self.node)


def table_tap(mirror: Mirror, routing: SubscriptionForwarding) -> Tap:
    """For routings by tables alone."""
    routing.table.watcher = TableMirror(mirror, routing.host.node)
    return Tap(mirror, routing)


class HierarchyTap(Tap):
    """For hierarchical forwarding."""

    def __init__(self, mirror: Mirror, routing: HierarchicalForwarding) -> None:
        super().__init__(mirror, routing)
        self.watcher = HierarchyMirror(mirror, routing)
        routing.table.watcher = self.watcher

    def parent_changed(self, parent: NodeId) -> None:
        """Turn towards another parent."""
        super().parent_changed(parent)
        self.watcher.neighbours_changed()


Tapping = Callable[[Mirror, Any], Tap]
