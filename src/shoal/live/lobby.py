"""The lobby: connections that have come in and not introduced themselves yet.

They have a room of their own, so that no number of silent ones takes the place of clients or
brokers. When it is full the oldest has to go: honest programs introduce themselves at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, Final

from shoal.live.connection import Connection
from shoal.live.errors import LiveError
from shoal.live.wire import show_address

if TYPE_CHECKING:
    from shoal.live.broker import Broker

log = logging.getLogger("shoal.live")
BACKLOG: Final = 512
"""Connections that the operating system keeps until they are accepted."""


async def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at all addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            sockets.append(
                socket.create_server(
                    address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=False
                )
            )
            sockets[-1].setblocking(False)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


class Lobby:
    """One broker's door, and the strangers behind it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._room = broker.settings.limits.strangers
        self._waiting: dict[Connection, asyncio.Task[None]] = {}
        """Waiting connections in order of arrival, with the task that introduces each."""
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Let connections in at all addresses of a host; the first of them."""
        virtual = getattr(asyncio.get_running_loop(), "listening", None)
        try:
            self._listening = virtual(host, port) if virtual else await listening(host, port)
        except socket.gaierror:
            raise LiveError(f"the name '{host}' cannot be resolved; check --listen") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise LiveError(
                    f"port {port} on {host} is taken; stop what uses it or take another, e.g. "
                    f"--listen {show_address(host, 0)} for a free one"
                ) from None
            what = error.strerror or str(error)
            raise LiveError(f"cannot listen on {show_address(host, port)}: {what}") from None
        self._accepting = [asyncio.create_task(self._accept(one)) for one in self._listening]
        at: tuple[str, int] = self._listening[0].getsockname()[:2]
        return at

    def close(self) -> None:
        """Let nobody in any more."""
        for task in self._accepting:
            task.cancel()
        for one in self._listening:
            one.close()
        self._listening.clear()

    async def _accept(self, at: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        said = False
        while True:
            try:
                accepted, _ = await loop.sock_accept(at)
            except ConnectionError:
                continue
            except OSError as error:  # out of descriptors or memory: perhaps not for long
                if not said:
                    log.error("cannot accept connections: %s; raise the limit on open files", error)
                said = True
                self._dismiss_oldest()
                await asyncio.sleep(0.01)
                continue
            said = False
            self._enter(accepted)
            await asyncio.sleep(0)  # its task starts

    def _enter(self, accepted: socket.socket) -> None:
        broker = self._broker
        connection = Connection(broker.settings.limits, broker.handshakes.introduce)
        connection.on_gone = self._gone
        connection.budget, connection.turns = broker.budget, broker.turns
        broker.connections[connection] = None
        self._waiting[connection] = broker.spawn(self._connect(connection, accepted))
        if len(self._waiting) > self._room:
            self._dismiss_oldest()

    def _dismiss_oldest(self) -> None:
        for oldest in self._waiting:
            oldest.close("too many connections wait to be introduced", polite=False)
            oldest.settle()
            return

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        tls = self._broker.tls_in
        patience = self._broker.settings.limits.handshake if tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=tls, ssl_handshake_timeout=patience
            )
        except OSError as error:  # errors of TLS, and its timeout, are such
            connection.connection_lost(error)

    def introduced(self, connection: Connection) -> None:
        """A connection is no stranger's any more."""
        self._waiting.pop(connection, None)

    def _gone(self, connection: Connection) -> None:
        connecting = self._waiting.pop(connection, None)
        if connecting is not None:
            connecting.cancel()
        self._broker.connection_gone(connection)
