"""A broker: one node of the live network.

It runs the same routing class that the simulator runs, on a host whose links are TCP connections
and whose application are the clients connected to it (or, embedded, the program it lives in)::

    async with Broker(Settings(listen="127.0.0.1:7464")) as broker:
        await broker.until_stopped()
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shoal.content import AnyContent, Attributes, Event, Filter
from shoal.live import security
from shoal.live.budget import Budget
from shoal.live.connection import Connection
from shoal.live.departures import Departures
from shoal.live.edge import Edge, Listener
from shoal.live.entries import Subscriber
from shoal.live.errors import LiveError, ProtocolError, RefusedError
from shoal.live.greeting import Greeter
from shoal.live.host import LiveHost
from shoal.live.identity import (
    advertised,
    check_name,
    first_sequence,
    new_epoch,
    node_id,
    random_name,
)
from shoal.live.keeping import keep_alive, keep_graph, keep_link
from shoal.live.lobby import Lobby
from shoal.live.membership import Membership
from shoal.live.messages import Beat, Bye, DepartureMessage, Known, Position, Shuffle
from shoal.live.numbers import Numbered
from shoal.live.peer import Peer
from shoal.live.settings import Settings
from shoal.live.spanning import Spanning
from shoal.live.status import Status, status_of
from shoal.live.talking import Talks
from shoal.live.turns import TURN, Turns
from shoal.live.values import checked
from shoal.live.wire import content_of, parse_address, show_address
from shoal.routing.seen import Seen
from shoal.stack import Chance, Contact, Message, NodeId, Reconfiguration

if TYPE_CHECKING:
    from shoal.live.metrics import MetricsServer
    from shoal.live.recording import Recording
    from shoal.live.session import Session

log = logging.getLogger("shoal.live")

LATE: Final = 1.0
"""Seconds by which an event loop must be late for that to be noticed."""


def filters_of(message: Any) -> Iterator[object]:
    """The filters that a message of the routing carries, and whatever else it does."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        yield from value if isinstance(value, tuple) else (value,)


