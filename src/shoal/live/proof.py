"""Tokens, proven but never sent.

Both ends of a connection derive keys from a token: the *caller*, who opened the connection, from
the token itself; the *broker* has only what the access file holds, which proves nothing to others.

::

    caller                                         broker
      Hello (token_id, nonce)               ->
                                            <-     Challenge (nonce, proof: "I know your token")
      Proof ("I hold the token")            ->
                                            <-     Welcome (perhaps a proof of its own token)

Every proof covers the whole Hello, the broker's nonce and name, and with TLS the channel, so it is
good for this connection alone: it cannot be replayed, nor passed on by somebody in between. The
caller proves itself only to a broker that has proven to know its token. The proof of holding a
token is that of SCRAM (RFC 5802): who reads an access file cannot make one.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from shoal.live.errors import ImpostorError, LiveError
from shoal.live.messages import Challenge, Hello, Proof, Welcome
from shoal.live.wire import content_of

if TYPE_CHECKING:
    from shoal.live.connection import Connection

SCHEME: Final = "shoal1"
KNOWS: Final = b"the broker knows the caller's token"
CALLER: Final = b"the caller holds its token"
BROKER: Final = b"the broker holds its token"


def _key(token: str, purpose: bytes) -> bytes:
    return hmac.digest(token.encode(), b"shoal " + purpose, "sha256")


def _sealed(key: bytes, purpose: bytes, transcript: bytes) -> bytes:
    return hmac.digest(key, purpose + b"\0" + transcript, "sha256")


def _mixed(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def token_id(token: str) -> bytes:
    """Id by which a token is looked up; empty without a token."""
    return _key(token, b"id")[:16] if token else b""


@dataclass(frozen=True)
class Verifier:
    """A broker's record of a token, which does not reveal it."""

    id: bytes
    stored: bytes
    server: bytes

    @classmethod
    def of(cls, token: str) -> Verifier:
        """The verifier of a token."""
        stored = sha256(_key(token, b"client")).digest()
        return cls(token_id(token), stored, _key(token, b"server"))

    @classmethod
    def read(cls, text: str) -> Verifier:
        """A verifier as it stands in an access file; a ValueError if it is none."""
        scheme, *parts = text.split(":")
        raw = [bytes.fromhex(part) for part in parts]
        if scheme != SCHEME or [len(part) for part in raw] != [16, 32, 32]:
            raise ValueError(text)
        return cls(*raw)

    def __str__(self) -> str:
        return ":".join((SCHEME, self.id.hex(), self.stored.hex(), self.server.hex()))

    def knows(self, transcript: bytes) -> bytes:
        """The broker's proof that it knows the token."""
        return _sealed(self.server, KNOWS, transcript)

    def holds(self, purpose: bytes, transcript: bytes, proof: bytes) -> bool:
        """Whether this proof was made by who holds the token."""
        if len(proof) != 32:
            return False
        key = _mixed(proof, _sealed(self.stored, purpose, transcript))
        return hmac.compare_digest(sha256(key).digest(), self.stored)


def held(token: str, purpose: bytes, transcript: bytes) -> bytes:
    """The proof of holding a token."""
    key = _key(token, b"client")
    return _mixed(key, _sealed(sha256(key).digest(), purpose, transcript))


def transcript(connection: Connection, hello: bytes, nonce: bytes, broker: str) -> bytes:
    """Bytes that proofs on a connection cover: TLS channel, introduction, the broker's part."""
    if connection.secure and not connection.binding:
        raise LiveError("TLS here gives no channel binding, so tokens cannot be proven safely")
    digest = sha256()
    for part in (connection.binding, hello, nonce, broker.encode()):
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


class Caller:
    """The proofs of the end that opened a connection."""

    def __init__(self, token: str, connection: Connection) -> None:
        self.nonce = secrets.token_bytes(32)
        self.token_id = token_id(token)
        self.proven = not token
        """Whether the broker has proven to know the token; true without one."""
        self._token = token
        self._connection = connection
        self._hello = b""
        self._nonce = b""

    def introduced(self, hello: Hello) -> None:
        """Note the introduction, which the proof covers."""
        self._hello = content_of(hello)

    def answer(self, challenge: Challenge) -> Proof:
        """The proof for a broker that knows the token; another is refused."""
        covered = transcript(self._connection, self._hello, challenge.nonce, challenge.who.name)
        known = Verifier.of(self._token).knows(covered)
        if self.proven or not hmac.compare_digest(known, challenge.proof):
            raise ImpostorError(
                f"broker '{challenge.who.name}' could not prove that it knows the token"
            )
        self.proven = True
        self._nonce = challenge.nonce
        return Proof(held(self._token, CALLER, covered))

    def proves(self, welcome: Welcome, verifier: Verifier) -> bool:
        """Whether a broker holds the token of this verifier."""
        covered = transcript(self._connection, self._hello, self._nonce, welcome.who.name)
        return verifier.holds(BROKER, covered, welcome.proof)
