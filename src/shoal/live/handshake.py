"""The handshake: how two programs get to know each other, dialling and answering.

A session epoch goes with every introduction; it tells one life of a broker from another, and is
compared for equality alone, since clocks may go back and strangers may lie.

Two brokers have one connection at most (:mod:`shoal.live.peers`). If a broker introduces itself
over a second one, and messages have come over the first, it has to wait until that is given up. If
none have, the two have dialled each other at once, under addresses by which neither recognised the
other: the connection that the one with the lower id dialled stays.
"""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING, Final

import msgspec

from shoal.live import security
from shoal.live.connection import Connection, User
from shoal.live.errors import RefusedError
from shoal.live.heartbeat import PATIENCE
from shoal.live.identity import node_id
from shoal.live.messages import (
    VERSIONS,
    Bye,
    Challenge,
    Hello,
    Known,
    Others,
    Proof,
    Refused,
    Welcome,
)
from shoal.live.peer import Peer
from shoal.live.peers import SELF
from shoal.live.proof import BROKER, CALLER, Caller, held, token_id, transcript
from shoal.live.session import Session
from shoal.live.settings import differences
from shoal.live.wire import ENVELOPE, HANDSHAKE_LIMIT, encode
from shoal.stack.host import remember

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.proof import Verifier
    from shoal.live.security import Principal, Rule

log = logging.getLogger("shoal.live")
CAPABILITIES: Final = ("window", "inspect", "others")
PEERS = 256
"""Most connections to other brokers, those out of band left out."""
SKEWS: Final = 4096
"""Most brokers whose clocks are remembered to be off."""
_proof = msgspec.msgpack.Decoder(Proof | Bye)