class Broker:
    """One node. ``start`` it, ``stop`` it, or use it as an asynchronous context."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings = settings or Settings()
        self.stack = settings.stack()
        self.described = settings.described(self.stack)
        self.name = check_name(settings.name or random_name())
        self.node: NodeId = node_id(self.name)
        self.epoch = new_epoch()
        self.access = security.Access(settings.access, settings.limits.check_filter)
        self.tls_in, self.tls_out = security.contexts(
            settings.certificate, settings.key, settings.authority
        )
        self.links: dict[NodeId, Peer] = {}
        self.talks = Talks(self)
        self.sessions: dict[Session, None] = {}
        self.connections: dict[Connection, None] = {}
        self.edge = Edge(settings.limits.scan_of)
        self.own: set[str] = set()
        self.published = self.delivered = self.forwarded = self.cycles = 0
        self.missed = self.unsent = 0
        """Events dropped for clients and for neighbours that are gone."""
        self.recording: Recording | None = None
        self.running = False
        tree = "tree" in self.stack.routing.needs
        self.spanning = Spanning(self.node, self._position) if tree else None
        self._came = Seen() if tree else None
        """Events that came: while links form a cycle, they come again."""
        self.budget = Budget(settings.limits.memory)
        self.publishing: Session | None = None
        """The client whose event is being published just now."""
        self._sequence = first_sequence(self.epoch)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._metrics: MetricsServer | None = None
        self._waiting: dict[NodeId, list[asyncio.Event]] = {}
        self._repairs: dict[NodeId, int] = {}
        self._ticked = 0.0
        self._late = (0.0, 0.0)
        """By how many seconds the event loop was late, and until when that counts."""
        self._stopped: asyncio.Event | None = None

    # Life

    async def start(self) -> Broker:
        """Listen and begin to make links."""
        settings = self.settings
        host, port = parse_address(settings.listen, "listen address")
        if not security.is_loopback(host) and self.tls_in is None and not settings.insecure:
            raise LiveError(
                f"refusing to listen on {settings.listen} without TLS: others could read and "
                "publish anything; give --cert, --key and --ca, or say --insecure"
            )
        self.loop = asyncio.get_running_loop()
        self.turns = Turns(self.loop)
        self._ticked = self.loop.time()
        self._stopped = asyncio.Event()
        seed = secrets.randbits(62) if settings.seed is None else settings.seed
        self.host = LiveHost(self, self.node, seed)
        self.layers = self.stack.on(self.host)
        self.routing = self.layers.routing
        self.layers.start()
        own = [Beat, Shuffle, Position, Bye, DepartureMessage]
        types: list[Any] = [*self.routing.handlers(), *own]
        self.decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(reduce(or_, types))
        self.greeter = Greeter(self)
        others = [*",".join(settings.links).split(","), *settings.join]
        where = await asyncio.to_thread(advertised, settings.advertise, host, port, others)
        self.departures = Departures(self)
        self.lobby = Lobby(self)
        at = await self.lobby.listen(host, port)
        self.running = True
        self.address = show_address(*at)
        told = show_address(where[0] or at[0], where[1] or at[1])
        self.own |= {self.address, told}
        self.me = Known(self.node, self.name, told, self.epoch)
        chance = Chance(secrets.randbits(62), "membership")
        self.membership = Membership(self.me, settings.degree, settings.forget, chance)
        if settings.metrics:
            from shoal.live.metrics import serve_metrics

            try:
                self._metrics = await serve_metrics(self, settings.metrics)
            except LiveError:
                self.lobby.close()
                raise
        if settings.record is not None:
            from shoal.live.recording import Recording

            self.recording = Recording(settings.record, self)
            self.host.watched = True
            self.spawn(self.recording.run())
        self.spawn(keep_alive(self))
        for spec in settings.links:
            addresses = spec.split(",")
            for address in addresses:
                parse_address(address, "link")
            self.spawn(keep_link(self, addresses))
        for address in settings.join:
            parse_address(address, "join")
        if settings.overlay == "graph":
            self.spawn(keep_graph(self))
        log.info("broker '%s' (node %d) listens on %s", self.name, self.node, self.address)
        return self

    @property
    def metrics_address(self) -> str:
        """Where metrics are shown; empty if nowhere."""
        if self._metrics is None:
            return ""
        return show_address(*self._metrics.sockets[0].getsockname()[:2])

    async def reload(self) -> None:
        """Read certificates, tokens and access rules again; who is connected stays so.

        What cannot be used changes nothing: the error says why, and the broker goes on as before.
        """
        settings = self.settings
        access = security.Access(settings.access, settings.limits.check_filter)
        tls = security.contexts(settings.certificate, settings.key, settings.authority)
        self.access = access
        self.tls_in, self.tls_out = tls
        for peer in [*self.links.values(), *self.talks.peers()]:
            try:
                peer.principal = access.peer_again(peer.principal)
            except RefusedError as error:
                peer.connection.close(str(error))
        for session in list(self.sessions):
            session.restrict(access.again(session.principal))
        log.warning("certificates and access rules were read again")

    def connection_gone(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.pop(connection, None)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that ends with the broker at the latest."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the broker failed", exc_info=task.exception())

    async def drain(self) -> None:
        """Stop without losing an event: clients move, queues empty, links are handed over.

        See :mod:`shoal.live.departures`; it takes at most ``settings.drain`` seconds.
        """
        await self.departures.leave()

    async def stop(self) -> None:
        """Say goodbye, close everything, write what was recorded."""
        if not self.running:
            return
        self.running = False
        self.lobby.close()
        if self._metrics is not None:
            self._metrics.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.close("the broker stops")
            connection.settle()
        self.host.closed = True
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        if self.recording is not None:
            self.recording.close()
        if self._stopped is not None:
            self._stopped.set()

    async def until_stopped(self) -> None:
        """Wait until somebody calls :meth:`stop`."""
        assert self._stopped is not None
        await self._stopped.wait()

    async def __aenter__(self) -> Broker:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    # Links

    def established(self, peer: Peer, replaces: tuple[int, int] | None) -> None:
        """A peer has introduced itself; both ends agree."""
        if not peer.linked:
            self.talks.began(peer)
            return
        node = peer.node
        repair = None
        if replaces is not None:  # who dialled repairs; of the path it knows only that much
            path = (self.node,) if peer.dialled else ()
            repair = Reconfiguration(replaces[1] & 0x7FFF_FFFF, path)
        self.links[node] = peer
        self.membership.linked(peer.who, peer.degree, self.loop.time())
        if self.recording is not None:
            self.recording.link(node, "up", repair)
        log.info("link to '%s' (%s) is up", peer.who.name, peer.connection.remote)
        self.routing.link_up(node, repair)
        if self.spanning is not None:
            self.spanning.up(node)
        self.departures.linked(peer)
        if replaces is not None and repair is not None and peer.dialled and replaces[0] != node:
            self.routing.link_replaced(replaces[0], self.node, node, repair)
        if self.settings.overlay == "graph":
            surplus = self.membership.surplus(but=node)
            if surplus is not None and surplus in self.links:
                self.departures.drop(self.links[surplus], "making room for another")

    def peer_closed(self, peer: Peer, reason: str) -> None:
        """The connection to a peer is gone, and with it the link."""
        if not peer.linked:
            self.talks.ended(peer)
            return
        node = peer.node
        if self.links.get(node) is not peer:
            return
        del self.links[node]
        if self.spanning is not None:
            self.spanning.down(node)
        self.unsent += peer.dropped
        self.membership.unlinked(node)
        log.info("link to '%s' is down: %s", peer.who.name, reason)
        repair = None
        if peer.dialled and any("," in spec for spec in self.settings.links):
            self._repairs[node] = secrets.randbits(31)
            repair = Reconfiguration(self._repairs[node])
        if self.recording is not None:
            self.recording.link(node, "down", repair)
        if not self.departures.closed(peer) and not self.host.closed:
            self.routing.link_down(node, repair)
        for event in self._waiting.pop(node, ()):
            event.set()

    def repair_of(self, node: NodeId) -> int:
        """The number of the repair that the loss of this neighbour began."""
        return self._repairs.get(node, 0)

    async def unlinked(self, node: NodeId) -> None:
        """Wait until there is no link to this node."""
        while node in self.links:
            event = asyncio.Event()
            self._waiting.setdefault(node, []).append(event)
            await event.wait()

    def shuffled(self, peer: Peer, shuffle: Shuffle) -> None:
        """A peer tells which brokers it knows."""
        now = self.loop.time()
        for known in shuffle.known:
            self.membership.hear(known, now)
        if shuffle.answer:
            peer.tell(Shuffle(self.membership.sample(now, peer.node)))

    @property
    def root(self) -> NodeId:
        """The root of the tree that this broker is in; -1 where links need not form a tree."""
        return -1 if self.spanning is None else self.spanning.root

    def _position(self, neighbour: NodeId, position: Position) -> None:
        self.links[neighbour].tell(position)

    def positioned(self, peer: Peer, position: Position) -> None:
        """A neighbour says where it is in the tree of configured links."""
        if self.spanning is not None and self.links.get(peer.node) is peer:
            self.spanning.heard(peer.node, position)

    def cut_cycles(self) -> None:
        """Close links that were made at the same moment as others and close a cycle with them."""
        for node in self.spanning.look() if self.spanning is not None else ():
            peer = self.links[node]
            log.warning(
                "the link to '%s' closes a cycle of configured links and is cut; leave out one "
                "link of the cycle",
                peer.who.name,
            )
            peer.connection.close("it closes a cycle of configured links")

    # Messages

    def send(self, to: NodeId, message: Message) -> None:
        """Routing sends to a neighbour."""
        if self.departures.absent and self.departures.keep(to, message):
            return
        peer = self.links.get(to)
        if peer is None or peer.parted:
            return
        events = message.events()
        if events:
            if not all(peer.principal.may_receive(event.content) for event in events):
                return
            self.forwarded += 1
        size = peer.send(message)
        if self.recording is not None and size:
            self.recording.sent(message, size)

    def send_direct(self, to: Contact, message: Message) -> None:
        """Routing sends out of band."""
        peer = self.links.get(to.node)
        if peer is not None:
            peer.send(message)
        else:
            self.talks.say(to.node, message)

    def routed(self, peer: Peer, message: Any) -> None:
        """A message of the routing arrived from a peer."""
        events = message.events()
        if events:
            if not peer.linked:
                raise ProtocolError("events travel over links only")
            if message.hops > self.settings.limits.hops:
                self.cycles += 1
                if self.cycles == 1:
                    log.warning("an event crossed %d links: do links form a cycle?", message.hops)
                return
            if not all(peer.principal.may_publish(event.content) for event in events):
                return
            if self._came is not None and not self._came.add(*events[0].id):
                self.cycles += 1
                return
        elif self.settings.limits.stricter:
            for filter in filters_of(message):
                self.settings.limits.check_filter(filter)
        if self.recording is not None:
            self.recording.received(message)
        if self.departures.absent:
            self.departures.announced(peer.node, message)
        self.routing.receive(peer.node, message)

    def deliver(self, event: Event, hops: int) -> None:
        """Routing brings an event that somebody here wants."""
        self.delivered += 1
        if self.recording is not None:
            self.recording.delivered(event, hops)
        self.edge.deliver(event)

    # Clients, and the program a broker lives in

    def publish_for(self, session: Session, values: dict[str, Any], body: bytes) -> None:
        """A client publishes."""
        if self.departures.leaving:
            raise RefusedError("leaving", "this broker is about to stop; publish at another one")
        if len(values) > self.settings.limits.attributes:
            raise RefusedError(
                "size",
                f"the event has {len(values)} attributes; at most "
                f"{self.settings.limits.attributes} are taken",
            )
        content = Attributes(values)
        if not session.principal.may_publish(content):
            raise session.principal.refuse_publication()
        self.publishing = session
        try:
            self.publish(content, body)
        finally:
            self.publishing = None

    def publish(self, content: AnyContent | Mapping[str, Any], body: bytes = b"") -> Event:
        """Publish an event from this node."""
        if isinstance(content, Mapping):
            content = self._checked(content, body)
        event = Event(self.node, self._sequence, content, body)
        self._sequence += 1
        self.published += 1
        if self._came is not None:
            self._came.add(event.publisher, event.sequence)
        if self.recording is not None:
            self.recording.published(event)
        self.routing.publish(event)
        return event

    def _checked(self, values: Mapping[str, Any], body: bytes) -> Attributes:
        """The content of an event of the program that this broker lives in."""
        content = Attributes(checked(values, body))
        limit = self.settings.limits.frame
        size = len(content_of(content))
        self.settings.limits.check_text(size)
        if size + len(body) > limit:
            raise RefusedError(
                "size", f"the event is too large; this broker takes {limit} bytes: send less"
            )
        return content

    def subscribe(self, subscriber: Subscriber, number: int, filter: Filter) -> Filter:
        """Somebody at this node wants events that match; the filter as it is kept here."""
        filter, new = self.edge.add(subscriber, number, filter)
        if new:
            if self.recording is not None:
                self.recording.wanted(filter, True)
            self.routing.subscribe(filter)
        return filter

    def unsubscribe(self, subscriber: Subscriber, number: int, filter: Filter) -> None:
        """It no longer does."""
        if self.edge.remove(subscriber, number, filter):
            if self.recording is not None:
                self.recording.wanted(filter, False)
            self.routing.unsubscribe(filter)

    def listen_to(self, filter: Filter, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back for every matching event; the answer, called, ends that."""
        listener = Listener(callback)
        self.subscribe(listener, 0, filter)
        return lambda: self.unsubscribe(listener, 0, filter)

    def session_closed(self, session: Session, reason: str) -> None:
        """A client has gone."""
        self.sessions.pop(session, None)
        self.missed += session.dropped
        filters, session.filters = session.filters, Numbered()
        if len(filters) and not self.host.closed:
            self.spawn(self._unsubscribe_all(session, filters))

    async def _unsubscribe_all(self, session: Session, filters: Numbered) -> None:
        """Remove the subscriptions of a client that has gone; others have their turn meanwhile."""
        turn_ends = self.loop.time() + TURN
        for number, filter in filters.items():
            self.unsubscribe(session, number, filter)
            if self.loop.time() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = self.loop.time() + TURN

    def others(self) -> tuple[Known, ...]:
        """Other brokers, for clients to turn to should this one die: neighbours first."""
        now = self.loop.time()
        near = {node: peer.who for node, peer in self.links.items()}
        far = {known.node: known for known in self.membership.sample(now, self.node)[1:]}
        return tuple({**near, **far}.values())[:64]

    def ticked(self) -> None:
        """The event loop has come round; remember if that took long."""
        now = self.loop.time()
        late = now - self._ticked - self.settings.heartbeat
        if late > LATE:
            self._late = (late, now + self.settings.limits.handshake)
        self._ticked = now

    def lateness(self) -> float:
        """Seconds by which messages may have waited here, since this process did not run."""
        now = self.loop.time()
        late = now - self._ticked - self.settings.heartbeat
        recently, until = self._late
        late = max(late, recently if now < until else 0.0)
        return late if late > LATE else 0.0

    def may_block(self, principal: security.Principal) -> bool:
        """Whether publishers wait for a client that is slow and asks for it."""
        return principal.block or self.settings.anyone_may_block

    def check_may_inspect(self, principal: security.Principal) -> None:
        """Refuse to show the broker's state to who may not see it."""
        if not principal.inspect:
            raise RefusedError(
                "forbidden",
                f"'{principal.name}' may not inspect this broker; its entry in the access file "
                "needs inspect = true",
            )

    def status(self, tables: bool = False) -> Status:
        """How the broker is doing."""
        return status_of(self, tables)
