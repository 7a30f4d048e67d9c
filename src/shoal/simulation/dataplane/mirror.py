"""Keeps the arrays equal to what the objects know: links, tables, wishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mypy_extensions import mypyc_attr

from shoal.routing.table import TableWatcher
from shoal.simulation.dataplane import changes
from shoal.simulation.dataplane.changes import carry_out
from shoal.simulation.dataplane.state import UP, Channels, State, grown
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Filter, Pattern
    from shoal.stack.layer import Routing


class Mirror:
    """The control plane's state as arrays. Slots follow the order of the objects' lists.

    Changes are noted at once, and carried out together, compiled, before events move on.
    """

    def __init__(
        self,
        state: State,
        links_are_slots: bool,
        tune: Callable[[Mirror, Any], None] | None,
        routings: list[Routing],
    ) -> None:
        self.state = state
        self.links_are_slots = links_are_slots
        self.tune = tune
        self.routings = routings
        self.untuned: dict[NodeId, None] = dict.fromkeys(range(len(routings)))
        """Nodes whose links or tuning changed."""
        self.degree = [0] * len(state.nodes.limits)
        """Slots in use per node, once all changes are carried out."""
        self.channels: dict[tuple[NodeId, NodeId], int] = {}
        """Number of the channel that is up, per source and target."""
        self.made = 0
        """Channels ever made."""
        self.stale = True
        """Whether links changed since components and what lies beyond channels were computed."""
        self._changes: list[int] = []

    def change(self, what: int, node: NodeId, source: int, a: int = 0, b: int = 0) -> None:
        """Note a change (see :mod:`~shoal.simulation.dataplane.changes`)."""
        self._changes.extend((what, node, source, a, b))

    def carry_out(self) -> None:
        """Bring the arrays up to date."""
        if self.tune is not None:
            for node in self.untuned:
                self.tune(self, self.routings[node])
        self.untuned.clear()
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
        """Remove a source; those after it move up."""
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

    # Channels

    def add_channel(self, source: NodeId, target: NodeId, delay: int, quality: float) -> None:
        """A channel comes up."""
        number = self.made
        channels = self.state.channels
        if number == len(channels.ends):
            channels = Channels(*(grown(array, 0, 2 * number) for array in channels))
            self.state = self.state._replace(channels=channels)
        self.made += 1
        channels.ends[number] = (source, target, 1, 0)
        channels.times[number] = (delay, 0)
        channels.quality[number] = quality
        self.channels[source, target] = number
        if self.links_are_slots:
            self.add_slot(source, target)
        else:
            self.change(changes.POINT, source, target, number)
        self._relinked(source)

    def drop_channel(self, source: NodeId, target: NodeId) -> None:
        """A channel goes down."""
        self.state.channels.ends[self.channels.pop((source, target)), UP] = 0
        if self.links_are_slots:
            self.drop_slot(source, target)
        else:
            self.change(changes.POINT, source, target, -1)
        self._relinked(source)

    def _relinked(self, node: NodeId) -> None:
        self.stale = True
        self.untuned[node] = None


@mypyc_attr(allow_interpreted_subclasses=True)
class TableMirror(TableWatcher):
    """Reports the changes of a node's table to the mirror."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        self.mirror = mirror
        self.node = node

    def entry(self, source: NodeId, filter: Filter, before: int, now: int) -> None:
        number = cast("Pattern", filter).number
        if source == LOCAL:
            self.mirror.change(changes.WISH, self.node, number, now >= 0)
            return
        if before > 0:
            self.mirror.change(changes.CLEAR, self.node, source, before - 1, number)
        if now > 0:
            self.mirror.change(changes.PUT, self.node, source, now - 1, number)

    def leaf(self, neighbour: NodeId, filters: tuple[Filter, ...] | None) -> None:
        self.mirror.change(changes.IS_LEAF, self.node, neighbour, filters is not None)
        for filter in filters or ():
            number = cast("Pattern", filter).number
            self.mirror.change(changes.LEAF_WISH, self.node, neighbour, number)

    def tuned(self) -> None:
        self.mirror.untuned[self.node] = None


class SourceMirror(TableMirror):
    """As TableMirror, for rules whose slots are the sources that hold a pattern, oldest first."""

    def __init__(self, mirror: Mirror, node: NodeId) -> None:
        super().__init__(mirror, node)
        self.held: dict[NodeId, int] = {}
        """How many patterns each source holds."""

    def entry(self, source: NodeId, filter: Filter, before: int, now: int) -> None:
        if source != LOCAL and now > 0:
            held = self.held.get(source, 0)
            self.held[source] = held + 1
            if not held:
                self.mirror.add_slot(self.node, source)
        super().entry(source, filter, before, now)
        if source != LOCAL and now < 0:
            self.held[source] -= 1
            if not self.held[source]:
                self.mirror.drop_slot(self.node, source)
