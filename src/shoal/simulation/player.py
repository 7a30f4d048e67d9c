"""Plays a workload into a running simulation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from shoal.content.event import Event
from shoal.content.patterns import Patterns
from shoal.simulation.kernel import Kernel

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.simulation.workload import Workload


class World(Protocol):
    """Where applications live."""

    def subscription(self, node: int, filter: Filter, subscribe: bool) -> None:
        """A node's application subscribes or unsubscribes."""

    def advertisement(self, node: int, filter: Filter, advertise: bool) -> None:
        """A node's application says what it will publish, or no longer will."""

    def publication(self, event: Event) -> None:
        """A node's application publishes."""


class Player:
    """Gives the applications their cues; advertisements only where the routing asks for them."""

    def __init__(
        self, kernel: Kernel, workload: Workload, world: World, advertises: bool = False
    ) -> None:
        self.advertises = advertises
        self.kernel = kernel
        self.workload = workload
        self.world = world
        self._next = 0
        self._times: list[int] = workload.times.tolist()
        self._publishers: list[int] = workload.publishers.tolist()
        self._sequences: dict[int, int] = {}

    def start(self) -> None:
        """Schedule the first acts."""
        self.start_subscriptions()
        self._schedule()

    def start_subscriptions(self) -> None:
        """Schedule every (un)subscription and advertisement."""
        for at, node, pattern, subscribe in self.workload.subscriptions:
            act = partial(self.world.subscription, node, pattern, subscribe)
            self.kernel.call_at(at, act)
        if self.advertises:
            for at, node, pattern, advertise in self.workload.advertisements:
                act = partial(self.world.advertisement, node, pattern, advertise)
                self.kernel.call_at(at, act)

    def _schedule(self) -> None:
        if self._next < len(self._times):
            self.kernel.call_at(self._times[self._next], self._publish)

    def _publish(self) -> None:
        """Publish everything due now; one timer serves all publications."""
        while self._next < len(self._times) and self._times[self._next] <= self.kernel.now:
            publisher = self._publishers[self._next]
            sequence = self._sequences.get(publisher, 0)
            self._sequences[publisher] = sequence + 1
            attributes = self.workload.attributes.get(self._next)
            content = attributes or Patterns(self.workload.content(self._next))
            self._next += 1
            self.world.publication(Event(publisher, sequence, content))
        self._schedule()
