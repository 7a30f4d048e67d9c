"""The client's side of the handshake: it introduces itself to a broker and checks the answer."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from shoal.live import security
from shoal.live.connection import Connection, User
from shoal.live.dialling import hung_up, open_connection
from shoal.live.errors import (
    DisconnectedError,
    ImpostorError,
    LiveError,
    RefusedError,
    UnreachableError,
)
from shoal.live.messages import (
    MOVES,
    VERSIONS,
    Challenge,
    Hello,
    Known,
    Name,
    Policy,
    Queue,
    Refused,
    ToClient,
    Welcome,
    Window,
)
from shoal.live.proof import Caller
from shoal.live.settings import Limits
from shoal.live.wire import ENVELOPE, FROM_BROKER, encode, parse_address

decoder = msgspec.msgpack.Decoder(ToClient)
Pause: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Receive: TypeAlias = "Callable[[list[memoryview], Greeting], None]"
"""Called with the frames that come after a broker's welcome."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A client's settings, as :func:`~shoal.live.client.connect` describes them."""

    address: str
    name: Name
    token: str
    broker: str
    window: Window
    queue: Queue
    when_full: Policy
    patience: Annotated[float, msgspec.Meta(ge=0)]
    reconnect: tuple[Pause, Pause]


class Greeter:
    """Knows the brokers that a client may use, and connects to one of them."""

    def __init__(self, options: Options, tls: ssl.SSLContext | None) -> None:
        self.options = options
        self.given = [part.strip() for part in options.address.split(",")]
        """Addresses that the user gave."""
        self.others: dict[str, str] = {}
        """Names of further brokers, by address, as the last broker announced them."""
        self._tls = tls
        self._broker_names = [name.strip() for name in options.broker.split(",") if name.strip()]
        self.limits = Limits()

    def addresses(self) -> list[str]:
        """Addresses that the user gave, then those that a broker announced."""
        return [*self.given, *self.others]

    def learn(self, known: Iterable[Known]) -> None:
        """Remember the other brokers that this client may turn to."""
        names = self._broker_names
        self.others = {
            other.address: other.name
            for other in known
            if _is_address(other.address)
            and other.address not in self.given
            and (not names or other.name in names)
        }

    async def greet(self, address: str, receive: Receive) -> Greeting:
        """A connection to a broker that has welcomed this client."""
        connection = await open_connection(address, self.limits, self._tls)
        learned = self.others.get(address)
        names = self._broker_names if learned is None else [learned]
        try:
            if self._tls is not None:
                security.check_server(connection.certificate, parse_address(address)[0], names)
        except ImpostorError as error:
            connection.close("its certificate is for another", polite=False)
            raise ImpostorError(f"{address}: {error}") from None
        options = self.options
        caller = Caller(options.token, connection)
        greeting = Greeting(receive, connection, address, caller, names)
        connection.hand_to(greeting, self.limits.frame + ENVELOPE)
        me = Known(-1, options.name, "", 0)
        hello = Hello(
            VERSIONS,
            "client",
            "link",
            me,
            time.time(),
            capabilities=(MOVES,),
            token_id=caller.token_id,
            nonce=caller.nonce,
            window=options.window,
            queue=options.queue,
            policy=options.when_full,
        )
        caller.introduced(hello)
        connection.send(encode(hello))
        try:
            async with asyncio.timeout(self.limits.handshake):
                welcome = await greeting.welcome
        except TimeoutError:
            connection.close("no answer", polite=False)
            raise UnreachableError(f"{address} does not answer; is a broker there?") from None
        except ImpostorError as error:
            raise ImpostorError(f"{address}: {error}") from None
        except RefusedError as error:
            raise RefusedError(error.code, f"{address} refuses: {error}") from None
        except DisconnectedError as error:
            raise hung_up(address, error) from None
        except asyncio.CancelledError:  # closed meanwhile: nobody else knows this connection
            connection.close("done", polite=False)
            raise
        connection.hand_to(greeting, welcome.limit + FROM_BROKER)
        return greeting


def _is_address(text: str) -> bool:
    try:
        parse_address(text)
    except LiveError:
        return False
    return True


class Greeting(User):
    """A client's connection to a broker: first the handshake's answers, then everything else."""

    def __init__(
        self,
        receive: Receive,
        connection: Connection,
        address: str,
        caller: Caller,
        names: Sequence[str],
    ) -> None:
        self._receive = receive
        self.connection = connection
        self.address = address
        self._caller = caller
        self._names = names
        self.welcome: asyncio.Future[Welcome] = connection.loop.create_future()
        self.lost: asyncio.Future[str] = connection.loop.create_future()
        self.parted = False
        """Whether the broker said, as the last thing, that it had delivered all that it had."""

    def received(self, frames: list[memoryview]) -> None:
        if not self.welcome.done():
            try:
                welcome = self._greeted(decoder.decode(frames.pop(0)))
            except RefusedError as error:
                self.welcome.set_exception(error)
                self.connection.close(str(error))
                return
            if welcome is not None:
                self.welcome.set_result(welcome)
        if frames:
            self._receive(frames, self)

    def _greeted(self, answer: Any) -> Welcome | None:
        """The welcome, if this is a broker that the client means; None after a challenge."""
        if isinstance(answer, Refused):
            raise RefusedError(answer.code, answer.reason)
        if not isinstance(answer, Welcome | Challenge):
            raise LiveError("the other end is no Shoal broker")
        if self._names and answer.who.name not in self._names:
            raise ImpostorError(
                f"broker '{answer.who.name}' is there, not {' or '.join(map(repr, self._names))}"
            )
        if isinstance(answer, Challenge):
            self.connection.send(encode(self._caller.answer(answer)))
            return None
        if not self._caller.proven:
            raise ImpostorError(
                f"broker '{answer.who.name}' has no access rules, so it does not know the token; "
                "leave the token out if this is the broker you mean"
            )
        return answer

    def closed(self, reason: str) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(DisconnectedError(reason))
        if not self.lost.done():
            self.lost.set_result(reason)
