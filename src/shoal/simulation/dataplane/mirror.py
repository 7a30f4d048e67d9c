"""Keeps the arrays equal to what the objects know: links, tables, wishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mypy_extensions import mypyc_attr

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


@mypyc_attr(allow_interpreted_subclasses=True)
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
        self.mirror.change(changes.WISH, self.node, pattern_number(filter), 1)
        self.routing.subscribe(filter)

    def unsubscribe(self, filter: Filter) -> None:
        self.mirror.change(changes.WISH, self.node, pattern_number(filter), 0)
        self.routing.unsubscribe(filter)

    def advertise(self, filter: Filter) -> None:
        self.routing.advertise(filter)

    def unadvertise(self, filter: Filter) -> None:
        self.routing.unadvertise(filter)

    def parent_changed(self, parent: NodeId) -> None:
        self.routing.parent_changed(parent)

    def link_renewed(self, neighbour: NodeId) -> None:
        self.routing.link_renewed(neighbour)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.routing.link_up(neighbour, reconfiguration)

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        self.routing.link_down(neighbour, reconfiguration)

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        self.routing.link_replaced(old, near, far, reconfiguration)


@mypyc_attr(allow_interpreted_subclasses=True)
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
