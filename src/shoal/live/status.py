"""State of a broker: ``shoal top`` shows it, tests compare it with the oracle."""

from __future__ import annotations

import logging
import resource
import time
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.live.settings import OVERLAY

if TYPE_CHECKING:
    from shoal.live.broker import Broker


log = logging.getLogger("shoal.live")


class Reached(msgspec.Struct, frozen=True):
    """Another broker that is connected."""

    node: int
    name: str
    address: str


class LinkStatus(Reached, frozen=True):
    """One neighbour."""

    since: float
    """Seconds that the link has been up."""
    sent: int
    received: int
    dropped: int
    waiting: int
    """Bytes that wait to be sent."""
    skew: float = 0.0


class ClientStatus(msgspec.Struct, frozen=True):
    """One client."""

    name: str
    principal: str
    remote: str
    subscriptions: int
    published: int
    delivered: int
    dropped: int
    queued: int
    waiting: int
    """Bytes that wait for it."""


class Status(msgspec.Struct, frozen=True):
    """One broker."""

    node: int
    name: str
    epoch: int
    address: str
    stack: str
    time: float
    published: int
    delivered: int
    forwarded: int
    cycles: int
    filters: int
    """Distinct filters of this broker's own clients."""
    entries: int
    """Entries of the routing table."""
    known: int
    """Other brokers known."""
    overlay: dict[str, Any]
    """The overlay's description of its state."""
    recovery: dict[str, float]
    """The recovery's description of its work; empty if there is none."""
    memory: int
    """Bytes of resident memory, at most so far."""
    waiting: int
    """Bytes that wait for clients and neighbours together."""
    room: int
    """Bytes that may wait; beyond that, whoever keeps most loses some."""
    cpu: float
    """Seconds of processor time so far."""
    recording: str
    links: list[LinkStatus]
    clients: list[ClientStatus]
    reached: list[Reached] = []
    """Other brokers that are connected, be it out of band, and not linked."""
    table: list[tuple[int, str, int]] | None = None
    """Source, filter, distance (0 where the routing knows none)."""


def status_of(broker: Broker, tables: bool) -> Status:
    """Look a broker over."""
    now = broker.loop.time()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Status(
        node=broker.node,
        name=broker.name,
        epoch=broker.epoch,
        address=broker.me.address,
        stack=broker.described,
        time=time.time(),
        published=broker.published,
        delivered=broker.delivered,
        forwarded=broker.forwarded,
        cycles=broker.cycles,
        filters=len(broker.edge),
        entries=entries_of(broker.layers.routing),
        known=broker.known(),
        overlay={} if broker.layers.overlay is None else broker.layers.overlay.describe(),
        recovery={} if broker.layers.recovery is None else broker.layers.recovery.describe(),
        memory=used.ru_maxrss * 1024,
        waiting=broker.budget.used,
        room=broker.budget.limit,
        cpu=used.ru_utime + used.ru_stime,
        recording="off" if broker.recording is None else broker.recording.state,
        links=[
            LinkStatus(
                node,
                peer.who.name,
                peer.who.address,
                now - peer.since,
                peer.sent,
                peer.received_count,
                peer.dropped,
                peer.connection.waiting(),
                broker.handshakes.skews.get(node, 0.0),
            )
            for node, peer in sorted(broker.links.items())
        ],
        clients=[
            ClientStatus(
                session.name,
                session.principal.name,
                session.connection.remote,
                len(session.filters),
                session.published,
                session.delivered,
                session.dropped,
                session.queued,
                broker.budget.held(session, session.connection),
            )
            for session in broker.sessions
        ],
        reached=_reached(broker),
        table=sorted(table_of(broker.layers.routing)) if tables else None,
    )


def log_expected(broker: Broker) -> None:
    """Log what to expect of a routing that does not bring every event to all who want it."""
    share = broker.layers.routing.expected()
    if share != 1.0:
        made = "a share that is not known" if share is None else f"about {100 * share:g}%"
        log.warning(
            "routing '%s' goes by chance: at rest expect %s of the deliveries among 200 brokers; "
            "on --overlay %s all are made",
            *(broker.stack.routing.name, made, OVERLAY),
        )


def _reached(broker: Broker) -> list[Reached]:
    """Brokers that are connected without a link, each once."""
    peers = (*broker.peers.connected.values(), *broker.out_of_band.peers())
    found = {peer.node: peer.who for peer in peers if peer.node not in broker.links}
    return [Reached(node, who.name, who.address) for node, who in sorted(found.items())]


def entries_of(routing: Any) -> int:
    """Number of entries of a routing's table, without listing them."""
    return len(getattr(routing, "table", ()))


def table_of(routing: Any) -> list[tuple[int, str, int]]:
    """The entries of a routing's table, whatever kind it is."""
    table = getattr(routing, "table", None)
    if table is None:
        return []
    entries = table.entries()
    if isinstance(entries, dict):
        return [(source, str(filter), distance) for (source, filter), distance in entries.items()]
    return [(source, str(filter), 0) for source, filter in entries]
