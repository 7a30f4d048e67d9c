"""Brokers that stop and come back, without the loss of an event.

A broker that is told to stop takes no more events and asks its clients to move. Each connects to
another broker, subscribes there, and waits for a wave (:mod:`shoal.live.waves`): from then on every
event finds it there. A wave of the leaving broker then brings in the events that are still on their
way to it; they are delivered, and the clients let go. Last it takes leave of its neighbours:

* On a graph each neighbour first links to another one of them (its heir), so that no way is lost.
* On configured links the neighbour keeps its table, and the events that would cross the link, until
  the broker is back. A broker that starts is *whole* when all links it was configured with are up
  and their tables announced; only then do its neighbours send it what they kept.

Every step is bounded in time: what a dead or hostile other end does not answer is not waited for
beyond ``drain``, and nothing is kept for longer than ``absence``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from shoal.live.errors import LiveError
from shoal.live.messages import (
    Bye,
    Echo,
    Known,
    Leave,
    Leaving,
    Left,
    Missed,
    Ready,
    Wave,
    Whole,
)
from shoal.live.waves import Waves
from shoal.live.wire import encode
from shoal.routing.messages import Subscribe, Unsubscribe

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import Message, NodeId

log = logging.getLogger("shoal.live")
ROUNDS: Final = 3
"""Waves after which no event on a graph is on its way to their origin: one per link crossed."""
LAST_WORDS: Final = 2.0
"""Seconds in which the other ends are to close their connections after the goodbye."""
STALLED: Final = 1.0
"""Seconds without progress after which clients that do not read are not waited for."""
POLL: Final = 0.01


class Absent:
    """A configured neighbour that has said it will be back, and what is kept for it."""

    def __init__(self, broker: Broker, node: NodeId, dials: bool) -> None:
        self._broker = broker
        self.dials = dials
        """It will connect to this broker, rather than the other way round."""
        self.linked = False
        self.announced: set[Filter] = set()
        """What it has announced since it is back."""
        self.over = asyncio.Event()
        """Set when it is linked again, or no longer expected."""
        self.events: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        absence = broker.settings.absence
        self.timer = broker.loop.call_later(absence, broker.departures.expired, node)

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
        """See :class:`~shoal.live.budget.Holder`: the older half goes."""
        for _ in range((len(self.events) + 1) // 2):
            self._drop()
        self._broker.budget.hold(self, self._bytes)

    def end(self) -> list[Message]:
        """Let go: the events that were kept."""
        self.timer.cancel()
        self.over.set()
        self._bytes = 0
        self._broker.budget.hold(self, 0)
        return [message for message, _ in self.events]


class Departures:
    """One broker's leaving and coming back, and those of its neighbours."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.waves = Waves(broker)
        self.leaving = False
        self.absent: dict[NodeId, Absent] = {}
        settings = broker.settings
        self.whole = not (settings.links or settings.join)
        self._cut_off = False
        """All links of a graph were lost at some time, and no client has been told so far."""
        self._reached: dict[str, NodeId] = {}
        """The neighbour at the end of each configured link."""
        self._waiting: list[Callable[[], None]] = []
        """What to do when this broker is whole."""
        if not self.whole:
            broker.loop.call_later(settings.settle, self._be_whole)

    @property
    def _graph(self) -> bool:
        return self._broker.settings.overlay == "graph"

    @property
    def isolated(self) -> bool:
        """Whether there is no link although other brokers are known to be there."""
        broker = self._broker
        return self._graph and not broker.links and bool(broker.membership.view)

    # Coming

    def when_whole(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the links are there, or ``settle`` seconds have passed."""
        self._waiting.append(callback)

    def reached(self, link: str, node: NodeId) -> None:
        """A configured link leads to this neighbour."""
        self._reached[link] = node
        self._check_whole()

    def linked(self, peer: Peer) -> None:
        """A link is up, and what is wanted on this side has been announced over it."""
        peer.tell(Ready())
        if self._graph:
            self._be_whole()
            if self._cut_off:
                self._cut_off = False
                for session in self._broker.sessions:
                    session.connection.send(encode(Missed(0)))
            return
        if self.whole:
            peer.tell(Whole())
        absent = self.absent.get(peer.node)
        if absent is not None:
            absent.linked = True
            absent.over.set()

    def _check_whole(self) -> None:
        broker = self._broker
        reached = [self._reached.get(link) for link in broker.settings.links]
        peers = [None if node is None else broker.links.get(node) for node in reached]
        if all(peer is not None and peer.ready for peer in peers):
            self._be_whole()

    def _be_whole(self) -> None:
        if self.whole or self._broker.host.closed:
            return
        self.whole = True
        for peer in self._broker.links.values():
            if not self._graph:
                peer.tell(Whole())
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    # Leaving

    async def leave(self) -> None:
        """Hand over all clients and links, then stop."""
        if self.leaving:
            return
        self.leaving = True
        broker = self._broker
        broker.lobby.close()
        for node in list(self.absent):  # who is about to stop waits for nobody
            self.waves.lost(node)
        bound = broker.settings.drain
        try:
            async with asyncio.timeout(bound):
                await self._part_from_clients(bound)
                await self._part_from_links()
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
        for _ in range(ROUNDS if self._graph else 1):
            await self.waves.settled()
        await self._delivered()
        for session in sessions:
            session.connection.send(encode(Bye("this broker stops")))
        await self._until(lambda: not sessions, LAST_WORDS)

    async def _delivered(self) -> None:
        """Wait for what is queued for clients, for as long as any of it goes out."""
        left = sum(session.queued for session in self._broker.sessions)
        while left:
            before = left

            def less(before: int = before) -> bool:
                return sum(session.queued for session in self._broker.sessions) < before

            await self._until(less, STALLED)
            left = sum(session.queued for session in self._broker.sessions)
            if left >= before:
                return

    async def _part_from_links(self) -> None:
        links = self._broker.links
        peers = sorted(links.values(), key=lambda peer: peer.node)
        for peer, after in zip(peers, [*peers[1:], *peers[:1]], strict=True):
            heir = after.who if self._graph and len(peers) > 1 else None
            peer.tell(Leaving(heir, peer.node in self._reached.values()))
        await self._until(lambda: all(peer.left for peer in links.values()), 1e6)
        for peer in links.values():
            peer.tell(Bye("it stops"))
        await self._until(lambda: not links, LAST_WORDS)

    async def _until(self, holds: Callable[[], bool], bound: float) -> None:
        """Wait until something holds, or for so many seconds."""
        ends = self._broker.loop.time() + bound
        while not holds() and self._broker.loop.time() < ends:
            await asyncio.sleep(POLL)

    def drop(self, peer: Peer, reason: str) -> None:
        """End one link of a graph, once what is on its way over it has arrived."""
        if not peer.leaves:
            peer.leaves, peer.dropped_for = True, reason
            self._broker.membership.unlinked(peer.node)
            peer.tell(Leaving())

    # Neighbours that leave

    def handle(self, peer: Peer, message: Any) -> None:
        """A message of a neighbour about leaving and coming back."""
        if not peer.linked:
            return
        if isinstance(message, Wave):
            self.waves.on_wave(peer, message)
        elif isinstance(message, Echo):
            self.waves.on_echo(peer, message)
        elif isinstance(message, Leaving):
            self._leaves(peer, message)
        elif isinstance(message, Left):
            peer.left = True
            if peer.dropped_for:
                peer.tell(Bye(peer.dropped_for))
        elif isinstance(message, Ready):
            peer.ready = True
            self._check_whole()
        else:
            assert isinstance(message, Whole), message
            self._resume(peer.node)

    def _leaves(self, peer: Peer, leaving: Leaving) -> None:
        log.info("'%s' is about to close its link", peer.who.name)
        peer.leaves = True
        if self._graph:
            self._broker.spawn(self._take_over(peer, leaving.heir))
            return
        if not self.leaving and not self._has_alternative(peer.node):
            self.absent[peer.node] = Absent(self._broker, peer.node, leaving.dials)
        self._part(peer)

    def _has_alternative(self, node: NodeId) -> bool:
        return any("," in link and at == node for link, at in self._reached.items())

    async def _take_over(self, peer: Peer, heir: Known | None) -> None:
        """On a graph: link to the heir before the link to the leaving broker goes."""
        broker = self._broker
        broker.membership.unlinked(peer.node)
        if heir is not None and heir.node != broker.node and heir.node not in broker.links:
            try:
                await broker.greeter.dial(heir.address, urgent=True)
                await self.waves.settled()
            except LiveError as error:
                log.info("no link to '%s' in place of '%s': %s", heir.name, peer.who.name, error)
        self._part(peer)

    def _part(self, peer: Peer) -> None:
        peer.parted = True
        peer.tell(Left())

    def keep(self, to: NodeId, message: Message) -> bool:
        """Whether a message need not be sent: the neighbour is absent, and events are kept."""
        absent = self.absent.get(to)
        if absent is None:
            return False
        if message.events():
            absent.keep(message)
            return True
        return to not in self._broker.links  # it is announced anew when the link is up

    def announced(self, node: NodeId, message: Any) -> None:
        """A neighbour that was absent announces what its side wants."""
        absent = self.absent.get(node)
        if absent is not None and isinstance(message, Subscribe):
            absent.announced.add(message.filter)

    def closed(self, peer: Peer) -> bool:
        """A link is down. True if it will be back and its table is to stay as it is."""
        if self._broker.host.closed:
            return False
        absent = self.absent.get(peer.node)
        if absent is not None and not absent.linked:
            return True
        if absent is not None:
            self._forget(peer.node)
        self.waves.lost(peer.node)
        self._cut_off = self._cut_off or (self.isolated and not self.leaving)
        return False

    def _forget(self, node: NodeId) -> None:
        events = self.absent.pop(node).end()
        self._broker.unsent += len(events)

    def expired(self, node: NodeId) -> None:
        """A neighbour that should be back by now is not, or is not whole."""
        if self.absent[node].linked:
            self._resume(node)
            return
        log.warning(
            "node %d said that it would be back and is not after %g s; %d events for it are lost",
            node,
            self._broker.settings.absence,
            len(self.absent[node].events),
        )
        self._forget(node)
        self.waves.lost(node)
        if node not in self._broker.links and not self._broker.host.closed:
            self._broker.routing.link_down(node, None)

    def _resume(self, node: NodeId) -> None:
        """A neighbour is back with all its links: it gets what was kept."""
        absent = self.absent.get(node)
        if absent is None or not absent.linked:
            return
        broker = self._broker
        table = getattr(broker.routing, "table", None)
        if Unsubscribe in broker.routing.handlers() and table is not None:
            for filter in list(table.filters_of(node)):
                if filter not in absent.announced:  # nobody there wants it any more
                    broker.routing.receive(node, Unsubscribe(filter))
        del self.absent[node]
        for message in absent.end():
            broker.send(node, message)
        self.waves.returned(node)

    async def returned(self, node: NodeId) -> bool:
        """Wait for an absent neighbour that will connect here; whether it did."""
        absent = self.absent.get(node)
        if absent is None or not absent.dials:
            return False
        await absent.over.wait()
        return node in self._broker.links