class Handshakes:
    """Introductions of one broker, in both directions."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.skews: dict[int, float] = {}
        """Seconds by which other brokers' clocks are ahead, where that is a lot."""

    def hello(self, purpose: str, caller: Caller) -> Hello:
        """This broker's introduction."""
        broker = self.broker
        return Hello(
            VERSIONS,
            "peer",
            purpose,  # type: ignore[arg-type]  # one of the two literals
            broker.me,
            time.time(),
            broker.described,
            CAPABILITIES,
            token_id=caller.token_id,
            nonce=caller.nonce,
        )

    def welcome(self, connection: Connection, nonce: bytes = b"", *, peer: bool = False) -> Welcome:
        """The answer to an introduction; to a peer, with a proof of this broker's token."""
        broker = self.broker
        token = broker.settings.token if peer else ""
        proof = b""
        if token:
            covered = transcript(connection, connection.hello, nonce, broker.name)
            proof = held(token, BROKER, covered)
        return Welcome(
            VERSIONS[-1],
            broker.me,
            time.time(),
            CAPABILITIES,
            broker.settings.limits.frame,
            token_id(token),
            proof,
        )

    # Who comes in

    def introduce(self, connection: Connection, hello: Hello) -> None:
        """The first frame of an incoming connection."""
        try:
            if not set(hello.versions) & set(VERSIONS):
                raise RefusedError(
                    "version",
                    f"no protocol version in common: {_list(hello.versions)} here, "
                    f"{_list(VERSIONS)} there; update the older program",
                )
            if hello.token_id and self.broker.access.rules:
                verifier, rule = self.broker.access.token(hello.token_id)
                connection.hand_to(
                    _Proving(self, connection, hello, verifier, rule), HANDSHAKE_LIMIT
                )
            else:
                self.admit(connection, hello)
        except RefusedError as error:
            self._refuse(connection, error)

    def admit(
        self, connection: Connection, hello: Hello, proven: Rule | None = None, nonce: bytes = b""
    ) -> None:
        """Admit a peer or client that has introduced itself and perhaps proven a token."""
        departures = self.broker.departures
        if hello.role == "client" and not departures.whole:
            departures.when_whole(lambda: self._admit_late(connection, hello, proven))
            return
        if hello.role == "client":
            self._client(connection, hello, proven)
        else:
            self._peer(connection, hello, proven, nonce)
        self.broker.lobby.introduced(connection)

    def _admit_late(self, connection: Connection, hello: Hello, proven: Rule | None) -> None:
        """A client came before this broker had its links."""
        if not connection.gone:
            try:
                self.admit(connection, hello, proven)
            except RefusedError as error:
                self._refuse(connection, error)

    def _refuse(self, connection: Connection, error: RefusedError) -> None:
        """Say no; in the text, "here" is where it is read: at the end that is refused."""
        connection.refuse(Refused(error.code, str(error)[:1000], 0, (self.broker.me,)))

    def _client(self, connection: Connection, hello: Hello, proven: Rule | None) -> None:
        broker = self.broker
        if len(broker.sessions) >= broker.settings.limits.connections:
            raise RefusedError("full", f"{len(broker.sessions)} clients are connected; no more")
        principal = broker.access.client(proven, connection.certificate)
        if hello.policy == "block" and not broker.may_block(principal):
            raise RefusedError(
                "forbidden",
                f"'{principal.name}' may not ask for when_full = 'block', which makes publishers "
                "wait; put block = true into its access rule, or set anyone_may_block = true",
            )
        session = Session(broker, connection, hello, principal)
        connection.hand_to(session, broker.settings.limits.frame)
        broker.sessions[session] = None
        connection.send(encode(self.welcome(connection)))
        others = broker.others()
        if others:
            connection.send(encode(Others(others)))

    def _peer(
        self, connection: Connection, hello: Hello, proven: Rule | None, nonce: bytes
    ) -> None:
        broker = self.broker
        principal = self.check(
            hello.who, connection, hello.time, proven, time.time() - broker.lateness.seconds()
        )
        if hello.stack != broker.described:
            raise RefusedError(
                "stack",
                "brokers must route alike, and take events and filters of the same size; "
                + differences(hello.stack, broker.described),
            )
        known = Known(*msgspec.structs.astuple(hello.who)[:4])
        talks = hello.purpose == "talk"
        if not talks:
            self.make_room(known, dialled=False)
            if not broker.peers.make_room(PEERS):
                raise RefusedError("full", f"{PEERS} brokers are linked; no more")
            if not broker.peers.gives_way(known):
                raise RefusedError("duplicate", "this broker is just dialling that one")
        peer = Peer(broker, connection, known, principal, talks=talks, dialled=False)
        connection.hand_to(peer, broker.settings.limits.frame + ENVELOPE)
        connection.send(encode(self.welcome(connection, nonce, peer=True)))
        self.established(peer, known.address)

    def check(
        self,
        who: Known,
        connection: Connection,
        their_time: float,
        proven: Rule | None,
        since: float,
    ) -> Principal:
        """The rights of a broker; one that is not who it claims, or not named here, is refused.

        Its clock was read after ``since`` by this broker's own, if the two agree.
        """
        broker = self.broker
        if who.node != node_id(who.name):
            raise RefusedError("identity", f"'{who.name}' is not the name of node {who.node}")
        if who.node == broker.node:
            if who.name == broker.name and who.address == broker.me.address:
                raise RefusedError("self", SELF)
            raise RefusedError(
                "identity",
                f"node {who.node} is '{broker.name}' at {broker.me.address} and '{who.name}' at "
                f"{who.address}; start one of them with another --name",
            )
        needed = broker.settings.certificate is not None
        security.check_peer(who.name, connection.certificate, needed)
        principal = broker.access.peer(who.name, proven, connection.certificate)
        skew = max(0.0, their_time - time.time()) or min(0.0, their_time - since)
        if abs(skew) > broker.settings.limits.skew:
            if who.node not in self.skews:
                log.warning(
                    "the clock of '%s' is %.1f s %s; links work, but recorded times are off by as "
                    "much: synchronise the clocks",
                    who.name,
                    abs(skew),
                    "ahead" if skew > 0 else "behind",
                )
            remember(self.skews, who.node, skew, SKEWS)
        else:
            self.skews.pop(who.node, None)
        return principal

    def make_room(self, who: Known, *, dialled: bool) -> None:
        """Close an old connection to the same broker, or refuse the new one: see above."""
        old = self.broker.peers.connected.get(who.node)
        if old is None:
            return
        if old.who.epoch != who.epoch:
            patience = PATIENCE * self.broker.settings.heartbeat
            raise RefusedError(
                "epoch",
                f"another session of '{who.name}' is linked and alive; if it was restarted, try on "
                f"for {patience:g} s, else give one of the two another --name",
            )
        mine_wins = self.broker.node < who.node
        if old.received_count or (old.dialled != dialled and old.dialled == mine_wins):
            # Both ends use it if something has come over it; events may be on their way.
            raise RefusedError("duplicate", "there is a connection already")
        old.connection.close("a newer connection takes over", polite=False)
        old.connection.settle()

    def established(self, peer: Peer, address: str) -> None:
        """Both ends agree; this end dialled the address, or was dialled from it."""
        if peer.talks:
            self.broker.out_of_band.began(peer)
        else:
            self.broker.peers.opened(peer, address)


class _Proving(User):
    """A connection that came in and has yet to prove the token it named."""

    def __init__(
        self,
        handshakes: Handshakes,
        connection: Connection,
        hello: Hello,
        verifier: Verifier,
        rule: Rule,
    ) -> None:
        self.handshakes = handshakes
        self.connection = connection
        self.hello = hello
        self.verifier = verifier
        self.rule = rule
        self.nonce = secrets.token_bytes(32)
        me = handshakes.broker.me
        self.covered = transcript(connection, connection.hello, self.nonce, me.name)
        connection.send(encode(Challenge(me, self.nonce, verifier.knows(self.covered))))
        self._timer = connection.loop.call_later(
            connection.limits.handshake, connection.close, "no proof of the token in time"
        )
        self._answered = False

    def received(self, frames: list[memoryview]) -> None:
        if self._answered:
            return  # it may be admitted a moment later, and then once
        self._answered = True
        answer = _proof.decode(frames.pop(0))
        self._timer.cancel()
        try:
            if isinstance(answer, Bye):
                raise RefusedError("bye", answer.reason)
            if not self.verifier.holds(CALLER, self.covered, answer.proof):
                raise RefusedError("token", "the token was not proven; check --token")
            self.handshakes.admit(self.connection, self.hello, self.rule, self.nonce)
        except RefusedError as error:
            self.handshakes._refuse(self.connection, error)
            return
        if frames and self.connection.user is not None:
            self.connection.user.received(frames)

    def closed(self, reason: str) -> None:
        self._timer.cancel()


def _list(versions: tuple[int, ...]) -> str:
    return ", ".join(map(str, versions))
