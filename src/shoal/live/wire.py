"""Frames: how messages lie on a stream of bytes.

A frame is the length of its content in four bytes, most significant first, then the content: one
message in MessagePack, encoded from the very structs that protocols exchange in a simulation.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

import msgspec

from shoal.live.errors import LiveError, ProtocolError

LENGTH: Final = struct.Struct(">I")
HANDSHAKE_LIMIT: Final = 16_384
"""Bytes of a frame from somebody who has not introduced himself."""
ENVELOPE: Final = 4096
"""Bytes that a message between brokers may have beyond what a client may send."""
FROM_BROKER: Final = 64 << 20
"""Bytes that a message to a client may have beyond an event: numbers of subscriptions, a report."""

_encoder = msgspec.msgpack.Encoder()


def encode(message: Any) -> bytes:
    """A message as its frame."""
    content = _encoder.encode(message)
    return LENGTH.pack(len(content)) + content


def content_of(message: Any) -> bytes:
    """A message's encoding alone."""
    return _encoder.encode(message)


class Splitter:
    """Cuts a stream of bytes into the contents of its frames, however the bytes arrive."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()
        self._need = LENGTH.size

    @property
    def partial(self) -> int:
        """Bytes of a frame whose end has not arrived."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that these bytes complete; too long a one is a :class:`ProtocolError`."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return []
            data = bytes(self._rest)
            self._rest = bytearray()
        frames: list[memoryview] = []
        view = memoryview(data)
        at, end = 0, len(data)
        unpack = LENGTH.unpack_from
        while end - at >= 4:
            (length,) = unpack(data, at)
            if length > self.limit:
                raise ProtocolError(f"a frame of {length} bytes; at most {self.limit} are taken")
            until = at + 4 + length
            if until > end:
                break
            frames.append(view[at + 4 : until])
            at = until
        if at < end:
            self._rest += view[at:]
            rest = end - at
            self._need = 4 + unpack(data, at)[0] if rest >= 4 else 4
        return frames


def parse_address(text: str, what: str = "address") -> tuple[str, int]:
    """``HOST:PORT`` as a pair; ``:PORT`` is on loopback, ``[::1]:PORT`` IPv6."""
    host, colon, port = text.rpartition(":")
    number = re.fullmatch("[0-9]{1,5}", port)
    if not colon or number is None or int(port) > 65_535 or not _is_host(host):
        raise LiveError(f"{what} {text!r:.300} is not HOST:PORT; write it like 127.0.0.1:7464")
    return host.strip("[]") or "127.0.0.1", int(port)


def _is_host(text: str) -> bool:
    """Whether the system can be asked for a host of this name."""
    try:
        return b"\0" not in text.encode("idna")
    except UnicodeError:
        return False


def show_address(host: str, port: int) -> str:
    """A host and a port as text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
