"""Dialling: how a broker, or a client, connects to a broker.

What goes wrong is a :class:`~shoal.live.errors.LiveError` that says what.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING

import msgspec

from shoal.live import security
from shoal.live.connection import Connection, User
from shoal.live.errors import DisconnectedError, LiveError, RefusedError, UnreachableError
from shoal.live.messages import Bye, Challenge, Known, Refused, Welcome
from shoal.live.peer import Peer
from shoal.live.proof import Caller
from shoal.live.wire import ENVELOPE, encode, parse_address

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.settings import Limits

_answer = msgspec.msgpack.Decoder(Welcome | Refused | Bye | Challenge)


class NoLinkError(RefusedError):
    """A connection was refused; who refused it is attached."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.code, refused.reason)
        self.others = refused.others


async def dial(
    broker: Broker, address: str, purpose: str = "link", *, expect: int | None = None
) -> Peer:
    """Connect to a broker, of this node id if one is expected."""
    limits = broker.settings.limits
    connection = await open_connection(address, limits, broker.tls_out)
    broker.connections[connection] = None
    connection.on_gone = broker.connection_gone
    connection.budget, connection.turns = broker.budget, broker.turns
    caller = Caller(broker.settings.token, connection)
    dialling = _Dialling(broker, connection, address, purpose, caller, expect)
    connection.hand_to(dialling, limits.frame + ENVELOPE)
    hello = broker.handshakes.hello(purpose, caller)
    caller.introduced(hello)
    connection.send(encode(hello))
    try:
        async with asyncio.timeout(limits.handshake):
            return await dialling.done
    except TimeoutError:
        raise LiveError(f"{address} does not answer within {limits.handshake:g} s") from None
    except DisconnectedError as error:
        raise hung_up(address, error) from None
    finally:
        if dialling.peer is None:
            connection.close("introduction failed", polite=False)


class _Dialling(User):
    """A connection that went out and waits for its answer."""

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        address: str,
        purpose: str,
        caller: Caller,
        expect: int | None,
    ) -> None:
        self.broker = broker
        self.caller = caller
        self.expect = expect
        self.connection = connection
        self.address = address
        self.purpose = purpose
        self.since = time.time()
        self.peer: Peer | None = None
        self.done: asyncio.Future[Peer] = connection.loop.create_future()

    def received(self, frames: list[memoryview]) -> None:
        answer = _answer.decode(frames.pop(0))
        try:
            if isinstance(answer, Refused):
                raise NoLinkError(answer)
            if isinstance(answer, Bye):
                raise RefusedError("bye", answer.reason)
            if isinstance(answer, Challenge):
                self.connection.send(encode(self.caller.answer(answer)))
                return
            self.peer = self._agree(answer)
        except LiveError as error:
            if not self.done.done():
                self.done.set_exception(error)
            self.connection.close(str(error)[:1000])
            return
        if self.done.done():  # too late
            self.connection.close("the answer came too late")
            return
        self.done.set_result(self.peer)
        if frames:
            self.peer.received(frames)

    def _agree(self, answer: Welcome) -> Peer:
        broker = self.broker
        handshakes = broker.handshakes
        proven = None
        if answer.proof and broker.access.rules:
            verifier, rule = broker.access.token(answer.token_id)
            proven = rule if self.caller.proves(answer, verifier) else None
        principal = handshakes.check(answer.who, self.connection, answer.time, proven, self.since)
        known = Known(*msgspec.structs.astuple(answer.who)[:4])
        if self.expect not in (None, known.node):
            raise RefusedError("identity", f"'{known.name}' is there, not the broker expected")
        talks = self.purpose == "talk"
        if not talks:
            handshakes.make_room(known, dialled=True)
        peer = Peer(broker, self.connection, known, principal, talks=talks, dialled=True)
        self.connection.hand_to(peer, broker.settings.limits.frame + ENVELOPE)
        handshakes.established(peer, self.address)
        return peer

    def closed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(DisconnectedError(reason))


async def open_connection(address: str, limits: Limits, tls: ssl.SSLContext | None) -> Connection:
    """A connection to an address; failures say what to look at."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limits.handshake):
            _, connection = await loop.create_connection(
                lambda: Connection(limits),
                host,
                port,
                ssl=tls,
                server_hostname="" if tls is not None else None,
            )
    except TimeoutError:
        raise UnreachableError(f"{address} does not answer; is a broker there?") from None
    except socket.gaierror:
        raise LiveError(f"the name '{host}' in {address} cannot be resolved; check it") from None
    except ssl.SSLError as error:
        raise LiveError(f"{address}: {security.explain_tls(error)}") from None
    except ConnectionResetError as error:
        raise hung_up(address, error) from None
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else str(error)
        raise UnreachableError(f"{address} cannot be reached: {what}; is a broker there?") from None
    return connection


def hung_up(address: str, error: Exception) -> DisconnectedError:
    """The error for a connection closed without an answer: most often for the sake of TLS."""
    if "certificate" in str(error):
        return DisconnectedError(f"{address}: {error}")
    return DisconnectedError(
        f"{address} hung up without an answer ({error}); perhaps it uses TLS and "
        "this end does not, or the other way round, or it does not accept our certificate"
    )
