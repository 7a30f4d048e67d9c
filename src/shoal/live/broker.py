"""A broker: one node of the live network.

It holds a :class:`~shoal.stack.Node`, all layers of a stack as the simulator runs them, on a host
whose links are TCP connections and whose application are the clients connected to it (or, embedded,
the program it lives in)::

    async with Broker(Settings(listen="127.0.0.1:7464")) as broker:
        await broker.until_stopped()
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.content import AnyContent, Attributes, Event, Filter
from shoal.live import security
from shoal.live.budget import Budget
from shoal.live.connection import Connection
from shoal.live.departures import Departures
from shoal.live.edge import Edge, Listener
from shoal.live.entries import Subscriber
from shoal.live.errors import LiveError, RefusedError
from shoal.live.handshake import Handshakes
from shoal.live.heartbeat import Lateness, keep_alive
from shoal.live.host import LOST, LiveHost
from shoal.live.identity import (
    advertised,
    check_name,
    first_sequence,
    new_epoch,
    node_id,
    random_name,
)
from shoal.live.lives import Lives
from shoal.live.lobby import Lobby
from shoal.live.messages import Known
from shoal.live.numbers import Numbered
from shoal.live.out_of_band import OutOfBand
from shoal.live.peer import OWN, Peer
from shoal.live.peers import Peers
from shoal.live.settings import Settings
from shoal.live.status import Status, log_expected, status_of
from shoal.live.turns import TURN, Turns
from shoal.live.values import checked
from shoal.live.wire import content_of, parse_address, show_address
from shoal.recovery.copies import Copies
from shoal.routing.seen import SeenNumbers
from shoal.stack import Contact, NodeId

if TYPE_CHECKING:
    from shoal.live.metrics import MetricsServer
    from shoal.live.recording import Recording
    from shoal.live.session import Session

log = logging.getLogger("shoal.live")


class Broker:
    """One node. ``start`` it, ``stop`` it, or use it as an asynchronous context."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings = settings or Settings()
        self.stack = settings.stack()
        self.described = settings.described(self.stack)
        self.name = check_name(settings.name or random_name())
        self.node: NodeId = node_id(self.name)
        self.access = security.Access(settings.access, settings.limits.check_filter)
        self.tls_in, self.tls_out = security.contexts(
            settings.certificate, settings.key, settings.authority
        )
        self.peers = Peers(self)
        self.links: dict[NodeId, Peer] = {}
        """Links per neighbour: connections that the overlay chose; without an overlay, all."""
        self.out_of_band = OutOfBand(self)
        self.sessions: dict[Session, None] = {}
        self.connections: dict[Connection, None] = {}
        self.edge = Edge(settings.limits.scan_of)
        self.published = self.delivered = self.forwarded = self.cycles = 0
        self.recovered = self.given_up = 0
        """Events that the recovery fetched, and those it says will not come."""
        self.link_changes = 0
        self.missed = self.unsent = 0
        """Events dropped for clients, and for neighbours, that are gone."""
        self.recording: Recording | None = None
        self.running = False
        self.tree = "tree" in self.stack.routing.needs
        self.came = SeenNumbers() if self.tree else None
        """Events that came, where links should form a tree: in a cycle, some come again."""
        self.budget = Budget(settings.limits.memory, lambda: self.loop.time())
        self.publishing: Session | None = None
        """The client whose event is being published at this moment."""
        self.begin_life(new_epoch())
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._metrics: MetricsServer | None = None
        self._stopped: asyncio.Event | None = None

    # Life

    def begin_life(self, epoch: int) -> None:
        """Set the number of this life of the broker, and that of its first event."""
        self.epoch = epoch
        self._sequence = first_sequence(epoch)

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
        self.lateness = Lateness(self)
        self._stopped = asyncio.Event()
        seed = secrets.randbits(62) if settings.seed is None else settings.seed
        self.host = LiveHost(self, seed)
        self.layers = self.stack.on(self.host)
        if isinstance(self.layers.recovery, Copies):
            self.layers.recovery.again = partial(self.edge.deliver, again=True)
        if self.came is not None:
            self.layers.routing.moving = False  # an event that comes twice does not get so far
        kinds: list[Any] = [*self.layers.handled_by, *OWN]
        tagged = {kind.__struct_config__.tag: kind for kind in kinds}
        for kind in kinds:
            if (other := tagged[kind.__struct_config__.tag]) is not kind:
                both = " and ".join(f"{each.__module__}.{each.__name__}" for each in (kind, other))
                raise LiveError(f"messages {both} have the same tag; give one of them another")
        self.decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(reduce(or_, kinds))
        self.routine = frozenset(kind for kind in self.layers.handled_by if kind.routine())
        over_links = self.layers.routing.handlers() if self.layers.overlay is not None else ()
        self.over_links = frozenset(over_links)
        """Messages that may carry events over links only."""
        self.handshakes = Handshakes(self)
        contacts = settings.contacts()
        for address in contacts:
            parse_address(address, "link or join")
        where = await asyncio.to_thread(advertised, settings.advertise, host, port, contacts)
        self.departures = Departures(self)
        self.lobby = Lobby(self)
        at = await self.lobby.listen(host, port)
        self.running = True
        self.address = show_address(*at)
        told = show_address(where[0] or at[0], where[1] or at[1])
        self.peers.own |= {self.address, told}
        self.me = Known(self.node, self.name, told, self.epoch)
        self.lives = Lives(self)
        try:
            await self._watch()
        except BaseException:
            await self.stop()
            raise
        self.spawn(keep_alive(self))
        self.layers.start(tuple(Contact(-1, link) for link in (*settings.links, *settings.join)))
        self.departures.started()
        log_expected(self)
        log.info("broker '%s' (node %d) listens on %s", self.name, self.node, self.address)
        return self

    async def _watch(self) -> None:
        """Begin to answer Prometheus and to record, as far as that is asked for."""
        settings = self.settings
        if settings.metrics:
            from shoal.live.metrics import serve_metrics

            self._metrics = await serve_metrics(self, settings.metrics)
        if settings.record is not None:
            from shoal.live.recording import Recording

            self.recording = Recording(settings.record, self)
            self.host.watched = True
            self.spawn(self.recording.run())

    @property
    def metrics_address(self) -> str:
        """Address of the metrics; empty if there is none."""
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
        for peer in [*self.peers.connected.values(), *self.out_of_band.peers()]:
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

    # Clients, and the program a broker lives in

    def publish(self, content: AnyContent | Mapping[str, Any], body: bytes = b"") -> Event:
        """Publish an event from this node."""
        if isinstance(content, Attributes | Mapping):
            content = self._checked(content, body)
        return self.publish_for(None, content, body)

    def publish_for(self, session: Session | None, content: AnyContent, body: bytes) -> Event:
        """Publish an event that may be published, of a client or (None) of this program."""
        event = Event(self.node, self._sequence, content, body)
        self._sequence += 1
        self.published += 1
        if self.published == 1:
            self.lives.publishes()
        if self.came is not None:
            self.came.first(event.publisher, event.sequence)
        if self.recording is not None:
            self.recording.published(event)
        self.publishing = session
        try:
            self.layers.publish(event)
        finally:
            self.publishing = None
        return event

    def _checked(self, given: Attributes | Mapping[str, Any], body: bytes) -> Attributes:
        """The content of an event of the program that this broker lives in."""
        values = given.values if isinstance(given, Attributes) else given
        content = Attributes(checked(values, body))
        limit = self.settings.limits.frame
        size = len(content_of(content))
        self.settings.limits.check_text(size)
        if size + len(body) > limit:
            raise RefusedError(
                "size", f"the event is too large; this broker takes {limit} bytes: send less"
            )
        return content

    def subscribe(
        self, subscriber: Subscriber, number: int, filter: Filter, age: float = 0.0
    ) -> Filter:
        """Somebody at this node wants events that match; returns the filter as it is kept here.

        With an ``age``, also those published up to so many seconds ago that some broker still has.
        """
        filter, new = self.edge.add(subscriber, number, filter)
        if new:
            if self.recording is not None:
                self.recording.wanted(filter, True)
            self.layers.subscribe(filter, age)
        elif age and self.layers.recovery is not None:
            self.layers.recovery.subscribed(filter, age)
        return filter

    def deliver_again(self, session: Session, number: int, filter: Filter, age: float) -> None:
        """Deliver what is held here to a client that may have missed it; it ignores what it has.

        Also report what may be lost: its former broker may have died before it could.
        """
        recovery = self.layers.recovery
        if recovery is not None:
            held = sorted(recovery.held(filter, age), key=lambda event: event.id)
            session.deliver_again(number, held)
            for publisher, ago in recovery.doubtful(filter, age):
                session.missed((number,), 0, LOST.format(publisher), publisher, ago)

    def unsubscribe(self, subscriber: Subscriber, number: int, filter: Filter) -> None:
        """A client no longer wants events that match."""
        if self.edge.remove(subscriber, number, filter):
            if self.recording is not None:
                self.recording.wanted(filter, False)
            self.layers.unsubscribe(filter)

    def listen_to(self, filter: Filter, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back for every matching event, until the function returned is called."""
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
        near = [peer.who for peer in self.links.values()]
        far = [peer.who for node, peer in self.peers.connected.items() if node not in self.links]
        return tuple([*near, *far][:64])

    def known(self) -> int:
        """Number of other brokers known: the overlay's count or, without one, those met."""
        overlay = self.layers.overlay
        known = None if overlay is None else overlay.describe().get("known")
        return known if isinstance(known, int) else len(self.peers.addresses)

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
        """State of the broker, for ``shoal top`` and metrics."""
        return status_of(self, tables)
