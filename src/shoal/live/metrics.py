"""Prometheus metrics over HTTP: how a broker is doing, for those who watch many.

``docs/operating.md`` says what each metric means. They are computed from the broker's
:class:`~shoal.live.status.Status` when somebody asks; a broker that nobody asks pays nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from shoal.live import security
from shoal.live.errors import LiveError
from shoal.live.wire import parse_address, show_address

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.status import Status

log = logging.getLogger("shoal.live")
PATIENCE: Final = 5.0
"""Seconds that a request may take to arrive, and its answer to be read."""
REQUEST: Final = 8192
"""Bytes of a request's head."""
AT_ONCE: Final = 16
"""Requests answered at a time; more are refused."""


class BrokerMetrics(Collector):
    """A broker's metrics, computed anew whenever they are collected."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
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
    lost = broker.unsent + sum(link.dropped for link in links)
    return [
        ("events_published", "Events taken from clients of this broker.", status.published),
        ("events_delivered", "Events that somebody at this broker wanted.", status.delivered),
        ("events_forwarded", "Events sent to neighbours, once per neighbour.", status.forwarded),
        ("events_missed", "Deliveries dropped since a client did not keep up.", missed),
        ("events_unsent", "Events dropped since a neighbour did not read.", lost),
        ("events_in_cycles", "Events that came again, or over limits.hops links.", status.cycles),
        ("events_recovered", "Events delivered that had to be fetched.", broker.recovered),
        ("events_given_up", "Events lost on their way that nobody had any more.", broker.given_up),
        ("link_changes", "Links made and given up.", broker.link_changes),
        ("cpu_seconds", "Processor time used.", status.cpu),
    ]


def _gauges(broker: Broker, status: Status) -> list[tuple[str, str, float]]:
    clients, links = status.clients, status.links
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
        ("memory_peak_bytes", "Resident memory, at most so far.", status.memory),
    ]


async def serve_metrics(broker: Broker, address: str) -> asyncio.Server:
    """Answer ``GET /metrics``; with TLS where the broker has it and others can connect."""
    host, port = parse_address(address, "metrics address")
    tls = None if security.is_loopback(host) else broker.tls_in
    if not security.is_loopback(host) and tls is None and not broker.settings.insecure:
        raise LiveError(
            f"refusing to show metrics on {address} without TLS: others could read them; give "
            "--cert, --key and --ca, or say --insecure"
        )
    registry = CollectorRegistry()
    registry.register(BrokerMetrics(broker))
    server = _Server(registry)
    try:
        return await asyncio.start_server(server.answer, host, port, ssl=tls, limit=REQUEST)
    except OSError as error:
        what = error.strerror or str(error)
        raise LiveError(
            f"cannot show metrics on {show_address(host, port)}: {what}; check --metrics"
        ) from None


class _Server:
    """One request a connection, a few at a time: enough for Prometheus, no use to a flood."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._active = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        self._active += 1
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply(head))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._active -= 1

    def _reply(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        body, status, kind = b"", HTTPStatus.OK, CONTENT_TYPE_LATEST
        if self._active > AT_ONCE:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        elif method not in (b"GET", b"HEAD"):
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
