"""Prometheus metrics over HTTP: how a broker is doing, for those who watch many.

``docs/operating.md`` says what each metric means. They are computed from the broker's
:class:`~shoal.live.status.Status` when somebody asks; a broker that nobody asks pays nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shoal.live import security
from shoal.live.errors import LiveError
from shoal.live.lobby import listening
from shoal.live.wire import parse_address, show_address

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.status import Status

PATIENCE: Final = 5.0
"""Seconds that a request may take to arrive, and its answer to be read."""
REQUEST: Final = 8192
"""Bytes of a request's head."""
AT_ONCE: Final = 16
"""Connections at a time."""


class BrokerMetrics(Collector):
    """A broker's metrics, computed anew whenever they are collected."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        broker = self._broker
        status = broker.status()
        for name, meaning, value in _counters(broker, status):
            yield CounterMetricFamily(f"shoal_{name}", meaning, value=value)
        for name, meaning, value in _gauges(broker, status):
            yield GaugeMetricFamily(f"shoal_{name}", meaning, value=value)
        info = GaugeMetricFamily(
            "shoal_broker_info", "1; the labels say who this is.", labels=["name", "node", "stack"]
        )
        info.add_metric([status.name, str(status.node), status.stack], 1)
        yield info


def _counters(broker: Broker, status: Status) -> list[tuple[str, str, float]]:
    clients, links = status.clients, status.links
    missed = broker.missed + sum(client.dropped for client in clients)
    figures = defaultdict(float, status.recovery)  # all 0 without a recovery
    lost = broker.unsent + sum(link.dropped for link in links)
    return [
        ("events_published", "Events taken from clients of this broker.", status.published),
        ("events_delivered", "Events that somebody at this broker wanted.", status.delivered),
        ("events_forwarded", "Events sent to neighbours, once per neighbour.", status.forwarded),
        ("events_missed", "Deliveries dropped since a client did not keep up.", missed),
        ("events_unsent", "Events dropped since a neighbour did not read.", lost),
        ("events_in_cycles", "Events that came again, or over limits.hops links.", status.cycles),
        ("events_recovered", "Events delivered that had to be fetched.", broker.recovered),
        ("events_lost", "Events found missing, once per filter they match.", figures["lost"]),
        ("events_given_up", "Those of them that nobody had, once per filter.", broker.given_up),
        ("recovery_gossip_bytes", "Bytes of gossip about lost events.", figures["gossip_bytes"]),
        ("recovery_reply_bytes", "Bytes of copies given to others.", figures["reply_bytes"]),
        ("link_changes", "Links made and given up.", broker.link_changes),
        ("cpu_seconds", "Processor time used.", status.cpu),
    ]


def _gauges(broker: Broker, status: Status) -> list[tuple[str, str, float]]:
    clients, links = status.clients, status.links
    figures = defaultdict(float, status.recovery)  # all 0 without a recovery
    return [
        ("links", "Neighbours.", len(links)),
        ("known_brokers", "Other brokers known.", status.known),
        ("clients", "Connected clients.", len(clients)),
        ("connections", "Open connections of all kinds.", len(broker.connections)),
        ("subscriptions", "Subscriptions of clients.", sum(c.subscriptions for c in clients)),
        ("filters", "Distinct filters among them.", status.filters),
        ("routing_entries", "Entries of the routing table.", status.entries),
        ("queued_events", "Events that wait for clients.", sum(c.queued for c in clients)),
        ("unsent_bytes", "Bytes that wait for neighbours.", sum(link.waiting for link in links)),
        ("events_missing", "Those of the lost that are still sought.", figures["missing"]),
        ("buffered_events", "Events kept for others.", figures["buffered_events"]),
        ("buffered_bytes", "Bytes of them.", figures["buffered_bytes"]),
        ("memory_peak_bytes", "Resident memory, at most so far.", status.memory),
    ]


async def serve_metrics(broker: Broker, address: str) -> MetricsServer:
    """Answer ``GET /metrics``; with TLS where the broker has it and others can connect."""
    host, port = parse_address(address, "metrics address")
    inside = security.is_loopback(host)
    if not inside and broker.tls_in is None and not broker.settings.insecure:
        raise LiveError(
            f"refusing to show metrics on {address} without TLS: others could read them; give "
            "--cert, --key and --ca, or say --insecure"
        )
    try:
        sockets = await listening(host, port)
    except OSError as error:
        what = error.strerror or str(error)
        raise LiveError(
            f"cannot show metrics on {show_address(host, port)}: {what}; check --metrics"
        ) from None
    return MetricsServer(broker, sockets, secure=not inside)


class MetricsServer:
    """One request a connection, a few at a time: enough for Prometheus, no use to a flood.

    For one connection too many, the oldest is closed: those who mean it ask at once.
    """

    def __init__(self, broker: Broker, sockets: list[socket.socket], *, secure: bool) -> None:
        self.sockets = sockets
        self._broker = broker
        self._secure = secure
        self._registry = CollectorRegistry()
        self._registry.register(BrokerMetrics(broker))
        self._open: dict[asyncio.Task[None], None] = {}
        """Connections in the order in which they came."""
        self._accepting = [asyncio.create_task(self._accept(one)) for one in sockets]

    def close(self) -> None:
        """Answer nobody any more."""
        for task in (*self._accepting, *self._open):
            task.cancel()
        for one in self.sockets:
            one.close()

    async def _accept(self, at: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(at)
            except OSError:  # gone already, or out of descriptors: perhaps not for long
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._serve(accepted))
            self._open[task] = None
            task.add_done_callback(lambda done: self._open.pop(done, None))
            if len(self._open) > AT_ONCE:
                next(iter(self._open)).cancel()
            await asyncio.sleep(0)  # its task starts

    async def _serve(self, accepted: socket.socket) -> None:
        """Answer one request and close."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=REQUEST)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport: asyncio.Transport | None = None
        # Asked for each time: certificates may have been read again.
        tls = self._broker.tls_in if self._secure else None
        try:
            async with asyncio.timeout(PATIENCE):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=tls
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                writer.write(self._reply(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            if transport is None:
                accepted.close()
            else:
                transport.abort()

    def _reply(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        body, status, kind = b"", HTTPStatus.OK, CONTENT_TYPE_LATEST
        if method not in (b"GET", b"HEAD"):
            status = HTTPStatus.METHOD_NOT_ALLOWED
        elif path != b"/metrics":
            status = HTTPStatus.NOT_FOUND
        else:
            body = generate_latest(self._registry)
        if status is not HTTPStatus.OK:
            body, kind = f"{status.phrase}; ask GET /metrics\n".encode(), "text/plain"
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(["Allow: GET, HEAD"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == b"HEAD" else body)
