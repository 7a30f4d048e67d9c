"""Brokers that stop and come back, without the loss of an event.

A broker that is told to stop takes no more events and asks its clients to move. Each connects to
another broker, subscribes there, and waits for a wave (:mod:`shoal.live.waves`): from then on every
event finds it there. A wave of the leaving broker then brings in the events that are still on their
way to it, and its recovery has some time to fetch what is missing. All that is delivered, what
cannot be had is reported, and the clients let go. Last its node stops: the overlay hands over
its links as it sees fit, and closes all connections.

An overlay may have events kept for a neighbour that will be back (``hold`` and ``release``). The
clients of a broker that starts wait until its overlay is complete.

Every step is bounded in time: what a dead or hostile other end does not answer is not waited for
beyond ``drain``, and clients wait no longer than ``settle``.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from shoal.live.messages import STOPS, Bye, Leave
from shoal.live.waves import Waves
from shoal.live.wire import encode
from shoal.recovery.counting import Counting
from shoal.stack import Layer

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.stack import Message, NodeId

log = logging.getLogger("shoal.live")
ROUNDS: Final = 3
"""Waves after which no event on a graph is on its way to their origin: one per link crossed."""
LAST_WORDS: Final = 2.0
"""Seconds in which the other ends are to close their connections after the goodbye."""
SOUGHT: Final = 4
"""The part of ``drain`` in which what is missing is sought for clients that have moved."""
STALLED: Final = 1.0
"""Seconds without progress after which clients that do not read are not waited for, nor publishers
that do not answer."""
POLL: Final = 0.01
CUT_OFF: Final = "the broker was cut off from all others for a while"


class Held:
    """The events for a neighbour that is away."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.events: deque[tuple[Message, int]] = deque()
        self._bytes = 0

    def keep(self, message: Message) -> None:
        """Keep an event until the neighbour is back."""
        size = len(encode(message))
        self.events.append((message, size))
        self._bytes += size
        while self._bytes > self._broker.settings.limits.queue_bytes:
            self._drop()
        self._broker.budget.hold(self, self._bytes)

    def _drop(self) -> None:
        self._bytes -= self.events.popleft()[1]
        self._broker.unsent += 1

    def shed(self) -> None:
        """Drop the older half of the events: the broker's memory is full."""
        for _ in range((len(self.events) + 1) // 2):
            self._drop()
        self._broker.budget.hold(self, self._bytes)

    def end(self) -> list[Message]:
        """Stop keeping events; return those that were kept."""
        self._bytes = 0
        self._broker.budget.hold(self, 0)
        return [message for message, _ in self.events]


class Departures:
    """One broker's leaving and coming back, and those of its neighbours."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.waves = Waves(broker)
        self.leaving = False
        self.absent: dict[NodeId, Held] = {}
        self.whole = False
        """Whether clients are let in."""
        self._others = bool(broker.settings.contacts())
        """Whether there are other brokers: some were to be joined, or one was a neighbour."""
        self._cut_off = False
        """Whether all links were lost at some time, and no client has been told so far."""
        self._waiting: list[Callable[[], None]] = []
        """Callbacks for the moment when this broker has all its neighbours."""

    @property
    def isolated(self) -> bool:
        """Whether there is no link although other brokers are known to be there."""
        broker = self._broker
        overlay = broker.layers.overlay
        cut_off = overlay is not None and not broker.links and not overlay.complete()
        return cut_off and self._others

    # Coming

    def started(self) -> None:
        """The node has started, and looks for others."""
        self._broker.loop.call_later(self._broker.settings.settle, self._be_whole)
        self.look_whole()

    def when_whole(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the links are there, or ``settle`` seconds have passed."""
        self._waiting.append(callback)

    def look_whole(self) -> None:
        """Accept clients if the overlay is complete."""
        broker = self._broker
        overlay = broker.layers.overlay
        alone = not broker.settings.contacts()
        linked = bool(broker.links) if overlay is None else overlay.complete()
        if alone or linked:
            self._be_whole()

    def _be_whole(self) -> None:
        if self.whole or self._broker.host.closed:
            return
        self.whole = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def link_up(self) -> None:
        """The overlay has made a link."""
        self._others = True
        if self._cut_off:
            self._cut_off = False
            for session in self._broker.sessions:
                session.missed((), 0, CUT_OFF)

    def link_down(self, node: NodeId) -> None:
        """The overlay has given up a link."""
        self.waves.lost(node)
        self._cut_off = self._cut_off or (self.isolated and not self.leaving)

    # Leaving

    async def leave(self) -> None:
        """Hand over all clients and links, then stop."""
        if self.leaving:
            return
        self.leaving = True
        broker = self._broker
        if broker.recording is not None:
            broker.recording.noted("leaving", -1, "")
        broker.lobby.close()
        for node in list(self.absent):  # who is about to stop waits for nobody
            self.waves.lost(node)
        bound = broker.settings.drain
        try:
            async with asyncio.timeout(bound):
                await self._part_from_clients(bound)
                broker.lives.end()
                broker.layers.stop()
                if type(broker.layers.bottom).stop is not Layer.stop:
                    await self._until(lambda: not broker.peers.connected, bound)
                await self._until(lambda: not broker.peers.closing(), LAST_WORDS)
        except TimeoutError:
            log.warning(
                "stopping after %g s although %d clients and %d links are not handed over; raise "
                "the setting 'drain' if they need longer",
                bound,
                len(broker.sessions),
                len(broker.links),
            )
        await broker.stop()

    async def _part_from_clients(self, bound: float) -> None:
        sessions = self._broker.sessions
        for session in sessions:
            session.connection.send(encode(Leave()))
        await self._until(lambda: all(session.moved for session in sessions), bound / 2)
        for _ in range(1 if self._broker.tree else ROUNDS):
            await self.waves.settled()
        if sessions:
            await self._recovered(bound / SOUGHT)
        await self._delivered()
        for session in sessions:
            session.tell_missed()
            reason = STOPS if session.moved else "this broker has waited, and stops"
            session.connection.send(encode(Bye(reason)))
        await self._until(lambda: not sessions, LAST_WORDS)

    async def _recovered(self, bound: float) -> None:
        """Wait until nothing is missing that clients want, and report what still is after that."""
        recovery = self._broker.layers.recovery
        if isinstance(recovery, Counting):
            recovery.ask_all()
            await self._until(recovery.answered, STALLED)
            await self._until(lambda: not recovery.losses, bound)
            recovery.give_up(math.inf)

    async def _delivered(self) -> None:
        """Wait for what is queued for clients, for as long as any of it goes out."""

        def queued() -> int:
            return sum(session.queued for session in self._broker.sessions)

        before: float = math.inf
        while 0 < queued() < before:
            before = queued()
            await self._until(lambda: queued() < before, STALLED)  # noqa: B023  # called here only

    async def _until(self, holds: Callable[[], bool], bound: float) -> None:
        """Wait until something holds, or for so many seconds."""
        ends = self._broker.loop.time() + bound
        while not holds() and self._broker.loop.time() < ends:
            await asyncio.sleep(POLL)

    # Neighbours that are away

    def hold(self, node: NodeId) -> None:
        """Keep the events for a node that is about to be away, until :meth:`release`."""
        self.absent.setdefault(node, Held(self._broker))

    def keep(self, to: NodeId, message: Message) -> bool:
        """Whether a message need not be sent: events for a neighbour that is away are kept."""
        held = self.absent.get(to)
        if held is None or not message.events():
            return False
        held.keep(message)
        return True

    def release(self, node: NodeId) -> None:
        """Send what was kept for a node, or drop it if there is no link."""
        held = self.absent.pop(node, None)
        if held is None:
            return
        broker = self._broker
        messages = held.end()
        if node not in broker.links:
            broker.unsent += len(messages)
            if messages:
                log.warning("%d events kept for node %d are lost", len(messages), node)
            self.waves.lost(node)
            return
        for message in messages:
            broker.host.send(node, message)
        self.waves.returned(node)
